"""Nodes that no partitioner should see, and parts that it should not leave empty.

A node without neighbours costs nothing wherever it lies, so such nodes are set aside and then fill the parts that are
below their target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.graph import Csr
from graphprep.partition.floors import apportion


def connected_nodes(graph: Csr) -> NDArray[np.bool_]:
    """bool [N]: nodes that have a neighbour."""
    return np.diff(graph.indptr) > 0


def subgraph_of_connected(graph: Csr, connected_N: NDArray[np.bool_]) -> Csr:
    """The graph without its isolated nodes; rows keep their order."""
    if connected_N.all():
        return graph
    new_id_N = np.cumsum(connected_N) - 1
    indptr = np.concatenate([graph.indptr[:-1][connected_N], graph.indptr[-1:]])
    return Csr(
        indptr=indptr,
        indices=new_id_N[graph.indices].astype(graph.indices.dtype),
        data=graph.data,
        num_sources=int(connected_N.sum()),
    )


def place_isolated(
    assignment_of_connected: NDArray[np.int32], connected_N: NDArray[np.bool_], shares_P: NDArray[np.float64]
) -> NDArray[np.int32]:
    """The whole assignment, int32 [N]: isolated nodes go, in order, to the parts that are furthest below target."""
    assignment_N = np.empty(len(connected_N), np.int32)
    assignment_N[connected_N] = assignment_of_connected
    isolated = int((~connected_N).sum())
    if isolated:
        sizes_P = np.bincount(assignment_of_connected, minlength=len(shares_P))
        room_P = np.maximum(shares_P * len(connected_N) - sizes_P, 0.0)
        counts_P = apportion(isolated, room_P if room_P.sum() > 0 else shares_P)
        assignment_N[~connected_N] = np.repeat(np.arange(len(shares_P), dtype=np.int32), counts_P)
    return assignment_N


def fill_empty_parts(assignment_N: NDArray[np.int32], num_parts: int) -> NDArray[np.int32]:
    """Give each empty part a node of the largest part, as long as that has more than one; int32 [N]."""
    sizes_P = np.bincount(assignment_N, minlength=num_parts)
    if sizes_P.all():
        return assignment_N
    assignment_N = assignment_N.copy()
    for part in np.flatnonzero(sizes_P == 0):
        donor = int(sizes_P.argmax())
        assignment_N[np.flatnonzero(assignment_N == donor)[-1]] = part
        sizes_P[donor] -= 1
        sizes_P[part] += 1
    return assignment_N
