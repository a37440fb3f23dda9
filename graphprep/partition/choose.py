"""Starts are made one after another, laid on the ranks, refined, judged by the cost model, and the best is kept.

    start        every method that was asked for, or those of AUTO for the effort
    mapping      which part goes to which rank
    refinement   of the best starts, under all limits

Best is: as few limits broken as possible, then the lowest bottleneck, then the lowest sum of link seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep import csr, progress
from graphprep.errors import PartitionError
from graphprep.graph import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.partition.candidates import CANDIDATES, PreparedGraph, node_loads
from graphprep.partition.given import ASSIGNMENT
from graphprep.partition.mapping import best_mapping
from graphprep.partition.nets import Nets, edge_nets, row_nets
from graphprep.partition.refine import EFFORTS, Refinement, links_of, weights_and_limits
from graphprep.partition.request import Candidate, PartitionRequest, PartitionResult
from graphprep.topology import Topology
from graphprep.traffic import LinkModel, Quality, Traffic, assess, count_traffic, speed_shares

AUTO = {
    "none": ("metis", "metis-recursive"),
    "fast": ("metis-balanced",),
    "default": ("metis", "metis-hierarchical"),
    "best": ("metis", "metis-recursive", "metis-balanced", "metis-hierarchical", "metis-volume"),
}
"""The starts of --method auto by effort; one that is of no use here is left out."""
UNEVEN = 0.5
"""Deviation of the nodes' in-edges over their mean, above which METIS has to balance edges as well as nodes."""
REFINED = {"none": 0, "fast": 1, "default": 1, "best": 3}
"""How many of the starts are refined, by effort."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What is to be partitioned and for what."""

    matrix: Csr
    """in-edges as the store has them"""
    clean: Csr
    """square, symmetric, no self-loops, no duplicates"""
    topology: Topology
    request: PartitionRequest
    train_mask: NDArray[np.bool_] | None
    scratch: Path
    model: LinkModel

    @property
    def shares_P(self) -> NDArray[np.float64]:
        return speed_shares(self.topology)

    def nets(self) -> Nets:
        """What the seconds of links count, rows or edges, as nets."""
        if self.request.balance == "edges":
            return edge_nets(self.matrix)
        return row_nets(self.matrix, self.clean if csr.is_symmetric(self.matrix) else None)


def partition(
    matrix: Csr,
    topology: Topology,
    request: PartitionRequest,
    *,
    train_mask: NDArray[np.bool_] | None,
    scratch: Path,
    given: NDArray[np.int32] | None = None,
) -> tuple[PartitionResult, Csr]:
    """Assign each node to a rank of the topology.

    Args:
        matrix: in-edges of a homogeneous graph, N x N.
        topology: one part is made for each of its ranks.
        request: method, effort and limits.
        train_mask: bool [N], for the balance of training nodes, or None.
        scratch: an existing folder for temporary files.
        given: int32 [N], the only start if an assignment was made elsewhere; it is not laid on other ranks.

    Returns:
        The result, and the clean undirected graph that it was made from (the order inside parts needs it again).

    Raises:
        PartitionError: there are more parts than nodes.
    """
    num_parts = topology.num_ranks
    require_enough_nodes(num_parts, matrix.num_rows)
    with progress.task("making the graph undirected for the partitioner"):
        clean = csr.undirected_simple(matrix)
    task = Task(
        matrix=matrix,
        clean=clean,
        topology=topology,
        request=request,
        train_mask=train_mask,
        scratch=scratch,
        model=LinkModel.of(topology),
    )
    if num_parts == 1:
        tried = [Candidate(method="one-part", seconds=0.0, assignment=np.zeros(matrix.num_rows, np.int32))]
    elif given is not None:
        tried = [Candidate(method=ASSIGNMENT, seconds=0.0, assignment=given)]
    else:
        with progress.task("setting small components aside"):
            prepared = PreparedGraph.of(
                clean,
                shares_P=task.shares_P,
                request=request,
                scratch=scratch,
                in_degree_N=np.diff(matrix.indptr),
                train_mask=train_mask,
                topology=topology,
            )
        tried = list(_starts(task, prepared))
    judged = [
        (candidate, judge(candidate.assignment, matrix, topology, request, train_mask, task.model))
        for candidate in tried
        if candidate.assignment is not None
    ]
    if num_parts > 1:
        refined = list(_refined(task, sorted(judged, key=lambda pair: _order_of(pair[1].quality))))
        judged += refined
        tried += [candidate for candidate, _ in refined]
    best, result = min(judged, key=lambda pair: _order_of(pair[1].quality))
    qualities = {candidate.method: found.quality for candidate, found in judged}
    rows = tuple(candidate.summary(qualities.get(candidate.method)) for candidate in tried)
    return replace(result, method=best.method, tried=rows), clean


