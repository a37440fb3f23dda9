"""How a graph is partitioned and its nodes are put in order: with all edges in memory, or by passes over files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.source import GraphSource
from graphprep.core.types import Csr, EdgeType
from graphprep.partition.evaluation import evaluate_assignment
from graphprep.partition.ordering.order import locality_order
from graphprep.partition.out_of_core.driver import order_out_of_core, partition_out_of_core
from graphprep.partition.out_of_core.mapped_graph import MappedGraph
from graphprep.partition.out_of_core.passes import Passes
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import PartitionResult
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import progress
from graphprep.system.executor import Executor, Threads
from graphprep.topology import Topology
from graphprep.traffic import Assignments, Count, Matrices, Traffic, count_in_order
from graphprep.traffic.counts_by_ranges import count_by_ranges

Parts = tuple[PartitionResult, list[NDArray[np.int64]]]
"""the assignment, and each part's nodes in order"""


class PartitionSource(GraphSource, Protocol):
    """A graph that can be partitioned: a store, or a cache put together again."""

    def require_unchanged(self, prefix: str) -> None:
        """Compare the arrays whose paths begin so with their checksums; others are compared while they are copied."""

    @property
    def key(self) -> str:
        """Over all that determined the graph."""

    def csr(self, edge_type: EdgeType) -> Csr:
        """All in-edges of one type in memory."""


def whole_graph(source: PartitionSource) -> WholeGraph:
    """What is partitioned of a source, in memory."""
    return WholeGraph.of(
        {kind: source.csr(kind) for kind in source.num_edges},
        source.num_nodes,
        training_masks={
            node_type: np.asarray(stored[:])[:, 0]
            for node_type in source.num_nodes
            if (stored := source.node_array(node_type, "train_mask")) is not None
        },
    )


class Engine(Protocol):
    """A way to partition one graph for one topology."""

    @property
    def graph(self) -> WholeGraph: ...

    def evaluate(self, assignment_N: NDArray[np.int32]) -> PartitionResult:
        """An assignment with its traffic and quality."""

    def partition(self, scratch: Path) -> Parts:
        """Make an assignment. `scratch` is an existing folder for temporary files."""


@dataclass(frozen=True, slots=True)
class InMemoryEngine:
    """With all edges in memory."""

    graph: WholeGraph
    topology: Topology
    request: PartitionRequest
    memory_limit: int | None
    external_N: NDArray[np.int32] | None
    """the only start, if an assignment was made elsewhere"""

    def evaluate(self, assignment_N: NDArray[np.int32]) -> PartitionResult:
        return evaluate_assignment(assignment_N, self.graph, self.topology, self.request)

    def partition(self, scratch: Path) -> Parts:
        result, clean = partition(
            self.graph,
            self.topology,
            self.request,
            scratch=scratch,
            external_N=self.external_N,
            memory_limit=self.memory_limit,
        )
        with progress.task("ordering nodes inside parts"):
            return result, locality_order(clean, result.assignment, self.topology.num_ranks)


@dataclass(frozen=True, slots=True)
class OutOfCoreEngine:
    """With the edges in files."""

    mapped: MappedGraph
    topology: Topology
    request: PartitionRequest
    memory_limit: int | None
    count: Count
    passes: Passes

    @classmethod
    def of(
        cls,
        source: PartitionSource,
        topology: Topology,
        request: PartitionRequest,
        memory_limit: int | None,
        *,
        scratch: Path,
        executor: Executor | None,
    ) -> OutOfCoreEngine:
        """Write the edges of a source to files.

        Args:
            scratch: an existing folder for them.
            executor: of the passes; None for threads.
        """
        progress.say("the graph is partitioned by passes over its edges, which do not fit in memory with all they need")
        executor = executor or Threads(memory_limit=memory_limit)
        passes = Passes.of(executor, scratch)

        def count(_: Matrices, assignments: Assignments, num_parts: int) -> Traffic:
            return count_by_ranges(source, assignments, num_parts, executor)

        mapped = MappedGraph.of(source, scratch, memory_limit=memory_limit, passes=passes)
        counting = count if executor.is_elsewhere else count_in_order
        return cls(mapped, topology, request, memory_limit, counting, passes)

    @property
    def graph(self) -> WholeGraph:
        return self.mapped.whole

    def evaluate(self, assignment_N: NDArray[np.int32]) -> PartitionResult:
        return evaluate_assignment(assignment_N, self.graph, self.topology, self.request, count=self.count)

    def partition(self, scratch: Path) -> Parts:
        result = partition_out_of_core(
            self.mapped,
            self.topology,
            self.request,
            scratch=scratch,
            memory_limit=self.memory_limit,
            count=self.count,
            passes=self.passes,
        )
        return result, order_out_of_core(
            self.mapped,
            result.assignment,
            self.topology.num_ranks,
            scratch=scratch,
            memory_limit=self.memory_limit,
            executor=self.passes.executor,
        )
