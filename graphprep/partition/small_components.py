"""Small connected components are set aside before partitioning and placed whole afterwards; empty parts are filled.

No partitioner needs to cut a component that is small against every part, such as a node without neighbours. After the
rest, the core, has been partitioned, each small component, the heaviest first, goes to the part where it raises the
imbalance of nodes, in-edges and training nodes least. (Greedy placement in falling order: Graham, Bounds on
multiprocessing timing anomalies, SIAM J. Appl. Math. 1969; here with several loads.)

Letters: N nodes, P parts, D loads, K components that are set aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.partition.components import components
from graphprep.partition.methods.subgraph import induced

SMALL = 0.01
"""A component is set aside if each of its loads is at most this much of the smallest part's target."""
STEEPNESS = 24
"""Imbalance is the sum of (load over target) to this power: the fullest parts count most."""
PIECES = 16
"""Equal components are placed many at a time, 1/(PIECES * P) of the remaining ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallComponents:
    """The nodes of small components."""

    core_N: NDArray[np.bool_]
    """bool [N]: nodes of the core."""
    component_N: NDArray[np.int64]
    """int64 [N]: number of the small component, 0 .. K-1; -1 for nodes of the core."""
    count: int
    """K"""


def find_small(graph: Csr, amounts_DN: NDArray[np.int64], shares_P: NDArray[np.float64]) -> SmallComponents:
    """Find the components that are small against every part.

    Args:
        graph: symmetric.
        amounts_DN: int64 [D, N], what each node adds to each load; the first is 1 for every node.
        shares_P: target share of each part.
    """
    component_N, count = components(graph)
    loads_DK = _sums(amounts_DN, component_N, count)
    most_D = SMALL * shares_P.min() * amounts_DN.sum(axis=1, dtype=np.float64)
    small_K = (loads_DK <= most_D[:, None]).all(axis=0) | (loads_DK[0] == 1)
    new_number_K = np.where(small_K, np.cumsum(small_K) - 1, -1)
    small_N = new_number_K[component_N]
    return SmallComponents(core_N=small_N < 0, component_N=small_N, count=int(small_K.sum()))


def core_graph(graph: Csr, small: SmallComponents) -> Csr:
    """The graph of the core, its nodes in their order; no edge is cut, since whole components are left out."""
    if small.count == 0:
        return graph
    inner = induced(graph.indptr, graph.indices, graph.data, small.core_N)
    return Csr(indptr=inner.indptr, indices=inner.indices, data=inner.weights, num_sources=len(inner.nodes))


def place_small(
    core_assignment: NDArray[np.int32],
    small: SmallComponents,
    amounts_DN: NDArray[np.int64],
    shares_P: NDArray[np.float64],
) -> NDArray[np.int32]:
    """The assignment of all nodes; int32 [N].

    Args:
        core_assignment: int32, the part of each node of the core, in their order.
        small, amounts_DN, shares_P: arguments and result of `find_small`.
    """
    assignment_N = np.empty(len(small.core_N), np.int32)
    assignment_N[small.core_N] = core_assignment
    if small.count == 0:
        return assignment_N
    loads_DP = _sums(amounts_DN[:, small.core_N], core_assignment, len(shares_P))
    target_DP = np.maximum(amounts_DN.sum(axis=1, dtype=np.float64), 1.0)[:, None] * shares_P
    small_N = ~small.core_N
    loads_KD = np.ascontiguousarray(_sums(amounts_DN[:, small_N], small.component_N[small_N], small.count).T)
    order_K, starts = _classes(loads_KD, target_DP[:, 0])
    part_K = np.empty(small.count, np.int32)
    _place(order_K, starts, loads_KD, np.ascontiguousarray(loads_DP.T), np.ascontiguousarray(target_DP.T), part_K)
    assignment_N[small_N] = part_K[small.component_N[small_N]]
    return assignment_N


def fill_empty_parts(assignment_N: NDArray[np.int32], num_parts: int, degree_N: NDArray[np.int64]) -> NDArray[np.int32]:
    """Give each empty part the node of lowest degree of the largest part, if that has more than one; int32 [N]."""
    sizes_P = np.bincount(assignment_N, minlength=num_parts)
    if sizes_P.all():
        return assignment_N
    assignment_N = assignment_N.copy()
    for part in np.flatnonzero(sizes_P == 0):
        donor = int(sizes_P.argmax())
        if sizes_P[donor] < 2:
            break
        nodes = np.flatnonzero(assignment_N == donor)
        assignment_N[nodes[degree_N[nodes].argmin()]] = part
        sizes_P[donor] -= 1
        sizes_P[part] += 1
    return assignment_N


def _sums(amounts_DM: NDArray[np.int64], group_M: NDArray[np.integer[Any]], count: int) -> NDArray[np.float64]:
    """float64 [D, count]: amounts summed by group; exact up to 2^53, and no overflow beyond."""
    return np.stack([np.bincount(group_M, weights=amount_M, minlength=count) for amount_M in amounts_DM])


def _classes(
    loads_KD: NDArray[np.float64], scale_D: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Components from the heaviest down, equal ones in runs, and where each run begins and ends."""
    weight_K = (loads_KD / scale_D).max(axis=1)
    order_K = np.lexsort((*loads_KD.T[::-1], -weight_K)).astype(np.int64)
    ordered = loads_KD[order_K]
    changes = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    return order_K, np.concatenate([[0], changes, [len(order_K)]])


@njit(cache=True)
def _place(order_K: Any, starts: Any, loads_KD: Any, loads_PD: Any, target_PD: Any, part_K: Any) -> None:
    num_parts, num_loads = loads_PD.shape
    for run in range(len(starts) - 1):
        place, end = starts[run], starts[run + 1]
        load_D = loads_KD[order_K[place]]
        while place < end:
            best, least = 0, np.inf
            for part in range(num_parts):
                rise = 0.0
                for d in range(num_loads):
                    if load_D[d] > 0:
                        before = loads_PD[part, d] / target_PD[part, d]
                        after = before + load_D[d] / target_PD[part, d]
                        rise += after**STEEPNESS - before**STEEPNESS
                # A part of twice the target counts twice, or large parts would look cheap.
                rise *= target_PD[part, 0]
                if rise < least:
                    best, least = part, rise
            count = max(1, (end - place) // (PIECES * num_parts))
            for number in range(place, place + count):
                part_K[order_K[number]] = best
            for d in range(num_loads):
                loads_PD[best, d] += count * load_D[d]
            place += count
