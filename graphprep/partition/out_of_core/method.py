"""The multilevel partitioner as a `Method`, for graphs that are in memory.

It refines all levels by the weight of edges; what comes after a start knows rows exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.methods.base import PartitionProblem
from graphprep.partition.out_of_core.levels import Multilevel, Settings
from graphprep.partition.refine.legs import links_of
from graphprep.topology import Topology
from graphprep.traffic import LinkModel

ROW_BYTES = 1024
"""of the rows that edges represent; it matters only in relation to the latency of messages"""
BYTES_PER_NODE, BYTES_PER_EDGE = 100, 70
"""of the levels' numbers, of contraction and of METIS on the coarsest level"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilevelMethod:
    """See `Method`."""

    name: str = "multilevel"
    settings: Settings = field(default_factory=Settings)

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:  # noqa: ARG002
        """None: it is always available."""
        return None

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:
        return BYTES_PER_NODE * num_nodes + BYTES_PER_EDGE * num_edges

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """See `Method`."""
        topology = problem.topology or Topology.flat(problem.num_parts)
        run = Multilevel(
            shares_P=problem.shares_P,
            loads=problem.loads,
            links=links_of(LinkModel.of(topology), ROW_BYTES),
            topology=problem.topology,
            imbalance=problem.imbalance,
            seed=problem.seed,
            effort="fast",
            minimise="slowest" if problem.topology is not None else "total",
            mapped=problem.topology is not None,
            scratch=problem.scratch,
            settings=self.settings,
            fallbacks=problem.fallbacks,
        )
        return run.partition(problem.graph)
