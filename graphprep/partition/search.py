"""Make initial partitions by several methods, map them to ranks, refine and combine them, and return the best.

    initial        the requested method, or those of AUTO for the effort
    mapping        part to rank (refine.mapping)
    refinement     the best initial partitions are refined, then combined (recombination)

Runs are parallel as far as cores and memory allow; the result does not depend on how many run at a time. A method that
needs more memory than is available is left out with a warning.

The best partition exceeds the limits least, then has the lowest bottleneck, then the lowest sum of link seconds; with
`--minimise total` the sum comes before the bottleneck.
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
from graphprep.partition.evaluation import PartitionTask
from graphprep.partition.external_assignment import ASSIGNMENT
from graphprep.partition.recombination import Recombination
from graphprep.partition.refine.mapping import best_mapping
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate, PartitionResult
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import memory, progress
from graphprep.system.threads import side_by_side, workers_for
from graphprep.topology import Topology

AUTO = {
    "none": {"metis": 1, "metis-recursive": 1},
    "fast": {"metis-balanced": 1},
    "default": {"metis": 2},
    "best": {
        "metis": 3,
        "metis-recursive": 3,
        "metis-balanced": 2,
        "metis-hierarchical": 2,
        "metis-volume": 1,
        "mtkahypar": 1,
    },
}
"""The initial methods of --method auto by effort, and with how many seeds each runs. One that does not apply, or whose
library is not installed, is left out."""
LOW_MEMORY_METHODS = ("kaminpar", "ldg")
"""Used instead where memory is too small for METIS: the first that is installed and fits."""
UNEVEN = 0.5
"""Deviation of the nodes' in-edges over their mean, above which METIS has to balance edges as well as nodes."""
MESH_DEGREE = 12.0
"""Mean in-degree up to which METIS by volume is used, if degrees are even: it is better on meshes, and on other graphs
takes up to 85 times as long as by cut."""


def partition(
    graph: WholeGraph,
    topology: Topology,
    request: PartitionRequest,
    *,
    scratch: Path,
    external_N: NDArray[np.int32] | None = None,
    memory_limit: int | None = None,
) -> tuple[PartitionResult, Csr]:
    """Assign each node to a rank of the topology.

    Args:
        graph: nodes of one or several types.
        topology: one part is made for each of its ranks.
        request: method, effort and limits.
        scratch: an existing folder for temporary files.
        memory_limit: bytes that this process and its children may use; None for what is free.
        external_N: int32 [N], an assignment made elsewhere, the only initial partition; its parts keep their ranks.

    Returns:
        The result, and the clean undirected graph that it was made from (the order inside parts needs it again).

    Raises:
        PartitionError: there are more parts than nodes.
    """
    num_parts, num_nodes = topology.num_ranks, graph.matrix.num_rows
    fallback: Fallback | None = None
    require_enough_nodes(num_parts, num_nodes)
    with progress.task("making the graph undirected for the partitioner"):
        task = PartitionTask.of(graph, topology, request, memory_limit=memory_limit)
    if num_parts == 1:
        candidates = [Candidate(method="one-part", seconds=0.0, assignment=np.zeros(num_nodes, np.int32))]
        evaluated = [task.evaluate(candidates[0])]
    else:
        external = None if external_N is None else Candidate(method=ASSIGNMENT, seconds=0.0, assignment=external_N)
        candidates, fallback = _initial_partitions(task, scratch) if external is None else ([external], None)
        task = task.without_edge_counts()
        memory.give_back()
        starts = [task.evaluate(start) for start in candidates if start.assignment is not None]
        task, starts = task.with_useful_relays(starts)
        evaluated = task.best_first(starts)
        if request.effort != "none":
            refined = Recombination.of(task).run(evaluated)
            evaluated += refined
            candidates += [one.candidate for one in refined]
    best = task.best_first(evaluated)[0]
    qualities = {one.candidate.method: one.result.quality for one in evaluated}
    rows = tuple(candidate.summary(qualities.get(candidate.method)) for candidate in candidates)
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


def initial_methods(request: PartitionRequest, topology: Topology, in_degree_N: NDArray[np.int64]) -> dict[str, int]:
    """The initial methods of a request on a graph with these in-degrees, and with how many seeds each runs."""
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


