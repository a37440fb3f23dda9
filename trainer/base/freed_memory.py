"""How the C library reuses freed memory: large tensors without fresh pages from the kernel.

Every epoch makes and frees the same tensors. The C library hands blocks above 32 MB back to the kernel as soon as they
are freed, and each new one is cleared page by page when it is first written: a third of an epoch's time on 200,000 x
256 rows. A heap that is never given back costs that only once, and up to a third more memory: tensors are aligned, so a
freed block is a little too small for the next tensor of its size, until neighbouring blocks are merged.

Huge pages (2 MB) in place of 4 KB ones save a tenth to a fifth of the time of whatever reads more memory than the
processor's address cache covers: sums over neighbours, dropout, dense products. glibc asks the kernel for them if the
environment says so when a process starts. (torch's own switch, THP_MEM_ALLOC_ENABLE, aligns each tensor to 2 MB; in a
heap that is kept, hardly any freed block then fits the next tensor, and memory grows by half.)

Where memory matters more than time (a sequential exchange), blocks above 8 MB go back at once, and smaller free ones
before each layer; and no huge pages are asked for, since the kernel would make such pages whole again.
"""

from __future__ import annotations

import contextlib
import ctypes

HUGE_PAGES = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
"""The environment variable that asks for huge pages, and its value; glibc before 2.35 and other libraries ignore it."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
"""glibc's parameters of mallopt"""
_LARGE = 1 << 23
_MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, for the rest of this process; elsewhere than on glibc nothing happens."""
    _call_libc("mallopt", _M_MMAP_MAX, 0)
    _call_libc("mallopt", _M_TRIM_THRESHOLD, _MOST)


def give_back_large_blocks() -> None:
    """Have the C library give the kernel each large block when it is freed; elsewhere than on glibc nothing happens."""
    _call_libc("mallopt", _M_MMAP_THRESHOLD, _LARGE)


def give_back_freed_memory() -> None:
    """Have the C library give the kernel all whole pages that are free now; elsewhere than on glibc nothing happens."""
    _call_libc("malloc_trim", 0)


def _call_libc(function: str, *numbers: int) -> None:
    """Call a function of the C library, if it has it."""
    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), function)(*numbers)
