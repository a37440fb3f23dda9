"""Atomic writing: files and folders are built under another name, flushed to disk, and renamed.

rename(2) within one folder is atomic, so a reader sees the old state or the new one. fsync comes before it, because
after a power cut a rename may survive data that was only in the page cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from graphprep.system import progress

PARTIAL_PREFIX = ".partial-"
REPLACED_PREFIX = ".replaced-"
LOCK_SUFFIX = ".lock"
FLUSHES_AT_ONCE = 16


def fsync_path(path: Path | str) -> None:
    """Flush a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Flush every file below `folder`, and every folder's names.

    Several at once: a file system gathers flushes that come together, and a cache can have tens of thousands of files.
    """
    tree = list(os.walk(folder))
    files = [os.path.join(root, name) for root, _, names in tree for name in names]
    with ThreadPoolExecutor(FLUSHES_AT_ONCE) as pool:
        for paths in (files, [root for root, _, _ in tree]):
            left = deque(paths)
            list(pool.map(_flush_all, [left] * min(FLUSHES_AT_ONCE, len(paths))))


def _flush_all(left: deque[str]) -> None:
    """Flush paths until there are none left; other threads take from the same ones."""
    with contextlib.suppress(IndexError):
        while True:
            fsync_path(left.popleft())


def reserve(path: Path) -> None:
    """Give a sparse file all its blocks, so that a full disk is an error here and no SIGBUS in a memory map later.

    Raises:
        OSError: the disk is full.
    """
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)


@contextmanager
def published_file(target: Path, *, shared: bool = False, flushed: bool = True) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when the block ends without an error.

    Args:
        target: the name.
        shared: whether several processes may be at it, each of which then has a file of its own until the end. What
            one of them leaves behind that is killed is the caller's to remove, with the folder.
        flushed: whether it is on the disk when it appears; else the caller sees to that by `fsync_path`.
    """
    partial = target.with_name(f"{PARTIAL_PREFIX}{uuid.uuid4().hex if shared else ''}{target.name}")
    with open(partial, "wb") as file:
        yield file
        file.flush()
        if flushed:
            os.fsync(file.fileno())
    os.replace(partial, target)
    if flushed:
        fsync_path(target.parent)


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
    fsync_path(target.parent)
    if aside.exists():
        shutil.rmtree(aside)


def sweep(target: Path, *scratch: Path) -> None:
    """Remove what a run left beside `target` that was killed after it had published it.

    Args:
        target: what was published and is whole.
        scratch: folders of the work that led to it.
    """
    for folder in (target.with_name(REPLACED_PREFIX + target.name), *scratch):
        if folder.exists():
            shutil.rmtree(folder)


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of `path` (a file beside it), so that several processes may start the same work at once.

    The lock is the kernel's: a killed holder frees it. A process that has to wait says so. The file is removed by its
    holder; whoever waited for it meanwhile holds the lock of a file that is gone, and takes that of the next one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_if_free(path, wait_for=what):
        yield


@contextmanager
def locked_if_free(path: Path, *, wait_for: str | None = None) -> Iterator[bool]:
    """Hold the lock of `path` unless another process does; says whether it is held. Its folder has to be there.

    Args:
        wait_for: what the other process works on, for those who have to wait for it; None not to wait.
    """
    file = lock_file(path)
    descriptor = _lock(file, wait_for)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            file.unlink(missing_ok=True)
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock of `path`; nothing is written."""
    return is_lock_held(lock_file(path))


def is_lock_held(file: Path) -> bool:
    """Whether some process has locked a file; False where it is not there."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_file(path: Path) -> Path:
    """The file whose lock is that of `path`."""
    return path.with_name(f".{path.name}{LOCK_SUFFIX}")


def _lock(file: Path, what: str | None) -> int | None:
    """The descriptor of a file that is there under its name, locked.

    Args:
        what: said to people who have to wait; None not to wait, and to give None if another process holds the lock.
    """
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if what is None:
                    os.close(descriptor)
                    return None
                progress.say(f"waiting for another process that works on {what}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