def require_enough_nodes(num_parts: int, num_nodes: int) -> None:
    """Raises:
    PartitionError: there are more parts than nodes.
    """
    if num_parts > num_nodes:
        raise PartitionError(
            f"{num_parts} parts for {num_nodes} nodes: each rank needs a node; use a topology with fewer ranks, "
            "or fewer --parts"
        )


def judge(
    assignment_N: NDArray[np.int32],
    matrix: Csr,
    topology: Topology,
    request: PartitionRequest,
    train_mask: NDArray[np.bool_] | None,
    model: LinkModel | None = None,
) -> PartitionResult:
    """An assignment (int32 [N]) with its traffic and quality; arguments as for `partition`.

    `model` is that of the topology, where many assignments are judged.
    """
    matrices, assignments = {HOMOGENEOUS_EDGE: matrix}, {HOMOGENEOUS_NODE: assignment_N}
    traffic = count_traffic(matrices, assignments, topology.num_ranks)
    quality = assess(
        matrices,
        assignments,
        topology,
        row_bytes=request.row_bytes,
        balance=request.balance,
        imbalance=request.imbalance,
        training_masks=None if train_mask is None else {HOMOGENEOUS_NODE: train_mask},
        traffic=traffic,
        model=model,
    )
    return PartitionResult(assignment=assignment_N, traffic=traffic, quality=quality)


def starts_of(request: PartitionRequest, topology: Topology, in_degree_N: NDArray[np.int64]) -> tuple[str, ...]:
    """The methods that a request begins with, on a graph whose nodes have so many in-edges."""
    if request.method != "auto":
        return (request.method,)
    named = AUTO[request.effort]
    if request.effort == "default" and in_degree_N.std() > UNEVEN * in_degree_N.mean():
        named = tuple("metis-balanced" if name == "metis" else name for name in named)
    useful = tuple(name for name in named if CANDIDATES[name].needs(topology.num_ranks, topology) is None)
    return useful or ("ldg",)


def _starts(task: Task, prepared: PreparedGraph) -> Iterator[Candidate]:
    """Every method that was asked for; where all of them die, LDG with a warning that says why."""
    found = False
    for method in starts_of(task.request, task.topology, np.diff(task.matrix.indptr)):
        candidate = _start(task, prepared, method)
        found |= candidate.assignment is not None
        yield candidate
    if not found:
        progress.warn("no method came through; falling back to the streaming partitioner LDG, whose cut is larger")
        yield _start(task, prepared, "ldg")


def _start(task: Task, prepared: PreparedGraph, method: str) -> Candidate:
    started = time.monotonic()
    try:
        assignment = prepared.assign(method)
        if task.request.effort != "none":
            assignment = _mapped(task, assignment)
    except PartitionError as error:
        progress.warn(f"{method}: {error}")
        return Candidate(method=method, seconds=time.monotonic() - started, failure=str(error))
    return Candidate(method=method, seconds=time.monotonic() - started, assignment=assignment)


def _mapped(task: Task, assignment_N: NDArray[np.int32]) -> NDArray[np.int32]:
    """The parts, each on the rank that suits it."""
    traffic = count_traffic({HOMOGENEOUS_EDGE: task.matrix}, {HOMOGENEOUS_NODE: assignment_N}, task.topology.num_ranks)
    links = links_of(task.model, task.request.row_bytes)
    rank_P = best_mapping(_units(traffic, task.request), links, task.shares_P, seed=task.request.seed)
    return rank_P[assignment_N]


def _units(traffic: Traffic, request: PartitionRequest) -> NDArray[np.int64]:
    return traffic.rows_PP if request.balance == "rows" else traffic.edges_PP


def _refined(
    task: Task, starts: list[tuple[Candidate, PartitionResult]]
) -> Iterator[tuple[Candidate, PartitionResult]]:
    """The best starts, refined; `starts` in order, the best first."""
    request = task.request
    count = REFINED[request.effort]
    if not count:
        return
    effort, nets = EFFORTS[request.effort], task.nets()
    loads = node_loads(
        task.clean,
        imbalance=request.imbalance,
        in_degree_N=np.diff(task.matrix.indptr),
        train_mask=task.train_mask,
    )
    weight_NC, most_PC = weights_and_limits(loads, task.shares_P)
    for candidate, found in starts[:count]:
        started = time.monotonic()
        with progress.task(f"refining the parts of {candidate.method}", unit="visits") as shown:
            refinement = Refinement(
                links_of(task.model, request.row_bytes), most_PC, effort, request.seed, advance=shown.advance
            )
            assignment = refinement.run(nets, found.assignment, weight_NC)
        yield (
            Candidate(method=f"{candidate.method}, refined", seconds=time.monotonic() - started, assignment=assignment),
            judge(assignment, task.matrix, task.topology, request, task.train_mask, task.model),
        )


def _order_of(quality: Quality) -> tuple[int, float, float]:
    broken = sum(not limit.met for limit in quality.limits)
    return broken, quality.bottleneck_seconds, quality.sum_seconds
