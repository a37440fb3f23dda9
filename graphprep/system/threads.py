"""Several pieces of work at the same time, in threads. Ctrl-C does not wait for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_for(needed: int, room: int) -> int:
    """How many pieces of work that need so many bytes each can run at a time in this much memory; at least 1."""
    return max(1, min(cores(), room // max(1, needed)))


def side_by_side(pieces: Sequence[Callable[[], Result]], *, workers: int) -> list[Result]:
    """The result of each piece, in order.

    Args:
        pieces: functions without arguments. After an error those that run are waited for, since they may write what
            the caller is about to give up, and none is begun.
        workers: how many run at a time, at least 1; with 1 they run here, one after another.

    Raises:
        Exception: the first one, in order, that a piece raised.
    """
    if workers == 1 or len(pieces) < 2:
        return [piece() for piece in pieces]
    threads = ThreadPoolExecutor(max_workers=workers)
    wait = True
    try:
        running = [threads.submit(piece) for piece in pieces]
        return [piece.result() for piece in running]
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        threads.shutdown(wait=wait, cancel_futures=True)
