"""Kernels on several threads, each of which takes one range of rows after another; the kernels release the GIL.

numba's own `parallel=True` does the same, but takes two to five times as long to compile a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TypeVar

from graphprep.system.threads import kernel_threads, side_by_side

Result = TypeVar("Result")

ENTRIES_A_THREAD = 1 << 18
"""Fewer are gone through sooner than a thread is started."""
RANGES_A_THREAD = 8
"""so that threads end at about the same time where some rows are longer than others"""


def threads_for(num_entries: int) -> int:
    """How many threads go through so many entries, at least 1."""
    return min(kernel_threads(), max(1, num_entries // ENTRIES_A_THREAD))


def over_rows(kernel: Callable[..., Result], num_rows: int, num_entries: int, *arguments: object) -> list[Result]:
    """The kernel's result for each range of rows, in order.

    Args:
        kernel: called with the first row of a range, the row after its last one, and the arguments. What it writes for
            one row, it writes for no other.
        num_rows: of all ranges.
        num_entries: of all rows.
        arguments: that all ranges have in common.
    """
    threads = threads_for(num_entries)
    ranges = max(1, min(num_rows, threads * RANGES_A_THREAD)) if threads > 1 else 1
    bounds = [num_rows * i // ranges for i in range(ranges + 1)]
    pieces = [partial(kernel, start, stop, *arguments) for start, stop in pairwise(bounds)]
    return side_by_side(pieces, workers=threads)
