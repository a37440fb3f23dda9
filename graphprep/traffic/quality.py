"""How good an assignment is, as one value: link seconds, tables of links and ranks, and the limits that it keeps.

This is what the partitioner compares, what the cache keeps under `quality`, and what reports show; none of them
computes any of it again. Every number is finite, so that it is JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LIMITS, Balance
from graphprep.errors import PartitionError
from graphprep.topology import Topology
from graphprep.traffic.batch_figures import BatchFigures
from graphprep.traffic.counts import Assignments, Matrices, Traffic, count_traffic
from graphprep.traffic.links import LinkLoads, LinkModel, LinkTypeLoad, link_seconds
from graphprep.traffic.memory import bytes_without_halo, memory_limit, memory_of, target_shares
from graphprep.traffic.relay import choose_relays, sent_rows_of, with_relays
from graphprep.traffic.step import Step, StepModel
from graphprep.traffic.work import EDGE_COST, NODE_COST, Limit, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """One direction of one link in one exchange."""

    name: str
    """`a->b`"""
    type: str
    gbytes_per_s: float
    rows: int
    edges: int
    bytes: int
    messages: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """What one rank holds, receives and computes."""

    rank: int
    name: str
    nodes: int
    edges: int
    """In-edges, which are the edges that the rank stores."""
    training_nodes: int
    halo_rows: int
    """Rows that it receives in an exchange."""
    work: float
    """Time in units of one edge on a rank of speed 1."""
    work_share: float
    """Share of all work over the rank's target share; 1 is even."""
    memory_bytes: int
    """What it has to hold, by `graphprep.traffic.memory`."""
    sent_rows: int
    """Rows that it sends in an exchange, one to each rank that needs it."""
    node_seconds: float
    """Of its part of a step (`graphprep.traffic.step`): dense products of own rows."""
    packing_seconds: float
    local_seconds: float
    """Sums over edges from own nodes, while the links are busy."""
    unpacking_seconds: float
    halo_seconds: float
    """Sums over edges from the halo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayFigures:
    """What relays do to one exchange, and what it would take without them."""

    rows_passed_on: int
    """Rows that relays send, of the halo rows of all ranks."""
    stage_seconds: tuple[float, ...]
    """Of each stage on its slowest link direction; they add up to the bottleneck."""
    direct_bottleneck_seconds: float
    """Without relays."""
    direct_sum_seconds: float
    """Without relays."""
    slowest_link: str
    """The slowest link direction without relays."""
    slowest_link_rows: int
    """Rows over it."""
    slowest_link_direct_rows: int
    """Rows over it without relays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The quality of an assignment by the cost model."""

    bottleneck_seconds: float
    """Of one exchange on the slowest link direction; where rows are relayed, of all stages together."""
    sum_seconds: float
    """Of one exchange on all link directions."""
    step_seconds: float
    """Of one layer's exchange and what the ranks compute before, beside and after it (`graphprep.traffic.step`)."""
    cut_edges: int
    """Directed edges between parts."""
    halo_rows: int
    """Rows that all ranks receive together in one exchange."""
    links: tuple[LinkRow, ...]
    """Two a link, in the topology's order, each link's first end first."""
    link_types: tuple[LinkTypeLoad, ...]
    ranks: tuple[RankRow, ...]
    limits: tuple[Limit, ...]
    relay: RelayFigures | None = None
    """None where every row is sent by its owner."""
    batches: BatchFigures | None = None
    """Of mini-batches, where the parts were made for them."""

    def step_with(self, link_seconds: float) -> float:
        """The seconds of the step if the exchange took `link_seconds`."""
        ranks = [asdict(rank) for rank in self.ranks]
        return step_of({"ranks": ranks, "bottleneck_seconds": link_seconds}).seconds

    def to_json(self) -> dict[str, Any]:
        """Plain values by the names that the cache format fixes."""
        return asdict(self)


