"""Window ordering: each next node is the one that shares most neighbours with the rows read just before.

Next comes the node with the highest score: its neighbours among the last `window` nodes taken, divided by the cube root
of its degree; among equals the one that came to this score last. Where no node has any, the walk begins anew at the
rim. Communities so come one after another, and those inside others too, since a walk that has entered one finishes it
before another has as high a score.

This is Gorder's greedy (Wei, Yu, Lu, Lin: Speedup graph processing by graph ordering, SIGMOD 2016) with two changes.
It scores neighbours in the window and not siblings as well, whose count costs the square of the degrees: with a window
of a thousand rows instead of five, siblings in a community are in it anyway. And it divides by a root of the degree:
the plain number of neighbours takes nodes early that only have many, which spoils communities (a citation graph's
product is 10 % slower); the share of neighbours scatters hubs, which are read all the time and had better lie together
(R-MAT: 15 % slower).

Every edge is looked at twice, when its end enters the window and when it leaves it, and the candidates lie in one list
a score; so it is O(n + E).

Letters: n nodes, E directed edges, S scores.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WINDOW = 1024
"""Rows of 512 bytes in half a MiB: half of a common L2 cache. Results differ by a few percent from 512 to 4096."""
GRAIN = 8.0
"""Scores are multiples of 1/GRAIN: scores of one node's neighbours differ up to a degree of 512."""
COUNT, SCORE, NEXT, PREVIOUS = 0, 1, 2, 3
"""Columns of a node's state, together in 16 bytes since all are used together: neighbours in the window; the list that
it is in, 0 for none, TAKEN for ever out; its neighbours in that list, NONE at the ends."""
NONE, TAKEN = -1, -1


@njit(cache=True, nogil=True)
def window_order(indptr, indices, starts_n, window):  # type: ignore[no-untyped-def]
    """All nodes in the order of the walk: [n], in the dtype of `indices`.

    Args:
        indptr, indices: symmetric CSR of n rows, int64 [n + 1] and any signed integer [E]; no duplicates.
        starts_n: all nodes; where the walk begins anew, it begins at the first of these that is not yet taken.
        window: how many nodes back a neighbour counts, at least 1.
    """
    num_nodes = len(indptr) - 1
    weight_n = weights(indptr)
    order_n = np.empty(num_nodes, indices.dtype)
    state_n4 = np.zeros((num_nodes, 4), indices.dtype)
    # A node has as many neighbours as are counted, at least, and for a moment the window has one node too many.
    most = np.float64(min(window + 1, num_nodes))
    first_S = np.full(int(GRAIN * np.cbrt(most) ** 2) + 2, NONE, indices.dtype)
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
            best = max(best, _count(indices[e], np.int64(1), weight_n, state_n4, first_S))
        if i >= window:
            left = order_n[i - window]
            for e in range(indptr[left], indptr[left + 1]):
                _count(indices[e], np.int64(-1), weight_n, state_n4, first_S)
    return order_n


@njit(cache=True, nogil=True)
def weights(indptr):  # type: ignore[no-untyped-def]
    """What one neighbour in the window adds to a node's score; float32 [n]."""
    weight_n = np.empty(len(indptr) - 1, np.float32)
    for i in range(len(weight_n)):
        weight_n[i] = GRAIN / np.cbrt(np.float64(max(1, indptr[i + 1] - indptr[i])))
    return weight_n


@njit(cache=True, nogil=True)
def score(count, weight):  # type: ignore[no-untyped-def]
    """The score of a node by its neighbours in the window; 0 only without any."""
    return max(1, int(count * weight)) if count > 0 else 0


@njit(cache=True, nogil=True)
def _count(node, change, weight_n, state_n4, first_S):  # type: ignore[no-untyped-def]
    """A neighbour of a node enters or leaves the window; returns the node's score, TAKEN if it has none any more."""
    old = state_n4[node, SCORE]
    if old == TAKEN:
        return old
    count = state_n4[node, COUNT] + change
    state_n4[node, COUNT] = count
    new = min(score(count, weight_n[node]), len(first_S) - 1)
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
    """Remove a node from the list of its score."""
    before, after = state_n4[node, PREVIOUS], state_n4[node, NEXT]
    if before != NONE:
        state_n4[before, NEXT] = after
    else:
        first_S[state_n4[node, SCORE]] = after
    if after != NONE:
        state_n4[after, PREVIOUS] = before
