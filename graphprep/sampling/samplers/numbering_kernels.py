"""The numba loops that give the nodes of a batch their numbers in it, in the order in which they are met.

Letters: N nodes of the type in the graph, n nodes in the batch, E edges drawn in a hop, T places of a hash table.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from graphprep.core.csr_kernels import mixed

ABSENT = -1


@njit(cache=True, nogil=True)
def number_nodes(source_E, place_N, nodes_n):  # type: ignore[no-untyped-def]
    """Number what is met for the first time behind the nodes that are there.

    Args:
        source_E: nodes of the graph.
        place_N: int32, the number of each node in the batch or ABSENT; updated.
        nodes_n: nodes of the batch so far.

    Returns:
        The nodes of the batch, longer, and the number in it of each of `source_E`: int64.
    """
    nodes = np.empty(len(nodes_n) + len(source_E), np.int64)
    nodes[: len(nodes_n)] = nodes_n
    count = len(nodes_n)
    number = np.empty(len(source_E), np.int64)
    for e in range(len(source_E)):
        node = source_E[e]
        place = place_N[node]
        if place == ABSENT:
            place = count
            place_N[node] = count
            nodes[count] = node
            count += 1
        number[e] = place
    return nodes[:count].copy(), number


@njit(cache=True, nogil=True)
def forget_nodes(nodes_n, place_N):  # type: ignore[no-untyped-def]
    """Make all nodes of a batch absent again."""
    for node in nodes_n:
        place_N[node] = ABSENT


@njit(cache=True, nogil=True)
def number_pairs(tree_E, source_E, tree_n, nodes_n):  # type: ignore[no-untyped-def]
    """As `number_nodes` where each seed has a tree of its own, so that a node of two trees has two numbers.

    Args:
        tree_E, source_E: pairs of a seed's number and a node of the graph.
        tree_n, nodes_n: the pairs of the batch so far.

    Returns:
        Trees and nodes of the batch, longer, and the number in it of each given pair: int64.
    """
    tree = np.empty(len(nodes_n) + len(source_E), np.int64)
    nodes = np.empty(len(tree), np.int64)
    size = 16
    while size < 2 * len(tree):
        size *= 2
    table_T = np.full(size, ABSENT, np.int64)
    number = np.empty(len(source_E), np.int64)
    count = 0
    for e in range(-len(nodes_n), len(source_E)):
        pair_tree = tree_E[e] if e >= 0 else tree_n[e + len(nodes_n)]
        pair_node = source_E[e] if e >= 0 else nodes_n[e + len(nodes_n)]
        slot = np.int64(mixed(pair_tree, pair_node) & np.uint64(size - 1))
        while True:
            place = table_T[slot]
            if place == ABSENT:
                place = count
                table_T[slot] = count
                tree[count] = pair_tree
                nodes[count] = pair_node
                count += 1
                break
            if tree[place] == pair_tree and nodes[place] == pair_node:
                break
            slot = (slot + 1) & (size - 1)
        if e >= 0:
            number[e] = place
    return tree[:count].copy(), nodes[:count].copy(), number
