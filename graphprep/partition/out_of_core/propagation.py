"""Clustering by size-constrained label propagation, in synchronous rounds.

A node takes the label that weighs most among its neighbours' and has room for it (Raghavan, Albert, Kumara 2007; with
a limit on what a label may hold: Meyerhenke, Sanders, Schulz 2014). It shrinks graphs with hubs, on which matchings
stall, since any number of nodes may come together at once.

The rows are cut into fixed ranges. Within a range a node sees what the range has done in this round; of others it sees
the labels of the round's start. So ranges can run at the same time, and the result is that of the ranges and not of
the threads. Two nodes of two ranges would swap labels for ever; where there are several ranges, each round visits
half of the nodes, drawn once.

Two ranges may both put nodes into one label. A label therefore keeps the room of what leaves it until the round is
over, and then takes joiners in the order of their numbers while it has room; the others keep their old labels, which
cannot be full.

Nodes that are left alone have their favourite label full: the leaves of a star, nodes without an edge. If they are
many, those with the same favourite are put together (two-hop matching: LaSalle and others 2015).

Letters: X nodes of a level, E directed edges, C limits; x nodes of a range.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.types import Csr, Ids
from graphprep.partition.out_of_core import propagation_kernels as kernels
from graphprep.partition.out_of_core.passes import Passes, Range, Ranges, edges_of, longest

SWEEPS = 6
"""over all nodes, at most"""
SETTLED = 0.02
"""rounds end when fewer than this part of the nodes move in a sweep"""
BYTES_OF_A_ROW = 32
"""of the table of labels that a range has joined, for each limit and once more"""
LEFT_ALONE = 0.3
"""If more than this part of the nodes is left alone, they are put together by their favourites."""


def propagate(
    graph: Csr,
    ranges: Ranges,
    weight_XC: NDArray[np.integer],
    *,
    most_C: NDArray[np.float64],
    seed: int,
    passes: Passes,
    group_X: Ids | None = None,
) -> tuple[Ids, int]:
    """The cluster of each node, int32 or int64 [X], numbered in the order of their first nodes, and how many there are.

    Args:
        graph: symmetric, no self-loops; arrays may be mapped.
        ranges: of rows; see `row_ranges`. The result depends on them.
        weight_XC: whole numbers [X, C], what each node weighs.
        most_C: what a cluster may weigh; a node that is heavier stays alone.
        seed: of the draw between equal labels.
        passes: over the ranges.
        group_X: clusters stay within a group; None where there are none.
    """
    num_nodes = graph.num_rows
    label_X: Ids = np.arange(num_nodes, dtype=index_dtype(num_nodes))
    new_X, held_XC = label_X.copy(), weight_XC.copy()
    known = (
        graph,
        passes.shared(np.empty(0, label_X.dtype) if group_X is None else group_X),
        passes.shared(weight_XC),
        most_C,
    )
    needed = longest(ranges) * BYTES_OF_A_ROW * (1 + len(most_C))
    halves = (-1,) if len(ranges) == 1 else (0, 1)
    for sweep in range(SWEEPS):
        moved = 0
        for half in halves:
            salt = 1 + 2 * (seed * SWEEPS + sweep)
            state = passes.shared(label_X), passes.shared(held_XC)
            for (start, stop), new_x in passes.over(ranges, _visited, *known, *state, salt, half, needed=needed):
                new_X[start:stop] = new_x
            moved += kernels.settle(label_X, new_X, weight_XC, held_XC, most_C)
        if moved <= SETTLED * num_nodes:
            break
    size_X = np.empty_like(label_X)
    kernels.sizes(label_X, size_X)
    if np.count_nonzero(size_X == 1) > LEFT_ALONE * num_nodes:
        favourite_X, state = new_X, (passes.shared(label_X), passes.shared(size_X))
        for (start, stop), favourite_x in passes.over(ranges, _favourites, *known[:2], *state, needed=needed):
            favourite_X[start:stop] = favourite_x
        kernels.pack(favourite_X, label_X, weight_XC, held_XC, most_C, np.empty(num_nodes + 1, label_X.dtype))
    count = kernels.number(label_X, size_X, new_X)
    return new_X, int(count)


def _visited(
    rows: Range,
    graph: Csr,
    group_X: Ids,
    weight_XC: NDArray[np.integer],
    most_C: NDArray[np.float64],
    label_X: Ids,
    held_XC: NDArray[np.integer],
    salt: int,
    half: int,
) -> Ids:
    """The new labels of a range's nodes, [x]."""
    new_x = np.array(label_X[slice(*rows)])
    kernels.visit(rows, edges_of(graph), group_X, label_X, new_x, weight_XC, held_XC, most_C, salt, half)
    return new_x


def _favourites(rows: Range, graph: Csr, group_X: Ids, label_X: Ids, size_X: Ids) -> Ids:
    """The favourites of a range's nodes, [x]; see the kernel."""
    favourite_x = np.empty(rows[1] - rows[0], label_X.dtype)
    kernels.favourites(rows, edges_of(graph), group_X, label_X, size_X, favourite_x)
    return favourite_x
