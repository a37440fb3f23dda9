"""Refinement: an assignment is changed until the slowest link direction cannot easily be made quicker.

    relieve      parts that hold too much give nodes away, those first whose leaving costs least
    cycles       nodes are drawn together level by level (`coarsen`); from the coarsest back to the finest, a level is
                 annealed if it is small, and then improved move by move until next to nothing changes

All levels work on nets (`nets`), so every one of them sees the exact rows of the cost model, and on all limits. The
first thing is to lay nodes that belong together side by side: visits then find their nets in the processor's cache,
which makes them four times as fast.

What may be spent is counted in visits to nets, not in seconds, so that a seed gives the same parts on a busy machine.

Letters: N nodes, X nodes of a level, P parts, C limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.partition import refine_kernels as kernels
from graphprep.partition.coarsen import cluster
from graphprep.partition.method import NodeLoad
from graphprep.partition.nets import Nets, contract
from graphprep.partition.refine_kernels import Limits, Links, Pins, Scratch
from graphprep.traffic import LinkModel

STEPS = (3, 4)
"""K is first 8 and then 16: a gentler norm finds a way where the steep one sees only the slowest link"""
NODES_A_CLUSTER = 8
COARSEST = 40
"""nodes a part, below which no level goes"""
PARTS_OF_A_SHARE = 20
"""no coarse node weighs more than this part of what a part may hold"""
SHRINKS = 0.85
"""a level that has more than this part of the finer one's nodes is not worth its while"""
HEAT, COOLING, COOLER = 0.05, 0.9, 0.4
"""First temperature, what is left of it after each round, and what each cycle's first one is of the one before; in the
unit of the norm, where the slowest link is 1."""
ROUNDS = 8
SETTLED = 0.001
"""rounds end when fewer than this part of the visited nodes move"""
VISIT_BLOCK = 64
"""nodes that are visited one after another as they lie; blocks of them come in random order"""
RELIEF_ROUNDS = 30
LAID_TOGETHER = 1000
"""nodes that are laid side by side, about one L2 cache of them"""


BYTES_PER_PIN, BYTES_PER_NET = 28, 150
"""memory of refinement beyond the graph: nets laid anew (8), slots (4), and as much again on coarse levels and while
they are made; heads and weights"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to try."""

    cycles: int
    """times that levels are made and gone through"""
    visits: float
    """to nets, as a multiple of all pins of all nets, after which nothing new is begun"""
    least_visits: int
    """the same for small graphs, as a number"""
    annealed_pins: int
    """pins up to which a level is annealed"""
    annealing_rounds: int


