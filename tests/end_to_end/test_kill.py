"""kill -9 at any moment: what is there afterwards is whole or absent, and the next run gets to the same end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.soak import soak_count

pytestmark = pytest.mark.slow

Driver = subprocess.Popen[str]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The process that all trials are forks of."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.kill_driver", "20261127", str(soak_count(100)), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["convert", "sections", "cache", "replace", "extend", "extend-parts", "run"])
def test_nothing_half_done_passes_for_whole(driver: Driver, stage: str) -> None:
    """Guards against folders whose existence is taken for their completeness, and against runs that cannot go on."""
    assert driver.stdin is not None
    assert driver.stdout is not None
    print(stage, file=driver.stdin, flush=True)
    said = []
    while (line := driver.stdout.readline()) not in ("0\n", "1\n", ""):
        said.append(line)
    assert line == "0\n", "".join(said)
