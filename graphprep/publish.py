"""Whole or not there: files and folders are built under another name, flushed to disk, and renamed.

rename(2) within one folder is atomic, so a reader sees the old state or the new one. fsync comes before it, because
after a power cut a rename may survive data that was only in the page cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from graphprep import progress

PARTIAL_PREFIX = ".partial-"
REPLACED_PREFIX = ".replaced-"


def fsync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Flush every file below `folder`, then every folder's names, the deepest first."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                os.fsync(file.fileno())
        fsync_folder(Path(root))


@contextmanager
def published_file(target: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when the block ends without an error."""
    partial = target.with_name(PARTIAL_PREFIX + target.name)
    with open(partial, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, target)
    fsync_folder(target.parent)


def publish_folder(partial: Path, target: Path) -> None:
    """Flush `partial` and give it the name `target`; a folder that is there already is moved aside, then removed.

    Between the two renames `target` is absent, never half-made; `sweep` removes what a kill there left aside.
    """
    fsync_tree(partial)
    aside = target.with_name(REPLACED_PREFIX + target.name)
    if target.exists():
        if aside.exists():
            shutil.rmtree(aside)
        os.rename(target, aside)
    os.rename(partial, target)
    fsync_folder(target.parent)
    if aside.exists():
        shutil.rmtree(aside)


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of `path` (a file beside it), so that several processes may start the same work at once.

    The lock is the kernel's: a killed holder frees it. A process that has to wait says so.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.say(f"waiting for another process that works on {what}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
