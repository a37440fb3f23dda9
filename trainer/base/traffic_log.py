"""What a run costs: bytes by layer, direction and peer, and seconds by activity.

Four numbers are kept of every exchange of rows between ranks (trainer/base/sent_bytes.py has all else that leaves a
rank):

    sent        bytes this rank really sent
    skipped     bytes that it did not send because receivers use a kept copy, and that the same exchange without kept
                copies would have sent in fp32
    exact       bytes that sending each peer the rows that it needs, all of them, in fp32, takes
    broadcast   bytes that broadcasting its whole block to every other rank takes, at the same row width, in fp32

Exact and broadcast are baselines for the run, whatever exchange it uses; they count every pass. No number has a
backward exchange of the first layer, since no rank needs the gradient of the features; the baselines do not have the
features that mini-batches request. Over all ranks the bytes received are the bytes sent.
"""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Direction = Literal["setup", "forward", "backward", "batches"]
_FP32 = 4
"""Bytes of a value in the baselines."""


@dataclass(slots=True, kw_only=True)
class ExchangeRecord:
    """One layer's exchanges in one direction."""

    width: int
    """Values a row."""
    exchanges: int = 0
    sends: int = 0
    """Of these, how many this rank sent its rows in."""
    sent_P: list[int] = field(default_factory=list)
    """Bytes by destination, as below."""
    skipped_P: list[int] = field(default_factory=list)
    exact: int = 0
    broadcast: int = 0
    seconds: float = 0.0
    """From the start of each exchange until its rows were here and needed, on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The sums over all ranks, in bytes."""

    rows: int = 0
    """Rows and their gradients that were sent. The three below are of rows, too."""
    skipped: int = 0
    exact: int = 0
    broadcast: int = 0
    weights: int = 0
    """Weights and their gradients that were sent."""
    other: int = 0
    """All else that was sent."""

    @property
    def sent(self) -> int:
        """All that has left a rank."""
        return self.rows + self.weights + self.other


