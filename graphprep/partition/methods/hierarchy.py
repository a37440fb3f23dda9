"""Recursive partitioning along the topology: first among groups of ranks, then within each group, down to single ranks.

The groups are joined by the fastest links, so the first division is the one whose cut the slowest links carry, and
METIS minimises that cut alone. (Recursive partitioning along a machine's tree: Walshaw, Cross: Multilevel mesh
partitioning for heterogeneous communication networks, FGCS 2001.)

The limits are those of the single ranks. A division may use up the part of them that, taken equally again at every
level below, arrives at the limits; each division corrects for what the ones above left unused or exceeded.

Letters: N nodes, P ranks, C constraints, G groups of a division.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.methods.metis_constraints import LEAST_LIMIT
from graphprep.partition.methods.metis_ctypes import MetisGraph
from graphprep.partition.methods.subgraph import induced
from graphprep.topology.rank_groups import RankGroup, levels, ranks_in

Divide = Callable[[MetisGraph, NDArray[np.float64], NDArray[np.float64]], NDArray[np.int64]]
"""(graph, shares_G, limits_C) -> int64 [N], the group of each node"""


class Targets(NamedTuple):
    """Shares and limits of the whole recursion."""

    shares_P: NDArray[np.float64]
    limits_C: NDArray[np.float64]
    """greatest share over target share of a single rank"""
    totals_C: NDArray[np.float64]
    """sum of each weight over the whole graph"""


def divide_along(
    groups: RankGroup, graph: MetisGraph, shares_P: NDArray[np.float64], limits_C: NDArray[np.float64], divide: Divide
) -> NDArray[np.int64]:
    """The rank of each node; int64 [N].

    Args:
        groups: all ranks 0 .. P-1, as nested groups.
        shares_P: each rank's target share; sums to 1.
        limits_C: greatest share over target share of a rank for each weight.
        divide: makes one division.
    """
    rank_N = np.zeros(graph.num_nodes, np.int64)
    targets = Targets(shares_P, limits_C, graph.weights_NC.sum(axis=0, dtype=np.float64))
    _divide(groups, graph, np.arange(graph.num_nodes), targets, divide, rank_N)
    return rank_N


def _divide(
    group: RankGroup,
    graph: MetisGraph,
    nodes: NDArray[np.int64],
    targets: Targets,
    divide: Divide,
    rank_N: NDArray[np.int64],
) -> None:
    if isinstance(group, int):
        rank_N[nodes] = group
        return
    ranks_G = [ranks_in(part) for part in group]
    share_G = np.array([targets.shares_P[ranks].sum() for ranks in ranks_G])
    if graph.num_nodes <= len(group):
        group_N = np.argsort(-share_G, kind="stable")[: graph.num_nodes].astype(np.int64)
    else:
        load_C = graph.weights_NC.sum(axis=0, dtype=np.float64)
        limits_C = limits_of_division(targets.limits_C, load_C, targets.totals_C * share_G.sum(), levels(group))
        group_N = divide(graph, share_G / share_G.sum(), limits_C)
    for number, part in enumerate(group):
        inside_N = group_N == number
        if isinstance(part, int):
            rank_N[nodes[inside_N]] = part
        elif inside_N.any():
            inner = induced(graph.xadj, graph.adjncy, graph.edge_weights, inside_N)
            inner_graph = MetisGraph(inner.indptr, inner.indices, inner.weights, graph.weights_NC[inside_N])
            _divide(part, inner_graph, nodes[inside_N], targets, divide, rank_N)


def limits_of_division(
    limits_C: NDArray[np.float64], load_C: NDArray[np.float64], target_C: NDArray[np.float64], levels_left: int
) -> NDArray[np.float64]:
    """Greatest share over target share that one division may leave; float64 [C].

    Args:
        limits_C: the same for a single rank against the whole graph.
        load_C: what the divided part weighs.
        target_C: what it should weigh.
        levels_left: divisions on the way to its deepest rank, this one included.
    """
    left_C = limits_C * target_C / np.maximum(load_C, 1.0)
    return np.asarray(np.maximum(left_C ** (1.0 / levels_left), LEAST_LIMIT))
