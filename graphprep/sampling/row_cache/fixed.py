"""Keep the rows of the highest scores for good. Each is stored when a batch first fetches it, so that none travels for
the cache alone."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.row_cache.plan import NO_SLOT, CachedRows


class FixedCache:
    """The policy. Letters: n rows of a batch, C slots, N nodes."""

    look_ahead = 1

    def __init__(self, score_N: NDArray[Any], num_slots: int) -> None:
        """Choose the rows.

        Args:
            score_N: a number for each node; rows of 0 or less are not kept, equal ones by their numbers.
            num_slots: C, rows that the cache can hold.
        """
        chosen = np.argsort(-score_N, kind="stable")[:num_slots]
        chosen = chosen[score_N[chosen] > 0]
        self._place_N = np.full(len(score_N), NO_SLOT, np.int32)
        self._place_N[chosen] = np.arange(len(chosen))
        self._is_filled_C = np.zeros(num_slots, np.bool_)
        self._batches: deque[NDArray[np.int64]] = deque()

    def announce(self, ids_n: NDArray[np.int64]) -> None:
        """As `RowCache.announce`."""
        self._batches.append(ids_n)

    def use(self) -> CachedRows:
        """As `RowCache.use`."""
        place_n = self._place_N[self._batches.popleft()]
        chosen = place_n != NO_SLOT
        is_hit = chosen.copy()
        is_hit[chosen] = self._is_filled_C[place_n[chosen]]
        self._is_filled_C[place_n[chosen]] = True
        return CachedRows(
            slot_n=np.where(is_hit, place_n, np.int32(NO_SLOT)), store_n=np.where(is_hit, np.int32(NO_SLOT), place_n)
        )