def assess(
    csrs: Matrices,
    assignments: Assignments,
    topology: Topology,
    *,
    row_bytes: int = 1024,
    balance: Balance = "rows",
    imbalance: float = 1.05,
    limits: Collection[str] = LIMITS,
    training_masks: Mapping[str, NDArray[np.bool_]] | None = None,
    edge_cost: float = EDGE_COST,
    node_cost: float = NODE_COST,
    traffic: Traffic | None = None,
    model: LinkModel | None = None,
    step_model: StepModel | None = None,
) -> Quality:
    """Judge an assignment of a graph's nodes to the ranks of a topology.

    Args:
        csrs: in-edges of every edge type.
        assignments: int32 [N] for every node type; part p is on rank p.
        topology: one rank a part.
        row_bytes: bytes of one row in one exchange.
        balance: what link seconds count, `rows` or `edges`.
        imbalance: largest share over target share.
        limits: of LIMITS, what is to be held within it. A rank's memory, where it is stated, always is a limit.
        training_masks: bool [N] for the node types that have training nodes.
        edge_cost: work of one in-edge.
        node_cost: work of one node.
        traffic: what `count_traffic` found for the same arguments, if that is at hand.
        model: of the topology, if that is at hand.
        step_model: of the topology and the row, if that is at hand or has measured rates.

    Raises:
        PartitionError: the assignments or masks do not fit the graph, or the traffic not the topology.
    """
    traffic = traffic or count_traffic(csrs, assignments, topology.num_ranks)
    masks = training_masks or {}
    for node_type, mask_N in masks.items():
        if node_type not in assignments or mask_N.shape != assignments[node_type].shape:
            raise PartitionError(f"the training mask of node type {node_type!r} does not have one entry a node")
    loads = link_seconds(traffic, model or topology, row_bytes, balance=balance)
    shares_P = shares_of(csrs, sum(map(len, assignments.values())), topology, row_bytes)
    workload = Workload.of(csrs, assignments, shares_P, training_masks=masks, edge_cost=edge_cost, node_cost=node_cost)
    step_model = step_model or StepModel.of(topology, row_bytes)
    step = step_model.step(traffic, workload.nodes_P, loads.bottleneck_seconds, balance=balance)
    return _judged(topology, traffic, workload, loads, step, row_bytes, workload.limits(imbalance, limits))


def assess_again(
    traffic: Traffic,
    topology: Topology,
    *,
    nodes_P: NDArray[np.int64],
    training_nodes_P: NDArray[np.int64],
    row_bytes: int,
    balance: Balance = "rows",
) -> Quality:
    """Judge an assignment whose counts are known for another topology or other rows, without the graph.

    The only limit is that of memory: what slack one node takes in the others is not in the counts.

    Args:
        traffic: as `count_traffic` found it.
        topology: one rank a part; part p is on rank p.
        nodes_P, training_nodes_P: int64 [P].
        row_bytes, balance: as for `assess`.

    Raises:
        PartitionError: there are not as many parts as ranks.
    """
    loads = link_seconds(traffic, topology, row_bytes, balance=balance)
    in_edges_P = traffic.in_edges_P
    total_bytes = bytes_without_halo(int(in_edges_P.sum()), int(nodes_P.sum()), row_bytes)
    workload = Workload(
        nodes_P=nodes_P,
        in_edges_P=in_edges_P,
        training_nodes_P=training_nodes_P,
        cost_P=EDGE_COST * in_edges_P + NODE_COST * nodes_P,
        shares_P=target_shares(topology, total_bytes),
        loads=(),
    )
    step = StepModel.of(topology, row_bytes).step(traffic, nodes_P, loads.bottleneck_seconds, balance=balance)
    quality = _judged(topology, traffic, workload, loads, step, row_bytes, ())
    if traffic.relayed is None or balance != "rows":
        return quality
    return assess_relays(quality, traffic, topology, row_bytes=row_bytes)


def assess_relays(quality: Quality, traffic: Traffic, topology: Topology, *, row_bytes: int) -> Quality:
    """The same quality with the link seconds of relayed traffic; for balance by rows.

    Raises:
        PartitionError: there are not as many parts as ranks.
    """
    model = LinkModel.of(topology)
    loads = link_seconds(traffic, model, row_bytes)
    return replace(
        quality,
        bottleneck_seconds=loads.bottleneck_seconds,
        sum_seconds=loads.sum_seconds,
        step_seconds=quality.step_with(loads.bottleneck_seconds),
        links=_link_rows(topology, loads),
        link_types=loads.types,
        relay=_relay_figures(topology, traffic, loads, link_seconds(traffic.without_relays(), model, row_bytes)),
    )


def assess_with_relays(
    quality: Quality,
    traffic: Traffic,
    csrs: Matrices,
    assignments: Assignments,
    topology: Topology,
    *,
    row_bytes: int,
) -> Quality:
    """The same quality with the relays that a cache of this assignment would have; for balance by rows."""
    relays = choose_relays(sent_rows_of(csrs, assignments, topology.num_ranks), topology, row_bytes)
    return assess_relays(quality, with_relays(traffic, relays), topology, row_bytes=row_bytes)


