"""Where a CSR is cut into ranges of rows: by edges, never within a row, and the same for any number of threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def row_ranges(indptr: NDArray[np.int64], edges_a_range: int, rows_a_range: int | None = None) -> list[tuple[int, int]]:
    """(first row, end) of ranges of about so many edges; a row is never cut.

    Args:
        indptr: int64 [N + 1]; it may be mapped, few of its entries are read.
        edges_a_range: at least 1; a longer row is a range of its own.
        rows_a_range: the most rows of a range; None for as many as edges.
    """
    ranges, start, num_rows = [], 0, len(indptr) - 1
    most = edges_a_range if rows_a_range is None else rows_a_range
    while start < num_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + edges_a_range, side="right")) - 1
        stop = min(num_rows, start + most, max(stop, start + 1))
        ranges.append((start, stop))
        start = stop
    return ranges


def grouped(ranges: list[tuple[int, int]], most: int) -> list[tuple[tuple[int, int], ...]]:
    """Ranges that follow each other, put together in at most so many groups of about as many each."""
    each = max(1, -(-len(ranges) // most))
    return [tuple(ranges[first : first + each]) for first in range(0, len(ranges), each)]


def even_ranges(indptr: NDArray[np.int64], edges_a_range: int, rows_a_range: int) -> list[tuple[int, int]]:
    """The same with ranges as even as rows allow, so that none is a small rest."""
    num_rows, num_edges = len(indptr) - 1, int(indptr[-1])
    count = max(1, -(-num_edges // edges_a_range), -(-num_rows // rows_a_range))
    return row_ranges(indptr, max(1, -(-num_edges // count)), max(1, -(-num_rows // count) + num_rows // (2 * count)))
