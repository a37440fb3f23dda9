"""Multilevel refinement: nodes move between parts to minimise the seconds of the slowest link direction.

    relieve      parts above a limit give nodes away, first those whose move costs least; where a limit is far
                 exceeded, as after the speed of a rank has changed, coarse nodes leave first, level by level
    levels       the graph is coarsened level by level (`coarsen`); from the coarsest back to the finest, a level is
                 annealed if it is small, and then improved move by move until almost no node moves

To combine two assignments, nodes are clustered only where both have them in one part. So nodes on which the two agree
move together, and on the coarse levels the first takes over improvements from the second (Sanders, Schulz:
Distributed evolutionary graph partitioning, 2012, combine partitions so).

All levels work on a hypergraph (`hypergraph`), which has the exact rows of the cost model, and on all limits. Nodes are
renumbered by cluster first, so that the nets of successive visits are in the processor's cache, which makes visits four
times as fast.

The budget of a run is a number of visits to nets, not seconds, so that a seed gives the same parts on a busy machine.

Letters: N nodes, X nodes of a level, P parts, C limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.refine import link_loads, parallel
from graphprep.partition.refine import refine_kernels as kernels
from graphprep.partition.refine.coarsen import cluster, shuffled_blocks
from graphprep.partition.refine.hypergraph import Hypergraph, contract, renumbered
from graphprep.partition.refine.refine_kernels import Links, Pins, State

NODES_A_CLUSTER = 8
COARSEST = 40
"""coarsening ends at this many nodes a part"""
PARTS_OF_A_SHARE = 20
"""a coarse node weighs at most 1/PARTS_OF_A_SHARE of a part's limit"""
SHRINKS = 0.85
"""coarsening ends at a level that keeps more than this share of the finer level's nodes"""
COOLER = 0.4
"""factor of the temperature from one generation to the next"""
SAMPLED_NODES = 2000
"""nodes by whose gains the first temperature is set"""
ROUNDS = 8
SETTLED = 0.001
"""rounds end when fewer than this share of the visited nodes move"""
SAMPLE, LEAST_SAMPLE = 0.125, 1000
"""share of the boundary nodes that are visited first, and their least number: where almost none of them moves, the
others are not visited"""
RELIEF_ROUNDS = 30
FAR_OVER = 0.05
"""a part that exceeds a limit by a greater share is relieved of coarse nodes first, which hang together"""
RELIEF_STEP, STEPS_OF_RELIEF = 0.02, 150
"""the share of a coarse level's nodes that leave before their gains are found anew, and how often that is done"""
RELIEVED_IN_STEPS = 20_000
"""nodes of a level up to which they leave in such steps; on finer ones little is left to move"""
LOCALITY_CLUSTER = 1000
"""nodes in a cluster of the renumbering, about one L2 cache of them"""
BYTES_PER_PIN, BYTES_PER_NET, BYTES_PER_NODE = 20, 45, 112
"""memory of one run of refinement beyond the graph: pins on the finest and all coarse levels, of one level the nets
that each node is in and slots as well; offsets and heads; weights of nodes, and arrays for coarsening"""


def expected_bytes(num_nodes: int, num_nets: int, num_pins: int) -> int:
    """Memory that one run will need for nets of this size."""
    return BYTES_PER_NODE * num_nodes + BYTES_PER_NET * num_nets + BYTES_PER_PIN * num_pins


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The objective, as the kernels read it."""

    steps: tuple[int, ...]
    """binary logarithms of the norm's power K, one pass after another"""
    row_weight: float
    """per cents of the bottleneck that one per cent of all halo rows is worth"""
    heat: float
    """the first temperature of annealing, in units of the mean gain of boundary nodes"""


ROW_WEIGHT = 0.5
"""One per cent fewer halo rows is worth half a per cent of the step, and so of the bottleneck where links take it all.
A row takes memory and time at both ends, whichever link it crosses; a norm that only considers the slowest link would
carry any number of them on the others."""

LEAST_LINK_SHARE = 0.125
"""The share of a step below which links do not count for less."""

