"""Nodes one after another, each the one that shares most with the rows that a processor has just read.

Next comes the node with the greatest share of its neighbours among the last `window` nodes taken; among equals the one
that came to this share last. Where none has any, the walk begins anew at a node of the rim. Communities so come one
after another, those inside others too: a walk that has entered one finishes it before another has as great a share.

This is Gorder's greedy (Wei, Yu, Lu, Lin: Speedup graph processing by graph ordering, SIGMOD 2016) with two changes.
It scores neighbours in the window and not siblings as well, whose count costs the square of the degrees: with a window
of a thousand rows instead of five, siblings of a community are in it anyway. And it scores their share, not their
number, so that a node is not taken early only because it has many neighbours. Every edge is looked at twice, when its
end enters the window and when it leaves it, and the candidates lie in one list a score; so it is O(n + E).

Letters: n nodes, E directed edges, S scores.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WINDOW = 1024
"""Rows of 512 bytes in half a MiB: half of a common L2 cache. From 256 to 4096 results differ by a few percent."""
SCORES = 64
"""Shares are told apart to this fraction."""
COUNT, SCORE, NEXT, PREVIOUS = 0, 1, 2, 3
"""Columns of a node's state, 16 bytes together since all are used together: neighbours in the window; the list that it
is in, 0 for none, TAKEN for ever out; its neighbours in that list, NONE at the ends."""
NONE, TAKEN = -1, -1


@njit(cache=True, nogil=True)
def window_order(indptr, indices, starts_n, window):  # type: ignore[no-untyped-def]
    """All nodes in the order of the walk: [n], in the dtype of `indices`.

    Args:
        indptr, indices: symmetric CSR of n rows, int64 [n + 1] and any signed integer [E].
        starts_n: all nodes; where the walk begins anew, it begins at the first of these that is not yet taken.
        window: how many nodes back a neighbour counts, at least 1.
    """
    num_nodes = len(indptr) - 1
    order_n = np.empty(num_nodes, indices.dtype)
    state_n4 = np.zeros((num_nodes, 4), indices.dtype)
    first_S = np.full(SCORES + 1, NONE, indices.dtype)
    best, start = 0, 0
    for i in range(num_nodes):
        while best > 0 and first_S[best] == NONE:
            best -= 1
        if best > 0:
            node = first_S[best]
            _unlink(node, state_n4, first_S)
        else:
            while state_n4[starts_n[start], SCORE] == TAKEN:
                start += 1
            node = starts_n[start]
        state_n4[node, SCORE] = TAKEN
        order_n[i] = node
        for e in range(indptr[node], indptr[node + 1]):
            best = max(best, _count(indices[e], 1, indptr, state_n4, first_S))
        if i >= window:
            left = order_n[i - window]
            for e in range(indptr[left], indptr[left + 1]):
                _count(indices[e], -1, indptr, state_n4, first_S)
    return order_n


@njit(cache=True, nogil=True)
def _count(node, change, indptr, state_n4, first_S):  # type: ignore[no-untyped-def]
    """A neighbour of a node enters or leaves the window; returns the node's score, TAKEN if it has none any more."""
    old = state_n4[node, SCORE]
    if old == TAKEN:
        return old
    count = state_n4[node, COUNT] + change
    state_n4[node, COUNT] = count
    new = max(1, count * SCORES // (indptr[node + 1] - indptr[node])) if count > 0 else 0
    if new != old:
        if old > 0:
            _unlink(node, state_n4, first_S)
        state_n4[node, SCORE] = new
        if new > 0:
            then = first_S[new]
            state_n4[node, NEXT] = then
            state_n4[node, PREVIOUS] = NONE
            if then != NONE:
                state_n4[then, PREVIOUS] = node
            first_S[new] = node
    return new


@njit(cache=True, nogil=True)
def _unlink(node, state_n4, first_S):  # type: ignore[no-untyped-def]
    """Take a node out of the list of its score."""
    before, after = state_n4[node, PREVIOUS], state_n4[node, NEXT]
    if before != NONE:
        state_n4[before, NEXT] = after
    else:
        first_S[state_n4[node, SCORE]] = after
    if after != NONE:
        state_n4[after, PREVIOUS] = before