EFFORTS = {
    "fast": Effort(cycles=1, visits=4, least_visits=1_000_000, annealed_pins=0, annealing_rounds=0),
    "default": Effort(cycles=1, visits=12, least_visits=5_000_000, annealed_pins=100_000, annealing_rounds=30),
    "best": Effort(cycles=3, visits=400, least_visits=200_000_000, annealed_pins=400_000, annealing_rounds=60),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Nets, what their nodes weigh, and where the nodes of the next finer level have gone."""

    nets: Nets
    weight_XC: NDArray[np.float64]
    coarse_X: NDArray[np.int32] | None
    """int32 [X of the finer level]; None on the finest"""


class Refinement:
    """The state that all levels share."""

    def __init__(
        self,
        links: Links,
        most_PC: NDArray[np.float64],
        effort: Effort,
        seed: int,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`links` are overwritten; `most_PC` float64 [P, C] is what each part may hold; `advance` is told visits."""
        num_parts = len(most_PC)
        self.links, self.most_PC, self.effort, self.advance = links, most_PC, effort, advance
        self.rng = np.random.default_rng(seed)
        self.scratch = Scratch(
            np.zeros(num_parts),
            np.zeros(num_parts),
            np.zeros(num_parts),
            np.zeros(num_parts, np.int64),
            np.zeros(num_parts, np.bool_),
        )
        self.visits = 0
        self.most_visits = 0

    def run(self, nets: Nets, part_N: NDArray[np.int32], weight_NC: NDArray[np.float64]) -> NDArray[np.int32]:
        """The refined assignment, int32 [N]; `part_N` is left as it is."""
        self.most_visits = int(max(self.effort.visits * 2 * len(nets.pins), self.effort.least_visits))
        order_N = self._laid_together(nets, part_N)
        place_N = np.empty(len(order_N), np.int32)
        place_N[order_N] = np.arange(len(order_N), dtype=np.int32)
        nets = contract(nets, place_N, len(order_N))
        part_X, weight_XC = part_N[order_N], weight_NC[order_N]
        self._relieve(nets, part_X, weight_XC)
        best: tuple[float, float] | None = None
        for cycle in range(self.effort.cycles):
            if cycle and self.visits >= self.most_visits:
                break
            found_X = self._cycle(nets, part_X, weight_XC, HEAT * COOLER**cycle)
            seconds = float(self.links.load_D.max(initial=0.0)), float(self.links.load_D.sum())
            if best is None or seconds < best:
                best, part_X = seconds, found_X
        self._relieve(nets, part_X, weight_XC)
        return part_X[place_N]

    def _laid_together(self, nets: Nets, part_N: NDArray[np.int32]) -> NDArray[np.int64]:
        """int64 [N]: the nodes by part, and within it by cluster."""
        cluster_N, _ = cluster(
            nets,
            part_N,
            np.ones((nets.num_nodes, 1)),
            most_C=np.array([float(LAID_TOGETHER)]),
            nodes_a_cluster=LAID_TOGETHER,
            seed=int(self.rng.integers(2**31)),
        )
        return np.lexsort((cluster_N, part_N))

    def _cycle(
        self, nets: Nets, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64], heat: float
    ) -> NDArray[np.int32]:
        """Up to the coarsest level and down again; `part_X` is left as it is."""
        levels, part_X = self._levels(nets, part_X.copy(), weight_XC)
        for level in reversed(levels):
            self._improve(level, part_X, heat)
            if level.coarse_X is not None:
                part_X = part_X[level.coarse_X]
        return part_X

    def _levels(
        self, nets: Nets, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64]
    ) -> tuple[list[Level], NDArray[np.int32]]:
        """From the finest level to the coarsest, and the assignment of the coarsest."""
        levels = [Level(nets=nets, weight_XC=weight_XC, coarse_X=None)]
        most_C = self.most_PC.min(axis=0) / PARTS_OF_A_SHARE
        while nets.num_nodes > COARSEST * len(self.most_PC):
            coarse_X, count = cluster(
                nets,
                part_X,
                weight_XC,
                most_C=most_C,
                nodes_a_cluster=NODES_A_CLUSTER,
                seed=int(self.rng.integers(2**31)),
            )
            if count > SHRINKS * nets.num_nodes:
                break
            coarser = contract(nets, coarse_X, count)
            coarse_part_X = np.zeros(count, np.int32)
            coarse_part_X[coarse_X] = part_X
            weight_XC = np.stack(
                [np.bincount(coarse_X, weights=weight_X, minlength=count) for weight_X in weight_XC.T], axis=1
            )
            nets, part_X = coarser, coarse_part_X
            levels.append(Level(nets=nets, weight_XC=weight_XC, coarse_X=coarse_X))
        return levels, part_X

    def _improve(self, level: Level, part_X: NDArray[np.int32], heat: float) -> None:
        """Anneal a small level, then make the moves that help; `part_X` is changed."""
        pins, limits = self._laid(level.nets, part_X, level.weight_XC)
        boundary_X = np.zeros(level.nets.num_nodes, np.bool_)
        if len(level.nets.pins) <= self.effort.annealed_pins:
            self._anneal(pins, limits, part_X, heat)
        kernels.find_boundary(pins, part_X, len(self.most_PC), boundary_X)
        for steps in STEPS:
            active_X = boundary_X.copy()
            for _ in range(ROUNDS):
                order = self._in_blocks(np.flatnonzero(active_X))
                if not len(order) or not self._scaled(steps) or self.visits >= self.most_visits:
                    break
                active_X[:] = False
                moves = self._visit(order, pins, limits, part_X, active_X, 0.0)
                boundary_X |= active_X
                if moves <= SETTLED * len(order):
                    break

    def _anneal(self, pins: Pins, limits: Limits, part_X: NDArray[np.int32], heat: float) -> None:
        active_X = np.zeros(len(part_X), np.bool_)
        for round_number in range(self.effort.annealing_rounds):
            if not self._scaled(STEPS[0]) or self.visits >= self.most_visits:
                return
            active_X[:] = False
            kernels.find_boundary(pins, part_X, len(self.most_PC), active_X)
            order = self.rng.permutation(np.flatnonzero(active_X))
            self._visit(order, pins, limits, part_X, active_X, heat * COOLING**round_number)

    def _visit(
        self,
        order: NDArray[np.int64],
        pins: Pins,
        limits: Limits,
        part_X: NDArray[np.int32],
        active_X: NDArray[np.bool_],
        temperature: float,
    ) -> int:
        seed = int(self.rng.integers(2**31))
        moves = kernels.improve(order, pins, part_X, self.links, limits, self.scratch, active_X, temperature, seed)
        visits = int((np.diff(pins.inc_ptr)[order] + np.diff(pins.first_X)[order]).sum())
        self.visits += visits
        self.advance(visits)
        return int(moves)

    def _relieve(self, nets: Nets, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64]) -> None:
        """Move nodes out of parts that hold more than they may, as far as others have room; `part_X` is changed."""
        pins, limits = None, None
        for _ in range(RELIEF_ROUNDS):
            if limits is None:
                limits = self._limits(part_X, weight_XC)
            over_PC = limits.held_PC > limits.most_PC
            if not over_PC.any():
                return
            if pins is None:
                pins, limits = self._laid(nets, part_X, weight_XC)
            self._scaled(STEPS[0])
            leaving = np.flatnonzero(((weight_XC > 0) & over_PC[part_X]).any(axis=1))
            gain = np.empty(len(leaving))
            kernels.judge(leaving, pins, part_X, self.links, limits, self.scratch, gain)
            relief = (weight_XC[leaving] / limits.most_PC[part_X[leaving]] * over_PC[part_X[leaving]]).max(axis=1)
            order = leaving[np.argsort(-gain / relief, kind="stable")]
            if not kernels.relieve(order, pins, part_X, self.links, limits, self.scratch):
                return

    def _laid(self, nets: Nets, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64]) -> tuple[Pins, Limits]:
        """Slots and limits of a level; the links carry what it costs."""
        num_parts = len(self.most_PC)
        head_M4 = np.zeros((nets.num_nets, 4), np.int64)
        head_M4[:, kernels.WEIGHT] = nets.weight_M
        pins = Pins(
            first_X=nets.first_X,
            pin_ptr=nets.pin_ptr,
            pins=nets.pins,
            inc_ptr=nets.inc_ptr,
            inc=nets.inc,
            root_M=nets.root_M(),
            head_M4=head_M4,
            slots=np.zeros(int(np.minimum(np.diff(nets.pin_ptr), num_parts).sum()), np.int32),
        )
        kernels.lay_pins(pins, part_X, num_parts)
        kernels.count_rows(pins, self.links)
        return pins, self._limits(part_X, weight_XC)

    def _limits(self, part_X: NDArray[np.int32], weight_XC: NDArray[np.float64]) -> Limits:
        held = [np.bincount(part_X, weights=weight_X, minlength=len(self.most_PC)) for weight_X in weight_XC.T]
        return Limits(weight_XC=weight_XC, held_PC=np.stack(held, axis=1), most_PC=self.most_PC)

    def _scaled(self, steps: int) -> bool:
        """Set the norm to the links as they are; whether there is anything on them."""
        slowest = float(self.links.load_D.max(initial=0.0))
        self.links.scale[:] = max(slowest, 1e-30), steps
        return slowest > 0

    def _in_blocks(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nodes block by block in random order; the last ones, which fill no block, come at the end."""
        whole = len(nodes) // VISIT_BLOCK * VISIT_BLOCK
        blocks = nodes[:whole].reshape(-1, VISIT_BLOCK)
        return np.concatenate([self.rng.permutation(blocks).ravel(), nodes[whole:]])


def links_of(model: LinkModel, row_bytes: int) -> Links:
    """A topology's routes as the kernels read them, with nothing on the links."""
    by_pair = model.crossed.T.tocsr()
    by_pair.sort_indices()
    num_ranks, num_directions = model.num_ranks, len(model.bytes_per_s_D)
    return Links(
        route_ptr=by_pair.indptr.astype(np.int64),
        route=by_pair.indices.astype(np.int32),
        second_D=row_bytes / model.bytes_per_s_D,
        latency_D=model.seconds_a_message_D.copy(),
        rows_PP=np.zeros((num_ranks, num_ranks), np.int64),
        load_D=np.zeros(num_directions),
        price_PP=np.zeros((num_ranks, num_ranks)),
        scale=np.array([1.0, float(STEPS[0])]),
    )


def weights_and_limits(
    loads: Sequence[NodeLoad], shares_P: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each node weighs, float64 [N, C], and what each part may hold, float64 [P, C].

    A part may always hold its share rounded up to whole nodes; what nobody has is no limit.
    """
    kept = [load for load in loads if load.amount_N.any()]
    weight_NC = np.stack([load.amount_N.astype(np.float64) for load in kept], axis=1)
    target_PC = shares_P[:, None] * weight_NC.sum(axis=0)
    limit_C = np.array([load.limit for load in kept])
    return np.ascontiguousarray(weight_NC), np.maximum(target_PC * limit_C, np.ceil(target_PC - 1e-9))
