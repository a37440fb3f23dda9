"""What a policy decides for each batch, and how batches reach it ahead of their use.

Letters: n remote rows of a batch, C slots of a cache, N nodes that rows belong to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

NO_SLOT = -1
Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedRows:
    """What a batch takes from the cache and puts into it. All reads come before all writes."""

    slot_n: NDArray[np.int32]
    """the slot that has each row of the batch, or NO_SLOT: the row is fetched"""
    store_n: NDArray[np.int32]
    """the slot to put each fetched row into, or NO_SLOT: it is used and not kept; no slot is there twice"""

    @property
    def num_fetched(self) -> int:
        """Rows that are in no slot."""
        return int(np.count_nonzero(self.slot_n == NO_SLOT))


class RowCache(Protocol):
    """A policy. It sees batches twice: when they are known, and when they are used."""

    look_ahead: int
    """batches to announce before the first is used, so many as the policy makes use of; at least 1"""

    def announce(self, ids_n: NDArray[np.int64]) -> None:
        """The remote rows of the batch after all that were announced: numbers of nodes, each once."""
        ...

    def use(self) -> CachedRows:
        """What to do for the oldest announced batch that was not used yet."""
        ...


def plan_batches(
    cache: RowCache, batches: Iterable[Batch], remote_ids: Callable[[Batch], NDArray[np.int64]]
) -> Iterator[tuple[Batch, CachedRows]]:
    """Each batch with what it takes from the cache and puts into it; as many batches as the policy needs are held.

    Args:
        cache: the policy.
        batches: of all epochs, in the order in which they are used.
        remote_ids: the remote rows of a batch.
    """
    ahead: deque[Batch] = deque()
    for batch in batches:
        cache.announce(remote_ids(batch))
        ahead.append(batch)
        if len(ahead) >= cache.look_ahead:
            yield ahead.popleft(), cache.use()
    while ahead:
        yield ahead.popleft(), cache.use()
