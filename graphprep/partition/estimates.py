"""Estimates of the memory and time of a partitioning run, from the numbers of nodes and edges alone."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.partition.candidates import CANDIDATES
from graphprep.partition.refine.refine import EFFORTS, expected_bytes
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import AUTO
from graphprep.system import memory
from graphprep.system.threads import kernel_threads, workers_for
from graphprep.topology import Topology

METIS_EDGES_PER_SECOND = 1.0e6
"""Directed edges that one run of METIS gets through on one core; other methods are not far off or quicker."""
VISITS_PER_SECOND = 2.0e7
"""Nets that refinement visits in a second. Most runs end before they have spent all their visits."""
SEQUENTIAL_SHARE = 0.3
"""of the time of a run of refinement, which one thread spends on moves and coarse levels; all cores share the rest"""
SECONDS_PER_EDGE = 2e-7
"""of all other passes over the edges"""
BYTES_PER_EDGE, BYTES_PER_NODE = 4, 64
"""of the graph, and of the arrays with one entry a node"""
BYTES_PER_CLEAN_EDGE = {False: 4, True: 16}
"""of the undirected graph, by whether the dataset's graph is directed. If it is not, it is only copied where small
components are set aside; if it is, the multiplicity of its edges is stored as well."""

MULTILEVEL = "multilevel"
OUT_OF_CORE_BYTES, OUT_OF_CORE_BYTES_PER_NODE = 700_000_000, 120
"""Memory of an out-of-core run: pieces of edges, contraction and METIS on the coarsest level, and the arrays with one
entry a node, beside the masks."""
OUT_OF_CORE_SECONDS_PER_EDGE = {"none": 1.2e-6, "fast": 2.5e-6, "default": 2.5e-6, "best": 2.5e-6}
"""Time of an out-of-core run, without writing the cache, for 50 to 400 million edges on two cores (docs/scale.md)."""
DIRECTED = 1.5
"""times as long where edges have to be reversed"""
SPILLED_BYTES_PER_EDGE = 16
"""at most, of temporary files with the edges of the next level or of the order inside parts, unsorted and sorted"""
BYTES_PER_WEIGHT = 44
"""of an edge where the parts are for mini-batches: its weight as it is counted and as a whole number, and both ways"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Peak memory, and time from the first initial partition to the last refinement."""

    memory_bytes: int
    seconds: float
    scratch_bytes: int = 0
    """of disk, during the run"""


def needs_out_of_core(
    request: PartitionRequest,
    *,
    num_nodes: int,
    num_edges: int,
    directed: bool,
    topology: Topology,
    memory_limit: int | None = None,
) -> bool:
    """Whether a graph is partitioned out of core, because memory is too small for the in-memory methods.

    Only for --method auto and multilevel. Arguments as for `estimate`.
    """
    if request.method not in ("auto", MULTILEVEL) or topology.num_ranks == 1:
        return False
    both_ways = num_edges * (2 if directed else 1)
    effort_bytes = 0 if request.effort == "none" else _run_bytes(request, num_nodes, both_ways)
    methods = AUTO[request.effort] if request.method == "auto" else (request.method,)
    start_bytes = min(CANDIDATES[name].expected_bytes(num_nodes, both_ways) for name in methods)
    graph_bytes = _graph_bytes(request, num_nodes, num_edges, directed=directed)
    return graph_bytes + max(start_bytes, effort_bytes) > memory.full_budget(memory_limit)


def estimate_out_of_core(
    request: PartitionRequest, *, num_nodes: int, num_edges: int, directed: bool, topology: Topology
) -> Estimate:
    """Estimate an out-of-core run. Arguments as for `estimate`."""
    words = -(-topology.num_ranks // 64)
    both_ways = num_edges * (2 if directed else 1)
    seconds = OUT_OF_CORE_SECONDS_PER_EDGE[request.effort] * both_ways * (DIRECTED if directed else 1)
    return Estimate(
        memory_bytes=OUT_OF_CORE_BYTES + num_nodes * (OUT_OF_CORE_BYTES_PER_NODE + 16 * words),
        seconds=seconds,
        scratch_bytes=SPILLED_BYTES_PER_EDGE * both_ways + num_edges * (4 + (20 if directed else 0)),
    )


def _graph_bytes(request: PartitionRequest, num_nodes: int, num_edges: int, *, directed: bool) -> int:
    clean_edges = num_edges * (2 if directed else 1)
    weights = num_edges * BYTES_PER_WEIGHT if request.purpose == "sampling" else 0
    return (
        weights + num_edges * BYTES_PER_EDGE + clean_edges * BYTES_PER_CLEAN_EDGE[directed] + num_nodes * BYTES_PER_NODE
    )


def _run_bytes(request: PartitionRequest, num_nodes: int, both_ways: int) -> int:
    """Of one run of refinement."""
    counts_edges = request.balance == "edges" or request.purpose == "sampling"
    return expected_bytes(num_nodes, both_ways if counts_edges else num_nodes, both_ways)


def estimate(
    request: PartitionRequest,
    *,
    num_nodes: int,
    num_edges: int,
    directed: bool,
    topology: Topology,
    memory_limit: int | None = None,
    is_given: bool = False,
) -> Estimate:
    """Estimate a run.

    Args:
        request: method, effort and limits.
        num_nodes, num_edges: of all types; edges as the store has them.
        directed: whether the partitioner has to add reverse edges.
        topology: one part is made for each of its ranks.
        memory_limit: bytes that the run may hold; None for what is free.
        is_given: whether an assignment made elsewhere is the only initial partition.
    """
    both_ways = num_edges * (2 if directed else 1)
    methods = AUTO[request.effort] if request.method == "auto" else {request.method: 1}
    if is_given or topology.num_ranks == 1:
        methods = {}
    methods = {
        name: draws for name, draws in methods.items() if CANDIDATES[name].needs(topology.num_ranks, topology) is None
    }
    room = memory.full_budget(memory_limit)
    native_bytes = max((CANDIDATES[name].expected_bytes(num_nodes, both_ways) for name in methods), default=0)
    starts = sum(methods.values())
    starts_at_a_time = min(workers_for(native_bytes, room), starts)
    refining_bytes, refining_seconds = 0, 0.0
    if request.effort != "none" and topology.num_ranks > 1:
        effort = EFFORTS[request.effort]
        run_bytes = _run_bytes(request, num_nodes, both_ways)
        runs_at_a_time = workers_for(run_bytes, room)
        runs_at_a_time = min(runs_at_a_time, effort.num_refined(both_ways))
        refining_bytes = runs_at_a_time * run_bytes
        visits = max(effort.visits * 2 * both_ways, effort.least_visits)
        share = SEQUENTIAL_SHARE + (1 - SEQUENTIAL_SHARE) * runs_at_a_time / max(runs_at_a_time, kernel_threads())
        refining_seconds = effort.runs(both_ways) * visits / VISITS_PER_SECOND * share / runs_at_a_time
    graph_bytes = _graph_bytes(request, num_nodes, num_edges, directed=directed)
    start_seconds = starts / max(1, starts_at_a_time) * both_ways / METIS_EDGES_PER_SECOND
    return Estimate(
        memory_bytes=graph_bytes + max(native_bytes * starts_at_a_time, refining_bytes),
        seconds=both_ways * SECONDS_PER_EDGE + start_seconds + refining_seconds,
    )
