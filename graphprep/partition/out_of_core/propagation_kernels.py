"""The numba kernels of label propagation. None checks its input; `propagation` does.

Letters: X nodes of a level, E directed edges, C limits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

HUB = 2048
"""Of a longer row only this many neighbours, evenly spread, are visited."""
NONE = -1


class Edges(NamedTuple):
    """The edges of a level."""

    indptr: NDArray[np.integer[Any]]
    indices: NDArray[np.integer[Any]]
    weight_E: NDArray[np.float32]
    """empty where every edge weighs 1"""


class Ratings(NamedTuple):
    """Work arrays: a hash table of the labels of a node's neighbours, and which of its places are in use."""

    keys: NDArray[np.int64]
    rating: NDArray[np.float64]
    touched: NDArray[np.int64]


@njit(cache=True, nogil=True)
def spread(number: Any, salt: Any) -> Any:
    """A 63-bit hash of both numbers (the finaliser of SplitMix64)."""
    x = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt) * np.uint64(0xD6E8FEB86659FD93)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1))


@njit(cache=True, nogil=True)
def _place(keys: Any, key: Any) -> Any:
    """Where a key is in a table of 2^n places, or where it would go."""
    mask = len(keys) - 1
    at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while keys[at] != NONE and keys[at] != key:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def _power_of_two(least: Any) -> Any:
    size = 16
    while size < least:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def _new_ratings() -> Any:
    return Ratings(np.full(2 * HUB, NONE, np.int64), np.empty(2 * HUB, np.float64), np.empty(HUB + 1, np.int64))


