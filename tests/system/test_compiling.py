"""The first run on a machine says that it compiles, a later one is silent about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from tests.conftest import ROOT

SCRIPT = """
import time
from numba import njit
from graphprep.system import compiling, progress

compiling.SECONDS_BEFORE_A_LINE = {seconds}

@njit(cache=True)
def inner(n):
    return n + 1

@njit(cache=True)
def outer(n):
    return inner(n)

with progress.task("counting"):
    outer(1)
    outer(1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "lines"), [(0.0, 1), (1e9, 0)])
def test_compiling_is_said_once(tmp_path: Path, seconds: float, lines: int) -> None:
    """Guards against a first run that is slow for a reason that nobody names, and against a line a loop."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(seconds=seconds))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}

    def run() -> int:
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        return done.stderr.count("compiling loops for this machine")

    assert run() == lines
    assert run() == 0


def test_kernels_of_the_tests_check_their_bounds() -> None:
    """Guards against a numba that was imported before the setting: its kernels read past the end."""

    @numba.njit
    def third(values: np.ndarray) -> int:
        return int(values[2])

    with pytest.raises(IndexError):
        third(np.zeros(2, np.int64))