def _relay_figures(topology: Topology, traffic: Traffic, loads: LinkLoads, direct: LinkLoads) -> RelayFigures | None:
    if traffic.relayed is None:
        return None
    slowest = int(np.argmax(direct.seconds_D))
    link, direction = divmod(slowest, 2)
    return RelayFigures(
        rows_passed_on=int(traffic.relayed.rows_SPP[1:].sum()),
        stage_seconds=loads.stage_seconds,
        direct_bottleneck_seconds=direct.bottleneck_seconds,
        direct_sum_seconds=direct.sum_seconds,
        slowest_link=topology.links[link].direction_name(direction),
        slowest_link_rows=int(loads.rows_D[slowest]),
        slowest_link_direct_rows=int(direct.rows_D[slowest]),
    )


def _judged(
    topology: Topology,
    traffic: Traffic,
    workload: Workload,
    loads: LinkLoads,
    step: Step,
    row_bytes: int,
    limits: tuple[Limit, ...],
) -> Quality:
    memory_P = memory_of(workload.in_edges_P, workload.nodes_P, traffic.halo_rows_P, row_bytes)
    of_memory = memory_limit(topology, memory_P)
    return Quality(
        bottleneck_seconds=loads.bottleneck_seconds,
        sum_seconds=loads.sum_seconds,
        step_seconds=step.seconds,
        cut_edges=int(traffic.edges_PP.sum()),
        halo_rows=int(traffic.rows_PP.sum()),
        links=_link_rows(topology, loads),
        link_types=loads.types,
        ranks=_rank_rows(topology, traffic, workload, step, memory_P),
        limits=limits + (() if of_memory is None else (of_memory,)),
    )


def step_of(quality: Mapping[str, Any]) -> Step:
    """The step of a quality in plain values, to compute it again with other seconds of links."""

    def of_ranks(name: str) -> NDArray[np.float64]:
        return np.array([rank[name] for rank in quality["ranks"]], np.float64)

    return Step(
        node_P=of_ranks("node_seconds"),
        packing_P=of_ranks("packing_seconds"),
        local_P=of_ranks("local_seconds"),
        unpacking_P=of_ranks("unpacking_seconds"),
        halo_P=of_ranks("halo_seconds"),
        link_seconds=quality["bottleneck_seconds"],
    )


def shares_of(csrs: Matrices, num_nodes: int, topology: Topology, row_bytes: int) -> NDArray[np.float64]:
    """Each rank's target share; float64 [P].

    Args:
        csrs: in-edges of every edge type.
        num_nodes: of all types together.
        topology: with the speed and perhaps the memory of its ranks.
        row_bytes: bytes of one row in one exchange.
    """
    num_edges = sum(matrix.num_edges for matrix in csrs.values())
    return target_shares(topology, bytes_without_halo(num_edges, num_nodes, row_bytes))


def _link_rows(topology: Topology, loads: LinkLoads) -> tuple[LinkRow, ...]:
    directions = [(link, direction) for link in topology.links for direction in (0, 1)]
    return tuple(
        LinkRow(
            name=link.direction_name(direction),
            type=link.type,
            gbytes_per_s=link.gbytes_per_s,
            rows=int(loads.rows_D[d]),
            edges=int(loads.edges_D[d]),
            bytes=int(loads.bytes_D[d]),
            messages=int(loads.messages_D[d]),
            seconds=float(loads.seconds_D[d]),
        )
        for d, (link, direction) in enumerate(directions)
    )


def _rank_rows(
    topology: Topology, traffic: Traffic, workload: Workload, step: Step, memory_P: NDArray[np.int64]
) -> tuple[RankRow, ...]:
    total = float(workload.cost_P.sum())
    halo_P, sent_P = traffic.halo_rows_P, traffic.rows_PP.sum(axis=1)
    return tuple(
        RankRow(
            rank=p,
            name=rank.name,
            nodes=int(workload.nodes_P[p]),
            edges=int(workload.in_edges_P[p]),
            training_nodes=int(workload.training_nodes_P[p]),
            halo_rows=int(halo_P[p]),
            work=float(workload.cost_P[p]) / rank.speed,
            work_share=float(workload.cost_P[p] / (total * workload.shares_P[p])) if total else 1.0,
            memory_bytes=int(memory_P[p]),
            sent_rows=int(sent_P[p]),
            node_seconds=float(step.node_P[p]),
            packing_seconds=float(step.packing_P[p]),
            local_seconds=float(step.local_P[p]),
            unpacking_seconds=float(step.unpacking_P[p]),
            halo_seconds=float(step.halo_P[p]),
        )
        for p, rank in enumerate(topology.ranks)
    )
