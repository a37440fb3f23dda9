"""Out-of-core partitioning and ordering: the steps of the in-memory run, as passes over edges in files.

Letters: N nodes, P parts.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.blocks import NodeLayout
from graphprep.cache.edge_buckets import EdgeBuckets, bucket_by_part
from graphprep.core.fallback import Fallback
from graphprep.core.row_ranges import even_ranges
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeType, Rows
from graphprep.partition.constraints import loads_of
from graphprep.partition.evaluation import evaluate_assignment
from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.ordering.order import order_of_part
from graphprep.partition.out_of_core.levels import Multilevel, Settings
from graphprep.partition.out_of_core.mapped_graph import MappedGraph
from graphprep.partition.out_of_core.passes import Passes
from graphprep.partition.out_of_core.refinement import ByRows, ByWeight, View
from graphprep.partition.refine.legs import links_of
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate, PartitionResult
from graphprep.partition.search import require_enough_nodes
from graphprep.system import memory, progress
from graphprep.system.executor import Executor, Threads
from graphprep.topology import Topology
from graphprep.traffic import SHARE_BEFORE_HALO, Count, LinkModel, capacities, count_in_order, memory_of, shares_of

METHOD = "multilevel"
BYTES_OF_A_NODE, BYTES_OF_AN_EDGE = 80, 4
"""of a part during ordering"""
MOST_PIECE_BYTES = 32_000_000


def partition_out_of_core(
    graph: MappedGraph,
    topology: Topology,
    request: PartitionRequest,
    *,
    scratch: Path,
    memory_limit: int | None,
    count: Count = count_in_order,
    passes: Passes | None = None,
    settings: Settings | None = None,
) -> PartitionResult:
    """Assign each node to a rank.

    Args:
        graph: in files.
        topology: one part is made for each of its ranks.
        request: effort, seed and limits; the method is the multilevel one.
        scratch: an existing folder for temporary files.
        memory_limit: bytes that this process and its children may use; None for what is free.
        count: how traffic is counted.
        passes: over the edges; None for threads.
        settings: sizes of levels and ranges; only tests and benchmarks change them.

    Raises:
        NoRoomError: the disk is full.
        PartitionError: there are more parts than nodes.
    """
    require_enough_nodes(topology.num_ranks, graph.whole.matrix.num_rows)
    whole, settings = graph.whole, settings or Settings()
    passes = passes or Passes(executor=Threads(memory_limit=memory_limit))
    model, started = LinkModel.of(topology), time.monotonic()
    shares_P = shares_of(whole.matrices, whole.matrix.num_rows, topology, request.row_bytes)
    loads = loads_of(whole, imbalance=request.imbalance, limits=request.limits)
    run = Multilevel(
        shares_P=shares_P,
        loads=(*loads, *_memory_load(graph, topology, request, shares_P)),
        links=links_of(model, request.row_bytes),
        topology=topology,
        imbalance=request.imbalance,
        seed=request.seed,
        effort=request.effort,
        minimise=request.minimise,
        mapped=True,
        scratch=scratch,
        memory_limit=memory_limit,
        settings=settings,
        passes=passes,
    )
    part_N = (
        np.zeros(whole.matrix.num_rows, np.int32)
        if topology.num_ranks == 1
        else run.partition(graph.clean, _finest(graph, request, settings, passes))
    )
    fallback = Fallback.of_coarsest_level(run.fallbacks)
    del run
    candidate = Candidate(method=METHOD, seconds=time.monotonic() - started, assignment=part_N)
    with progress.task("counting rows and edges between parts"):
        result = evaluate_assignment(part_N, whole, topology, request, model, count=count)
    return replace(result, method=METHOD, tried=(candidate.summary(result.quality),), fallback=fallback)


def _finest(graph: MappedGraph, request: PartitionRequest, settings: Settings, passes: Passes) -> View:
    """What links carry on the finest level: rows or edges, by `request.balance`."""

    def ranges(indptr: NDArray[np.int64]) -> list[tuple[int, int]]:
        return even_ranges(indptr, settings.edges_a_range, settings.rows_a_range)

    if request.balance == "edges":
        return ByWeight(graph=graph.clean, ranges=ranges(graph.clean.indptr), passes=passes)
    return ByRows(
        graph.out,
        graph.into,
        out_ranges=ranges(graph.out.indptr),
        in_ranges=ranges(graph.into.indptr),
        passes=passes,
    )


def _memory_load(
    graph: MappedGraph, topology: Topology, request: PartitionRequest, shares_P: NDArray[np.float64]
) -> tuple[NodeLoad, ...]:
    """The load of memory that nodes add to their ranks, if ranks state their memory."""
    capacity_P = capacities(topology)
    if capacity_P is None:
        return ()
    degree_N = np.diff(graph.whole.matrix.indptr)
    bytes_N = memory_of(degree_N, np.ones_like(degree_N), np.zeros_like(degree_N), request.row_bytes)
    target_P = shares_P * bytes_N.sum()
    # The rank with the least memory for its share sets the limit of all.
    limit = float((SHARE_BEFORE_HALO * capacity_P / target_P).min())
    return (NodeLoad(what="memory", amount_N=bytes_N, limit=max(limit, request.imbalance)),)


def order_out_of_core(
    graph: MappedGraph,
    assignment_N: NDArray[np.int32],
    num_parts: int,
    *,
    scratch: Path,
    memory_limit: int | None,
    executor: Executor | None = None,
) -> list[NDArray[np.int64]]:
    """The nodes of each part, ordered for locality: as `locality_order`, from one pass over the edges.

    Args:
        graph: in files.
        assignment_N: int32 [N].
        num_parts: P.
        scratch: an existing folder, for the edges by part.
        memory_limit: bytes that this process may hold; None for half of what is free.
        executor: of the parts; None for threads. Its workers reach `scratch` under the same path.
    """
    executor = executor or Threads(memory_limit=memory_limit)
    clean, folder = graph.clean, scratch / "order"
    by_part_N = np.argsort(assignment_N, kind="stable")
    nodes_P = np.split(by_part_N, np.cumsum(np.bincount(assignment_N, minlength=num_parts))[:-1])
    room = memory.budget(memory_limit)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    regions = bucket_by_part(
        _Edges(clean),
        HOMOGENEOUS_EDGE,
        NodeLayout.from_order(assignment_N, nodes_P),
        folder,
        piece_bytes=min(MOST_PIECE_BYTES, room // 16),
    )
    largest = max(map(len, nodes_P), default=0)
    needed = BYTES_OF_A_NODE * largest + BYTES_OF_AN_EDGE * int(np.diff(regions.first_edge_P).max(initial=0))
    needed += clean.num_rows * clean.indices.itemsize
    with progress.task("ordering nodes inside parts", total=num_parts, unit="parts") as task:
        order_P = []
        for order_n in executor.map(_ordered, range(num_parts), regions, assignment_N, needed=needed):
            order_P.append(order_n)
            task.advance()
    shutil.rmtree(folder)
    return order_P


def _ordered(part: int, regions: EdgeBuckets, assignment_N: NDArray[np.int32]) -> NDArray[np.int64]:
    """The nodes of a part in order."""
    nodes_n = np.flatnonzero(assignment_N == part)
    local_N = np.empty(len(assignment_N), regions.indices_E.dtype)
    return order_of_part(regions.matrix(part), np.arange(len(nodes_n)), nodes_n, part, assignment_N, local_N)


@dataclass(frozen=True, slots=True)
class _Edges:
    """A square matrix as a source of edges of one type."""

    matrix: Csr

    @property
    def num_nodes(self) -> dict[str, int]:
        return {HOMOGENEOUS_NODE: self.matrix.num_rows}

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        return {HOMOGENEOUS_EDGE: self.matrix.num_edges}

    def is_weighted(self, edge_type: EdgeType) -> bool:  # noqa: ARG002
        return False

    def indptr(self, edge_type: EdgeType) -> NDArray[np.int64]:  # noqa: ARG002
        return self.matrix.indptr

    def csr_rows(self, edge_type: EdgeType, start: int, stop: int) -> Csr:  # noqa: ARG002
        offsets = np.asarray(self.matrix.indptr[start : stop + 1])
        return Csr(
            indptr=offsets - offsets[0],
            indices=self.matrix.indices[offsets[0] : offsets[-1]],
            num_sources=self.matrix.num_sources,
        )

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def edge_array(self, edge_type: EdgeType, name: str) -> Rows:
        raise KeyError(f"{edge_type.key} has no {name}")
