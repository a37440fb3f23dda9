"""The order of nodes inside a part: neighbours near each other, so that a pass over the CSR reads from cache.

A part's nodes are ordered by its own edges, in three steps, each linear in nodes and edges:

1. Hubs come first, by falling degree. Every region of the part reads them, so they are in cache wherever they lie and
   say nothing about where their neighbours belong; together they fill few pages. (Hub clustering: Faldu, Diamond, Grot:
   A closer look at lightweight graph reordering, IISWC 2019.)
2. If the rest is long and thin - a mesh, a road network, a chain of cliques - it is ordered by breadth-first levels
   (`order_levels`): a row's neighbours are then in a few streams of neighbouring rows, which processors prefetch.
3. Else it is ordered by a greedy walk that next takes the node with the greatest share of its neighbours among the last
   thousand taken (`order_window`): communities come one after another, and small ones inside large ones.

Beside what was tried: nested METIS clusters of 256 rows and size-constrained label propagation give no faster products
on block models and take several times as long; reverse Cuthill-McKee alone is no better than 1.2 times a random order
there. benchmarks/locality_order.py measures it.

Parts are independent and run in threads; the result does not depend on how many there are. Memory beyond the graph:
4 bytes an edge and 60 a node of the parts in work, and 16 a node of the graph.

Letters: N nodes, n nodes of a part, m of them that are no hubs, P parts.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numba import get_num_threads, njit
from numpy.typing import NDArray

from graphprep.csr import index_dtype
from graphprep.graph import Csr
from graphprep.partition.order_levels import level_order
from graphprep.partition.order_window import WINDOW, window_order

HUB = 12
"""A hub has this many times the mean degree of its part. With 8, social graphs lose locality to too many of them; with
24, graphs of nothing but hubs and leaves (R-MAT) lose pages to their halo."""

Ids: TypeAlias = NDArray[np.integer[Any]]


def locality_order(
    graph: Csr, assignment_N: NDArray[np.int32], num_parts: int, *, window: int = WINDOW
) -> list[NDArray[np.int64]]:
    """The nodes of each part, ordered for locality.

    Args:
        graph: symmetric, no self-loops, no duplicates.
        assignment_N: int32 [N], from 0 to num_parts - 1.
        window: rows that fit in a core's cache, at least 1; see `order_window`.

    Returns:
        One int64 array a part: its nodes' rows in the graph; together a permutation of 0 .. N-1.
    """
    nodes_N = np.argsort(assignment_N, kind="stable").astype(np.int64, copy=False)
    bounds = np.searchsorted(assignment_N[nodes_N], np.arange(num_parts + 1))
    local_N = np.empty(graph.num_rows, index_dtype(graph.num_rows))

    def ordered(part: int) -> NDArray[np.int64]:
        return _part_order(graph, nodes_N[bounds[part] : bounds[part + 1]], part, assignment_N, local_N, window)

    with ThreadPoolExecutor(max_workers=max(1, min(num_parts, get_num_threads()))) as threads:
        return list(threads.map(ordered, range(num_parts)))


def _part_order(
    graph: Csr, nodes_n: NDArray[np.int64], part: int, assignment_N: NDArray[np.int32], local_N: Ids, window: int
) -> NDArray[np.int64]:
    """The nodes of one part in order; of `local_N` only the part's own entries are written and read."""
    if len(nodes_n) < 3:
        return nodes_n
    degree_n = graph.indptr[nodes_n + 1] - graph.indptr[nodes_n]
    is_hub_n = degree_n > HUB * degree_n.mean()
    hubs, rest_m = nodes_n[is_hub_n], nodes_n[~is_hub_n]
    hubs = hubs[np.argsort(-degree_n[is_hub_n], kind="stable")]
    local_N[hubs] = -1
    local_N[rest_m] = np.arange(len(rest_m))
    indptr, indices = _own_edges(graph.indptr, graph.indices, rest_m, part, assignment_N, local_N)
    starts_m = _from_the_rim(indptr, indices.dtype)
    order_m, is_thin = level_order(indptr, indices, starts_m)
    if not is_thin:
        order_m = window_order(indptr, indices, starts_m, window)
    return np.concatenate([hubs, rest_m[order_m]])


def _from_the_rim(indptr: NDArray[np.int64], dtype: np.dtype[Any]) -> Ids:
    """Where to begin: nodes by rising degree, since a walk from the rim leaves no holes; isolated ones last. [m]"""
    degree_m = np.diff(indptr)
    degree_m[degree_m == 0] = np.iinfo(np.int64).max
    return np.argsort(degree_m, kind="stable").astype(dtype, copy=False)


@njit(cache=True, nogil=True)
def _own_edges(indptr, indices, rest_m, part, assignment_N, local_N):  # type: ignore[no-untyped-def]
    """The edges among the nodes `rest_m` of a part: offsets int64 [m + 1] and columns, which index `rest_m`.

    `local_N` numbers them and is negative at the part's hubs; entries of other parts may hold anything.
    """
    num_rows = len(rest_m)
    own_indptr = np.zeros(num_rows + 1, np.int64)
    for i in range(num_rows):
        count = 0
        for e in range(indptr[rest_m[i]], indptr[rest_m[i] + 1]):
            node = indices[e]
            if assignment_N[node] == part and local_N[node] >= 0:
                count += 1
        own_indptr[i + 1] = own_indptr[i] + count
    own_indices = np.empty(own_indptr[num_rows], local_N.dtype)
    at = 0
    for i in range(num_rows):
        for e in range(indptr[rest_m[i]], indptr[rest_m[i] + 1]):
            node = indices[e]
            if assignment_N[node] == part and local_N[node] >= 0:
                own_indices[at] = local_N[node]
                at += 1
    return own_indptr, own_indices
