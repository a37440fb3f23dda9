"""Out-of-core refinement: passes over the edges propose moves that lower the link seconds, until they hardly fall.

A round is two passes. The first counts what the parts exchange; on the finest level that is exact, by two bit masks a
node. In the second, ranges of rows propose moves of half of the nodes, another random half each round, so that
neighbours do not swap parts for ever. The moves are made in the order of their gains, within all limits. Then the parts
are counted again: a round that made the partition worse is undone, and the next one makes half as many moves.

The result depends on the ranges and on the seed, not on the executor.

Letters: X nodes of a level, P parts, W words of 64 bits for a bit a part, C limits; x nodes of a range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.partition.out_of_core import move_kernels as kernels
from graphprep.partition.out_of_core.move_kernels import Moves
from graphprep.partition.out_of_core.passes import Passes, Range, Ranges, edges_of, longest
from graphprep.partition.refine import link_loads
from graphprep.partition.refine.refine import Objective
from graphprep.partition.refine.refine_kernels import Limits, Links

ROUNDS = 16
"""at most, for each power of the norm; each visits half of the nodes"""
SETTLED = 0.0005
"""rounds end when two together move fewer than this share of the nodes"""
LEAST_SHARE = 1 / 16
"""rounds end when fewer than this share of the proposals may be made"""
LEAST_GAIN = 0.002
"""rounds end when two together lower the bottleneck by less than this share"""
BYTES_OF_A_PROPOSAL = 40
"""of a range's work arrays, and of its result"""


class View(Protocol):
    """How the moves of a level change the loads of links."""

    def count(self, part_X: NDArray[np.int32], num_parts: int) -> NDArray[np.int64]:
        """int64 [P, P]: what each part sends to each; `propose` then refers to these parts."""

    def propose(self, part_X: NDArray[np.int32], links: Links, limits: Limits, salt: int) -> Moves: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByWeight:
    """By edge weight: exact for edges, an approximation of rows on coarse levels."""

    graph: Csr
    """symmetric"""
    ranges: Ranges
    passes: Passes = field(default_factory=Passes)

    def count(self, part_X: NDArray[np.int32], num_parts: int) -> NDArray[np.int64]:
        """See `View`."""
        units_PP = np.zeros((num_parts, num_parts), np.int64)
        shared = (self.graph, self.passes.shared(part_X), num_parts)
        for _, counted_PP in self.passes.over(self.ranges, _weights_counted, *shared, needed=units_PP.nbytes):
            units_PP += counted_PP
        return units_PP

    def propose(self, part_X: NDArray[np.int32], links: Links, limits: Limits, salt: int) -> Moves:
        """See `View`."""
        state = (self.passes.shared(part_X), links, limits, len(self.ranges), salt)
        needed = BYTES_OF_A_PROPOSAL * longest(self.ranges)
        return _joined(self.passes.over(self.ranges, _proposed_by_weight, self.graph, *state, needed=needed))


