"""Starts are made, laid on the ranks, refined, combined, judged by the cost model, and the best is kept.

    start          every method that was asked for, or those of AUTO for the effort
    mapping        which part goes to which rank
    population     the best starts are refined, then combined

What can run side by side does, as far as cores and memory go; the result does not depend on how many do. A method that
memory does not suffice for is left out and named.

Best is: as few limits broken as possible, then the lowest bottleneck, then the lowest sum of link seconds; or the sum
before the bottleneck, where that is to be minimised.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np
from numpy.typing import NDArray

from graphprep.core.fallback import Fallback
from graphprep.core.types import Csr
from graphprep.errors import PartitionError
from graphprep.partition.candidates import CANDIDATES, PreparedGraph
from graphprep.partition.evaluation import Task
from graphprep.partition.external_assignment import ASSIGNMENT
from graphprep.partition.recombination import Recombination
from graphprep.partition.refine.mapping import best_mapping
from graphprep.partition.refine.refine import links_of
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate, PartitionResult
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import memory, progress
from graphprep.system.threads import side_by_side, workers_for
from graphprep.topology import Topology
from graphprep.traffic import count_traffic

AUTO = {
    "none": {"metis": 1, "metis-recursive": 1},
    "fast": {"metis-balanced": 1},
    "default": {"metis": 1, "metis-hierarchical": 1},
    "best": {
        "metis": 3,
        "metis-recursive": 3,
        "metis-balanced": 2,
        "metis-hierarchical": 2,
        "metis-volume": 1,
        "mtkahypar": 1,
    },
}
"""The starts of --method auto by effort, and how many seeds each is drawn with; one that is of no use here, or whose
library is not installed, is left out."""
SPARING = ("kaminpar", "ldg")
"""What takes their place where memory is too small for METIS; the first that can be had and fits."""
UNEVEN = 0.5
"""Deviation of the nodes' in-edges over their mean, above which METIS has to balance edges as well as nodes."""
MESH_DEGREE = 12.0
"""Mean in-edges up to which METIS by volume is worth its time, if they are even: it wins on meshes, and on others takes
up to 85 times as long as by cut."""


def partition(
    graph: WholeGraph,
    topology: Topology,
    request: PartitionRequest,
    *,
    scratch: Path,
    given: NDArray[np.int32] | None = None,
    memory_limit: int | None = None,
) -> tuple[PartitionResult, Csr]:
    """Assign each node to a rank of the topology.

    Args:
        graph: nodes of one or several types.
        topology: one part is made for each of its ranks.
        request: method, effort and limits.
        scratch: an existing folder for temporary files.
        memory_limit: bytes that all of this may hold; None for what is free. What does not fit is not tried.
        given: int32 [N], the only start if an assignment was made elsewhere; it is not laid on other ranks.

    Returns:
        The result, and the clean undirected graph that it was made from (the order inside parts needs it again).

    Raises:
        PartitionError: there are more parts than nodes.
    """
    num_parts, num_nodes = topology.num_ranks, graph.matrix.num_rows
    fallback: Fallback | None = None
    require_enough_nodes(num_parts, num_nodes)
    with progress.task("making the graph undirected for the partitioner"):
        task = Task.of(graph, topology, request, memory_limit=memory_limit)
    if num_parts == 1:
        tried = [Candidate(method="one-part", seconds=0.0, assignment=np.zeros(num_nodes, np.int32))]
        judged = [task.judged(tried[0])]
    else:
        kept = None if given is None else Candidate(method=ASSIGNMENT, seconds=0.0, assignment=given)
        tried, fallback = _starts(task, scratch) if kept is None else ([kept], None)
        task = task.without_counts()
        memory.give_back()
        judged = task.in_order(task.judged(start) for start in tried if start.assignment is not None)
        if request.effort != "none":
            refined = Recombination.of(task).grown(judged)
            judged += refined
            tried += [way.candidate for way in refined]
    best = task.in_order(judged)[0]
    qualities = {way.candidate.method: way.result.quality for way in judged}
    rows = tuple(candidate.summary(qualities.get(candidate.method)) for candidate in tried)
    return replace(best.result, method=best.candidate.method, tried=rows, fallback=fallback), task.clean


def require_enough_nodes(num_parts: int, num_nodes: int) -> None:
    """Raises:
    PartitionError: there are more parts than nodes.
    """
    if num_parts > num_nodes:
        raise PartitionError(
            f"{num_parts} parts for {num_nodes} nodes: each rank needs a node; use a topology with fewer ranks, "
            "or fewer --parts"
        )


def starts_of(request: PartitionRequest, topology: Topology, in_degree_N: NDArray[np.int64]) -> dict[str, int]:
    """The methods that a request begins with, on a graph whose nodes have so many in-edges, and how often each."""
    if request.method != "auto":
        return {request.method: 1}
    named = dict(AUTO[request.effort])
    is_uneven = in_degree_N.std() > UNEVEN * in_degree_N.mean()
    if request.effort == "default" and "in-edges" in request.limits and is_uneven:
        named = {"metis-balanced" if name == "metis" else name: draws for name, draws in named.items()}
    if is_uneven or in_degree_N.mean() > MESH_DEGREE:
        named.pop("metis-volume", None)
    useful = {
        name: draws for name, draws in named.items() if CANDIDATES[name].needs(topology.num_ranks, topology) is None
    }
    return useful or {"ldg": 1}


