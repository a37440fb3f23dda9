"""The numba loops of `edge_scan`, which checks their input; they do not.

Letters: N nodes, E edges of a range of rows, C classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from graphprep.core.csr_kernels import mixed

SELF_LOOPS, DUPLICATES, LABELLED, SAME_LABEL = range(4)
"""Places in the counts of `scan_rows`."""


@njit(cache=True, nogil=True)
def root_of(parent_N: Any, node: int) -> int:
    """The representative of a node's component, with the path to it halved."""
    while parent_N[node] != node:
        parent_N[node] = parent_N[parent_N[node]]
        node = parent_N[node]
    return node


@njit(cache=True, nogil=True)
def join_rows(indptr: Any, indices: Any, first_row: int, first_column: int, parent_N: Any) -> None:
    """Join the components of both ends of every edge; the smaller number represents."""
    for row in range(len(indptr) - 1):
        mine = root_of(parent_N, first_row + row)
        for e in range(indptr[row], indptr[row + 1]):
            column = first_column + indices[e]
            if parent_N[column] == mine:
                continue
            other = root_of(parent_N, column)
            if other < mine:
                parent_N[mine] = other
                mine = other
            elif other > mine:
                parent_N[other] = mine


@njit(cache=True, nogil=True)
def join_components(found_N: Any, parent_N: Any) -> None:
    """Join whatever is one component in `found_N`, which is such a forest as well."""
    for node in range(len(found_N)):
        if found_N[node] == node:
            continue
        mine, other = root_of(parent_N, node), root_of(parent_N, found_N[node])
        if other < mine:
            parent_N[mine] = other
        elif mine < other:
            parent_N[other] = mine


@njit(cache=True, nogil=True)
def component_sizes(parent_N: Any, size_N: Any) -> None:
    """Add every node to the size of its representative."""
    for node in range(len(parent_N)):
        size_N[root_of(parent_N, node)] += 1


@njit(cache=True, nogil=True)
def scan_rows(
    indptr: Any,
    indices: Any,
    own_row: int,
    row_label_N: Any,
    label_N: Any,
    out_degree_N: Any,
    counts: Any,
    into_C: Any,
    from_C: Any,
    node_sums: Any,
) -> None:
    """Count the edges of one range of rows.

    Args:
        indptr, indices: the range's rows.
        own_row: global number of row 0 where sources and destinations are the same nodes, else negative: then there
            are no self-loops.
        row_label_N: labels of the range's rows, -1 for none; empty where edges do not join labelled nodes.
        label_N: labels of all sources, or empty.
        out_degree_N: of all sources; added to.
        counts: int64 [4], added to: self-loops, duplicates, edges between labelled nodes, those of one label.
        into_C, from_C: int64 [C], added to: edges between labelled nodes by the label of their end, of their start.
        node_sums: float64 [2], added to: the sum over rows of the share of labelled neighbours with the row's label,
            and the number of such rows.
    """
    with_labels = len(label_N) > 0
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        own = own_row + row if own_row >= 0 else -1
        label = row_label_N[row] if with_labels else -1
        last = -1
        neighbours = same = 0
        for e in range(start, stop):
            column = indices[e]
            out_degree_N[column] += 1
            if column == last:
                counts[DUPLICATES] += 1
            last = column
            if column == own:
                counts[SELF_LOOPS] += 1
            elif label >= 0:
                other = label_N[column]
                if other >= 0:
                    neighbours += 1
                    into_C[label] += 1
                    from_C[other] += 1
                    same += other == label
        if neighbours:
            counts[LABELLED] += neighbours
            counts[SAME_LABEL] += same
            node_sums[0] += same / neighbours
            node_sums[1] += 1


@njit(cache=True, nogil=True)
def sample_pairs(indptr: Any, indices: Any, first_row: int, mask: Any, low_S: Any, high_S: Any, count: int) -> int:
    """Keep the edges of the pairs of nodes whose hash has no bit of `mask`, duplicates and self-loops left out.

    Both directions of a pair have the same hash, so a pair is kept whole or not at all. An edge from the smaller to the
    larger number is kept as (low, high), one from the larger as (low, -1 - high). Returns how many are kept now; what
    finds no room in low_S and high_S is counted and not kept.
    """
    for row in range(len(indptr) - 1):
        own = first_row + row
        last: Any = -1
        for e in range(indptr[row], indptr[row + 1]):
            column: Any = np.int64(indices[e])
            if column in (last, own):
                continue
            last = column
            low: Any = min(column, own)
            high: Any = max(column, own)
            if mixed(low, high) & mask:
                continue
            if count < len(low_S):
                low_S[count] = low
                high_S[count] = high if column < own else -1 - high
            count += 1
    return count
