"""Ranks that meet in a store that earlier ranks have used."""

from __future__ import annotations

import datetime
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from trainer.dist.rendezvous import own_store


def all_stores(store: dist.Store, world: int, *, late: int) -> list[dist.Store]:
    """All ranks' stores; rank `late` comes after the others."""

    def come(rank: int) -> dist.Store:
        time.sleep(0.1 * (rank == late))
        return own_store(store, rank=rank, world=world, timeout=20.0)

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(come, range(world)))


def test_nothing_of_an_earlier_rendezvous_is_seen() -> None:
    """Facts of ranks that were killed look like those of their successors: ranks then wait for different things."""
    store = dist.HashStore()
    for attempt in range(3):
        stores = all_stores(store, 3, late=attempt)
        for rank, mine in enumerate(stores):
            assert not mine.check([f"facts/{rank}"])
        for rank, mine in enumerate(stores):
            mine.set(f"facts/{rank}", str(attempt))
        assert [mine.get("facts/0") for mine in stores] == [str(attempt).encode()] * 3


def test_a_rendezvous_that_was_cut_short_is_not_continued() -> None:
    """An answer to a rank 0 that is gone must not stand for an answer to its successor."""
    store = dist.HashStore()
    store.set_timeout(datetime.timedelta(seconds=20))
    store.set("rendezvous", "earlier")
    store.set("earlier/1", "a word of a rank that is gone")
    found: list[dist.Store] = []
    waiting = threading.Thread(target=lambda: found.append(own_store(store, rank=1, world=2, timeout=20.0)))
    waiting.start()
    time.sleep(0.1)
    assert not found
    mine = own_store(store, rank=0, world=2, timeout=20.0)
    waiting.join(20)
    mine.set("key", "value")
    assert found[0].get("key") == b"value"


def test_a_rank_does_not_wait_for_ever() -> None:
    """Without rank 0 there is no rendezvous, which has to be an error."""
    store = dist.HashStore()
    store.set("rendezvous", "earlier")
    with pytest.raises(RuntimeError, match="rank 0 did not come"):
        own_store(store, rank=1, world=2, timeout=0.1)
