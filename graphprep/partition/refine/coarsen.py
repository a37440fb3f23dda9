"""Coarsening for refinement: nodes of one part that share nets are clustered, a few at a time.

Clusters grow by size-constrained label propagation (Meyerhenke, Sanders, Schulz: Partitioning complex networks via
size-constrained clustering, 2014): each node in turn joins the cluster that it shares the most net weight with, where a
net of s pins counts for 1 / s, as long as the cluster stays small. Clusters never cross parts, so the assignment of the
finer level is an assignment of the coarser one with the same cost.

Letters: X nodes of the finer level, C limits.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.partition.refine.hypergraph import Hypergraph
from graphprep.system.threads import each

VISIT_BLOCK = 64
"""nodes that are visited in order of their numbers; blocks of them come in random order"""
PIECES = 32
"""of nodes at most, that threads share"""
HUB_PINS = 2048
"""nets with more pins say little about clusters and take long to visit"""


def shuffled_blocks(nodes: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Nodes block by block in random order; the last, incomplete block comes at the end.

    Neighbours in number are neighbours in memory, so that this is several times as fast to visit as a random order.
    """
    whole = len(nodes) // VISIT_BLOCK * VISIT_BLOCK
    blocks = nodes[:whole].reshape(-1, VISIT_BLOCK)
    return np.concatenate([rng.permutation(blocks).ravel(), nodes[whole:]])


class _Clusters(NamedTuple):
    """Clusters while they grow. Those of two parts share no element."""

    label_X: NDArray[np.int32]
    size_X: NDArray[np.int32]
    held_XC: NDArray[np.float64]
    rating_X: NDArray[np.float64]
    """work space, 0 between two nodes"""


def cluster(
    nets: Hypergraph,
    part_X: NDArray[np.int32],
    weight_XC: NDArray[np.float64],
    *,
    most_C: NDArray[np.float64],
    nodes_a_cluster: int,
    seed: int,
    threads: Executor | None = None,
) -> tuple[NDArray[np.int32], int]:
    """The coarse node of each node, and how many there are.

    Args:
        nets: of the level.
        part_X: int32 [X]; a cluster lies within one part (or any other group with a number).
        weight_XC: what each node weighs; without columns where only the number of nodes counts.
        most_C: what a cluster may weigh.
        nodes_a_cluster: most nodes of this level in a cluster.
        seed: of the order of visits.
        threads: that share the parts; the clusters do not depend on them.
    """
    clusters = _Clusters(
        label_X=np.arange(nets.num_nodes, dtype=np.int32),
        size_X=np.ones(nets.num_nodes, np.int32),
        held_XC=weight_XC.copy(),
        rating_X=np.zeros(nets.num_nodes),
    )
    shape = (nets.is_mirrored, nets.first_X, nets.root_M(), nets.weight_M, nets.pin_ptr, nets.pins, *nets.incidence())

    def join(order: NDArray[np.int32]) -> None:
        _join(order, *shape, part_X, weight_XC, most_C, nodes_a_cluster, clusters)

    rng = np.random.default_rng(seed)
    each(join, [shuffled_blocks(nodes, rng) for nodes in _by_part(part_X)], threads)
    coarse_X, count = _numbered(clusters.label_X)
    return coarse_X, int(count)


def _by_part(part_X: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """Nodes in pieces of whole parts, int32, ascending in each part; one is about 1 / PIECES of them, or a part."""
    nodes = np.argsort(part_X, kind="stable").astype(np.int32)
    begins = np.flatnonzero(np.diff(part_X[nodes], prepend=-1))
    wanted = np.arange(1, PIECES) * len(nodes) // PIECES
    return np.split(nodes, np.unique(begins[np.searchsorted(begins, wanted, side="right") - 1])[1:])


@njit(cache=True, nogil=True)
def _join(
    order: Any,
    is_mirrored: Any,
    first: Any,
    root: Any,
    weight: Any,
    pin_ptr: Any,
    pins: Any,
    inc_ptr: Any,
    inc: Any,
    part: Any,
    weight_XC: Any,
    most_C: Any,
    nodes_a_cluster: Any,
    clusters: Any,
) -> None:
    label, size, held, rating = clusters
    num_limits = weight_XC.shape[1]
    touched = np.empty(len(order), np.int32)
    for node in order:
        if size[label[node]] > 1:
            continue
        count = 0
        own_share = 0.0  # of the node's one net where its pins are the roots of the nets that the node is in
        if is_mirrored and 0 < pin_ptr[node + 1] - pin_ptr[node] <= HUB_PINS:
            own_share = 1.0 / (pin_ptr[node + 1] - pin_ptr[node])
        for net in range(first[node], first[node] if is_mirrored else first[node + 1]):
            pins_here = pin_ptr[net + 1] - pin_ptr[net]
            if pins_here == 0 or pins_here > HUB_PINS:
                continue
            share = weight[net] / pins_here
            for i in range(pin_ptr[net], pin_ptr[net + 1]):
                if part[pins[i]] == part[node]:
                    at = label[pins[i]]
                    if rating[at] == 0.0:
                        touched[count] = at
                        count += 1
                    rating[at] += share
        for i in range(inc_ptr[node], inc_ptr[node + 1]):
            net = inc[i]
            if part[root[net]] == part[node]:
                at = label[root[net]]
                if rating[at] == 0.0:
                    touched[count] = at
                    count += 1
                rating[at] += weight[net] / (pin_ptr[net + 1] - pin_ptr[net]) + own_share
        best, best_rating = -1, 0.0
        for k in range(count):
            at = touched[k]
            if at != node and size[at] < nodes_a_cluster:
                room = True
                for c in range(num_limits):
                    if held[at, c] + weight_XC[node, c] > most_C[c]:
                        room = False
                if room and rating[at] > best_rating:
                    best, best_rating = at, rating[at]
            rating[at] = 0.0
        if best >= 0:
            label[node] = best
            size[best] += 1
            for c in range(num_limits):
                held[best, c] += weight_XC[node, c]


@njit(cache=True, nogil=True)
def _numbered(label: Any) -> Any:
    """Numbers of clusters in the order of their first nodes; the number of each node, and how many there are."""
    num_nodes = len(label)
    number = np.full(num_nodes, -1, np.int32)
    coarse = np.empty(num_nodes, np.int32)
    count = 0
    for node in range(num_nodes):
        at = label[node]
        if number[at] < 0:
            number[at] = count
            count += 1
        coarse[node] = number[at]
    return coarse, count
