"""kill -9 at any moment: what is there afterwards is whole or absent, and the next run gets to the same end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import soak_count

pytestmark = pytest.mark.slow


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["convert", "sections", "cache", "replace", "extend", "extend-parts", "run"])
def test_nothing_half_done_passes_for_whole(stage: str, tmp_path: Path) -> None:
    """Guards against folders whose existence is taken for their completeness, and against runs that cannot go on."""
    command = [sys.executable, "-m", "tests.kill_driver", stage, "20261127", str(soak_count(100)), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