OBJECTIVES = {
    "slowest": Objective(steps=(3, 4), row_weight=ROW_WEIGHT, heat=0.5),
    "total": Objective(steps=(0,), row_weight=0.0, heat=1.0),
}
"""By --minimise. For the slowest link K is first 8 and then 16, since the steeper norm alone considers only that link.
The sum of all links is the norm with K = 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The budget of refinement."""

    starts: int
    """how many of the initial partitions are refined"""
    small_starts: int
    """the same for graphs of at most `small_pins` pins"""
    small_pins: int
    visits: float
    """to nets in one run, as a multiple of all pins, after which no new round begins"""
    least_visits: int
    """the same for small graphs, as a number"""
    annealed_pins: int
    """pins up to which a level is annealed"""
    annealing_rounds: int
    cooling: float = 0.9
    """factor of the temperature from one round to the next"""
    combines: bool = False
    """whether refined partitions are combined"""
    heat: float = 1.0
    """factor of the objective's first temperature: hotter annealing finds more, and takes more rounds to cool"""

    def num_refined(self, num_pins: int) -> int:
        """How many initial partitions are refined."""
        return self.small_starts if num_pins <= self.small_pins else self.starts

    def without_annealing(self) -> Effort:
        """The same with improving moves only, so that no run ends worse than it began."""
        return replace(self, annealing_rounds=0)

    def runs(self, num_pins: int) -> int:
        """The number of runs of refinement, combinations included."""
        starts = self.num_refined(num_pins)
        return starts * (starts + 1) // 2 if self.combines else starts


ANNEALING_SHARE = 0.7
"""of the visits may be spent on annealing, so that some are left for improving moves and finer levels"""

