"""Two baselines for every other method: LDG, which is one pass over the graph, and a random assignment.

LDG (Stanton, Kliot: Streaming graph partitioning for large distributed graphs, KDD 2012) puts each node where most of
its placed neighbours are, weighted by the remaining capacity. It needs no memory beyond the graph and cannot fail, so
it is also the fallback when METIS fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.partition.methods.base import PartitionProblem
from graphprep.topology import Topology

BYTES_PER_NODE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One of the two as a method; both are always available and need little memory."""

    name: str
    streaming: bool

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:  # noqa: ARG002
        """None: it needs nothing."""
        return None

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:  # noqa: ARG002
        return BYTES_PER_NODE * num_nodes

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """See `Method`; there may be fewer nodes than parts."""
        if self.streaming:
            return ldg(problem.graph, shares_P=problem.shares_P, seed=problem.seed, imbalance=problem.imbalance)
        return random_assignment(problem.graph.num_rows, shares_P=problem.shares_P, seed=problem.seed)


BASELINES = (Baseline(name="ldg", streaming=True), Baseline(name="random", streaming=False))


def ldg(graph: Csr, *, shares_P: NDArray[np.float64], seed: int, imbalance: float) -> NDArray[np.int32]:
    """Linear deterministic greedy over a random order of nodes; int32 [N].

    Args:
        graph: symmetric.
        shares_P: target share of the nodes for each part; sums to 1.
        seed: of the order.
        imbalance: greatest share over target share that a part may reach.
    """
    order_N = np.random.default_rng(seed).permutation(graph.num_rows)
    capacity_P = np.maximum(1.0, np.ceil(shares_P * graph.num_rows * imbalance))
    assignment: NDArray[np.int32] = _ldg(graph.indptr, graph.indices, order_N, capacity_P)
    return assignment


def random_assignment(num_nodes: int, *, shares_P: NDArray[np.float64], seed: int) -> NDArray[np.int32]:
    """A shuffled assignment whose part sizes are the target shares, rounded; int32 [N]."""
    sizes_P = apportion(num_nodes, shares_P)
    assignment = np.repeat(np.arange(len(shares_P), dtype=np.int32), sizes_P)
    shuffled: NDArray[np.int32] = np.random.default_rng(seed).permutation(assignment)
    return shuffled


def apportion(total: int, shares_P: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers in proportion to `shares_P` that sum to `total` (largest remainders); int64 [P]."""
    exact_P: NDArray[np.float64] = total * shares_P / shares_P.sum()
    whole_P = np.floor(exact_P).astype(np.int64)
    short = total - int(whole_P.sum())
    whole_P[np.argsort(whole_P - exact_P, kind="stable")[:short]] += 1
    return whole_P


@njit(cache=True)
def _ldg(indptr, indices, order_N, capacity_P):  # type: ignore[no-untyped-def]
    num_parts = len(capacity_P)
    assignment = np.full(len(indptr) - 1, -1, np.int32)
    size_P = np.zeros(num_parts, np.int64)
    neighbours_P = np.zeros(num_parts, np.int64)
    for node in order_N:
        for e in range(indptr[node], indptr[node + 1]):
            part = assignment[indices[e]]
            if part >= 0:
                neighbours_P[part] += 1
        best, best_score = 0, -np.inf
        for part in range(num_parts):
            room = 1.0 - size_P[part] / capacity_P[part]
            # A full part is never better than one with room; among equals the one with the fewest nodes wins.
            score = neighbours_P[part] * room + 1e-9 * room if room > 0 else room - 1.0
            if score > best_score:
                best, best_score = part, score
        assignment[node] = best
        size_P[best] += 1
        for e in range(indptr[node], indptr[node + 1]):
            part = assignment[indices[e]]
            if part >= 0:
                neighbours_P[part] = 0
    return assignment
