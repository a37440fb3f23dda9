"""The size and time of a file, to find out whether it has changed between two readings."""

from __future__ import annotations

from pathlib import Path

from graphprep.errors import DatasetError
from graphprep.system.files.regular_file import regular_file

FileVersion = tuple[int, int]
"""size in bytes, and the time of the last change in ns: what changes when a file is written to"""


def version_of(path: Path) -> FileVersion:
    """
    Raises:
        DatasetError: the file is not there, or not to be reached.
    """
    try:
        status = regular_file(path).stat()
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
    return status.st_size, status.st_mtime_ns


def require_version(path: Path, version: FileVersion) -> None:
    """
    Raises:
        DatasetError: the file has another version.
    """
    if version_of(path) != version:
        raise changed(path)


def changed(path: Path) -> DatasetError:
    """What to raise where a file is not what it was."""
    return DatasetError(f"{path} has changed while it was being read; run the same again")
