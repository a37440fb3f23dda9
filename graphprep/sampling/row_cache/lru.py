"""Keep the rows that were used last. The rows of a batch are used at the same time: none of them displaces another."""

from __future__ import annotations

from collections import deque

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.sampling.row_cache.plan import NO_SLOT, CachedRows


class LruCache:
    """The policy. Letters: n rows of a batch, C slots, N nodes."""

    look_ahead = 1

    def __init__(self, num_nodes: int, num_slots: int) -> None:
        """Begin with an empty cache of `num_slots` rows, numbered below `num_nodes`."""
        self._slot_N = np.full(num_nodes, NO_SLOT, np.int32)
        self._node_C = np.full(num_slots, NO_SLOT, np.int64)
        self._ring_C = np.roll(np.arange(num_slots), -1), np.roll(np.arange(num_slots), 1)
        """the slots after and before each one; they make a ring, in which the one that is used next comes first"""
        self._last = num_slots - 1
        self._batches: deque[NDArray[np.int64]] = deque()

    def announce(self, ids_n: NDArray[np.int64]) -> None:
        """As `RowCache.announce`."""
        self._batches.append(ids_n)

    def use(self) -> CachedRows:
        """As `RowCache.use`."""
        slot_n, store_n, self._last = _use(
            self._batches.popleft(), self._last, *self._ring_C, self._node_C, self._slot_N
        )
        return CachedRows(slot_n=slot_n, store_n=store_n)


@njit(cache=True, nogil=True)
def _use(ids_n, last, after_C, before_C, node_C, slot_N):  # type: ignore[no-untyped-def]
    """As `RowCache.use`, and the slot that was used last. Those of this batch are the last ones of the ring."""
    slot_n, store_n = np.full(len(ids_n), NO_SLOT, np.int32), np.full(len(ids_n), NO_SLOT, np.int32)
    used = 0
    for i in range(len(ids_n)):
        slot = slot_N[ids_n[i]]
        if slot == NO_SLOT:
            continue
        slot_n[i] = slot
        used += 1
        if slot != last:
            after_C[before_C[slot]], before_C[after_C[slot]] = after_C[slot], before_C[slot]
            first = after_C[last]
            before_C[slot], after_C[slot] = last, first
            after_C[last], before_C[first] = slot, slot
            last = slot
    for i in range(len(ids_n)):
        if slot_n[i] != NO_SLOT:
            continue
        if used == len(node_C):
            break
        last = after_C[last]
        used += 1
        if node_C[last] != NO_SLOT:
            slot_N[node_C[last]] = NO_SLOT
        node_C[last], slot_N[ids_n[i]], store_n[i] = ids_n[i], last, last
    return slot_n, store_n, last
