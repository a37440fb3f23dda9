"""The features of a batch's nodes: own rows, kept ones, and those that other ranks have, in one exchange a batch.

Every rank makes three steps for each batch, each a step of all ranks that travels while others are trained on: how many
rows of each type it requests of each rank, which ones, and the rows themselves, from their owners. What comes from
where is planned in the sampler's process (graphprep/sampling/input_rows.py).

Letters: P ranks, T node types, n nodes of one type in the batch, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor

from trainer.base.traffic_log import TrafficLog
from trainer.dist.communicator import Communicator, PendingAllToAll
from trainer.minibatch.column_table import sent_type
from trainer.minibatch.idle_time import IdleTime

Arrays = Mapping[str, Tensor]
Plans = Sequence[Arrays]
"""The arrays `rows/TYPE/...` of a batch, by type."""


@dataclass(slots=True, kw_only=True)
class PendingRows:
    """The rows of one batch, on their way."""

    plans: Plans
    _exchange: PendingAllToAll | None
    _asked_PT: Tensor = field(default_factory=lambda: torch.empty(0))
    """how many rows each rank requests of this one"""
    _asked_rows: Tensor = field(default_factory=lambda: torch.empty(0))
    """which ones, for rank after rank"""


class FeatureSource(Protocol):
    """Brings what a batch reads of features, in steps that every rank takes for the same batches in the same order."""

    num_fetched: int
    """rows of other ranks, of all batches that were finished"""
    num_from_cache: int

    def keep(self, numbers: Sequence[int], /) -> None:
        """Make place for so many rows of other ranks, of each type."""

    def begin(self, plans: Plans, /) -> Any:
        """Step 1 for a batch with these arrays; what is returned has `plans` and goes through the other steps."""

    def request(self, pending: Any, /) -> None:
        """Step 2."""

    def send(self, pending: Any, /) -> None:
        """Step 3."""

    def finish(self, pending: Any, /) -> list[Tensor]:
        """Step 4: the features, on the host."""

    def drop(self, pending: Any, /) -> None:
        """Wait for what is on its way of a batch that is not trained on."""


class FeatureRows:
    """The features of this rank's part, and the rows of others that are kept."""

    def __init__(
        self,
        of_types: Sequence[Tensor],
        data_type: torch.dtype,
        communicator: Communicator,
        traffic_log: TrafficLog,
        idle: IdleTime,
    ) -> None:
        """Keep what is mapped.

        Args:
            of_types: the part's features of each node type, [., F] in the cache's own type.
            data_type: that rows are stored in.
            communicator: the ranks of the run.
            traffic_log: of this rank's bytes.
            idle: measures the waiting for other ranks.
        """
        self._idle, self._clock = idle, idle.clock
        self._of_types, self._data_type = of_types, data_type
        self._communicator, self._log = communicator, traffic_log
        self._sent_types = [sent_type(x, data_type) for x in of_types]
        self._row_bytes = [x.shape[1] * kind.itemsize for x, kind in zip(of_types, self._sent_types, strict=True)]
        self.num_fetched, self.num_from_cache = 0, 0
        """rows of other ranks, of all batches that were finished"""
        self._kept: list[Tensor] = [x.new_empty(0, x.shape[1], dtype=data_type) for x in of_types]

    def keep(self, numbers: Sequence[int]) -> None:
        """Make place for so many rows of other ranks, of each type."""
        self._kept = [kept.new_empty(number, kept.shape[1]) for kept, number in zip(self._kept, numbers, strict=True)]

    def replace(self, of_types: Sequence[Tensor]) -> None:
        """Take other rows of the same widths and types, for batches whose rows have not been sent yet."""
        self._of_types = of_types

    @property
    def num_rows(self) -> int:
        """Of this rank's part."""
        return sum(len(x) for x in self._of_types)

    def begin(self, plans: Plans) -> PendingRows:
        """Step 1: say how many rows this batch requests."""
        if self._communicator.world == 1:
            return PendingRows(plans=plans, _exchange=None)
        counts_PT = torch.stack([plan["requested_per_part"] for plan in plans], 1).contiguous()
        ones = [1] * self._communicator.world
        return PendingRows(
            plans=plans,
            _exchange=self._communicator.all_to_all(counts_PT, sent=ones, received=ones, purpose="who sends"),
        )

    def request(self, pending: PendingRows) -> None:
        """Step 2: say which rows, when all have said how many."""
        if pending._exchange is None:
            return
        with self._idle:
            pending._asked_PT = pending._exchange.wait()
        own_PT = torch.stack([plan["requested_per_part"] for plan in pending.plans], 1)
        rows = _by_rank([plan["requested_row"] for plan in pending.plans], own_PT.T.tolist())
        pending._exchange = self._communicator.all_to_all(
            rows, sent=own_PT.sum(1).tolist(), received=pending._asked_PT.sum(1).tolist(), purpose="who sends"
        )

    def send(self, pending: PendingRows) -> None:
        """Step 3: send the rows that others have requested."""
        if pending._exchange is None:
            return
        with self._idle:
            pending._asked_rows = pending._exchange.wait()
        pending._exchange = self._exchange(pending)

    def send_too(self, other: PendingRows) -> PendingRows:
        """Step 3 for a batch that has got another source's rows of the same nodes as far: with the same requests."""
        pending = replace(other, _exchange=None)
        if self._communicator.world > 1:
            pending._exchange = self._exchange(pending)
        return pending

    def _exchange(self, pending: PendingRows) -> PendingAllToAll:
        """Send the requested rows, and receive those that this rank has requested."""
        asked_PT = pending._asked_PT.tolist()
        pieces = iter(torch.split(pending._asked_rows, [number for of_rank in asked_PT for number in of_rank]))
        with self._clock("fetch"):
            outgoing = [
                x.index_select(0, next(pieces)).to(kind).view(torch.uint8).reshape(-1)
                for _ in asked_PT
                for x, kind in zip(self._of_types, self._sent_types, strict=True)
            ]
        sent = [self._bytes(of_rank) for of_rank in asked_PT]
        own_PT = torch.stack([plan["requested_per_part"] for plan in pending.plans], 1).tolist()
        exchange = self._communicator.all_to_all(
            torch.cat(outgoing), sent=sent, received=[self._bytes(of_rank) for of_rank in own_PT], purpose="rows"
        )
        width = sum(x.shape[1] for x in self._of_types)
        self._log.record_batch(width=width, sent=dict(enumerate(sent)))
        return exchange

    def finish(self, pending: PendingRows) -> list[Tensor]:
        """Step 4: the rows [n, F] of each type, in the type that rows are stored in; keep those that are to be kept."""
        content = None
        if pending._exchange is not None:
            with self._idle:
                content = pending._exchange.wait()
        with self._clock("copy"):
            return self._rows_of(pending, content)

    def drop(self, pending: PendingRows) -> None:
        """Wait for what is on its way of a batch that is not trained on."""
        if pending._exchange is not None:
            pending._exchange.wait()

    def _rows_of(self, pending: PendingRows, content: Tensor | None) -> list[Tensor]:
        received = self._received(pending, content)
        found = []
        for plan, x, kept, requested in zip(pending.plans, self._of_types, self._kept, received, strict=True):
            number = len(plan["own_place"]) + len(plan["kept_place"]) + len(plan["requested_place"])
            self.num_fetched += len(plan["requested_place"])
            self.num_from_cache += len(plan["kept_place"])
            rows_nF = torch.empty(number, x.shape[1], dtype=self._data_type)
            own_kF = x.index_select(0, plan["own_row"]).to(self._data_type)
            if len(own_kF) == number:
                found.append(own_kF)
                continue
            rows_nF.index_copy_(0, plan["own_place"], own_kF)
            rows_nF.index_copy_(0, plan["kept_place"], kept.index_select(0, plan["kept_slot"]))
            rows_nF.index_copy_(0, plan["requested_place"], requested)
            kept.index_copy_(0, plan["stored_slot"], requested.index_select(0, plan["stored_request"]))
            found.append(rows_nF)
        return found

    def _received(self, pending: PendingRows, content: Tensor | None) -> list[Tensor]:
        """The requested rows of each type, as they were requested."""
        if content is None:
            return [kept[:0] for kept in self._kept]
        own_PT = torch.stack([plan["requested_per_part"] for plan in pending.plans], 1).tolist()
        sizes = [number * of_row for of_rank in own_PT for number, of_row in zip(of_rank, self._row_bytes, strict=True)]
        pieces = torch.split(content, sizes)
        num_types = len(self._of_types)
        return [
            torch.cat(pieces[number::num_types]).view(kind).view(-1, x.shape[1]).to(self._data_type)
            for number, (x, kind) in enumerate(zip(self._of_types, self._sent_types, strict=True))
        ]

    def _bytes(self, counts_T: Sequence[int]) -> int:
        return sum(number * of_row for number, of_row in zip(counts_T, self._row_bytes, strict=True))


def _by_rank(of_types: Sequence[Tensor], counts_TP: Sequence[Sequence[int]]) -> Tensor:
    """What each type has for rank after rank, as one list for rank after rank with type after type."""
    pieces = [torch.split(values, list(counts)) for values, counts in zip(of_types, counts_TP, strict=True)]
    return torch.cat([of_type[rank] for rank in range(len(counts_TP[0])) for of_type in pieces])


def stretches(counts: Sequence[int]) -> list[slice]:
    """Where each of some stretches is, one after the other."""
    ends = list(accumulate(counts))
    return [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
