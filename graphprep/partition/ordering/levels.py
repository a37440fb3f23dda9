"""Level ordering: nodes by breadth-first levels, for graphs that are long and thin, so that levels are short.

Each component is ordered from an end of it: the last node of a first sweep begins the second one (Cuthill, McKee:
Reducing the bandwidth of sparse symmetric matrices, ACM 1969; George, Liu: An implementation of a pseudoperipheral node
finder, 1979). A row's neighbours lie in its own level and the two beside it, in runs, since a level's nodes follow the
order of the level before. Neighbours are not sorted by degree and the order is not reversed: both serve factorisation
and cost a tenth of the speed of a sparse product on meshes.

Where a component is round rather than long - communities, power laws, random graphs: their widest level has a quarter
of all nodes and more, that of meshes a fifteenth and less - levels say nothing, and the caller has to do without.

Letters: n nodes, E directed edges.
"""

from __future__ import annotations

import numpy as np
from numba import njit

THIN = 8
"""A component is long and thin if no level holds more than one in THIN of its nodes."""
SMALL = 256
"""A component of up to this many nodes fits into cache in any order."""


@njit(cache=True, nogil=True)
def level_order(indptr, indices, starts_n):  # type: ignore[no-untyped-def]
    """All nodes, component after component, each by levels.

    Args:
        indptr, indices: symmetric CSR of n rows, int64 [n + 1] and any integer [E].
        starts_n: all nodes; a component begins at its first one here.

    Returns:
        The order [n], in the dtype of `indices`, and True; or something of no use, and False, because a component is
        not thin. That is found out after two sweeps at the latest, O(n + E).
    """
    num_nodes = len(indptr) - 1
    order_n = np.empty(num_nodes, indices.dtype)
    sweep_n = np.zeros(num_nodes, np.uint8)
    begin = np.int64(0)  # of the same type as later, so that `_sweep` is compiled once
    for start in starts_n:
        if sweep_n[start] > 0:
            continue
        end, widest = _sweep(indptr, indices, start, np.uint8(1), begin, order_n, sweep_n)
        if end < 0:
            return order_n, False
        if end - begin > 2:
            end, widest = _sweep(indptr, indices, order_n[end - 1], np.uint8(2), begin, order_n, sweep_n)
            if end < 0 or (widest > SMALL and widest * THIN > end - begin):
                return order_n, False
        begin = end
    return order_n, True


@njit(cache=True, nogil=True)
def _sweep(indptr, indices, start, sweep, begin, order_n, sweep_n):  # type: ignore[no-untyped-def]
    """Visit the component of `start`, writing from `begin` on.

    Returns:
        Where it ends in the order and the width of its widest level; (-1, 0) once a level is too wide for any
        component of this graph.
    """
    order_n[begin] = start
    sweep_n[start] = sweep
    at = level_end = begin + 1
    read, widest = begin, 1
    too_wide = max(SMALL, (len(indptr) - 1) // THIN)
    while read < at:
        if read == level_end:
            widest = max(widest, at - level_end)
            if widest > too_wide:
                return -1, 0
            level_end = at
        node = order_n[read]
        read += 1
        for e in range(indptr[node], indptr[node + 1]):
            neighbour = indices[e]
            if sweep_n[neighbour] != sweep:
                sweep_n[neighbour] = sweep
                order_n[at] = neighbour
                at += 1
    return at, widest
