"""What each rank spends its seconds on and how much memory it holds, and the bytes of each layer by type of link.

A rank reads its own clock where it waits anyway, and its numbers travel in the sum of the counts that ends a validated
epoch: each rank fills a place of its own, so that the sum has the numbers of all. No rank waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainer.base.peak_memory import peak_memory
from trainer.base.traffic_log import Direction, TrafficLog
from trainer.dist.communicator import Communicator
from trainer.reporting.epoch_line import LinkTraffic, RankUsage

_NANO = 1e-9


class UsageMeter:
    """The numbers of one rank since training began, and those of all ranks since the line before."""

    def __init__(
        self, communicator: Communicator, traffic_log: TrafficLog, link_types: Sequence[Sequence[str]]
    ) -> None:
        """Begin to count now.

        Args:
            communicator: of this rank, whose clock is read.
            traffic_log: of this rank.
            link_types: the type of the slowest link from rank p (row) to rank q (column); empty if unknown.
        """
        self._communicator, self._traffic_log = communicator, traffic_log
        self._peer_types = {peer: link_types[communicator.rank][peer] for peer in communicator.peers if link_types}
        self._types = sorted({kind for row in link_types for kind in row if kind})
        self._started, self._begun = time.perf_counter(), self._own_seconds()
        self._before: list[int] = []
        self._bytes_before: dict[tuple[int, Direction, str], int] = {}

    def amounts(self) -> list[int]:
        """This rank's numbers in places of their own, zeros for other ranks, and its bytes; as many on all ranks."""
        communicator = self._communicator
        seconds = [time.perf_counter() - self._started]
        seconds += [now - then for now, then in zip(self._own_seconds(), self._begun, strict=True)]
        mine = [*(round(one / _NANO) for one in seconds), peak_memory(communicator.device)]
        places = [0] * (len(mine) * communicator.world)
        places[len(mine) * communicator.rank : len(mine) * (communicator.rank + 1)] = mine
        return places + self._traffic_log.sent_by_link_type(self._peer_types, self._types)

    def since_last(self, sums: Sequence[int]) -> tuple[list[RankUsage], list[LinkTraffic]]:
        """The ranks, and layers and link types, since the call before.

        Args:
            sums: the `amounts` of all ranks, added.
        """
        world = self._communicator.world
        width = 3 + len(self._types) + 1
        places, sent = sums[: width * world], sums[width * world :]
        before = self._before or [0] * len(places)
        ranks = [
            self._rank_usage(rank, places[rank * width :][:width], before[rank * width :][:width])
            for rank in range(world)
        ]
        self._before = list(places)
        keys = [(layer, direction, kind) for layer, direction in self._traffic_log.keys for kind in self._types]
        now = dict(zip(keys, sent, strict=True))
        rows = {key: number - self._bytes_before.get(key, 0) for key, number in now.items()}
        self._bytes_before = dict(now)
        links = [
            LinkTraffic(layer=layer, direction=direction, link_type=kind, bytes_sent=number)
            for (layer, direction, kind), number in rows.items()
            if number
        ]
        return ranks, links

    def _own_seconds(self) -> list[float]:
        """Waiting in sums over all ranks, in exchanges of rows, and of these by type of link."""
        clock = self._communicator.clock
        seconds, by_type = clock.seconds, dict.fromkeys(self._types, 0.0)
        for peer, kind in self._peer_types.items():
            by_type[kind] += clock.peer_seconds.get(peer, 0.0)
        waiting = seconds.get("all-reduce", 0.0) + seconds.get("agreeing", 0.0)
        return [waiting, seconds.get("waiting", 0.0), *by_type.values()]

    def _rank_usage(self, rank: int, now: Sequence[int], before: Sequence[int]) -> RankUsage:
        *differences, _ = ((one - then) * _NANO for one, then in zip(now, before, strict=True))
        seconds, waiting, exchange, *by_type = differences
        is_measured = self._communicator.clock.measures
        return RankUsage(
            rank=rank,
            seconds=seconds,
            compute_seconds=seconds - waiting - exchange if is_measured else None,
            exchange_seconds=exchange if is_measured else None,
            waiting_seconds=waiting if is_measured else None,
            exchange_seconds_by_link_type=dict(zip(self._types, by_type, strict=True)) if is_measured else {},
            memory_bytes=now[-1],
        )
