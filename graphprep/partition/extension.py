"""The parts of new nodes beside those of nodes that are there, without partitioning: as their neighbours'.

New nodes are walked in breadth-first order from the old ones: first those with an old neighbour, in the order of their
numbers, then their new neighbours, and so on. Each gets the part that most of its neighbours with a part have, by the
sum of the weights of the edges between them in both directions; of equal parts the one with the least load for its
rank's speed. What no old node is connected with begins in the part with the least load.

Linear in the edges of new nodes; the others are read once, by ranges of rows.

Letters: N nodes of all types, A new (added) ones, P parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.row_ranges import row_ranges
from graphprep.core.source import EdgeSource
from graphprep.core.types import EdgeType
from graphprep.traffic import EDGE_COST, NODE_COST

EDGES_AT_A_TIME = 1 << 22


def parts_of_all(
    source: EdgeSource, known: Mapping[str, NDArray[np.int32]], shares_P: NDArray[np.float64]
) -> NDArray[np.int32]:
    """The part of every node, int32 [N], types in name order.

    Args:
        source: the graph with the new nodes.
        known: by node type, the parts of the nodes that are there, which are the first of their type.
        shares_P: each part's share of the load, by the speed of its rank.
    """
    part_N = np.concatenate(
        [
            np.concatenate([known[name], np.full(count - len(known[name]), -1, np.int32)])
            for name, count in sorted(source.num_nodes.items())
        ]
    )
    firsts, first = {}, 0
    for name, count in sorted(source.num_nodes.items()):
        firsts[name], first = first, first + count
    load_N = np.full(len(part_N), NODE_COST)
    for kind in source.num_edges:
        degree_N = np.diff(source.indptr(kind))
        at = firsts[kind.destination]
        load_N[at : at + len(degree_N)] += EDGE_COST * degree_N
    is_old_N = part_N >= 0
    load_P = np.bincount(part_N[is_old_N], weights=load_N[is_old_N], minlength=len(shares_P)) / shares_P
    new_A = np.flatnonzero(~is_old_N)
    indptr_A, neighbours, weights = _neighbours(source, firsts, is_old_N, new_A)
    number_N = np.full(len(part_N), -1, np.int64)
    number_N[new_A] = np.arange(len(new_A))
    assign(indptr_A, neighbours, weights, new_A, number_N, load_N, shares_P, load_P, part_N)
    return part_N


def _neighbours(
    source: EdgeSource, firsts: Mapping[str, int], is_old_N: NDArray[np.bool_], new_A: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The neighbours of new nodes, as a CSR of A rows with columns 0 .. N-1 and the weights of the edges.

    Edges in both directions and of all types are there, without self-loops.
    """
    pieces = [
        _edges_of_new(source, kind, start, stop, firsts, is_old_N)
        for kind in source.num_edges
        for start, stop in row_ranges(source.indptr(kind), EDGES_AT_A_TIME)
    ]
    one, other = (np.concatenate([np.zeros(0, np.int64), *(piece[side] for piece in pieces)]) for side in (0, 1))
    weight = np.concatenate([np.zeros(0), *(piece[2] for piece in pieces)])
    both = [np.concatenate([one, other]), np.concatenate([other, one]), np.concatenate([weight, weight])]
    of_new = ~is_old_N[both[0]]
    row, column, weight = (array[of_new] for array in both)
    order = np.lexsort((column, row))
    row = np.searchsorted(new_A, row[order])
    indptr_A = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(new_A)))])
    return indptr_A, column[order], weight[order]


def _edges_of_new(
    source: EdgeSource,
    kind: EdgeType,
    start: int,
    stop: int,
    firsts: Mapping[str, int],
    is_old_N: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Both ends and the weights of those edges of a range of rows that have a new node and are no self-loops."""
    rows = source.csr_rows(kind, start, stop)
    is_old_row = np.repeat(is_old_N[firsts[kind.destination] + start :][: stop - start], np.diff(rows.indptr))
    edges = np.flatnonzero(~(is_old_row & is_old_N[firsts[kind.source] :][rows.indices]))
    src = rows.indices[edges].astype(np.int64) + firsts[kind.source]
    dst = np.searchsorted(rows.indptr, edges, side="right") - 1 + start + firsts[kind.destination]
    weight = np.ones(len(edges)) if rows.data is None else np.abs(rows.data[edges]).astype(np.float64)
    apart = src != dst
    return src[apart], dst[apart], weight[apart]


@njit(cache=True)
def assign(
    indptr_A: Any,
    neighbours: Any,
    weights: Any,
    new_A: Any,
    number_N: Any,
    load_N: Any,
    shares_P: Any,
    load_P: Any,
    part_N: Any,
) -> None:
    """Give each new node its part.

    Args:
        indptr_A, neighbours, weights: the neighbours of new nodes; see `_neighbours`.
        new_A: the new nodes.
        number_N: their numbers 0 .. A-1, -1 for old nodes.
        load_N: what each node adds to the load of its part.
        shares_P: see `parts_of_all`.
        load_P: the parts' loads over their shares; changed.
        part_N: -1 for new nodes; changed.
    """
    count = len(new_A)
    queue_A = np.empty(count, np.int64)
    is_queued_A = np.zeros(count, np.bool_)
    sums_P = np.zeros(len(shares_P))
    is_near_P = np.zeros(len(shares_P), np.bool_)
    head, tail, next_alone = 0, 0, 0
    for new in range(count):
        for e in range(indptr_A[new], indptr_A[new + 1]):
            if number_N[neighbours[e]] < 0:
                queue_A[tail] = new
                is_queued_A[new] = True
                tail += 1
                break
    while head < count:
        if head == tail:
            while is_queued_A[next_alone]:
                next_alone += 1
            queue_A[tail] = next_alone
            is_queued_A[next_alone] = True
            tail += 1
        new = queue_A[head]
        head += 1
        sums_P[:] = 0
        is_near_P[:] = False
        has_near = False
        for e in range(indptr_A[new], indptr_A[new + 1]):
            other = neighbours[e]
            if part_N[other] >= 0:
                sums_P[part_N[other]] += weights[e]
                is_near_P[part_N[other]] = True
                has_near = True
            elif not is_queued_A[number_N[other]]:
                queue_A[tail] = number_N[other]
                is_queued_A[number_N[other]] = True
                tail += 1
        best = -1
        for part in range(len(shares_P)):
            if has_near and not is_near_P[part]:
                continue
            if (
                best < 0
                or sums_P[part] > sums_P[best]
                or (sums_P[part] == sums_P[best] and load_P[part] < load_P[best])
            ):
                best = part
        part_N[new_A[new]] = best
        load_P[best] += load_N[new_A[new]] / shares_P[best]
