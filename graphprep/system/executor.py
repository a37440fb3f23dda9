"""Work over ranges of rows or over parts: by threads of this process, or by the workers of a Dask cluster.

    for result in executor.map(function, pieces, *shared, needed=bytes): ...

calls `function(piece, *shared)` for every piece and gives the results in the order of the pieces, whoever made them and
when. The pieces are fixed by the data, never by the number of workers, and are put together in their order: so sums of
floats come out the same too. A function that is to run on Dask is one of a module's own, and what it takes and gives
can be pickled; a store goes as its path or URL, an array that is mapped from a file with a name as that name.
A piece may be done more than once, so it changes nothing that is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from graphprep.system import memory
from graphprep.system.threads import cores, map_in_order, workers_for

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs a function over pieces."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the work is done by other processes, which share no memory with this one."""

    def map(
        self, function: Callable[..., Result], pieces: Sequence[Piece], *shared: object, needed: int
    ) -> Iterator[Result]:
        """The results, in the order of the pieces.

        Args:
            function: called with a piece and then what is shared.
            pieces: what differs.
            shared: what all have in common, handed to each worker once.
            needed: bytes that one piece takes.

        Raises:
            Exception: the first one, in order, that a piece raised.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """As many threads as there are cores and as the memory allows."""

    memory_limit: int | None = None
    """bytes that this process may hold; None for half of what is free"""
    most: int = field(default_factory=cores)
    """threads, however much memory there is"""
    is_elsewhere: bool = False

    def map(
        self, function: Callable[..., Result], pieces: Sequence[Piece], *shared: object, needed: int
    ) -> Iterator[Result]:
        """See `Executor.map`."""
        workers = min(self.most, workers_for(needed, memory.remaining(self.memory_limit))) if len(pieces) > 1 else 1
        if workers == 1:
            for piece in pieces:
                yield function(piece, *shared)
            return
        yield from map_in_order(lambda piece: function(piece, *shared), pieces, workers=workers)


@contextmanager
def open_executor(dask: str | None, *, memory_limit: int | None = None) -> Iterator[Executor]:
    """Threads, or the workers of a Dask cluster.

    Args:
        dask: a scheduler's address, or local:N for N workers that are started here and end with the block; None for
            threads.
        memory_limit: bytes that this process may hold; None for half of what is free. Dask's workers have limits of
            their own.

    Raises:
        UsageError: Dask is not installed, or there is no such cluster.
    """
    if dask is None:
        yield Threads(memory_limit=memory_limit)
        return
    from graphprep.system.dask_executor import open_dask

    with open_dask(dask) as executor:
        yield executor
