"""Files that are whole or not there: written under another name, flushed to the disk, and renamed.

rename(2) is atomic, so a reader sees the old file or the new one; the flush comes first, since after a power cut a
rename may be on the disk without data that was only in memory.
"""

from __future__ import annotations

import os
from pathlib import Path

PARTIAL_PREFIX = ".partial-"


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write `content` to `path`, in place of what is there.

    Raises:
        OSError: it cannot be written; what was at `path` is still there.
    """
    partial = partial_of(path)
    try:
        with partial.open("wb") as file:
            file.write(content)
        publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def partial_of(path: Path) -> Path:
    """The name under which `path` is written first; a file that a killed process left there is overwritten."""
    return path.with_name(f"{PARTIAL_PREFIX}{path.name}")


def publish(partial: Path, path: Path) -> None:
    """Flush the finished file `partial` and give it its name.

    Raises:
        OSError: the disk is full, or the folder cannot be written to.
    """
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
