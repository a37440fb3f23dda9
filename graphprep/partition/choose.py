"""Candidates are made one after another, judged by the cost model, and the best is kept.

Best is: as few limits broken as possible, then the lowest bottleneck, then the lowest sum of link seconds.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep import csr, progress
from graphprep.errors import PartitionError
from graphprep.graph import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.partition.candidates import assign
from graphprep.partition.request import Candidate, PartitionRequest, PartitionResult
from graphprep.topology import Topology
from graphprep.traffic import Quality, assess, count_traffic

AUTO = ("metis", "metis-recursive")


def partition(
    matrix: Csr,
    topology: Topology,
    request: PartitionRequest,
    *,
    train_mask: NDArray[np.bool_] | None,
    scratch: Path,
) -> tuple[PartitionResult, Csr]:
    """Assign each node to a rank of the topology.

    Args:
        matrix: in-edges of a homogeneous graph, N x N.
        topology: one part is made for each of its ranks.
        request: method and limits.
        train_mask: bool [N], for the balance of training nodes, or None.
        scratch: an existing folder for temporary files.

    Returns:
        The result, and the clean undirected graph that it was made from (the order inside parts needs it again).

    Raises:
        PartitionError: there are more parts than nodes.
    """
    num_parts = topology.num_ranks
    require_enough_nodes(num_parts, matrix.num_rows)
    with progress.task("making the graph undirected for the partitioner"):
        clean = csr.undirected_simple(matrix)
    if num_parts == 1:
        candidates = [Candidate(method="one-part", seconds=0.0, assignment=np.zeros(matrix.num_rows, np.int32))]
    else:
        candidates = _candidates(clean, topology, request, scratch)
    judged = [
        (candidate, judge(candidate.assignment, matrix, topology, request, train_mask))
        for candidate in candidates
        if candidate.assignment is not None
    ]
    best, result = min(judged, key=lambda pair: _order_of(pair[1].quality))
    qualities = {candidate.method: found.quality for candidate, found in judged}
    tried = tuple(candidate.summary(qualities.get(candidate.method)) for candidate in candidates)
    return replace(result, method=best.method, tried=tried), clean


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
) -> PartitionResult:
    """An assignment (int32 [N]) with its traffic and quality; arguments as for `partition`."""
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
    )
    return PartitionResult(assignment=assignment_N, traffic=traffic, quality=quality)


def _candidates(clean: Csr, topology: Topology, request: PartitionRequest, scratch: Path) -> list[Candidate]:
    """Every method that was asked for; where all of them die, LDG with a warning that says why."""
    speed_P = np.array([rank.speed for rank in topology.ranks])
    shares_P = speed_P / speed_P.sum()
    candidates = []
    for method in AUTO if request.method == "auto" else (request.method,):
        started = time.monotonic()
        try:
            assignment = assign(method, clean, shares_P=shares_P, request=request, scratch=scratch)
        except PartitionError as error:
            progress.warn(f"{method}: {error}")
            candidates.append(Candidate(method=method, seconds=time.monotonic() - started, failure=str(error)))
        else:
            candidates.append(Candidate(method=method, seconds=time.monotonic() - started, assignment=assignment))
    if all(candidate.assignment is None for candidate in candidates):
        progress.warn("no method came through; falling back to the streaming partitioner LDG, whose cut is larger")
        started = time.monotonic()
        assignment = assign("ldg", clean, shares_P=shares_P, request=request, scratch=scratch)
        candidates.append(Candidate(method="ldg", seconds=time.monotonic() - started, assignment=assignment))
    return candidates


def _order_of(quality: Quality) -> tuple[int, float, float]:
    broken = sum(not limit.met for limit in quality.limits)
    return broken, quality.bottleneck_seconds, quality.sum_seconds
