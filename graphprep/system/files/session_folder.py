"""Temporary folders for results without a name, which are removed when this process ends."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path


def new_folder() -> Path:
    """A new empty folder, removed when this process ends; kill -9 leaves it in TMPDIR."""
    return Path(tempfile.mkdtemp(dir=_session_folder()))


def is_of_session(path: Path) -> bool:
    """Whether a path lies in a folder that `new_folder` made."""
    return _session_folder.cache_info().currsize > 0 and path.absolute().is_relative_to(_session_folder())


@functools.cache
def _session_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="graphprep-")).absolute()
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process runs this at its end, too
        shutil.rmtree(folder, ignore_errors=True)
