"""The rows of other parts that a part keeps, batch after batch of a run: what is read where, and what is stored where.

Policies want batches before they are used. So the nodes of coming batches are drawn ahead, and drawn again when their
time comes: draws are hashes, and only numbers of remote nodes are held. Every sampler process plans all batches of its
part, and takes from that what it needs for its own, so that all have the same plan.

The window grows with the run, so that the first batch does not wait for it: batches that are not known yet are ordered
by their probability to need a row.

Letters: n nodes of one type in a batch, N all nodes of a type, P parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.input_rows import Arrays, EveryBatch
from graphprep.sampling.row_cache.plan import NO_SLOT, CachedRows, RowCache
from graphprep.sampling.rows import NodeLocations

MOST_WINDOW_BYTES, BYTES_A_ROW = 256_000_000, 12
"""that are held of the window's batches, and a row of them"""
FIRST_WINDOW, GROWTH = 8, 2
"""batches that are known when the first one is used, and that are announced for each that is used after it"""
Ids = Mapping[str, NDArray[np.int64]]
Step = tuple[int, int]
"""epoch and number in it"""


def window_of(steps: int, rows_a_batch: float) -> int:
    """How many batches are known ahead: two epochs, or as many as memory is for.

    Args:
        steps: batches of an epoch.
        rows_a_batch: remote ones, of all types together.
    """
    fits = int(MOST_WINDOW_BYTES / (BYTES_A_ROW * max(rows_a_batch, 1.0)))
    return max(1, min(2 * steps, fits))


class KeptRowsPlanner:
    """What a part's caches, one for each node type, do for the batches of a run."""

    def __init__(
        self,
        caches: Mapping[str, RowCache],
        remote_ids: Callable[[int, int], Ids],
        steps: Sequence[Step] | Iterator[Step],
        look_ahead: int,
    ) -> None:
        """Begin with empty caches.

        Args:
            caches: by node type.
            remote_ids: draws the remote nodes of a batch, in their order in it, by its epoch and step.
            steps: of the run.
            look_ahead: batches that are known at most; that of the caches.
        """
        self._caches, self._remote_ids = caches, remote_ids
        self._to_announce, self._to_use = itertools.tee(steps)
        self._look_ahead, self._known, self._window = look_ahead, 0, min(FIRST_WINDOW, look_ahead)
        self._step: Step | None = None
        self._plans: dict[str, CachedRows] = {}

    def of(self, step: Step) -> Mapping[str, CachedRows]:
        """The plans of a batch, by node type. Batches come in their order; some may be left out."""
        while self._step != step:
            for later in itertools.islice(self._to_announce, self._window - self._known):
                for name, ids_n in self._remote_ids(*later).items():
                    self._caches[name].announce(ids_n)
                self._known += 1
            self._step = next(self._to_use)
            self._plans = {name: cache.use() for name, cache in self._caches.items()}
            self._known -= 1
            self._window = min(self._window + GROWTH - 1, self._look_ahead)
        return self._plans


class KeptRows(EveryBatch):
    """Requests the rows that the part lacks and has not kept, of one node type."""

    def __init__(
        self,
        locations: NodeLocations,
        part: int,
        num_parts: int,
        *,
        planner: KeptRowsPlanner,
        node_type: str,
        num_kept: int,
    ) -> None:
        super().__init__(locations, part, num_parts)
        self._planner, self._node_type, self.num_kept = planner, node_type, num_kept

    def of_batch(self, ids_n: NDArray[np.int64], *, epoch: int, step: int) -> Arrays:
        plan = super().of_batch(ids_n, epoch=epoch, step=step)
        cached = self._planner.of((epoch, step))[self._node_type]
        slot_n, store_n = (np.full(len(ids_n), NO_SLOT, np.int64) for _ in range(2))
        is_remote_n = np.ones(len(ids_n), np.bool_)
        is_remote_n[plan["own_place"]] = False
        slot_n[is_remote_n], store_n[is_remote_n] = cached.slot_n, cached.store_n
        others: NDArray[Any] = plan["requested_place"]
        is_kept = slot_n[others] != NO_SLOT
        requested, kept = others[~is_kept], others[is_kept]
        owners = np.repeat(np.arange(self._num_parts), plan["requested_per_part"])
        stored = np.flatnonzero(store_n[requested] != NO_SLOT)
        return plan | {
            "kept_place": kept,
            "kept_slot": slot_n[kept],
            "requested_place": requested,
            "requested_row": plan["requested_row"][~is_kept],
            "requested_per_part": np.bincount(owners[~is_kept], minlength=self._num_parts),
            "stored_request": stored,
            "stored_slot": store_n[requested[stored]],
        }
