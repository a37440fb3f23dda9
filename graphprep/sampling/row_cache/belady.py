"""Keep the rows that are needed soonest (Belady 1966, "A study of replacement algorithms"), among batches known ahead.

Neighbours are drawn by hashes, so what later batches need can be known before they are trained. After each batch the
cache keeps, of the rows that it has and of those just fetched, those whose next use comes first; a fetched row that is
used later than all of them is not stored. With all batches known no plan fetches fewer rows: a row kept from one use to
the next occupies a slot for the time between, and leaving out the interval that ends last keeps the most intervals.

Where only a window of batches is known, rows with a use in it come first, then others by a score, such as the
probability of a visit. Memory: 12 bytes a row of the window's batches, 13 a node, 40 a slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.row_cache import belady_kernels as kernels
from graphprep.sampling.row_cache.plan import CachedRows

FIRST_ROWS = 1024


class BeladyCache:
    """The policy, over a window of batches."""

    def __init__(self, num_nodes: int, num_slots: int, look_ahead: int, score_N: NDArray[Any] | None = None) -> None:
        """Begin with an empty cache.

        Args:
            num_nodes: N; rows are numbered below it.
            num_slots: C, rows that the cache can hold.
            look_ahead: batches that are known, that which is used included.
            score_N: a number for each node; of rows without a known use those of high scores are kept.
        """
        self.look_ahead = look_ahead
        self._level_N = np.zeros(num_nodes, np.uint8) if score_N is None else _levels(score_N)
        self._slots = kernels.empty_slots(num_slots, look_ahead)
        self._slot_N = np.full(num_nodes, kernels.NONE, np.int32)
        self._last_N = np.full(num_nodes, kernels.NONE, np.int64)
        self._ids_R, self._next_R = np.empty(FIRST_ROWS, np.int64), np.empty(FIRST_ROWS, np.int32)
        self._ends: list[int] = [0]
        """where the rows of each known batch end; the first number is where they begin"""
        self._batch = 0
        """the number of the batch that is used next"""

    def announce(self, ids_n: NDArray[np.int64]) -> None:
        """As `RowCache.announce`."""
        first, end = self._ends[0], self._ends[-1] + len(ids_n)
        if end - first > len(self._ids_R):
            self._ids_R, self._next_R = (
                kernels.longer(each, first, self._ends[-1], end - first) for each in (self._ids_R, self._next_R)
            )
        batch = self._batch + len(self._ends) - 1
        rows = self._ids_R, self._next_R
        nodes = self._last_N, self._slot_N, self._level_N
        kernels.announce(ids_n, batch, first, self._ends[-1], *rows, *nodes, *self._slots)
        self._ends.append(end)

    def use(self) -> CachedRows:
        """As `RowCache.use`."""
        first, end = self._ends[0], self._ends[1]
        rows = self._ids_R, self._next_R
        slot_n, store_n = kernels.use(self._batch, first, end, *rows, self._slot_N, *self._slots)
        del self._ends[0]
        self._batch += 1
        return CachedRows(slot_n=slot_n, store_n=store_n)


def _levels(score_N: NDArray[Any]) -> NDArray[np.uint8]:
    """A number below LEVELS for each node, 0 for the highest scores; each number has about as many nodes."""
    positive = score_N[score_N > 0]
    bounds = np.quantile(positive, np.linspace(0, 1, kernels.LEVELS)[1:-1]) if len(positive) else np.empty(0)
    above = np.searchsorted(np.unique(bounds), score_N, side="right")
    return np.where(score_N > 0, kernels.LEVELS - 2 - above, kernels.LEVELS - 1).astype(np.uint8)
