"""A graph restricted to some of its nodes, in CSR. Letters: N nodes, M of which are kept, E edges.

In NumPy alone and a range of rows at a time: the child processes that use it would take longer to load compiled code.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

EDGES_AT_A_TIME = 1 << 18
Index = TypeVar("Index", bound=np.integer[Any])


class Induced(NamedTuple, Generic[Index]):
    """The edges with both ends among the kept nodes, which are numbered anew in their old order."""

    indptr: NDArray[np.int64]
    """int64 [M + 1]"""
    indices: NDArray[Index]
    """dtype as before"""
    weights: NDArray[Any] | None
    """dtype as before"""
    nodes: NDArray[np.int64]
    """int64 [M]: old numbers, ascending"""


def induced(
    indptr: NDArray[np.int64],
    indices: NDArray[Index],
    weights: NDArray[Any] | None,
    kept_N: NDArray[np.bool_],
) -> Induced[Index]:
    """Restrict a graph to the nodes for which `kept_N`, bool [N], is true.

    Args:
        indptr, indices: CSR of N rows and columns.
        weights: [E], or None.
    """
    nodes = np.flatnonzero(kept_N)
    new_id_N = np.zeros(len(kept_N), indices.dtype)
    new_id_N[nodes] = np.arange(len(nodes))
    # As large as they can become; what stays unwritten takes no memory.
    most = int(np.diff(indptr)[kept_N].sum())
    columns, kept_weights = np.empty(most, indices.dtype), None if weights is None else np.empty(most, weights.dtype)
    counts_M, row, at = [np.zeros(1, np.int64)], 0, 0
    while row < len(kept_N):
        end = max(row + 1, int(np.searchsorted(indptr, indptr[row] + EDGES_AT_A_TIME, side="right")) - 1)
        offsets = indptr[row : end + 1] - indptr[row]
        edges = slice(int(indptr[row]), int(indptr[end]))
        inside = kept_N[indices[edges]] & np.repeat(kept_N[row:end], np.diff(offsets))
        kept_before = np.concatenate([[0], np.cumsum(inside)])
        counts_M.append(np.diff(kept_before[offsets])[kept_N[row:end]])
        kept = slice(at, at + int(kept_before[-1]))
        columns[kept] = new_id_N[indices[edges][inside]]
        if weights is not None and kept_weights is not None:
            kept_weights[kept] = weights[edges][inside]
        row, at = end, kept.stop
    columns.resize(at, refcheck=False)
    if kept_weights is not None:
        kept_weights.resize(at, refcheck=False)
    return Induced(np.cumsum(np.concatenate(counts_M), dtype=np.int64), columns, kept_weights, nodes)