class TrafficLog:
    """The bytes of one rank.

    Every rank records the same exchanges in the same order, also those in which it has nothing to send, so that the
    logs of all ranks can be summed entry by entry.
    """

    def __init__(self, *, num_rows: int, num_sent: int, num_halo: int, rank: int, world: int) -> None:
        """Begin the log of a rank.

        Args:
            num_rows: rows that it owns and could broadcast.
            num_sent: rows that its peers need, over all of them.
            num_halo: rows that it needs of its peers.
            rank: its number.
            world: how many ranks there are.
        """
        self._num_sent, self._num_halo, self._block_rows = num_sent, num_halo, num_rows * (world - 1)
        self._rank, self._world = rank, world
        self._entries: dict[tuple[int, Direction], ExchangeRecord] = {}

    def for_part(self, *, num_rows: int, num_sent: int, num_halo: int) -> TrafficLog:
        """The same log, for exchanges of another part of this rank: a subgraph's. See `__init__`."""
        log = copy.copy(self)  # the entries are shared
        log._num_sent, log._num_halo, log._block_rows = num_sent, num_halo, num_rows * (self._world - 1)
        return log

    def record(
        self,
        layer: int,
        direction: Direction,
        *,
        rows: Mapping[int, int],
        width: int,
        sent: Mapping[int, int] | None,
        begins: bool = True,
    ) -> None:
        """Record one exchange, or a further round of one.

        Args:
            layer: 1 .. L, or 0 for what belongs to no layer.
            direction: `forward` sends rows, `backward` their gradients, `setup` what is needed once; `record_batch` has
                the features of mini-batches as `batches`.
            rows: rows for each peer.
            width: values a row.
            sent: bytes to each peer; those that are absent, or all if it is None, got nothing, since they have kept it.
            begins: False for rows of an exchange that is recorded already: of another peer, or fetched again.
        """
        entry = self._entry(layer, direction, width)
        for peer, number in rows.items():
            if sent is None or peer not in sent:
                entry.skipped_P[peer] += number * width * _FP32
            else:
                entry.sent_P[peer] += sent[peer]
        if not begins:
            return
        entry.exchanges += 1
        entry.sends += sent is not None
        entry.exact += (self._num_halo if direction == "backward" else self._num_sent) * width * _FP32
        entry.broadcast += self._block_rows * width * _FP32

    def record_batch(self, *, width: int, sent: Mapping[int, int], layer: int = 0) -> None:
        """Record the features that a batch needed of this rank, or rows that it computed for those of others.

        Args:
            width: values a row.
            sent: bytes to each peer.
            layer: that computes the rows; 0 for features.
        """
        entry = self._entry(layer, "batches", width)
        for peer, number in sent.items():
            entry.sent_P[peer] += number
        entry.exchanges += 1
        entry.sends += 1

    def record_seconds(self, layer: int, direction: Direction, seconds: float) -> None:
        """Record the seconds of an exchange that is recorded already."""
        self._entries[layer, direction].seconds += seconds

    def amounts(self) -> list[int]:
        """This rank's part of the first four totals, to be summed over the ranks."""
        entries = self._entries.values()
        return [
            sum(sum(e.sent_P) for e in entries),
            sum(sum(e.skipped_P) for e in entries),
            sum(e.exact for e in entries),
            sum(e.broadcast for e in entries),
        ]

    def tables(
        self, all_reduce: Callable[[Tensor], Tensor], device: torch.device, link_types: Sequence[Sequence[str]]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The logs of all ranks together; every rank has to call it.

        Args:
            all_reduce: sums a tensor over the ranks.
            device: of that tensor.
            link_types: the type of the slowest link from rank p (row) to rank q (column).

        Returns:
            one row a layer and direction, and one row a layer, direction, source and destination.
        """
        keys, world = self.keys, self._world
        all_ranks = torch.zeros(len(keys), world, 2 * world + 4, dtype=torch.int64)
        for row, key in enumerate(keys):
            entry = self._entries[key]
            nanoseconds = round(entry.seconds * 1e9)
            mine = [entry.sends, entry.exact, entry.broadcast, nanoseconds, *entry.sent_P, *entry.skipped_P]
            all_ranks[row, self._rank] = torch.tensor(mine)
        all_ranks = all_reduce(all_ranks.to(device)).cpu()
        layers, pairs = [], []
        for (layer, direction), ranks in zip(keys, all_ranks, strict=True):
            entry = self._entries[layer, direction]
            sends, exact, broadcast = (int(column.sum()) for column in ranks[:, :3].T)
            sent_PP, skipped_PP = ranks[:, 4 : 4 + world], ranks[:, 4 + world :]
            where = {"layer": layer, "direction": direction}
            layers.append(
                where
                | {
                    "width": entry.width,
                    "exchanges": entry.exchanges,
                    "share_sent": sends / (entry.exchanges * world),
                    "bytes_sent": int(sent_PP.sum()),
                    "bytes_skipped": int(skipped_PP.sum()),
                    "bytes_exact_boundary": exact,
                    "bytes_whole_block_broadcast": broadcast,
                    "seconds_by_rank": (ranks[:, 3].double() / 1e9).tolist() if device.type == "cpu" else None,
                }
            )
            pairs += [
                where
                | {
                    "source": source,
                    "destination": destination,
                    "link_type": link_types[source][destination],
                    "bytes_sent": int(sent_PP[source, destination]),
                    "bytes_skipped": int(skipped_PP[source, destination]),
                }
                for source in range(world)
                for destination in range(world)
                if source != destination
            ]
        return layers, pairs

    def sent_by_link_type(self, peer_types: Mapping[int, str], types: Sequence[str]) -> list[int]:
        """The bytes that this rank has sent, of each entry in the order of `keys`, over each type of link.

        Args:
            peer_types: the type of the link to each peer.
            types: of all ranks' links, in the order that all ranks use.
        """
        numbers: list[int] = []
        for key in self.keys:
            sums = dict.fromkeys(types, 0)
            for peer, kind in peer_types.items():
                sums[kind] += self._entries[key].sent_P[peer]
            numbers += sums.values()
        return numbers

    @property
    def keys(self) -> list[tuple[int, Direction]]:
        """Layer and direction of each entry; the same on all ranks."""
        return sorted(self._entries)

    def _entry(self, layer: int, direction: Direction, width: int) -> ExchangeRecord:
        if (layer, direction) not in self._entries:
            nothing = [0] * self._world
            self._entries[layer, direction] = ExchangeRecord(width=width, sent_P=list(nothing), skipped_P=list(nothing))
        return self._entries[layer, direction]


def by_link_type(pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The bytes of all pairs by the type of the slowest link between them."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for pair in pairs:
        sums[pair["link_type"]][0] += pair["bytes_sent"]
        sums[pair["link_type"]][1] += pair["bytes_skipped"]
    return [
        {"link_type": link_type, "bytes_sent": sent, "bytes_skipped": skipped}
        for link_type, (sent, skipped) in sorted(sums.items())
    ]


class Clock:
    """Seconds by activity, on a CPU. A GPU works after the call that starts the work, so there it measures nothing."""

    def __init__(self, device: torch.device) -> None:
        self._running = device.type == "cpu"
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._peer_seconds: defaultdict[int, float] = defaultdict(float)
        self._spans: list[tuple[str, float, float]] | None = None

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Add the time of the block to `activity`."""
        started = time.perf_counter()
        yield
        self.add(activity, started, time.perf_counter())

    def add(self, activity: str, started: float, ended: float) -> None:
        """Add a time that was measured elsewhere to `activity`."""
        if self._running:
            self._seconds[activity] += ended - started
            self.add_span(activity, started, ended)

    def add_span(self, activity: str, started: float, ended: float) -> None:
        """Keep when something was done that is no activity of this rank's, or is made of several."""
        if self._running and self._spans is not None:
            self._spans.append((activity, started, ended))

    def add_for_peer(self, peer: int, seconds: float) -> None:
        """Say which peer's rows the rank waited for, in an activity that is timed already."""
        if self._running:
            self._peer_seconds[peer] += seconds

    def keep_spans(self) -> None:
        """From now on keep when each block began and ended."""
        self._spans = []

    @property
    def spans(self) -> list[tuple[str, float, float]]:
        """Activity, begin and end in seconds, of the blocks since `keep_spans`."""
        return list(self._spans or [])

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of each activity so far."""
        return dict(self._seconds)

    @property
    def peer_seconds(self) -> dict[int, float]:
        """The seconds so far in which the rank waited for rows of each peer."""
        return dict(self._peer_seconds)

    @property
    def measures(self) -> bool:
        """Whether seconds are measured at all."""
        return self._running
