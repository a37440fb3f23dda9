"""What a run costs: bytes by layer and direction, and seconds by what they were spent on.

Three numbers are kept of every exchange of rows between ranks:

    sent        bytes this rank really sent
    skipped     bytes that it did not send because a kept copy stands for them, and that an exact exchange without
                kept copies would have sent
    broadcast   bytes that broadcasting its whole block to every other rank would have taken instead, at the same row
                width, in fp32, whether our own exchange was made or skipped

The first layer's backward exchange is in none of them: the gradient of the features is needed by nobody.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Direction = Literal["setup", "forward", "backward"]
WIRE_BYTES = 4
"""Bytes a value on the wire: fp32."""


@dataclass(slots=True)
class Entry:
    """One layer's exchanges in one direction."""

    width: int
    """Values a row."""
    exchanges: int = 0
    sent: int = 0
    skipped: int = 0
    broadcast: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The sums over all entries and all ranks, in bytes."""

    sent: int = 0
    skipped: int = 0
    broadcast: int = 0

    @classmethod
    def of(cls, amounts: Sequence[int]) -> Totals:
        """The totals whose parts, summed over the ranks, are `amounts`."""
        sent, skipped, broadcast = amounts
        return cls(sent=sent, skipped=skipped, broadcast=broadcast)


class Account:
    """The bytes of one rank.

    Every rank books the same exchanges in the same order, also those in which it has nothing to send, so that the
    books of all ranks can be added line by line.
    """

    def __init__(self, *, num_rows: int, num_peers: int) -> None:
        """Open the books of a rank that owns `num_rows` rows and could broadcast them to `num_peers` ranks."""
        self._block_rows = num_rows * num_peers
        self._entries: dict[tuple[int, Direction], Entry] = {}

    def book(self, layer: int, direction: Direction, *, rows: int, width: int, skipped: bool = False) -> None:
        """Book one exchange.

        Args:
            layer: 1 .. L, or 0 for what belongs to no layer.
            direction: `forward` sends rows, `backward` their gradients, `setup` what is needed once.
            rows: rows that this rank sends, over all peers.
            width: values a row.
            skipped: the rows were not sent, since the receivers had kept them.
        """
        entry = self._entries.setdefault((layer, direction), Entry(width=width))
        entry.exchanges += 1
        if skipped:
            entry.skipped += rows * width * WIRE_BYTES
        else:
            entry.sent += rows * width * WIRE_BYTES
        entry.broadcast += self._block_rows * width * WIRE_BYTES

    def amounts(self) -> list[int]:
        """This rank's part of the totals, to be summed over the ranks."""
        entries = self._entries.values()
        return [sum(e.sent for e in entries), sum(e.skipped for e in entries), sum(e.broadcast for e in entries)]

    def table(self, add_up: Callable[[Tensor], Tensor], device: torch.device) -> list[dict[str, Any]]:
        """One row a layer and direction, bytes summed over all ranks; every rank has to call it."""
        keys = sorted(self._entries)
        mine = [[self._entries[key].sent, self._entries[key].skipped, self._entries[key].broadcast] for key in keys]
        sums = add_up(torch.tensor(mine, dtype=torch.int64, device=device).reshape(-1, 3)).tolist()
        return [
            {
                "layer": layer,
                "direction": direction,
                "width": self._entries[layer, direction].width,
                "exchanges": self._entries[layer, direction].exchanges,
                "bytes_sent": sent,
                "bytes_skipped": skipped,
                "bytes_whole_block_broadcast": broadcast,
            }
            for (layer, direction), (sent, skipped, broadcast) in zip(keys, sums, strict=True)
        ]


class Clock:
    """Seconds by activity, on a CPU. A GPU works after the call that starts the work, so there it measures nothing."""

    def __init__(self, device: torch.device) -> None:
        self._running = device.type == "cpu"
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Add the time of the block to `activity`."""
        started = time.perf_counter()
        yield
        if self._running:
            self._seconds[activity] += time.perf_counter() - started

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of each activity so far."""
        return dict(self._seconds)
