"""The numba loops of `belady.py`. None checks its input.

Slots are in lists by the number of the batch that needs their row next: the list of batch b is b modulo the number of
known batches. Behind them are LEVELS lists of the slots whose next use is not known, the improbable rows last. So the
row that is needed last is found without a search, and each row of a batch takes a constant number of steps.

Letters: n rows of a batch, C slots, L lists, N nodes, R places of a ring that has the rows of all known batches: the
place of a row is its number among all announced rows, modulo R.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

NONE = -1
LEVELS = 128
UNKNOWN = 2**31 - 1 - LEVELS
"""the next use of a row that no known batch needs, to which its level is added: 0 .. LEVELS - 1"""
USED, FARTHEST, LOWEST = 0, 1, 2
"""what `state` has: slots that were ever filled; no known next use is after this batch; no level is above this one"""


def empty_slots(num_slots: int, look_ahead: int) -> tuple[NDArray[np.int64], ...]:
    """The arrays of an empty cache, as all kernels take them: node_C, next_C, filled_C, before_C, after_C, head_L and
    state. `filled_C` is the place in its batch of the row that was put there, while that batch is used."""
    of_slots = [np.full(num_slots, NONE, np.int64) for _ in range(5)]
    return (*of_slots, np.full(look_ahead + LEVELS, NONE, np.int64), np.zeros(3, np.int64))


@njit(cache=True, nogil=True)
def longer(array_R, first, end, count):  # type: ignore[no-untyped-def]
    """A ring of at least `count` places, with what the given one has at the numbers first .. end - 1."""
    size = len(array_R)
    while size < count:
        size *= 2
    found = np.empty(size, array_R.dtype)
    for number in range(first, end):
        found[number % size] = array_R[number % len(array_R)]
    return found


@njit(cache=True, nogil=True)
def _list_of(next_use, head_L):  # type: ignore[no-untyped-def]
    known = len(head_L) - LEVELS
    return known + next_use - UNKNOWN if next_use >= UNKNOWN else next_use % known


@njit(cache=True, nogil=True)
def _take_out(slot, next_C, before_C, after_C, head_L):  # type: ignore[no-untyped-def]
    """Take a slot out of its list."""
    before, after = before_C[slot], after_C[slot]
    if before == NONE:
        head_L[_list_of(next_C[slot], head_L)] = after
    else:
        after_C[before] = after
    if after != NONE:
        before_C[after] = before


@njit(cache=True, nogil=True)
def _put_in(slot, next_use, next_C, before_C, after_C, head_L, state):  # type: ignore[no-untyped-def]
    """Put a slot into the list of a next use."""
    number = _list_of(next_use, head_L)
    next_C[slot] = next_use
    before_C[slot], after_C[slot] = NONE, head_L[number]
    if head_L[number] != NONE:
        before_C[head_L[number]] = slot
    head_L[number] = slot
    if next_use >= UNKNOWN:
        state[LOWEST] = max(state[LOWEST], next_use - UNKNOWN)
    else:
        state[FARTHEST] = max(state[FARTHEST], next_use)


@njit(cache=True, nogil=True)
def _needed_last(batch, head_L, state):  # type: ignore[no-untyped-def]
    """The slot whose row is needed last, or NONE if there is no slot."""
    known = len(head_L) - LEVELS
    while state[LOWEST] > 0 and head_L[known + state[LOWEST]] == NONE:
        state[LOWEST] -= 1
    if head_L[known + state[LOWEST]] != NONE:
        return head_L[known + state[LOWEST]]
    while state[FARTHEST] > batch and head_L[state[FARTHEST] % known] == NONE:
        state[FARTHEST] -= 1
    return head_L[state[FARTHEST] % known] if state[FARTHEST] > batch else NONE


@njit(cache=True, nogil=True)
def announce(  # type: ignore[no-untyped-def]
    ids_n, batch, first, end, ids_R, next_R, last_N, slot_N, level_N,
    _node_C, next_C, _filled_C, before_C, after_C, head_L, state,
):  # fmt: skip
    """Write the rows of a batch behind those at first .. end - 1, and this batch as the next use of those that it needs
    again. `last_N` is the number of each node's last announced row."""
    for i in range(len(ids_n)):
        node = ids_n[i]
        if last_N[node] >= first:
            next_R[last_N[node] % len(next_R)] = batch
        elif slot_N[node] != NONE:
            _take_out(slot_N[node], next_C, before_C, after_C, head_L)
            _put_in(slot_N[node], batch, next_C, before_C, after_C, head_L, state)
        last_N[node] = end + i
        ids_R[(end + i) % len(ids_R)] = node
        next_R[(end + i) % len(next_R)] = UNKNOWN + level_N[node]


@njit(cache=True, nogil=True)
def use(  # type: ignore[no-untyped-def]
    batch, first, end, ids_R, next_R, slot_N,
    node_C, next_C, filled_C, before_C, after_C, head_L, state,
):  # fmt: skip
    """The slots that have the rows at first .. end - 1, those of a batch, and the slots to put the others into."""
    slot_n, store_n = np.full(end - first, NONE, np.int32), np.full(end - first, NONE, np.int32)
    for i in range(end - first):
        slot = slot_N[ids_R[(first + i) % len(ids_R)]]
        if slot != NONE:
            slot_n[i] = slot
            _take_out(slot, next_C, before_C, after_C, head_L)
            _put_in(slot, next_R[(first + i) % len(next_R)], next_C, before_C, after_C, head_L, state)
    for i in range(end - first):
        if slot_n[i] != NONE:
            continue
        next_use = next_R[(first + i) % len(next_R)]
        if state[USED] < len(node_C):
            slot = state[USED]
            state[USED] += 1
        else:
            slot = _needed_last(batch, head_L, state)
            if slot == NONE or next_C[slot] <= next_use:
                continue
            _take_out(slot, next_C, before_C, after_C, head_L)
            slot_N[node_C[slot]] = NONE
            if filled_C[slot] != NONE:
                store_n[filled_C[slot]] = NONE
        node = ids_R[(first + i) % len(ids_R)]
        node_C[slot], filled_C[slot], slot_N[node], store_n[i] = node, i, slot, slot
        _put_in(slot, next_use, next_C, before_C, after_C, head_L, state)
    for i in range(end - first):
        if store_n[i] != NONE:
            filled_C[store_n[i]] = NONE
    return slot_n, store_n
