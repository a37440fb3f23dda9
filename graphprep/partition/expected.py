"""What partitioning will need, told before it starts: memory and time, estimated from counts alone."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep import memory
from graphprep.partition.candidates import CANDIDATES
from graphprep.partition.choose import AUTO
from graphprep.partition.refine import EFFORTS, expected_bytes
from graphprep.partition.request import PartitionRequest
from graphprep.side_by_side import workers_for
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Memory at the same time, and time from the first start to the last refinement."""

    memory_bytes: int
    seconds: float


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
    room = memory.free(memory_limit)
    native_bytes = max((CANDIDATES[name].expected_bytes(num_nodes, both_ways) for name in methods), default=0)
    starts = sum(methods.values())
    starts_at_a_time = min(workers_for(native_bytes, room), starts)
    refining_bytes, refining_seconds = 0, 0.0
    if request.effort != "none" and topology.num_ranks > 1:
        effort = EFFORTS[request.effort]
        run_bytes = expected_bytes(num_nodes, both_ways if request.balance == "edges" else num_nodes, both_ways)
        runs_at_a_time = workers_for(run_bytes, room)
        runs_at_a_time = min(runs_at_a_time, effort.starts_of(both_ways))
        refining_bytes = runs_at_a_time * run_bytes
        visits = max(effort.visits * 2 * both_ways, effort.least_visits)
        refining_seconds = effort.runs(both_ways) * visits / VISITS_PER_SECOND / runs_at_a_time
    graph_bytes = num_edges * BYTES_PER_EDGE + both_ways * BYTES_PER_CLEAN_EDGE[directed] + num_nodes * BYTES_PER_NODE
    start_seconds = starts / max(1, starts_at_a_time) * both_ways / METIS_EDGES_PER_SECOND
    return Expected(
        memory_bytes=graph_bytes + max(native_bytes * starts_at_a_time, refining_bytes),
        seconds=both_ways * SECONDS_PER_EDGE + start_seconds + refining_seconds,
    )
