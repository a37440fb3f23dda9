"""The multilevel scheme: coarsen until METIS fits, partition, then uncoarsen and refine level by level.

Each level's communities, clusters as large as a share of a part, are found first. Nodes are then clustered only within
communities (community-aware coarsening: Heuer, Schlag 2017), a few at a time, so that refinement has levels of every
size to work on.

Letters: N nodes, X nodes of a level, E directed edges, P parts, C limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.row_ranges import even_ranges
from graphprep.core.types import Csr, Ids
from graphprep.partition.methods import metis
from graphprep.partition.methods.base import NodeLoad, PartitionProblem
from graphprep.partition.out_of_core import propagation_kernels
from graphprep.partition.out_of_core.coarsest import Division, divide
from graphprep.partition.out_of_core.contraction import contract
from graphprep.partition.out_of_core.passes import Passes
from graphprep.partition.out_of_core.propagation import propagate
from graphprep.partition.out_of_core.refinement import ByWeight, View, improve
from graphprep.partition.refine.refine import OBJECTIVES, weights_and_limits
from graphprep.partition.refine.refine_kernels import Links
from graphprep.system import memory, progress
from graphprep.system.threads import cores
from graphprep.topology import Topology

COMMUNITIES = 4
"""minimum number of communities in a part's share"""
PARTS_OF_A_SHARE = 32
"""a coarse node weighs at most 1/PARTS_OF_A_SHARE of a part's limit"""
GROWTHS = (2.0, 8.0)
"""Most nodes in a cluster, on average. Small clusters make better cuts; large ones are used from the level on that
hardly shrinks by small ones, and on levels of more than FINE_EDGES, where a pass is expensive."""
FINE_EDGES = 1 << 25
SHRINKS = 0.9
"""coarsening ends at a level that keeps more than this share of the finer level's nodes"""
COARSEST_NODES = 1 << 17
"""nodes up to which METIS takes over, if its memory allows"""
LEAST_NODES = 40
"""coarsening ends at this many nodes a part, whatever METIS needs"""
EDGES_A_RANGE, ROWS_A_RANGE = 1 << 22, 1 << 18
INT32_LIMIT = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Sizes that tests and benchmarks reduce."""

    coarsest_nodes: int = COARSEST_NODES
    edges_a_range: int = EDGES_A_RANGE
    rows_a_range: int = ROWS_A_RANGE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """A symmetric graph, what its nodes weigh, and the cluster of each in the next coarser level."""

    graph: Csr
    ranges: Sequence[tuple[int, int]]
    weight_XC: NDArray[np.integer]
    coarse_X: Ids | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Multilevel:
    """One run of the multilevel scheme."""

    shares_P: NDArray[np.float64]
    loads: tuple[NodeLoad, ...]
    """of the finest level; nodes come first"""
    links: Links
    """they are overwritten"""
    topology: Topology | None
    imbalance: float
    seed: int
    effort: str
    minimise: str
    mapped: bool
    """whether parts may be mapped to other ranks"""
    scratch: Path
    memory_limit: int | None = None
    """bytes that this process and its children may use; None for what is free"""
    settings: Settings = field(default_factory=Settings)
    passes: Passes = field(default_factory=Passes)
    """over the edges of all levels"""
    fallbacks: list[str] = field(default_factory=list)
    """why METIS did not partition the coarsest level, if so"""

    def most_PC(self) -> NDArray[np.float64]:
        """What each part may hold of each load that has a limit, nodes first."""
        return limits_of(self.loads, self.shares_P)

    def partition(self, graph: Csr, finest: View | None = None) -> NDArray[np.int32]:
        """The part of each node, int32 [N].

        Args:
            graph: symmetric, no self-loops, no duplicates; arrays may be mapped.
            finest: what links carry on the finest level; None for the weight of edges.
        """
        most_PC = self.most_PC()
        levels = self.coarsen(graph, most_PC)
        part_X = self._divide(levels[-1], most_PC)
        for number in reversed(range(len(levels))):
            level = levels.pop()
            if level.coarse_X is not None:
                part_X = part_X[level.coarse_X]
            view = finest if number == 0 else None
            part_X = self._refined(number, level, view, part_X, most_PC)
        return part_X

    def coarsen(self, graph: Csr, most_PC: NDArray[np.float64]) -> list[Level]:
        """All levels, from the finest to the coarsest."""
        weight_XC = np.stack([_narrow(load.amount_N) for load in limited(self.loads)], axis=1)
        settings, num_nodes = self.settings, graph.num_rows
        levels: list[Level] = []
        growths = list(GROWTHS)
        while True:
            ranges = even_ranges(graph.indptr, settings.edges_a_range, settings.rows_a_range)
            levels.append(Level(graph=graph, ranges=ranges, weight_XC=weight_XC))
            if self._is_small(graph) or graph.num_rows <= LEAST_NODES * len(self.shares_P):
                return levels
            number = len(levels)
            with progress.task(f"level {number}: finding communities of {graph.num_rows:,} nodes"):
                group_X, communities = self._propagate(levels[-1], most_PC.min(axis=0) / COMMUNITIES, None)
            with progress.task(f"level {number}: clustering {graph.num_rows:,} nodes"):
                coarse_X, count = self._cluster(levels[-1], most_PC, group_X, num_nodes, growths)
            if count > SHRINKS * graph.num_rows:
                progress.warn(
                    f"level {number}: clustering {graph.num_rows:,} nodes hardly reduces them, so coarsening ends here"
                )
                return levels
            with progress.task(f"level {number}: contracting {count:,} clusters"):
                coarse = contract(
                    graph,
                    ranges,
                    coarse_X,
                    count,
                    passes=self.passes,
                    level=number,
                    folder=self.scratch,
                    memory_limit=self.memory_limit,
                    memory_bytes=memory.full_budget(self.memory_limit) // 32,
                    seed=self.seed,
                )
            levels[-1] = Level(graph=graph, ranges=ranges, weight_XC=weight_XC, coarse_X=coarse_X)
            coarse_weight_XC = np.zeros((count, weight_XC.shape[1]), np.int64)
            propagation_kernels.add_up(coarse_X, weight_XC, coarse_weight_XC)
            graph, weight_XC = coarse, _narrow(coarse_weight_XC)
            progress.say(
                f"level {number}: {graph.num_rows:,} nodes, {graph.num_edges:,} directed edges "
                f"({communities:,} communities before)"
            )

    def _cluster(
        self, level: Level, most_PC: NDArray[np.float64], group_X: Ids, num_nodes: int, growths: list[float]
    ) -> tuple[Ids, int]:
        """The cluster of each node, and how many there are; removes growths that hardly shrink the level.

        Args:
            level: the coarsest so far.
            most_PC: what the parts may hold.
            group_X: communities, across which no cluster reaches.
            num_nodes: of the finest level.
            growths: the rest of GROWTHS.
        """
        while True:
            growth = growths[0] if level.graph.num_edges <= FINE_EDGES else GROWTHS[-1]
            most_C = most_PC.min(axis=0) / PARTS_OF_A_SHARE
            most_C[0] = min(most_C[0], max(2.0, growth * num_nodes / level.graph.num_rows))
            coarse_X, count = self._propagate(level, most_C, group_X)
            if count <= SHRINKS * level.graph.num_rows or growth == GROWTHS[-1]:
                return coarse_X, count
            growths.pop(0)

    def _propagate(self, level: Level, most_C: NDArray[np.float64], group_X: Ids | None) -> tuple[Ids, int]:
        return propagate(
            level.graph,
            level.ranges,
            level.weight_XC,
            most_C=most_C,
            seed=self.seed,
            passes=self.passes,
            group_X=group_X,
        )

    def _is_small(self, graph: Csr) -> bool:
        """Whether METIS can take it."""
        needed = metis.expected_bytes(graph.num_rows, graph.num_edges)
        return graph.num_rows <= self.settings.coarsest_nodes and needed <= memory.full_budget(self.memory_limit) // 2

    def _divide(self, level: Level, most_PC: NDArray[np.float64]) -> NDArray[np.int32]:
        """The parts of the coarsest level."""
        loads = tuple(
            NodeLoad(what=load.what, amount_N=level.weight_XC[:, c].astype(np.int64), limit=load.limit)
            for c, load in enumerate(limited(self.loads))
        )
        problem = PartitionProblem(
            graph=Csr(
                indptr=np.asarray(level.graph.indptr),
                indices=np.asarray(level.graph.indices),
                data=None if level.graph.data is None else np.asarray(level.graph.data),
                num_sources=level.graph.num_rows,
            ),
            shares_P=self.shares_P,
            loads=loads,
            imbalance=self.imbalance,
            seed=self.seed,
            scratch=self.scratch,
            topology=self.topology,
            fallbacks=self.fallbacks,
        )
        needed = metis.expected_bytes(level.graph.num_rows, level.graph.num_edges)
        at_a_time = max(1, min(cores(), memory.full_budget(self.memory_limit) // needed))
        division = Division(
            links=self.links,
            most_PC=most_PC,
            effort=self.effort,
            minimise=self.minimise,
            workers=at_a_time,
            mapped=self.mapped,
        )
        return divide(problem, level.weight_XC, division)

    def _refined(
        self, number: int, level: Level, view: View | None, part_X: NDArray[np.int32], most_PC: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        if self.effort == "none":
            return part_X
        if view is None:
            view = ByWeight(graph=level.graph, ranges=level.ranges, passes=self.passes)
        with progress.task(f"level {number}: refining {len(part_X):,} nodes", unit="rounds") as task:
            return improve(
                view,
                part_X,
                self.passes.shared(level.weight_XC),
                most_PC,
                self.links,
                objective=OBJECTIVES[self.minimise],
                seed=self.seed,
                advance=task.advance,
            )


def limited(loads: Sequence[NodeLoad]) -> list[NodeLoad]:
    """The load of nodes, and all other loads with a limit that are not all 0."""
    return [loads[0], *(load for load in loads[1:] if np.isfinite(load.limit) and load.amount_N.any())]


def limits_of(loads: Sequence[NodeLoad], shares_P: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [P, C]: what each part may hold of `limited` loads."""
    sums = [
        NodeLoad(what=load.what, amount_N=np.array([load.amount_N.sum(dtype=np.int64)]), limit=load.limit)
        for load in limited(loads)
    ]
    return weights_and_limits(sums, shares_P)[1]


def _narrow(amounts: NDArray[np.integer]) -> NDArray[np.integer]:
    """As int32, if their sum, and so that of any cluster, fits in it."""
    return amounts.astype(np.int32) if amounts.sum(axis=0).max(initial=0) < INT32_LIMIT else amounts
