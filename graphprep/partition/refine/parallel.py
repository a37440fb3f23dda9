"""The parts of refinement that change nothing, or each their own nets, on all threads: gains of moves, pins of nets.

Moves are made one after another, each on the exact state that those before have left. But few of the visited nodes
move, and most of the time goes into finding that the others have no gain. So the nodes of a batch are looked at side by
side, on one state, and then those with a gain are visited in their order. (Mt-KaHyPar's label propagation looks at
nodes in parallel too, and moves them without an order: Gottesbueren and others, Scalable shared-memory hypergraph
partitioning, 2021.) What is found for a node does not depend on the thread that finds it, so the assignment is the same
for any number of threads.

Letters: X nodes of a level, L columns of legs, P parts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.refine import refine_kernels as kernels
from graphprep.partition.refine.refine_kernels import Links, Pins, Scratch, State
from graphprep.system.threads import each

PIECES = 32
"""at most, of one call"""
LEAST_NODES, LEAST_NETS = 128, 2048
"""in a piece: some milliseconds of work"""
LEAST_BATCH, BATCHES = 2048, 16
"""nodes that are looked at on one state: a share of 1 / BATCHES of those to visit, and at least so many"""


def batches(order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Nodes in the pieces that are looked at on one state."""
    size = max(LEAST_BATCH, -(-len(order) // BATCHES))
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def movable(order: NDArray[np.int64], state: State, threads: Executor | None) -> NDArray[np.int64]:
    """The nodes that have a move of positive gain, int64, in their order; prices are computed anew."""
    is_movable = np.empty(len(order), np.bool_)
    _look(kernels.find_movable, order, state, is_movable, threads)
    return order[is_movable]


def move_gains(
    nodes: NDArray[np.int64], state: State, threads: Executor | None, *, easing: bool = False
) -> NDArray[np.float64]:
    """The gain of the best move of each node to any part; prices are computed anew.

    Args:
        nodes: int64.
        state: of the level.
        threads: that compute, or None for this one.
        easing: a node with no move within the limits may make one that reduces the excess over them.

    Returns:
        float64, as many as nodes; -inf where no move is allowed.
    """
    gain = np.empty(len(nodes))
    _look(kernels.move_gains, nodes, state, gain, threads, easing)
    return gain


def _look(
    kernel: Callable[..., None],
    nodes: NDArray[np.int64],
    state: State,
    found: NDArray[Any],
    threads: Executor | None,
    *arguments: object,
) -> None:
    """Compute prices, and let a kernel fill in what it finds for each node, with work arrays of its own for a piece."""
    kernels.price_moves(state.links)

    def look(ends: tuple[int, int]) -> None:
        own = state._replace(scratch=scratch_for(state.links))
        kernel(nodes[slice(*ends)], own, found[slice(*ends)], *arguments)

    each(look, _ranges(len(nodes), LEAST_NODES), threads)


def count_pins(pins: Pins, part_X: NDArray[np.int32], links: Links, threads: Executor | None) -> None:
    """Fill heads and slots of all nets, and set the loads of links; BEGIN and WEIGHT of heads are there."""

    def count(ends: tuple[int, int]) -> NDArray[np.int64]:
        own = links._replace(rows_PL=np.zeros_like(links.rows_PL))
        kernels.fill_slots(pins, part_X, own, *ends)
        return own.rows_PL

    # No piece is smaller than its own counts, which then take no more memory than the nets.
    counted = each(count, _ranges(len(pins.root_M), max(LEAST_NETS, links.rows_PL.size)), threads)
    kernels.set_rows(links, sum(counted, np.zeros_like(links.rows_PL)))


def scratch_for(links: Links) -> Scratch:
    """Work arrays for nodes on these links."""
    num_parts, num_groups = links.enter_PK.shape
    return Scratch(
        sent_P=np.zeros(num_parts),
        sent_K=np.zeros(num_groups),
        got_P=np.zeros(num_parts),
        saved_P=np.zeros(num_parts),
        saved_K=np.zeros(num_groups),
        one_P=np.ones(num_parts),
        touched_P=np.zeros(num_parts, np.int64),
        is_touched_P=np.zeros(num_parts, np.bool_),
    )


def _ranges(count: int, least: int) -> list[tuple[int, int]]:
    """0 to `count` in at most PIECES ranges of at least `least` elements."""
    size = max(least, -(-count // PIECES))
    return [(begin, min(begin + size, count)) for begin in range(0, count, size)]
