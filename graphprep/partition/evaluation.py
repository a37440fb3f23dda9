"""A partitioning task, and the quality of an assignment by the cost model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.partition.batch_weights import BatchWeights
from graphprep.partition.constraints import loads_of
from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.refine.hypergraph import Hypergraph, edge_nets, row_nets
from graphprep.partition.refine.legs import links_of, relayed_seconds
from graphprep.partition.refine.refine import LEAST_LINK_SHARE, ROW_WEIGHT
from graphprep.partition.refine.refine_kernels import Links
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate, PartitionResult
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import memory
from graphprep.topology import Topology
from graphprep.topology.groups import rank_groups
from graphprep.topology.rank_groups import RankGroup, levels
from graphprep.traffic import (
    BatchShape,
    Count,
    LinkModel,
    RowSeconds,
    StepModel,
    assess,
    batch_figures,
    count_traffic,
    fetched_rows,
    memory_of,
    shares_of,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionTask:
    """The graph, the topology and the limits of one partitioning run."""

    graph: WholeGraph
    clean: Csr
    """the whole graph as a symmetric matrix without self-loops and duplicates"""
    topology: Topology
    request: PartitionRequest
    loads: tuple[NodeLoad, ...]
    shares_P: NDArray[np.float64]
    model: LinkModel
    groups: RankGroup | None = None
    """of ranks that rows are passed on in; None for no relays"""
    batches: BatchWeights | None = None
    """where the parts are for mini-batches"""
    memory_limit: int | None = None
    """bytes that this process and those that it starts may hold; None for what is free"""

    @classmethod
    def of(
        cls, graph: WholeGraph, topology: Topology, request: PartitionRequest, *, memory_limit: int | None = None
    ) -> PartitionTask:
        """Make the graph undirected, count loads, and find routes and groups of ranks."""
        groups = None
        shape = batch_shape(request)
        if shape is None and request.relay == "auto" and request.balance == "rows" and request.minimise == "slowest":
            groups = rank_groups(topology)
        clean, batches = csr.undirected_simple(graph.matrix), None
        if shape is not None:
            batches = BatchWeights.of(graph, shape)
            clean = batches.undirected(clean)
        return cls(
            graph=graph,
            clean=clean,
            topology=topology,
            request=request,
            loads=loads_of(graph, imbalance=request.imbalance, limits=request.limits),
            shares_P=shares_of(graph.matrices, graph.matrix.num_rows, topology, request.row_bytes),
            model=LinkModel.of(topology),
            groups=groups if groups is not None and levels(groups) > 1 else None,
            batches=batches,
            memory_limit=memory_limit,
        )

    def with_useful_relays(self, evaluated: list[Evaluated]) -> tuple[PartitionTask, list[Evaluated]]:
        """The task and its partitions as they are, or without relays where those would make none of them faster."""
        if self.batches is not None or any(
            one.link_seconds < one.result.quality.bottleneck_seconds for one in evaluated
        ):
            return self, evaluated
        direct = [Evaluated.without_relays(one.candidate, one.result) for one in evaluated]
        return replace(self, groups=None), direct

    def without_edge_counts(self) -> PartitionTask:
        """The same without the multiplicity of each edge, which only the initial partitions need."""
        clean = Csr(indptr=self.clean.indptr, indices=self.clean.indices, num_sources=self.clean.num_sources)
        return replace(self, clean=clean)

    def available_bytes(self) -> int:
        """Bytes of memory that are still available.

        Raises:
            UsageError: the memory limit is too low to work with.
        """
        return memory.full_budget(self.memory_limit)

    def bytes_N(self) -> NDArray[np.int64]:
        """int64 [N]: what each node adds to its rank's memory, itself and its in-edges."""
        degree_N = np.diff(self.graph.matrix.indptr)
        return memory_of(degree_N, np.ones_like(degree_N), np.zeros_like(degree_N), self.request.row_bytes)

    def nets(self) -> Hypergraph:
        """The hypergraph whose nets are what links carry: rows or edges, by `request.balance`."""
        if self.batches is not None:
            return edge_nets(self.batches.matrix, weighted=True)
        matrix = self.graph.matrix
        if self.request.balance == "edges":
            return edge_nets(matrix)
        return row_nets(matrix, self.clean if csr.is_symmetric(matrix) else None)

    def evaluate(self, candidate: Candidate) -> Evaluated:
        """A candidate with the quality of its assignment."""
        assert candidate.assignment is not None
        result = evaluate_assignment(candidate.assignment, self.graph, self.topology, self.request, self.model)
        figures = result.quality.batches
        if figures is not None:
            seconds = figures.bottleneck_seconds
            return Evaluated(candidate, result, link_seconds=seconds, step_seconds=seconds)
        if self.groups is None:
            return Evaluated.without_relays(candidate, result)
        relayed = relayed_seconds(self.graph.matrix, candidate.assignment, self.links())
        return Evaluated(candidate, result, link_seconds=relayed, step_seconds=result.quality.step_with(relayed))

    def links(self) -> Links:
        """The links for refinement, with relays if the task has groups."""
        units_a_row = 1.0 if self.batches is None else self.batches.units_a_row
        return links_of(self.model, self.request.row_bytes / units_a_row, self.groups)

    def sent(self, assignment_N: NDArray[np.int32]) -> NDArray[np.int64]:
        """int64 [P, P]: what `links` carry from part to part: rows or edges, or units of rows that batches fetch."""
        assignments, num_parts = self.graph.assignments(assignment_N), self.topology.num_ranks
        if self.batches is not None:
            rows_PP = fetched_rows(
                self.graph.matrices, assignments, self.graph.training_masks, num_parts, self.batches.shape
            )
            return np.rint(rows_PP * self.batches.units_a_row).astype(np.int64)
        traffic = count_traffic(self.graph.matrices, assignments, num_parts)
        return traffic.rows_PP if self.request.balance == "rows" else traffic.edges_PP

    def best_first(self, evaluated: Iterable[Evaluated]) -> list[Evaluated]:
        """Sort the best first; equal ones keep their order."""
        return sorted(evaluated, key=lambda one: one.rank(self.request.minimise))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A candidate and its quality."""

    candidate: Candidate
    result: PartitionResult
    link_seconds: float
    """the bottleneck; about that with relays, where the task has groups"""
    step_seconds: float
    """likewise"""

    @classmethod
    def without_relays(cls, candidate: Candidate, result: PartitionResult) -> Evaluated:
        """With every row sent by its owner."""
        quality = result.quality
        return cls(candidate, result, link_seconds=quality.bottleneck_seconds, step_seconds=quality.step_seconds)

    @property
    def bottleneck_seconds(self) -> float:
        """of an exchange without relays, or of a step of mini-batches"""
        return self.link_seconds if self.result.quality.batches is not None else self.result.quality.bottleneck_seconds

    @property
    def row_weight(self) -> float:
        """What one per cent of all halo rows is worth in per cents of the bottleneck, from here on.

        A row is worth as much of the step; the less of a step the links take, the less is gained by faster ones.
        """
        return ROW_WEIGHT / max(self.link_seconds / self.step_seconds, LEAST_LINK_SHARE) if self.step_seconds else 0.0

    def rank(self, minimise: str) -> tuple[float, float, float]:
        """Sort key, lower is better: the excess over the limits in whole per cents, then the objective.

        The objective is the predicted step times the halo rows to the power of ROW_WEIGHT.
        """
        quality = self.result.quality
        excess = sum(limit.value / limit.limit - 1 for limit in quality.limits if not limit.met)
        rows, sum_seconds = float(quality.halo_rows), quality.sum_seconds
        if quality.batches is not None:
            rows, sum_seconds = quality.batches.rows, quality.batches.sum_seconds
        seconds = (self.step_seconds * max(rows, 1) ** ROW_WEIGHT, sum_seconds)
        if minimise == "total":
            seconds = (sum_seconds, self.bottleneck_seconds)
        return (math.ceil(excess * 100), *seconds)


def step_model_of(topology: Topology, request: PartitionRequest) -> StepModel:
    """What each rank takes for a row, by the rates that were measured or those of the topology's devices."""
    measured = None if request.row_seconds is None else RowSeconds.of_measured(request.row_seconds)
    return StepModel.of(topology, request.row_bytes, measured)


def batch_shape(request: PartitionRequest) -> BatchShape | None:
    """The mini-batches that parts are made for; None for the full graph."""
    if request.purpose != "sampling":
        return None
    return BatchShape(fanouts=request.fanouts, batch_size=request.batch_size)


def evaluate_assignment(
    assignment_N: NDArray[np.int32],
    graph: WholeGraph,
    topology: Topology,
    request: PartitionRequest,
    model: LinkModel | None = None,
    *,
    count: Count = count_traffic,
) -> PartitionResult:
    """The traffic and quality of an assignment, int32 [N].

    `model` is the topology's, for callers that evaluate many assignments; `count` counts traffic.
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
        step_model=step_model_of(topology, request),
    )
    shape = batch_shape(request)
    if shape is not None:
        figures = batch_figures(
            graph.matrices,
            assignments,
            graph.training_masks,
            topology,
            shape,
            row_bytes=request.row_bytes,
            model=model,
        )
        quality = replace(quality, batches=figures)
    return PartitionResult(assignment=assignment_N, traffic=traffic, quality=quality)
