"""A part of torchrun's store that belongs to the ranks that are alive now, and to no earlier ones.

torchrun may keep one store while it starts ranks again, with all that their predecessors left in it: their facts, and
the addresses of their connections. How often ranks were started tells the attempts apart on one machine, but each
machine counts its own. So rank 0 names the meeting by a word that was never used, every other rank answers under that
name with a word of its own, and goes on when rank 0 has repeated it: nobody who is gone can do that.
"""

from __future__ import annotations

import time
import uuid

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

_NAME = "meeting"
_PAUSE = 0.01
"""Seconds between looks at the store."""


def meet(store: Store, *, rank: int, world: int, timeout: float) -> Store:
    """Wait until all ranks are here.

    Args:
        store: that all ranks see, with anything in it.
        rank: of this process.
        world: how many ranks there are.
        timeout: seconds to wait.

    Returns:
        a store of these ranks alone, empty at first.

    Raises:
        RuntimeError: a rank did not come.
    """
    word = uuid.uuid4().hex
    if rank == 0:
        store.set(_NAME, word)
        for peer in range(1, world):
            store.set(f"{word}/{store.get(f'{word}/{peer}').decode()}", "")
        return PrefixStore(word, store)
    answered, deadline = "", time.monotonic() + timeout
    while time.monotonic() < deadline:
        name = store.get(_NAME).decode()
        if name != answered:
            # At first it may be the name of an earlier meeting, where nobody is left to hear.
            store.set(f"{name}/{rank}", word)
            answered = name
        if store.check([f"{name}/{word}"]):
            return PrefixStore(name, store)
        time.sleep(_PAUSE)
    raise RuntimeError(f"rank 0 did not come within {timeout:g} s")
