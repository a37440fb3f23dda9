"""How much memory there is, how much this process holds, and how people write amounts of it."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from graphprep.errors import DatasetError, UsageError
from graphprep.system import cgroup, progress

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
M_MMAP_THRESHOLD, RETURNED_BYTES = -3, 1 << 20
"""glibc's parameter, and the size from which blocks are returned"""
LEAST_BUDGET = 64_000_000
"""Below this nothing useful fits; a smaller limit is an error."""
SMALL_BYTES = 1 << 20
"""An array up to this size is read without looking up how much memory is left."""
_limit: ContextVar[int | None] = ContextVar("memory_limit", default=None)


def parse(text: str) -> int:
    """Bytes in an amount as people write it: 2GB, 512MiB, 1.5g, 2000000000.

    Raises:
        UsageError: it is no amount.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text, re.IGNORECASE)
    if not match or match[2].lower() not in UNITS:
        raise UsageError(f"--memory {text!r} is no amount of memory; write for instance 2GB or 512MiB")
    return int(float(match[1]) * UNITS[match[2].lower()])


def available() -> int:
    """Bytes that could be had without swapping, by the kernel's estimate and this process's control groups."""
    free = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    of_groups = cgroup.left()
    if of_groups is not None:
        free.append(of_groups)
    return min(free, default=4 * 10**9)


def resident() -> int:
    """Bytes that this process holds in memory of its own (anonymous and shared, without mapped files)."""
    names = ("RssAnon:", "RssShmem:")
    return sum(int(line.split()[1]) * 1024 for line in _lines("/proc/self/status") if line.startswith(names))


def budget(limit: int | None) -> int:
    """Bytes that may still be taken: `limit` less what is held, or half of what is available.

    Raises:
        UsageError: the limit leaves too little to work with.
    """
    num_bytes = remaining(limit)
    if num_bytes < LEAST_BUDGET:
        assert limit is not None
        raise UsageError(
            f"--memory {limit / 1e6:.0f} MB leaves {num_bytes / 1e6:.0f} MB beside the {resident() / 1e6:.0f} MB that "
            f"the program itself holds; give at least {(resident() + LEAST_BUDGET) / 1e6:.0f} MB"
        )
    return num_bytes


def remaining(limit: int | None) -> int:
    """As `budget`, but 0 where nothing remains, for callers that only need to know how much to do at a time."""
    return max(LEAST_BUDGET, available() // 2) if limit is None else max(0, limit - resident())


def full_budget(limit: int | None) -> int:
    """Bytes that may still be taken: `limit` less what is held, or all that is available.

    Raises:
        UsageError: the limit leaves too little to work with.
    """
    return available() if limit is None else budget(limit)


@contextlib.contextmanager
def limited(limit: int | None) -> Iterator[None]:
    """The bytes that the process may use, for every `require_memory` of the block in this thread; None for no limit."""
    before = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(before)


def budget_of_block() -> int:
    """Bytes that may still be taken by the limit of `limited`, as `budget` has them.

    Raises:
        UsageError: the limit leaves too little to work with.
    """
    return budget(_limit.get())


def require_memory(num_bytes: int, what: str) -> None:
    """Refuse what is about to be read whole and does not fit into memory.

    Args:
        num_bytes: that it takes, as a file claims before anything is allocated.
        what: it is, the subject of the sentence.

    Raises:
        DatasetError: it takes more than is left of the limit of `limited`, or than is available; as the end of a
            sentence that begins with the file.
    """
    if num_bytes <= SMALL_BYTES:
        return
    limit = _limit.get()
    allowed = available() if limit is None else max(0, limit - resident())
    if num_bytes > allowed:
        raise DatasetError(
            f"{what} takes {progress.format_bytes(num_bytes)} of memory where {progress.format_bytes(allowed)} may be "
            "used; if the size is right, use a machine with more memory or a larger --memory"
        )


def return_freed_blocks() -> None:
    """Have the C library give freed arrays back to the kernel at once, for the rest of this process.

    glibc keeps freed blocks of up to 32 MB for later, once it has seen some; many threads then hold several times what
    they need. A pass over memory becomes up to a half slower, so this is for runs under a limit. Elsewhere than on
    glibc nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES)


def give_back() -> None:
    """Return to the kernel what the C library keeps of freed arrays; between stages, since it takes milliseconds.

    Elsewhere than on glibc nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