@njit(cache=True, nogil=True)
def _rate(node: Any, rows: Any, edges: Edges, group_X: Any, label_X: Any, new_x: Any, ratings: Ratings) -> Any:
    """Add the weights of a node's edges by the label of their ends; how many labels there are."""
    (start, stop), (indptr, indices, weight_E), (keys, rating, touched) = rows, edges, ratings
    begin, end = indptr[node], indptr[node + 1]
    count = 0
    for e in range(begin, end, 1 + max(0, end - begin - 1) // HUB):
        other = indices[e]
        if len(group_X) and group_X[other] != group_X[node]:
            continue
        label = np.int64(new_x[other - start] if start <= other < stop else label_X[other])
        at = _place(keys, label)
        if keys[at] == NONE:
            keys[at], rating[at] = label, 0.0
            touched[count] = at
            count += 1
        rating[at] += weight_E[e] if len(weight_E) else 1.0
    return count


@njit(cache=True, nogil=True)
def visit(
    rows: Any,
    edges: Edges,
    group_X: Any,
    label_X: Any,
    new_x: Any,
    weight_XC: Any,
    held_XC: Any,
    most_C: Any,
    salt: Any,
    half: Any,
) -> None:
    """The nodes of a range each take the label that weighs most among their neighbours and has room.

    Args:
        group_X: only nodes of one group share a label; empty where all may.
        label_X: labels when the round began.
        new_x: of the range's own nodes; the same at first, and written.
        held_XC: what each label's nodes weigh when the round began. What leaves a label in this round still counts.
        most_C: what a label may hold.
        salt: of the random choice between equal labels.
        half: 0 or 1 for half of the nodes, -1 for all.
    """
    (start, stop), num_limits, ratings = rows, len(most_C), _new_ratings()
    keys, rating, touched = ratings
    joined_keys = np.full(_power_of_two(2 * (stop - start)), NONE, np.int64)
    joined = np.zeros((len(joined_keys), num_limits), np.float64)
    for node in range(start, stop):
        if half >= 0 and spread(node, np.int64(1)) & 1 != half:
            continue
        count = _rate(node, rows, edges, group_X, label_X, new_x, ratings)
        own = np.int64(new_x[node - start])
        best, best_rating, best_draw = own, 0.0, np.int64(-1)
        for k in range(count):
            if keys[touched[k]] == own:
                best_rating, best_draw = rating[touched[k]], np.int64(np.iinfo(np.int64).max)
        for k in range(count):
            at = touched[k]
            label = keys[at]
            if label == own or rating[at] < best_rating:
                continue
            draw = spread(label, salt)
            if rating[at] == best_rating and draw <= best_draw:
                continue
            place = _place(joined_keys, label)
            has_room = True
            for c in range(num_limits):
                weight = weight_XC[node, c]
                more = joined[place, c] if joined_keys[place] == label else 0.0
                if weight > 0 and held_XC[label, c] + more + weight > most_C[c]:
                    has_room = False
            if has_room:
                best, best_rating, best_draw = label, rating[at], draw
        for k in range(count):
            keys[touched[k]] = NONE
        if best != own:
            new_x[node - start] = best
            place = _place(joined_keys, best)
            joined_keys[place] = best
            for c in range(num_limits):
                joined[place, c] += weight_XC[node, c]


@njit(cache=True, nogil=True)
def _has_room(label: Any, node: Any, weight_XC: Any, held_XC: Any, most_C: Any) -> Any:
    """Whether a label has room for a node."""
    for c in range(len(most_C)):
        if weight_XC[node, c] > 0 and held_XC[label, c] + weight_XC[node, c] > most_C[c]:
            return False
    return True


@njit(cache=True, nogil=True)
def settle(label_X: Any, new_X: Any, weight_XC: Any, held_XC: Any, most_C: Any) -> Any:
    """Adopt the new labels in the order of the nodes, as far as they have room; returns how many nodes moved.

    Ranges do not see what others put into a label. What comes too late keeps its old label, where its room was kept.
    """
    num_limits = len(most_C)
    moved = 0
    for node in range(len(label_X)):
        label = new_X[node]
        if label == label_X[node]:
            continue
        if not _has_room(label, node, weight_XC, held_XC, most_C):
            new_X[node] = label_X[node]
            continue
        moved += 1
        for c in range(num_limits):
            held_XC[label, c] += weight_XC[node, c]
    for node in range(len(label_X)):
        if new_X[node] != label_X[node]:
            for c in range(num_limits):
                held_XC[label_X[node], c] -= weight_XC[node, c]
            label_X[node] = new_X[node]
    return moved


@njit(cache=True, nogil=True)
def sizes(label_X: Any, size_X: Any) -> None:
    """Count the nodes of each label."""
    size_X[:] = 0
    for label in label_X:
        size_X[label] += 1


@njit(cache=True, nogil=True)
def favourites(rows: Any, edges: Edges, group_X: Any, label_X: Any, size_X: Any, favourite_x: Any) -> None:
    """Fill in the label that each single node of a range would have taken if it had had room.

    -1 where it has no neighbour, -2 where it is not alone, or has neighbours in other groups only.
    """
    (start, stop), indptr, ratings = rows, edges.indptr, _new_ratings()
    keys, rating, touched = ratings
    own_x = label_X[start:stop]
    for node in range(start, stop):
        favourite_x[node - start] = -2
        if size_X[label_X[node]] != 1:
            continue
        if indptr[node] == indptr[node + 1]:
            favourite_x[node - start] = -1
            continue
        count = _rate(node, rows, edges, group_X, label_X, own_x, ratings)
        best_rating = 0.0
        for k in range(count):
            at = touched[k]
            label = keys[at]
            better = rating[at] == best_rating and label < favourite_x[node - start]
            if label != label_X[node] and (rating[at] > best_rating or better):
                favourite_x[node - start], best_rating = label, rating[at]
            keys[at] = NONE


@njit(cache=True, nogil=True)
def pack(favourite_X: Any, label_X: Any, weight_XC: Any, held_XC: Any, most_C: Any, open_X: Any) -> Any:
    """Single nodes with the same favourite share a label, as far as it has room; returns how many changed theirs.

    `open_X` [X + 1] is filled: the label that takes those of each favourite; the last one takes those without.
    """
    num_limits = len(most_C)
    nobody = len(label_X)
    open_X[:] = NONE
    taken = 0
    for node in range(len(label_X)):
        if favourite_X[node] == -2:
            continue
        favourite = nobody if favourite_X[node] < 0 else favourite_X[node]
        label = open_X[favourite]
        if label == NONE or not _has_room(label, node, weight_XC, held_XC, most_C):
            open_X[favourite] = label_X[node]
            continue
        for c in range(num_limits):
            held_XC[label_X[node], c] -= weight_XC[node, c]
            held_XC[label, c] += weight_XC[node, c]
        label_X[node] = label
        taken += 1
    return taken


@njit(cache=True, nogil=True)
def number(label_X: Any, number_X: Any, coarse_X: Any) -> Any:
    """Number the labels in the order of their first nodes; how many there are. `number_X` is room to work in."""
    number_X[:] = NONE
    count = 0
    for node in range(len(label_X)):
        label = label_X[node]
        if number_X[label] == NONE:
            number_X[label] = count
            count += 1
        coarse_X[node] = number_X[label]
    return count


@njit(cache=True, nogil=True)
def add_up(coarse_X: Any, weight_XC: Any, coarse_weight_XC: Any) -> None:
    """Add the weights of nodes to their clusters."""
    for node in range(len(coarse_X)):
        for c in range(weight_XC.shape[1]):
            coarse_weight_XC[coarse_X[node], c] += weight_XC[node, c]
