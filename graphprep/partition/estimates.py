"""What partitioning will need, told before it starts: memory and time, estimated from counts alone."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.partition.candidates import CANDIDATES
from graphprep.partition.refine.refine import EFFORTS, expected_bytes
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import AUTO
from graphprep.system import memory
from graphprep.system.threads import workers_for
from graphprep.topology import Topology

METIS_EDGES_PER_SECOND = 1.0e6
"""Directed edges that one run of METIS gets through on one core; other methods are not far off or quicker."""
VISITS_PER_SECOND = 2.0e7
"""Nets that refinement visits in a second. Most runs end before they have spent all their visits."""
SECONDS_PER_EDGE = 2e-7
"""of all passes around these"""
BYTES_PER_EDGE, BYTES_PER_NODE = 4, 64
"""of the graph, and of what is kept for each node"""
BYTES_PER_CLEAN_EDGE = {False: 4, True: 16}
"""of the graph made undirected, by whether it is directed as it is given. If not, it is only copied where small
components are set aside; else its edges are counted as well."""

MULTILEVEL = "multilevel"
PASSES_BYTES, PASSES_BYTES_PER_NODE = 700_000_000, 120
"""Memory of a run by passes: of pieces of edges, contraction and METIS on the coarsest level, and of what is kept for
each node beside its masks."""
PASSES_SECONDS_PER_EDGE = {"none": 1.2e-6, "fast": 2.5e-6, "default": 2.5e-6, "best": 2.5e-6}
"""Time of a run by passes, without writing the cache: between 50 and 400 million edges on two cores (docs/scale.md)."""
DIRECTED = 1.5
"""times as long where edges have to be turned around"""
SPILLED_BYTES_PER_EDGE = 16
"""at most, of edges on their way to the next level or to the order inside parts: as they are read, and sorted"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Memory at the same time, and time from the first start to the last refinement."""

    memory_bytes: int
    seconds: float
    scratch_bytes: int = 0
    """of disk, while it runs"""


def is_past_memory(
    request: PartitionRequest,
    *,
    num_nodes: int,
    num_edges: int,
    directed: bool,
    topology: Topology,
    memory_limit: int | None = None,
) -> bool:
    """Whether a graph is partitioned by passes over its edges, since in memory there is not room for all that it takes.

    Only where the method is left open, or is the one that can do so. Arguments as for `expected`.
    """
    if request.method not in ("auto", MULTILEVEL) or topology.num_ranks == 1:
        return False
    both_ways = num_edges * (2 if directed else 1)
    effort_bytes = 0 if request.effort == "none" else _run_bytes(request, num_nodes, both_ways)
    methods = AUTO[request.effort] if request.method == "auto" else (request.method,)
    start_bytes = min(CANDIDATES[name].expected_bytes(num_nodes, both_ways) for name in methods)
    graph_bytes = _graph_bytes(num_nodes, num_edges, directed=directed)
    return graph_bytes + max(start_bytes, effort_bytes) > memory.full_budget(memory_limit)


def expected_past_memory(
    request: PartitionRequest, *, num_nodes: int, num_edges: int, directed: bool, topology: Topology
) -> Expected:
    """Estimate a run by passes over the edges. Arguments as for `expected`."""
    words = -(-topology.num_ranks // 64)
    both_ways = num_edges * (2 if directed else 1)
    seconds = PASSES_SECONDS_PER_EDGE[request.effort] * both_ways * (DIRECTED if directed else 1)
    return Expected(
        memory_bytes=PASSES_BYTES + num_nodes * (PASSES_BYTES_PER_NODE + 16 * words),
        seconds=seconds,
        scratch_bytes=SPILLED_BYTES_PER_EDGE * both_ways + num_edges * (4 + (20 if directed else 0)),
    )


def _graph_bytes(num_nodes: int, num_edges: int, *, directed: bool) -> int:
    clean_edges = num_edges * (2 if directed else 1)
    return num_edges * BYTES_PER_EDGE + clean_edges * BYTES_PER_CLEAN_EDGE[directed] + num_nodes * BYTES_PER_NODE


def _run_bytes(request: PartitionRequest, num_nodes: int, both_ways: int) -> int:
    """Of one run of refinement."""
    return expected_bytes(num_nodes, both_ways if request.balance == "edges" else num_nodes, both_ways)


def expected(
    request: PartitionRequest,
    *,
    num_nodes: int,
    num_edges: int,
    directed: bool,
    topology: Topology,
    memory_limit: int | None = None,
    is_given: bool = False,
) -> Expected:
    """Estimate a run.

    Args:
        request: what is asked.
        num_nodes, num_edges: of all types; edges as the store has them.
        directed: whether the partitioner has to add reverse edges.
        topology: which the parts are for.
        memory_limit: bytes that the run may hold; None for what is free.
        is_given: whether the only start was made elsewhere.
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
        runs_at_a_time = min(runs_at_a_time, effort.starts_of(both_ways))
        refining_bytes = runs_at_a_time * run_bytes
        visits = max(effort.visits * 2 * both_ways, effort.least_visits)
        refining_seconds = effort.runs(both_ways) * visits / VISITS_PER_SECOND / runs_at_a_time
    graph_bytes = _graph_bytes(num_nodes, num_edges, directed=directed)
    start_seconds = starts / max(1, starts_at_a_time) * both_ways / METIS_EDGES_PER_SECOND
    return Expected(
        memory_bytes=graph_bytes + max(native_bytes * starts_at_a_time, refining_bytes),
        seconds=both_ways * SECONDS_PER_EDGE + start_seconds + refining_seconds,
    )
