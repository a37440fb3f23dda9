"""The command line of graphprep, as the benchmarks run it: with this interpreter, so that no path has to lead to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def graphprep(*words: str, home: Path | None = None) -> str:
    """Run a command; returns its standard output.

    Args:
        words: of the command line.
        home: GRAPHPREP_HOME; None for this process's.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    environment = dict(os.environ) if home is None else {**os.environ, "GRAPHPREP_HOME": str(home)}
    command = [sys.executable, "-m", "cli", *words]
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
