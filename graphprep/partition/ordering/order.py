"""The order of nodes inside a part: neighbours close to each other, so that a pass over the CSR reads from cache.

A part's nodes are ordered by the part's own edges, in one of two ways, both linear in nodes and edges:

- Where the part is long and thin - a mesh, a road network, a chain of cliques - by breadth-first levels
  (`order_levels`): a row's neighbours are then in a few runs of rows, which processors fetch ahead.
- Else by a greedy walk that next takes the node with the most neighbours, for its degree, among the last thousand taken
  (`order_window`): communities come one after another, and small ones inside large ones.

On block models of 4 million edges the walk takes a third of a second on one core, a fifth of what METIS needs to make
the parts, and the products of a part become as fast as with nested METIS clusters of 256 rows, which take five to ten
times as long; size-constrained label propagation finds worse communities in twice the time, and reverse Cuthill-McKee,
best beside levels on meshes, is 1.2 times as fast as a random order there. benchmarks/locality_order.py measures it.

Parts are independent and run in threads; the result does not depend on how many there are. Memory beyond the graph:
4 bytes an edge and 60 a node of the parts in work, and 16 a node of the graph.

Letters: N nodes, n nodes of a part, P parts.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.types import Csr
from graphprep.partition.ordering.levels import level_order
from graphprep.partition.ordering.window import WINDOW, window_order
from graphprep.system.threads import kernel_threads

Ids: TypeAlias = NDArray[np.integer[Any]]


def locality_order(
    graph: Csr, assignment_N: NDArray[np.int32], num_parts: int, *, window: int = WINDOW
) -> list[NDArray[np.int64]]:
    """The nodes of each part, ordered for locality.

    Args:
        graph: symmetric, no self-loops, no duplicates; weights are not looked at.
        assignment_N: int32 [N], from 0 to num_parts - 1.
        window: rows that fit in a core's cache, at least 1; see `order_window`.

    Returns:
        One int64 array a part: its nodes' rows in the graph; together a permutation of 0 .. N-1.
    """
    nodes_N = np.argsort(assignment_N, kind="stable").astype(np.int64, copy=False)
    bounds = np.searchsorted(assignment_N[nodes_N], np.arange(num_parts + 1))
    local_N = np.empty(graph.num_rows, index_dtype(graph.num_rows))

    def ordered(part: int) -> NDArray[np.int64]:
        nodes_n = nodes_N[bounds[part] : bounds[part + 1]]
        return order_of_part(graph, nodes_n, nodes_n, part, assignment_N, local_N, window=window)

    with ThreadPoolExecutor(max_workers=max(1, min(num_parts, kernel_threads()))) as threads:
        return list(threads.map(ordered, range(num_parts)))


def order_of_part(
    graph: Csr,
    rows_n: NDArray[np.int64],
    nodes_n: NDArray[np.int64],
    part: int,
    assignment_N: NDArray[np.int32],
    local_N: Ids,
    *,
    window: int = WINDOW,
) -> NDArray[np.int64]:
    """The nodes of one part in order.

    Args:
        graph: whose columns are all nodes; its rows may be the part's alone.
        rows_n: the rows of the part's nodes.
        nodes_n: these nodes.
        part: their part.
        assignment_N: int32 [N].
        local_N: integers [N] to work in; only the part's own entries are written and read.
        window: as for `locality_order`.
    """
    local_N[nodes_n] = np.arange(len(nodes_n))
    indptr, indices = _own_edges(graph.indptr, graph.indices, rows_n, part, assignment_N, local_N)
    starts_n = _from_the_rim(indptr, indices.dtype)
    order_n, is_thin = level_order(indptr, indices, starts_n)
    if not is_thin:
        order_n = window_order(indptr, indices, starts_n, window)
    ordered: NDArray[np.int64] = nodes_n[order_n]
    return ordered


def _from_the_rim(indptr: NDArray[np.int64], dtype: np.dtype[Any]) -> Ids:
    """Where walks begin: nodes by ascending degree, isolated ones last. A walk from the rim leaves no gaps. [n]"""
    degree_n = np.diff(indptr)
    degree_n[degree_n == 0] = np.iinfo(np.int64).max
    return np.argsort(degree_n, kind="stable").astype(dtype, copy=False)


@njit(cache=True, nogil=True)
def _own_edges(indptr, indices, rows_n, part, assignment_N, local_N):  # type: ignore[no-untyped-def]
    """The edges inside a part: offsets int64 [n + 1] and columns from 0 to n - 1, in the dtype of `local_N`.

    `local_N` numbers the part's nodes; its entries of other parts may hold anything.
    """
    num_rows = len(rows_n)
    own_indptr = np.zeros(num_rows + 1, np.int64)
    for i in range(num_rows):
        count = 0
        for e in range(indptr[rows_n[i]], indptr[rows_n[i] + 1]):
            if assignment_N[indices[e]] == part:
                count += 1
        own_indptr[i + 1] = own_indptr[i] + count
    own_indices = np.empty(own_indptr[num_rows], local_N.dtype)
    at = 0
    for i in range(num_rows):
        for e in range(indptr[rows_n[i]], indptr[rows_n[i] + 1]):
            node = indices[e]
            if assignment_N[node] == part:
                own_indices[at] = local_N[node]
                at += 1
    return own_indptr, own_indices
