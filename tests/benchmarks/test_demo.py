"""`make demo`, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import heed_interrupts

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 1.0])
def test_ctrl_c_is_one_sentence(graphprep_home: Path, pause: float) -> None:
    """Ctrl-C, in the demo and in the step that runs, gave a traceback of each."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.demo"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not process.stdout.readline().startswith("$ "):
            assert process.poll() is None
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 130
        said = process.stderr.read()
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("demo: stopped; ")
