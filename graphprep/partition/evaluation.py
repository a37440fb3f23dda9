"""What is to be partitioned, and what an assignment of it is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.partition.constraints import loads_of
from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.refine.hypergraph import Hypergraph, edge_nets, row_nets
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate, PartitionResult
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import memory
from graphprep.topology import Topology
from graphprep.traffic import (
    Count,
    LinkModel,
    assess,
    count_traffic,
    memory_of,
    shares_of,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What is to be partitioned and for what."""

    graph: WholeGraph
    clean: Csr
    """the whole graph made square, symmetric, without self-loops and duplicates; itself where it is all that"""
    topology: Topology
    request: PartitionRequest
    loads: tuple[NodeLoad, ...]
    shares_P: NDArray[np.float64]
    model: LinkModel
    memory_limit: int | None = None
    """bytes that this process and those that it starts may hold; None for what is free"""

    @classmethod
    def of(
        cls, graph: WholeGraph, topology: Topology, request: PartitionRequest, *, memory_limit: int | None = None
    ) -> Task:
        """Make the graph undirected, count loads and find routes."""
        return cls(
            graph=graph,
            clean=csr.undirected_simple(graph.matrix),
            topology=topology,
            request=request,
            loads=loads_of(graph, imbalance=request.imbalance, limits=request.limits),
            shares_P=shares_of(graph.matrices, graph.matrix.num_rows, topology, request.row_bytes),
            model=LinkModel.of(topology),
            memory_limit=memory_limit,
        )

    def without_counts(self) -> Task:
        """The same without how many edges stand behind each clean one, which only the methods that make starts need."""
        clean = Csr(indptr=self.clean.indptr, indices=self.clean.indices, num_sources=self.clean.num_sources)
        return replace(self, clean=clean)

    def room(self) -> int:
        """Bytes that may still be taken.

        Raises:
            UsageError: the limit leaves too little to work with.
        """
        return memory.free(self.memory_limit)

    def bytes_N(self) -> NDArray[np.int64]:
        """int64 [N]: what each node adds to its rank's memory, itself and its in-edges."""
        degree_N = np.diff(self.graph.matrix.indptr)
        return memory_of(degree_N, np.ones_like(degree_N), np.zeros_like(degree_N), self.request.row_bytes)

    def nets(self) -> Hypergraph:
        """What the seconds of links count, rows or edges, as nets."""
        matrix = self.graph.matrix
        if self.request.balance == "edges":
            return edge_nets(matrix)
        return row_nets(matrix, self.clean if csr.is_symmetric(matrix) else None)

    def judged(self, candidate: Candidate) -> Evaluated:
        """A candidate that has an assignment, with what that is worth."""
        assert candidate.assignment is not None
        return Evaluated(candidate, judge(candidate.assignment, self.graph, self.topology, self.request, self.model))

    def in_order(self, ways: Iterable[Evaluated]) -> list[Evaluated]:
        """The best first; of equals the earliest."""
        return sorted(ways, key=lambda way: way.rank(self.request.minimise))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """An assignment and what it is worth."""

    candidate: Candidate
    result: PartitionResult

    def rank(self, minimise: str) -> tuple[float, float, float]:
        """The smaller the better: by how much limits are broken, in whole per cents, then seconds."""
        quality = self.result.quality
        excess = sum(limit.value / limit.limit - 1 for limit in quality.limits if not limit.met)
        seconds = (quality.bottleneck_seconds, quality.sum_seconds)
        return (math.ceil(excess * 100), *(seconds[::-1] if minimise == "total" else seconds))


def judge(
    assignment_N: NDArray[np.int32],
    graph: WholeGraph,
    topology: Topology,
    request: PartitionRequest,
    model: LinkModel | None = None,
    *,
    count: Count = count_traffic,
) -> PartitionResult:
    """An assignment (int32 [N]) with its traffic and quality.

    `model` is that of the topology, where many assignments are judged; `count` is how traffic is counted.
    """
    assignments = graph.assignments(assignment_N)
    traffic = count(graph.matrices, assignments, topology.num_ranks)
    quality = assess(
        graph.matrices,
        assignments,
        topology,
        row_bytes=request.row_bytes,
        balance=request.balance,
        imbalance=request.imbalance,
        limits=request.limits,
        training_masks=graph.training_masks,
        traffic=traffic,
        model=model,
    )
    return PartitionResult(assignment=assignment_N, traffic=traffic, quality=quality)
