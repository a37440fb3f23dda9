"""A graph restricted to some of its nodes, in CSR. Letters: N nodes, M of which are kept, E edges.

In NumPy alone and a range of rows at a time: the child processes that use it would take longer to load compiled code.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

EDGES_AT_A_TIME = 1 << 22
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
    counts_M, columns, kept_weights = [np.zeros(0, np.int64)], [indices[:0]], [None if weights is None else weights[:0]]
    row = 0
    while row < len(kept_N):
        end = max(row + 1, int(np.searchsorted(indptr, indptr[row] + EDGES_AT_A_TIME, side="right")) - 1)
        offsets = indptr[row : end + 1] - indptr[row]
        edges = slice(int(indptr[row]), int(indptr[end]))
        inside = kept_N[indices[edges]] & np.repeat(kept_N[row:end], np.diff(offsets))
        kept_before = np.concatenate([[0], np.cumsum(inside)])
        counts_M.append(np.diff(kept_before[offsets])[kept_N[row:end]])
        columns.append(new_id_N[indices[edges][inside]])
        kept_weights.append(None if weights is None else weights[edges][inside])
        row = end
    return Induced(
        np.concatenate([[0], np.cumsum(np.concatenate(counts_M))]).astype(np.int64, copy=False),
        np.concatenate(columns),
        None if weights is None else np.concatenate([part for part in kept_weights if part is not None]),
        nodes,
    )