class ByRows:
    """Rows, exactly, by masks: 16 bytes a node for each 64 parts."""

    def __init__(
        self, out: Csr, into: Csr, *, out_ranges: Ranges, in_ranges: Ranges, passes: Passes | None = None
    ) -> None:
        """Edges are read later, by `count` and `propose`.

        Args:
            out: row u lists the nodes that u has an edge to, each once and not u itself.
            into: row v lists the nodes that have an edge to v, likewise; the same object where all edges are mutual.
            out_ranges, in_ranges: of their rows.
            passes: over the ranges; None for threads.
        """
        self.out, self.into, self.out_ranges, self.in_ranges = out, into, out_ranges, in_ranges
        self.passes = passes or Passes()
        self._masks_X2W = np.zeros((0, 2, 1), np.uint64)

    def count(self, part_X: NDArray[np.int32], num_parts: int) -> NDArray[np.int64]:
        """See `View`."""
        shape = (self.out.num_rows, 2, -(-num_parts // kernels.WORD_BITS))
        if self._masks_X2W.shape != shape:
            self._masks_X2W = np.zeros(shape, np.uint64)
        units_PP = np.zeros((num_parts, num_parts), np.int64)
        shared = (self.out, self.passes.shared(part_X), num_parts)
        needed = units_PP.nbytes + longest(self.out_ranges) * self._masks_X2W[:1].nbytes
        for (start, stop), (masks_x2W, counted_PP) in self.passes.over(
            self.out_ranges, _rows_counted, *shared, needed=needed
        ):
            self._masks_X2W[start:stop] = masks_x2W
            units_PP += counted_PP
        return units_PP

    def propose(self, part_X: NDArray[np.int32], links: Links, limits: Limits, salt: int) -> Moves:
        """See `View`."""
        masks_X2W = self.passes.shared(self._masks_X2W)
        state = (self.passes.shared(part_X), links, limits, len(self.in_ranges), salt)
        known, needed = (self.into, masks_X2W, self.out is self.into), BYTES_OF_A_PROPOSAL * longest(self.in_ranges)
        return _joined(self.passes.over(self.in_ranges, _proposed_by_rows, *known, *state, needed=needed))


def improve(
    view: View,
    part_X: NDArray[np.int32],
    weight_XC: NDArray[np.integer],
    most_PC: NDArray[np.float64],
    links: Links,
    *,
    objective: Objective,
    seed: int,
    rounds: int = ROUNDS,
    advance: Callable[[int], None] = lambda _: None,
) -> NDArray[np.int32]:
    """Improve an assignment, int32 [X]; `part_X` is not changed.

    Args:
        view: of the level's edges.
        part_X: the assignment to begin with.
        weight_XC: the weights of each node.
        most_PC: the limits of each part.
        links: of the ranks; their loads are overwritten.
        objective: its powers of the norm, one after another, and the worth of a row.
        seed: of the halves.
        rounds: at most so many, for each of the powers.
        advance: called with 1 each round.
    """
    num_parts = len(most_PC)
    limits = link_loads.limits_of(part_X, weight_XC, most_PC)
    units_PP = view.count(part_X, num_parts)
    for step in objective.steps:
        share, moved, gain_shares = 1.0, [len(part_X)], [1.0]
        for number in range(rounds):
            link_loads.set_loads(links, units_PP)
            before = link_loads.slowest(links)
            link_loads.scale(links, before, step, objective.row_weight)
            rank = link_loads.rank(links, limits)
            found = view.propose(part_X, links, limits, seed + number)
            tried_X, held_PC = part_X.copy(), limits.held_PC.copy()
            tried = limits._replace(held_PC=held_PC)
            made = _make_moves(found, tried_X, tried, share)
            advance(1)
            if made:
                units_PP = view.count(tried_X, num_parts)
                link_loads.set_loads(links, units_PP)
                if link_loads.rank(links, tried) < rank:
                    part_X, limits = tried_X, tried
                    gain_shares.append(1 - link_loads.slowest(links) / max(before, 1e-30) if step else 1.0)
                    share = min(1.0, 1.5 * share)
                    if rank[0]:
                        gain_shares[-1] = 1.0
                else:
                    units_PP = view.count(part_X, num_parts)
                    share /= 2
                    made = len(part_X)
                    gain_shares.append(1.0)
            else:
                gain_shares.append(0.0)
            moved.append(made)
            if sum(moved[-2:]) <= SETTLED * len(part_X) or share < LEAST_SHARE or sum(gain_shares[-2:]) < LEAST_GAIN:
                break
    return part_X


def _make_moves(found: Moves, part_X: NDArray[np.int32], limits: Limits, share: float) -> int:
    """Make a share of the moves, first those that relieve a part, then the best ones; returns how many."""
    order = np.argsort(np.where(found.gains <= 0, -np.inf, -found.gains), kind="stable")
    return int(kernels.make_moves(order, found, part_X, limits, math.ceil(share * len(order))))


def _weights_counted(rows: Range, graph: Csr, part_X: NDArray[np.int32], num_parts: int) -> NDArray[np.int64]:
    """int64 [P, P]: what a range's edges weigh, by the parts of their ends."""
    units_PP = np.zeros((num_parts, num_parts), np.int64)
    kernels.count_weights(rows, edges_of(graph), part_X, units_PP)
    return units_PP


def _rows_counted(
    rows: Range, out: Csr, part_X: NDArray[np.int32], num_parts: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The masks of a range's nodes, uint64 [x, 2, W], and the rows that they send, int64 [P, P]."""
    units_PP = np.zeros((num_parts, num_parts), np.int64)
    masks_x2W = np.empty((rows[1] - rows[0], 2, -(-num_parts // kernels.WORD_BITS)), np.uint64)
    kernels.find_masks(rows, edges_of(out), part_X, masks_x2W)
    kernels.count_rows(rows, part_X, masks_x2W, units_PP)
    return masks_x2W, units_PP


def _proposed_by_weight(
    rows: Range, graph: Csr, part_X: NDArray[np.int32], links: Links, limits: Limits, num_ranges: int, salt: int
) -> Moves:
    """The proposals of a range by its edges' weights."""
    return _proposed(kernels.propose_by_weight, rows, graph, (part_X,), links, limits, num_ranges, salt)


def _proposed_by_rows(
    rows: Range,
    into: Csr,
    masks_X2W: NDArray[np.uint64],
    mutual: bool,
    part_X: NDArray[np.int32],
    links: Links,
    limits: Limits,
    num_ranges: int,
    salt: int,
) -> Moves:
    """The proposals of a range by rows."""
    known = (masks_X2W, mutual, part_X)
    return _proposed(kernels.propose_by_rows, rows, into, known, links, limits, num_ranges, salt)


def _proposed(
    propose: Callable[..., int],
    rows: Range,
    graph: Csr,
    known: tuple[Any, ...],
    links: Links,
    limits: Limits,
    num_ranges: int,
    salt: int,
) -> Moves:
    """The proposals of a range, on its own copies of the links and of the parts' weights."""
    start, stop = rows
    own_links = links._replace(
        rows_PL=links.rows_PL.copy(),
        load_D=links.load_D.copy(),
        price_PL=links.price_PL.copy(),
        total=links.total.copy(),
    )
    own_limits = limits._replace(held_PC=limits.held_PC.copy())
    edges = int(graph.indptr[stop] - graph.indptr[start])
    times = max(1, min(num_ranges, round(int(graph.indptr[-1]) / max(1, edges))))
    room = stop - start
    moves = Moves(np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room))
    count = propose(rows, edges_of(graph), *known, own_links, own_limits, times, salt, moves)
    return Moves(moves.nodes[:count].copy(), moves.targets[:count].copy(), moves.gains[:count].copy())


def _joined(found: Iterable[tuple[Range, Moves]]) -> Moves:
    """The proposals of all ranges, in the order of the nodes."""
    none = Moves(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))
    return Moves(*map(np.concatenate, zip(none, *(moves for _, moves in found), strict=True)))