EFFORTS = {
    "fast": Effort(
        starts=1,
        small_starts=1,
        small_pins=0,
        visits=4,
        least_visits=1_000_000,
        annealed_pins=0,
        annealing_rounds=0,
    ),
    "default": Effort(
        starts=1,
        small_starts=2,
        small_pins=300_000,
        visits=8,
        least_visits=5_000_000,
        annealed_pins=100_000,
        annealing_rounds=20,
        cooling=0.85,
    ),
    "best": Effort(
        starts=3,
        small_starts=6,
        small_pins=200_000,
        visits=200,
        least_visits=100_000_000,
        annealed_pins=400_000,
        annealing_rounds=60,
        combines=True,
        heat=2.0,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """The hypergraph of a coarse level, its node weights, and the coarse node of each node of the finer level."""

    nets: Hypergraph
    weight_XC: NDArray[np.float64]
    coarse_X: NDArray[np.int32]
    """int32 [X of the finer level]"""


class Refinement:
    """Refinement on one topology: the state that all levels share."""

    def __init__(
        self,
        links: Links,
        most_PC: NDArray[np.float64],
        *,
        effort: Effort,
        objective: Objective,
        seed: int,
        advance: Callable[[int], None] = lambda _: None,
        threads: Executor | None = None,
    ) -> None:
        """Prepare for runs on one topology.

        Args:
            links: they are overwritten.
            most_PC: float64 [P, C], the limits of each part.
            effort: the budget.
            objective: one of OBJECTIVES.
            seed: of all random choices.
            advance: called with numbers of visits.
            threads: that look for moves beside this one, which makes them; the assignment does not depend on them.
        """
        self.links, self.most_PC, self.effort, self.objective = links, most_PC, effort, objective
        self.advance, self.threads = advance, threads
        self.rng = np.random.default_rng(seed)
        self.scratch = parallel.scratch_for(links)
        self.visits = 0
        self.most_visits = 0
        self.has_annealed = False
        """whether a level was annealed in the last run"""

    def run(
        self,
        nets: Hypergraph,
        part_N: NDArray[np.int32],
        weight_NC: NDArray[np.float64],
        *,
        other_N: NDArray[np.int32] | None = None,
        generation: int = 0,
    ) -> NDArray[np.int32]:
        """The refined assignment, int32 [N]; `part_N` is not changed.

        Args:
            nets: of the whole graph.
            part_N: int32 [N], the assignment to begin with.
            weight_NC: float64 [N, C], the weights of each node.
            other_N: int32 [N], an assignment to combine it with.
            generation: number of runs that `part_N` has been through; later ones start at a lower temperature.
        """
        self.most_visits = int(max(self.effort.visits * 2 * len(nets.pins), self.effort.least_visits))
        self.has_annealed = False
        heat = self.effort.heat * self.objective.heat * COOLER**generation
        order_N = self._locality_order(nets, part_N)
        part_X, weight_XC = part_N[order_N], weight_NC[order_N]
        finest = renumbered(nets, order_N)
        limits = link_loads.limits_of(part_X, weight_XC, self.most_PC)
        is_far_over = link_loads.greatest_excess(limits) > FAR_OVER
        if not is_far_over:
            self._relieve(finest, part_X, weight_XC)
        levels, part_X = self._coarse_levels(finest, part_X, weight_XC, None if other_N is None else other_N[order_N])
        kept = None if levels else finest
        del finest  # It is made again when it is its turn: that is quick, and coarse levels need the room.
        while levels:
            level = levels.pop()
            if is_far_over:
                step = RELIEF_STEP if level.nets.num_nodes <= RELIEVED_IN_STEPS else 1.0
                self._relieve(level.nets, part_X, level.weight_XC, step=step)
            self._improve(level.nets, part_X, level.weight_XC, heat)
            part_X = part_X[level.coarse_X]
            del level
        finest = kept or renumbered(nets, order_N)
        if is_far_over:
            self._relieve(finest, part_X, weight_XC)
        self._improve(finest, part_X, weight_XC, heat)
        self._relieve(finest, part_X, weight_XC)
        refined_N = np.empty_like(part_X)
        refined_N[order_N] = part_X
        return refined_N

    def _locality_order(self, nets: Hypergraph, part_N: NDArray[np.int32]) -> NDArray[np.int64]:
        """int64 [N]: the nodes by part, and within it by cluster."""
        cluster_N, _ = cluster(
            nets,
            part_N,
            np.empty((nets.num_nodes, 0)),
            most_C=np.empty(0),
            nodes_a_cluster=LOCALITY_CLUSTER,
            seed=int(self.rng.integers(2**31)),
            threads=self.threads,
        )
        return np.lexsort((cluster_N, part_N))

    def _coarse_levels(
        self,
        nets: Hypergraph,
        part_X: NDArray[np.int32],
        weight_XC: NDArray[np.float64],
        other_X: NDArray[np.int32] | None,
    ) -> tuple[list[Level], NDArray[np.int32]]:
        """All levels above the finest, the coarsest last, and the assignment on the coarsest level."""
        num_parts = len(self.most_PC)
        group_X = part_X if other_X is None else part_X * np.int32(num_parts) + other_X
        levels: list[Level] = []
        most_C = self.most_PC.min(axis=0) / PARTS_OF_A_SHARE
        while nets.num_nodes > COARSEST * num_parts:
            coarse_X, count = cluster(
                nets,
                group_X,
                weight_XC,
                most_C=most_C,
                nodes_a_cluster=NODES_A_CLUSTER,
                seed=int(self.rng.integers(2**31)),
                threads=self.threads,
            )
            if count > SHRINKS * nets.num_nodes:
                break
            nets = contract(nets, coarse_X, count)
            finer_group_X, group_X = group_X, np.zeros(count, np.int32)
            group_X[coarse_X] = finer_group_X
            weight_XC = np.stack(
                [np.bincount(coarse_X, weights=weight_X, minlength=count) for weight_X in weight_XC.T], axis=1
            )
            levels.append(Level(nets=nets, weight_XC=weight_XC, coarse_X=coarse_X))
        return levels, group_X if other_X is None else group_X // np.int32(num_parts)

    def _improve(
        self, nets: Hypergraph, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64], heat: float
    ) -> None:
        """Anneal a small level, then make improving moves; changes `part_X`."""
        state = self._state(nets, part_X, weight_XC)
        boundary_X = np.zeros(nets.num_nodes, np.bool_)
        if len(nets.pins) <= self.effort.annealed_pins:
            self._anneal(state, heat)
        kernels.find_boundary(state.pins, part_X, len(self.most_PC), boundary_X)
        for steps in self.objective.steps:
            self._descend(state, boundary_X, steps)

    def _descend(self, state: State, boundary_X: NDArray[np.bool_], steps: int) -> None:
        """Make improving moves, a sample of the boundary first, then where gains may have risen; extends `boundary_X`.

        Args:
            state: of the level.
            boundary_X: bool [X], the nodes to visit.
            steps: binary logarithm of the norm's power.
        """
        active_X = boundary_X.copy()
        order = shuffled_blocks(np.flatnonzero(active_X), self.rng)
        order = order[: max(LEAST_SAMPLE, int(SAMPLE * len(order)))]
        for _ in range(ROUNDS):
            if not len(order) or not self._rescale(steps) or self.visits >= self.most_visits:
                return
            active_X[order] = False
            moves = sum(self._visit_movable(batch, state, active_X) for batch in parallel.batches(order))
            boundary_X |= active_X
            if moves <= SETTLED * len(order):
                return
            order = shuffled_blocks(np.flatnonzero(active_X), self.rng)

    def _anneal(self, state: State, heat: float) -> None:
        active_X = np.zeros(len(state.part_X), np.bool_)
        unit: float | None = None
        for round_number in range(self.effort.annealing_rounds):
            if not self._rescale(self.objective.steps[0]) or self.visits >= ANNEALING_SHARE * self.most_visits:
                return
            self.has_annealed = True
            active_X[:] = False
            kernels.find_boundary(state.pins, state.part_X, len(self.most_PC), active_X)
            order = self.rng.permutation(np.flatnonzero(active_X))
            if unit is None:
                unit = self._typical_change(order[:SAMPLED_NODES], state)
            self._visit(order, state, active_X, heat * unit * self.effort.cooling**round_number)

    def _typical_change(self, nodes: NDArray[np.int64], state: State) -> float:
        """The mean absolute gain of the best moves of these nodes."""
        gain = parallel.move_gains(nodes, state, self.threads)
        possible = np.abs(gain[np.isfinite(gain)])
        return float(possible.mean()) if len(possible) else 0.0

    def _visit_movable(self, order: NDArray[np.int64], state: State, active_X: NDArray[np.bool_]) -> int:
        """Visit those that have a gain on the present state; returns how many moved."""
        moves = kernels.improve(parallel.movable(order, state, self.threads), state, active_X, 0.0, 0)
        self._count_visits(order, state)
        return int(moves)

    def _visit(self, order: NDArray[np.int64], state: State, active_X: NDArray[np.bool_], temperature: float) -> int:
        seed = int(self.rng.integers(2**31))
        moves = kernels.improve(order, state, active_X, temperature, seed)
        self._count_visits(order, state)
        return int(moves)

    def _count_visits(self, order: NDArray[np.int64], state: State) -> None:
        visits = int((np.diff(state.pins.inc_ptr)[order] + np.diff(state.pins.first_X)[order]).sum())
        self.visits += visits
        self.advance(visits)

    def _relieve(
        self, nets: Hypergraph, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64], *, step: float = 1.0
    ) -> None:
        """Move nodes out of parts above a limit, as far as others have room; changes `part_X`.

        Args:
            nets: of the level.
            part_X: int32 [X].
            weight_XC: float64 [X, C].
            step: the share of the nodes after which gains are found anew. With a small one the neighbours of a node
                that has left are the next to leave, so that what leaves hangs together.
        """
        limits, state = link_loads.limits_of(part_X, weight_XC, self.most_PC), None
        for _ in range(RELIEF_ROUNDS if step == 1 else STEPS_OF_RELIEF):
            over_PC = limits.held_PC > limits.most_PC
            if not over_PC.any():
                return
            if state is None:
                state = self._state(nets, part_X, weight_XC)
                limits = state.limits
            self._rescale(self.objective.steps[0])
            leaving = np.flatnonzero(((weight_XC > 0) & over_PC[part_X]).any(axis=1))
            gain = parallel.move_gains(leaving, state, self.threads, easing=True)
            relief = (weight_XC[leaving] / limits.most_PC[part_X[leaving]] * over_PC[part_X[leaving]]).max(axis=1)
            order = leaving[np.argsort(-gain / relief, kind="stable")]
            first = max(1, round(step * len(order)))
            if not kernels.relieve(order[:first], state) and not kernels.relieve(order[first:], state):
                return

    def _state(self, nets: Hypergraph, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64]) -> State:
        """The state of a level, with its slots filled and the loads of links set."""
        num_parts = len(self.most_PC)
        slot_ptr = np.zeros(nets.num_nets + 1, np.int64)
        np.cumsum(np.minimum(np.diff(nets.pin_ptr), num_parts), out=slot_ptr[1:])
        num_slots = int(slot_ptr[-1])
        head_M4 = np.zeros((nets.num_nets, 4), index_dtype(num_slots))
        head_M4[:, kernels.BEGIN] = slot_ptr[:-1]
        head_M4[:, kernels.WEIGHT] = nets.weight_M
        inc_ptr, inc = nets.incidence()
        pins = Pins(
            first_X=nets.first_X,
            pin_ptr=nets.pin_ptr,
            pins=nets.pins,
            inc_ptr=inc_ptr,
            inc=inc,
            root_M=nets.root_M(),
            head_M4=head_M4,
            slots=np.zeros(num_slots, np.int32),
        )
        parallel.count_pins(pins, part_X, self.links, self.threads)
        limits = link_loads.limits_of(part_X, weight_XC, self.most_PC)
        return State(pins=pins, part_X=part_X, links=self.links, limits=limits, scratch=self.scratch)

    def _rescale(self, steps: int) -> bool:
        """Scale the norm to the current loads of links; whether there are any.

        A sum is not set by the slowest link, which grows while a level is hot, and would keep it hot.
        """
        slowest = link_loads.slowest(self.links)
        link_loads.scale(self.links, slowest, steps, self.objective.row_weight)
        return slowest > 0


def weights_and_limits(
    loads: Sequence[NodeLoad], shares_P: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weights of nodes, float64 [N, C], and the limits of parts, float64 [P, C].

    A part may always hold its share rounded up to whole nodes; what nobody has is no limit.
    """
    kept = [load for load in loads if load.amount_N.any()]
    weight_NC = np.stack([load.amount_N.astype(np.float64) for load in kept], axis=1)
    target_PC = shares_P[:, None] * weight_NC.sum(axis=0)
    limit_C = np.array([load.limit for load in kept])
    return np.ascontiguousarray(weight_NC), np.maximum(target_PC * limit_C, np.ceil(target_PC - 1e-9))
