"""Rendezvous: a part of torchrun's store that belongs to the ranks that run now, and to no earlier ones.

torchrun may keep one store while it starts ranks again, with all keys of their predecessors in it: what they gathered,
and the addresses of their connections. How often ranks were started tells the attempts apart on one machine, but each
machine counts its own. So rank 0 writes a random key prefix, every other rank answers under that prefix with a random
token of its own, and goes on when rank 0 has repeated the token: no earlier rank can do that.
"""

from __future__ import annotations

import time
import uuid

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

_KEY = "rendezvous"
_PAUSE = 0.01
"""Seconds between looks at the store."""


def own_store(store: Store, *, rank: int, world: int, timeout: float) -> Store:
    """Wait until all ranks have connected to `store`.

    Args:
        store: of all ranks, with anything in it.
        rank: of this process.
        world: how many ranks there are.
        timeout: seconds to wait.

    Returns:
        a store of these ranks alone, empty at first.

    Raises:
        RuntimeError: a rank did not connect.
    """
    token = uuid.uuid4().hex
    if rank == 0:
        store.set(_KEY, token)
        for peer in range(1, world):
            store.set(f"{token}/{store.get(f'{token}/{peer}').decode()}", "")
        return PrefixStore(token, store)
    answered, deadline = "", time.monotonic() + timeout
    while time.monotonic() < deadline:
        prefix = store.get(_KEY).decode()
        if prefix != answered:
            # At first it may be the prefix of an earlier rendezvous, which no rank 0 waits at any more.
            store.set(f"{prefix}/{rank}", token)
            answered = prefix
        if store.check([f"{prefix}/{token}"]):
            return PrefixStore(prefix, store)
        time.sleep(_PAUSE)
    raise RuntimeError(f"rank 0 did not come within {timeout:g} s")