def _starts(task: Task, scratch: Path) -> tuple[list[Candidate], Fallback | None]:
    """Every method that was asked for; where all of them die, LDG with a warning that says why."""
    cancelled = Event()
    with progress.task("setting small components aside"):
        prepared = PreparedGraph.of(
            task.clean,
            task.loads,
            shares_P=task.shares_P,
            request=task.request,
            scratch=scratch,
            topology=task.topology,
            cancelled=cancelled,
        )
    room = task.room()
    methods, needed, left_out, fallback = _that_fit(task, room)
    if prepared.problem.graph.num_rows <= task.topology.num_ranks and methods.keys() - {"ldg"}:
        progress.say("no more nodes have neighbours than there are parts; LDG places them, whatever the method")
    try:
        starts = side_by_side(
            [partial(_start, task, prepared, name, draw) for name, draws in methods.items() for draw in range(draws)],
            workers=workers_for(needed, room),
        )
    finally:
        cancelled.set()
    if all(start.assignment is None for start in starts):
        progress.warn("no method came through; falling back to the streaming partitioner LDG, whose cut is larger")
        reasons = [start.failure for start in starts if start.failure]
        fallback = Fallback(wanted=tuple(methods), used="ldg", reason=reasons[0] if reasons else "no parts")
        starts.append(_start(task, prepared, "ldg"))
    return [*left_out, *starts], fallback or Fallback.of_coarsest_level(prepared.problem.fallbacks)


def _that_fit(task: Task, room: int) -> tuple[dict[str, int], int, list[Candidate], Fallback | None]:
    """The starts that memory is enough for.

    Returns:
        How often each is drawn, what the largest of them needs in bytes, those that are left out, and whether others
        take the place of all of them.
    """
    methods = starts_of(task.request, task.topology, np.diff(task.graph.matrix.indptr))
    num_parts, nodes, edges = task.topology.num_ranks, task.clean.num_rows, task.clean.num_edges
    needs = {name: CANDIDATES[name].expected_bytes(nodes, edges) for name in (*methods, *SPARING)}
    fit = {name: draws for name, draws in methods.items() if needs[name] <= room}
    is_auto, left_out, fallback = task.request.method == "auto", [], None
    for name in methods:
        if name in fit:
            continue
        reason = (
            f"would need about {progress.format_bytes(needs[name])} of memory, and {progress.format_bytes(room)} "
            "are free"
        )
        progress.warn(f"{name} {reason}; it {'is left out' if is_auto else 'may run out of memory'}")
        if is_auto:
            left_out.append(Candidate(method=name, seconds=0.0, failure=reason))
    if is_auto and methods.keys() == {"ldg"}:
        wanted = tuple(AUTO[task.request.effort])
        missing = (CANDIDATES[name].needs(num_parts, task.topology) for name in wanted)
        fallback = Fallback(wanted=wanted, used="ldg", reason=next(filter(None, missing), "they cannot be had"))
        progress.warn(fallback.sentence)
    elif is_auto and not fit:
        had = (name for name in SPARING if CANDIDATES[name].needs(num_parts, task.topology) is None)
        sparing = next(name for name in had if needs[name] <= room or name == "ldg")
        fit = {sparing: 1}
        progress.warn(f"{sparing} takes their place")
        least = min(needs[name] for name in methods)
        fallback = Fallback(
            wanted=tuple(methods), used=sparing, reason="memory was too small for them", memory_bytes=least
        )
    chosen = fit or methods
    return chosen, max(needs[name] for name in chosen), left_out, fallback


def _start(task: Task, prepared: PreparedGraph, method: str, draw: int = 0) -> Candidate:
    started = time.monotonic()
    name = f"{method} #{draw + 1}" if draw else method
    try:
        assignment = prepared.assign(method, draw=draw)
        if task.request.effort != "none":
            assignment = _mapped(task, assignment)
    except PartitionError as error:
        progress.warn(f"{name}: {error}")
        return Candidate(method=name, seconds=time.monotonic() - started, failure=str(error))
    return Candidate(method=name, seconds=time.monotonic() - started, assignment=assignment)


def _mapped(task: Task, assignment_N: NDArray[np.int32]) -> NDArray[np.int32]:
    """The parts, each on the rank that suits it."""
    graph, request = task.graph, task.request
    traffic = count_traffic(graph.matrices, graph.assignments(assignment_N), task.topology.num_ranks)
    rank_P = best_mapping(
        traffic.rows_PP if request.balance == "rows" else traffic.edges_PP,
        links_of(task.model, request.row_bytes),
        task.shares_P,
        seed=request.seed,
        by_total=request.minimise == "total",
    )
    return rank_P[assignment_N]
