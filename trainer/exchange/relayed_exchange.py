"""Starts the exchanges of one relay plan: rows forward, partial sums backward.

What a relay passes on forward are the bytes that it got, so a row is rounded for the wire once. Backward each relay
rounds the sums that it sends, once a hop; they are added in fp32, in the order of peers, whichever arrives first.

Letters: P ranks, H halo rows, A rows that arrive, message after message, R own rows, F values a row, m rows of a
message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator
from trainer.dist.staged_exchange import StagedExchange, StagedMessage
from trainer.exchange.relay_routes import RelayPlan, RowMessage
from trainer.exchange.wire import AsStored, Wire

Batch = tuple[int, int]
"""stage and group of owners"""


def start_forward(
    communicator: Communicator, plan: RelayPlan, direct: Mapping[int, Tensor], received_HF: Tensor, wire: Wire
) -> StagedExchange:
    """Send own rows, and get the halo's and pass them on.

    Args:
        communicator: the ranks of the run.
        plan: the messages of the owners that send now.
        direct: encoded rows of this rank by peer, none where it does not send.
        received_HF: filled with the halo's rows of these owners.
        wire: the form of messages.
    """
    row_bytes = wire.row_bytes(received_HF.shape[1])
    arrived_A = received_HF.new_empty(len(plan.arrival_A), row_bytes, dtype=torch.uint8)
    incoming = [
        _message(communicator, one, rows, one.stage - 1)
        for one, rows in zip(plan.arriving, torch.split(arrived_A, _lengths(plan.arriving)), strict=True)
    ]
    ready = _Ready((one.stage, plan.batch_of(one)) for one in plan.arriving)
    for one, places_m in zip(plan.passed_on, plan.places_of_passed_on, strict=True):
        ready.follow((one.stage - 1, one.batch), (one, places_m))

    def received(number: int) -> list[StagedMessage]:
        one = plan.arriving[number]
        return [
            _message(communicator, following, arrived_A.index_select(0, places_m), following.stage - 1)
            for following, places_m in ready.after((one.stage, plan.batch_of(one)))
        ]

    def finish() -> None:
        received_HF.index_copy_(0, plan.arrival_A, wire.decode(arrived_A))

    own = _own_messages(communicator, direct, stage=0)
    return communicator.exchange_in_stages(
        own,
        incoming,
        received,
        finish,
        num_stages=plan.num_stages,
        num_bytes=sum(_lengths(plan.passed_on)) * row_bytes + sum(message.rows.numel() for message in own),
    )


def start_backward(
    communicator: Communicator,
    plan: RelayPlan,
    partial_HF: Tensor,
    returned_RF: Tensor,
    recv_counts: Sequence[int],
    wire: Wire,
    encode: Callable[[Tensor], Tensor],
) -> StagedExchange:
    """Send partial sums for the halo's rows, those of other ranks added to them, and get those for own rows.

    Args:
        communicator: the ranks of the run.
        plan: all messages.
        partial_HF: this rank's partial sums; not changed.
        returned_RF: filled with the sums for the rows that this rank sends itself, peer after peer.
        recv_counts: how many of these each peer returns.
        wire: the form of messages.
        encode: makes a message of sums.
    """
    row_bytes, stages, stored = wire.row_bytes(partial_HF.shape[1]), plan.num_stages, partial_HF.dtype
    sums_HF = partial_HF
    if plan.passed_on:
        sums_HF = partial_HF.clone() if stored == torch.float32 else partial_HF.float()
    # Backward the messages change their direction: what was passed on comes back, and what arrived is answered.
    coming = sorted(plan.passed_on, key=lambda one: (-one.stage, len(one.rows_m), one.peer, one.batch))
    of_batch: dict[Batch, list[int]] = defaultdict(list)
    for number, one in enumerate(coming):
        of_batch[one.stage, one.batch].append(number)
    lengths = _lengths(coming)
    arrived = torch.split(partial_HF.new_empty(sum(lengths), row_bytes, dtype=torch.uint8), lengths)
    is_decoded = isinstance(wire, AsStored)
    returned_R = returned_RF.view(torch.uint8)
    if not is_decoded:
        returned_R = returned_RF.new_empty(len(returned_RF), row_bytes, dtype=torch.uint8)
    by_peer = dict(zip(communicator.peers, torch.split(returned_R, list(recv_counts)), strict=True))

    def outgoing(messages: Sequence[RowMessage]) -> list[StagedMessage]:
        if not messages:
            return []
        rows = encode(sums_HF.index_select(0, torch.cat([one.rows_m for one in messages])).to(stored))
        pieces = torch.split(rows, _lengths(messages))
        return [
            _message(communicator, one, piece, stages - one.stage) for one, piece in zip(messages, pieces, strict=True)
        ]

    ready = _Ready((one.stage, one.batch) for one in coming)
    now = [one for one in plan.arriving if not ready.follow((one.stage + 1, plan.batch_of(one)), (one, one.rows_m))]

    def received(number: int) -> list[StagedMessage]:
        if number >= len(coming):  # for own rows
            return []
        batch = coming[number].stage, coming[number].batch
        following = ready.after(batch)
        if not ready.is_waiting(batch):
            for place in sorted(of_batch[batch], key=lambda place: coming[place].peer):
                sums_HF.index_add_(0, coming[place].rows_m, wire.decode(arrived[place]).float())
        return outgoing([one for one, _ in following])

    def finish() -> None:
        if not is_decoded:
            returned_RF.copy_(wire.decode(returned_R))

    return communicator.exchange_in_stages(
        outgoing(now),
        [
            *(_message(communicator, one, rows, stages - one.stage) for one, rows in zip(coming, arrived, strict=True)),
            *_own_messages(communicator, by_peer, stage=stages - 1),
        ],
        received,
        finish,
        num_stages=stages,
        num_bytes=sum(_lengths(plan.arriving)) * row_bytes,
    )


class _Ready:
    """Which messages can be sent when all those of a batch are here."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        """`batches`: of each message that comes."""
        self._following: dict[Batch, list[tuple[RowMessage, Tensor]]] = {}
        self._waiting: dict[Batch, int] = defaultdict(int)
        for batch in batches:
            self._waiting[batch] += 1

    def follow(self, batch: Batch, message: tuple[RowMessage, Tensor]) -> bool:
        """Send a message, with where its rows are, after those of `batch`; False where none of these comes."""
        if not self.is_waiting(batch):
            return False
        self._following.setdefault(batch, []).append(message)
        return True

    def is_waiting(self, batch: Batch) -> bool:
        return self._waiting.get(batch, 0) > 0

    def after(self, batch: Batch) -> Sequence[tuple[RowMessage, Tensor]]:
        """One message of `batch` is here: what can be sent if it was the last one."""
        self._waiting[batch] -= 1
        return self._following.pop(batch, []) if not self._waiting[batch] else []


def _lengths(messages: Sequence[RowMessage]) -> list[int]:
    return [len(one.rows_m) for one in messages]


def _own_messages(communicator: Communicator, by_peer: Mapping[int, Tensor], *, stage: int) -> list[StagedMessage]:
    """Messages of this rank's own rows, to or from each peer."""
    tag = _tag(communicator, 1, communicator.rank)
    return [StagedMessage(peer=peer, stage=stage, tag=tag, rows=rows) for peer, rows in by_peer.items() if len(rows)]


def _message(communicator: Communicator, one: RowMessage, rows: Tensor, stage: int) -> StagedMessage:
    return StagedMessage(peer=one.peer, stage=stage, tag=_tag(communicator, one.stage, one.batch), rows=rows)


def _tag(communicator: Communicator, stage: int, batch: int) -> int:
    """0 is the tag of exchanges without relays."""
    return 1 + (stage - 1) * communicator.world + batch
