"""What each rank computes, how that compares with its share, and which limits that keeps.

    work(rank) = (edge cost * in-edges + node cost * nodes) / speed(rank)

The unit is the time that a rank of speed 1 takes for one edge of a sparse product. A row of F = 256 floats is 1 kB:
one edge reads it once, about 1 ns on a GPU with 1 TB/s. One node passes a dense product of 2 * 256 * 256 operations,
about 10 ns at 13 TFLOP/s. Hence 1 and 10; wider layers make nodes dearer, and only the ratio matters.

A rank's target is its share of all ranks' speed. A limit is on share over target share, plus one node of slack: the
greatest amount that any one node adds. Without it no assignment of five nodes to two ranks, or of one hub with most of
the edges, could keep any limit.

Letters: N nodes, P parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LIMITS
from graphprep.topology import Topology
from graphprep.traffic.counts import Assignments, Matrices

EDGE_COST = 1.0
NODE_COST = 10.0
TRAINING_IMBALANCE = 1.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit at the rank that comes closest to breaking it, or breaks it most."""

    what: str
    limit: float
    """Greatest share over target share, the slack of one node included."""
    value: float
    """Share over target share of that rank; 1 where there is nothing to share."""
    met: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """Something that is shared out among the ranks."""

    what: str
    amount_P: NDArray[np.int64] | NDArray[np.float64]
    largest: float
    """The greatest amount that one node adds."""

    def limit(self, shares_P: NDArray[np.float64], imbalance: float) -> Limit:
        """How the amounts keep to `imbalance` times the target shares float64 [P], which sum to 1."""
        total = self.amount_P.sum()
        if total == 0:
            return Limit(what=self.what, limit=imbalance, value=1.0, met=True)
        target_P = shares_P * total
        value_P, limit_P = self.amount_P / target_P, imbalance + self.largest / target_P
        worst = int(np.argmax(value_P - limit_P))
        met = bool(value_P[worst] <= limit_P[worst] * (1 + 1e-12))
        return Limit(what=self.what, limit=float(limit_P[worst]), value=float(value_P[worst]), met=met)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """What lies on each rank."""

    nodes_P: NDArray[np.int64]
    in_edges_P: NDArray[np.int64]
    training_nodes_P: NDArray[np.int64]
    cost_P: NDArray[np.float64]
    """Work before it is divided by the rank's speed."""
    shares_P: NDArray[np.float64]
    """Target share of each rank; they sum to 1."""
    loads: tuple[Load, ...]
    """Nodes, in-edges, work and training nodes; where there are several types, also nodes and in-edges of each."""

    @classmethod
    def of(
        cls,
        csrs: Matrices,
        assignments: Assignments,
        shares_P: NDArray[np.float64],
        *,
        training_masks: Mapping[str, NDArray[np.bool_]],
        edge_cost: float,
        node_cost: float,
    ) -> Workload:
        """Count what an assignment that fits the graph puts on each rank.

        Args:
            csrs, assignments: by type.
            shares_P: float64 [P], target shares; they sum to 1.
            training_masks: bool [N] by type.
            edge_cost, node_cost: work of one in-edge and of one node.
        """
        num_parts = len(shares_P)

        def count(node_type: str, weight_N: NDArray[np.int64] | NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
            counted_P = np.bincount(assignments[node_type], weights=weight_N, minlength=num_parts)
            return counted_P.astype(np.int64)  # counts are exact in float64 up to 2^53

        nodes = {node_type: count(node_type) for node_type in assignments}
        edges: dict[str, NDArray[np.int64]] = {}
        degree_N = {node_type: np.zeros(len(part_N), np.int64) for node_type, part_N in assignments.items()}
        loads_of_types = [Load(what=f"nodes of {name}", amount_P=amount, largest=1) for name, amount in nodes.items()]
        for kind, csr in csrs.items():
            in_degree_N = np.diff(csr.indptr)
            edges[kind.key] = count(kind.destination, in_degree_N)
            degree_N[kind.destination] += in_degree_N
            largest = int(in_degree_N.max(initial=0))
            loads_of_types.append(Load(what=f"in-edges of {kind.key}", amount_P=edges[kind.key], largest=largest))
        nothing_P = np.zeros(num_parts, np.int64)
        nodes_P, in_edges_P = sum(nodes.values(), start=nothing_P), sum(edges.values(), start=nothing_P)
        training_P = sum((count(node_type, mask_N) for node_type, mask_N in training_masks.items()), start=nothing_P)
        largest_degree = max((int(degrees.max(initial=0)) for degrees in degree_N.values()), default=0)
        cost_P = edge_cost * in_edges_P + node_cost * nodes_P
        loads = [
            Load(what="nodes", amount_P=nodes_P, largest=1),
            Load(what="in-edges", amount_P=in_edges_P, largest=largest_degree),
            Load(what="work", amount_P=cost_P, largest=edge_cost * largest_degree + node_cost),
            Load(what="training nodes", amount_P=training_P, largest=1),
        ]
        return cls(
            nodes_P=nodes_P,
            in_edges_P=in_edges_P,
            training_nodes_P=training_P,
            cost_P=cost_P,
            shares_P=shares_P,
            loads=(*loads, *(loads_of_types if len(nodes) > 1 or len(edges) > 1 else ())),
        )

    def limits(self, imbalance: float, kept: Collection[str] = LIMITS) -> tuple[Limit, ...]:
        """The loads that are to be `kept` against `imbalance`; training nodes against the wider of it and 1.10."""
        wider = max(imbalance, TRAINING_IMBALANCE)
        return tuple(
            load.limit(self.shares_P, wider if load.what == "training nodes" else imbalance)
            for load in self.loads
            if limit_of(load.what) in kept
        )


def limit_of(what: str) -> str:
    """The name in LIMITS under which a load is held."""
    return "types" if " of " in what else what.replace(" ", "-")


def speed_shares(topology: Topology) -> NDArray[np.float64]:
    """float64 [P]: each rank's share of all ranks' speed, which is its target share of everything."""
    speed_P = np.array([rank.speed for rank in topology.ranks], np.float64)
    return np.asarray(speed_P / speed_P.sum())
