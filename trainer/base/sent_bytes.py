"""The bytes that leave a rank, by purpose: rows, weights, and all the rest.

What is recorded is the size of what is passed to the library that sends it, without the headers of TCP, gloo or NCCL:

    from rank to rank   the bytes of the tensors, where they leave
    sum over all        2 (k - 1) / k of the tensor on each of k ranks: what a ring sends (Patarasuk and Yuan 2009),
                        which is gloo's way; NCCL may choose another one, none of which sends less over all ranks
    from one to all     the tensor once for each other rank, where it leaves
    notes               their text once to the store and once from there to each rank

TrafficLog (trainer/base/traffic_log.py) has the rows once more, by layer, direction and pair of ranks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

Purpose = Literal[
    "rows",
    "pairs",
    "weights' gradients",
    "first weights",
    "batch norm",
    "who sends",
    "metrics",
    "notes and counts",
    "preparation",
    "checkpoints",
    "saved rows",
]
KINDS = ("rows", "weights", "other")
KIND_OF: Mapping[Purpose, str] = {
    "rows": "rows",
    "pairs": "other",
    "weights' gradients": "weights",
    "first weights": "weights",
    "batch norm": "other",
    "who sends": "other",
    "metrics": "other",
    "notes and counts": "other",
    "preparation": "other",
    "checkpoints": "other",
    "saved rows": "other",
}
"""Every purpose, in the order of reports, with the kind that it belongs to."""


class SentBytes:
    """The bytes that one of k ranks has sent so far."""

    def __init__(self, *, rank: int, world: int) -> None:
        self._rank, self._world = rank, world
        self.reset()

    def reset(self) -> None:
        """Begin again at 0, for another run."""
        self._calls: dict[Purpose, int] = dict.fromkeys(KIND_OF, 0)
        self._bytes: dict[Purpose, int] = dict.fromkeys(KIND_OF, 0)
        self._points: list[tuple[float, tuple[int, ...]]] | None = None

    def record(self, purpose: Purpose, number: int) -> None:
        """Record that `number` bytes leave this rank; 0 where others send."""
        self._calls[purpose] += 1
        self._bytes[purpose] += number
        if self._points is not None:
            self._points.append((time.perf_counter(), self.by_kind))

    def record_all_reduce(self, purpose: Purpose, size: int) -> None:
        """Record a sum over all ranks of `size` bytes on each."""
        all_ranks = 2 * (self._world - 1) * size
        self.record(purpose, all_ranks // self._world + (self._rank < all_ranks % self._world))

    def record_broadcast(self, purpose: Purpose, size: int, *, source: int) -> None:
        """Record `size` bytes that rank `source` sends to all."""
        self.record(purpose, size * (self._world - 1) if self._rank == source else 0)

    @property
    def by_kind(self) -> tuple[int, ...]:
        """The bytes so far, in the order of `KINDS`."""
        sums = dict.fromkeys(KINDS, 0)
        for purpose, number in self._bytes.items():
            sums[KIND_OF[purpose]] += number
        return tuple(sums.values())

    def amounts(self) -> list[list[int]]:
        """Calls and bytes of each purpose, in the order of `KIND_OF`, to be summed over the ranks."""
        return [[self._calls[purpose], self._bytes[purpose]] for purpose in KIND_OF]

    def keep_points(self) -> None:
        """From now on keep the bytes so far after every record."""
        self._points = []

    @property
    def points(self) -> list[tuple[float, tuple[int, ...]]]:
        """Seconds and the bytes so far in the order of `KINDS`, since `keep_points`."""
        return list(self._points or [])
