"""The same counts by one pass over the rows in their order, for edges that lie in a file larger than memory.

`counts` walks the rows of one destination part after another, which is P passes over a file. Here every node has a bit
for each part that its row goes to, 64 parts a pass; the bits are counted in the end. 8 bytes a node.

Letters: N nodes, E directed edges, P parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from graphprep.traffic.counts import Assignments, Matrices, Traffic, check_assignments

WORD_BITS = 64


def count_in_order(csrs: Matrices, assignments: Assignments, num_parts: int) -> Traffic:
    """What `count_traffic` counts; arrays may be mapped.

    Raises:
        PartitionError: as there.
    """
    check_assignments(csrs, assignments, num_parts)
    rows_PP = np.zeros((num_parts, num_parts), np.int64)
    edges_PP = np.zeros((num_parts, num_parts), np.int64)
    for source in dict.fromkeys(kind.source for kind in csrs):
        part_N = assignments[source]
        for first in range(0, num_parts, WORD_BITS):
            bits_N = np.zeros(len(part_N), np.uint64)
            for kind, csr in csrs.items():
                if kind.source == source:
                    into_N = assignments[kind.destination]
                    edges = edges_PP if first == 0 else np.zeros((0, 0), np.int64)
                    mark_rows(csr.indptr, csr.indices, into_N, part_N, first, bits_N, edges)
            add_marked(bits_N, part_N, first, rows_PP)
    local_edges_P = np.diagonal(edges_PP).copy()
    np.fill_diagonal(edges_PP, 0)
    return Traffic(rows_PP=rows_PP, edges_PP=edges_PP, local_edges_P=local_edges_P)


@njit(cache=True, nogil=True)
def mark_rows(indptr: Any, indices: Any, into_N: Any, part_N: Any, first: Any, bits_N: Any, edges_PP: Any) -> None:
    """Set, for each edge into parts first .. first + 63, a bit at its source; add to `edges_PP` if not empty."""
    for row in range(len(indptr) - 1):
        q = into_N[row]
        marks = first <= q < first + WORD_BITS
        bit = np.uint64(1) << np.uint64(q - first) if marks else np.uint64(0)
        if marks or len(edges_PP):
            for e in range(indptr[row], indptr[row + 1]):
                node = indices[e]
                bits_N[node] |= bit
                if len(edges_PP):
                    edges_PP[part_N[node], q] += 1


@njit(cache=True, nogil=True)
def add_marked(bits_N: Any, part_N: Any, first: Any, rows_PP: Any) -> None:
    """Add the marked rows of all nodes; a node's own part needs none."""
    for node in range(len(bits_N)):
        left, q = bits_N[node], first
        while left:
            if left & np.uint64(1) and q != part_N[node]:
                rows_PP[part_N[node], q] += 1
            left >>= np.uint64(1)
            q += 1
