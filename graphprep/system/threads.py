"""Several pieces of work at the same time, in threads. Ctrl-C does not wait for them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kernel_threads() -> int:
    """Threads that share the work of one kernel: all cores, or NUMBA_NUM_THREADS where that is set.

    numba.get_num_threads says the same, but starts numba's own threads, and with them torch would get as many again
    where it had been told to use fewer.
    """
    from numba import config  # only where there are kernels: it takes half a second

    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def workers_for(needed: int, room: int) -> int:
    """How many pieces of work that need so many bytes each can run at a time in this much memory; at least 1."""
    return max(1, min(cores(), room // max(1, needed)))


def map_in_order(function: Callable[[Piece], Result], pieces: Iterable[Piece], *, workers: int) -> Iterator[Result]:
    """The result of each piece, in order.

    Args:
        function: called with a piece.
        pieces: taken as threads are free. After an error those that run are waited for, since they may write what the
            caller is about to give up, and none is begun.
        workers: how many run at a time.

    Raises:
        Exception: the first one, in order, that a piece raised.
    """
    threads = ThreadPoolExecutor(workers)
    wait = True
    try:
        running: deque[Future[Result]] = deque()
        for piece in pieces:
            if len(running) > workers:  # one more, so that no worker waits while the oldest result is used
                yield running.popleft().result()
            running.append(threads.submit(function, piece))
        while running:
            yield running.popleft().result()
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        threads.shutdown(wait=wait, cancel_futures=True)


def side_by_side(pieces: Sequence[Callable[[], Result]], *, workers: int) -> list[Result]:
    """The result of each piece, a function without arguments; as `map_in_order`, but with 1 worker they run here."""
    if workers == 1 or len(pieces) < 2:
        return [piece() for piece in pieces]
    return list(map_in_order(lambda piece: piece(), pieces, workers=workers))


def each(function: Callable[[Piece], Result], pieces: Sequence[Piece], threads: Executor | None) -> list[Result]:
    """The result of each piece, computed by `threads`, or here where there are none or only one piece."""
    if threads is None or len(pieces) < 2:
        return [function(piece) for piece in pieces]
    return [future.result() for future in [threads.submit(function, piece) for piece in pieces]]