def _initial_partitions(task: PartitionTask, scratch: Path) -> tuple[list[Candidate], Fallback | None]:
    """Run the requested methods; if all of them fail, LDG, with a warning that says why."""
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
    available_bytes = task.available_bytes()
    methods, needed, left_out, fallback = _methods_that_fit(task, available_bytes)
    if prepared.problem.graph.num_rows <= task.topology.num_ranks and methods.keys() - {"ldg"}:
        progress.say("no more nodes have neighbours than there are parts, so LDG places them whatever the --method")
    try:
        starts = side_by_side(
            [
                partial(_initial_partition, task, prepared, name, draw)
                for name, draws in methods.items()
                for draw in range(draws)
            ],
            workers=workers_for(needed, available_bytes),
        )
    finally:
        cancelled.set()
    if all(start.assignment is None for start in starts):
        progress.warn("every method failed; falling back to the streaming partitioner LDG, whose cut is larger")
        reasons = [start.failure for start in starts if start.failure]
        fallback = Fallback(wanted=tuple(methods), used="ldg", reason=reasons[0] if reasons else "no parts")
        starts.append(_initial_partition(task, prepared, "ldg"))
    return [*left_out, *starts], fallback or Fallback.of_coarsest_level(prepared.problem.fallbacks)


def _methods_that_fit(
    task: PartitionTask, available_bytes: int
) -> tuple[dict[str, int], int, list[Candidate], Fallback | None]:
    """The initial methods that memory suffices for.

    Returns:
        The number of seeds of each, the bytes that the largest of them needs, the methods left out, and the fallback if
        others replace all of them.
    """
    methods = initial_methods(task.request, task.topology, np.diff(task.graph.matrix.indptr))
    num_parts, nodes, edges = task.topology.num_ranks, task.clean.num_rows, task.clean.num_edges
    needs = {name: CANDIDATES[name].expected_bytes(nodes, edges) for name in (*methods, *LOW_MEMORY_METHODS)}
    fit = {name: draws for name, draws in methods.items() if needs[name] <= available_bytes}
    is_auto, left_out, fallback = task.request.method == "auto", [], None
    for name in methods:
        if name in fit:
            continue
        needed, free = progress.format_bytes(needs[name]), progress.format_bytes(available_bytes)
        reason = f"would need about {needed} of memory, and {free} are free"
        progress.warn(f"{name} {reason}; it {'is left out' if is_auto else 'may run out of memory'}")
        if is_auto:
            left_out.append(Candidate(method=name, seconds=0.0, failure=reason))
    if is_auto and methods.keys() == {"ldg"}:
        wanted = tuple(AUTO[task.request.effort])
        missing = (CANDIDATES[name].needs(num_parts, task.topology) for name in wanted)
        fallback = Fallback(wanted=wanted, used="ldg", reason=next(filter(None, missing), "they are not available"))
        progress.warn(fallback.sentence)
    elif is_auto and not fit:
        installed = (name for name in LOW_MEMORY_METHODS if CANDIDATES[name].needs(num_parts, task.topology) is None)
        smaller = next(name for name in installed if needs[name] <= available_bytes or name == "ldg")
        fit = {smaller: 1}
        progress.warn(f"{smaller} is used instead")
        least = min(needs[name] for name in methods)
        fallback = Fallback(
            wanted=tuple(methods), used=smaller, reason="memory was too small for them", memory_bytes=least
        )
    chosen = fit or methods
    return chosen, max(needs[name] for name in chosen), left_out, fallback


def _initial_partition(task: PartitionTask, prepared: PreparedGraph, method: str, draw: int = 0) -> Candidate:
    started = time.monotonic()
    name = f"{method} #{draw + 1}" if draw else method
    try:
        assignment = prepared.assign(method, draw=draw)
        if task.request.effort != "none":
            assignment = _map_to_ranks(task, assignment)
    except PartitionError as error:
        progress.warn(f"{name}: {error}")
        return Candidate(method=name, seconds=time.monotonic() - started, failure=str(error))
    return Candidate(method=name, seconds=time.monotonic() - started, assignment=assignment)


def _map_to_ranks(task: PartitionTask, assignment_N: NDArray[np.int32]) -> NDArray[np.int32]:
    """Assign each part to the rank that minimises the objective."""
    rank_P = best_mapping(
        task.sent(assignment_N),
        replace(task, groups=None).links(),
        task.shares_P,
        seed=task.request.seed,
        by_total=task.request.minimise == "total",
    )
    return rank_P[assignment_N]
