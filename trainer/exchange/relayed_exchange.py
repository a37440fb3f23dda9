"""Starts the exchanges of one relay plan: rows forward, partial sums backward.

What a relay passes on forward are the bytes that it got, so a row is rounded for the wire once. Backward each relay
rounds the sums that it sends, once a hop; they are added in fp32, in the order of peers, whichever arrives first.

Letters: P ranks, H halo rows, F values a row, m rows of a message.
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
    width = received_HF.shape[1]
    row_bytes = wire.row_bytes(width)
    is_stored = isinstance(wire, AsStored)
    encoded_H = received_HF.new_empty(
        0 if is_stored or not plan.passed_on else len(received_HF), row_bytes, dtype=torch.uint8
    )
    ready = _Ready((one.stage, plan.batch_of(one)) for one in plan.arriving)
    for one in plan.passed_on:
        ready.follow((one.stage - 1, one.batch), one)

    def outgoing(one: RowMessage) -> StagedMessage:
        rows = (
            received_HF.index_select(0, one.rows_m).view(torch.uint8)
            if is_stored
            else encoded_H.index_select(0, one.rows_m)
        )
        return _message(communicator, one, rows, one.stage - 1)

    incoming = [
        _message(communicator, one, received_HF.new_empty(len(one.rows_m), row_bytes, dtype=torch.uint8), one.stage - 1)
        for one in plan.arriving
    ]

    def received(number: int) -> Iterable[StagedMessage]:
        one, rows = plan.arriving[number], incoming[number].rows
        received_HF.index_copy_(0, one.rows_m, wire.decode(rows))
        if len(encoded_H):
            encoded_H.index_copy_(0, one.rows_m, rows)
        return [outgoing(following) for following in ready.after((one.stage, plan.batch_of(one)))]

    own = [
        StagedMessage(peer=peer, stage=0, tag=_tag(communicator, 1, communicator.rank), rows=rows)
        for peer, rows in direct.items()
        if len(rows)
    ]
    passed_on = sum(len(one.rows_m) for one in plan.passed_on) * row_bytes
    return communicator.exchange_in_stages(
        own,
        incoming,
        received,
        num_stages=plan.num_stages,
        num_bytes=passed_on + sum(message.rows.numel() for message in own),
    )


def start_backward(
    communicator: Communicator,
    plan: RelayPlan,
    partial_HF: Tensor,
    returned: Mapping[int, Tensor],
    wire: Wire,
    encode: Callable[[Tensor], Tensor],
) -> StagedExchange:
    """Send partial sums for the halo's rows, those of other ranks added to them, and get those for own rows.

    Args:
        communicator: the ranks of the run.
        plan: all messages.
        partial_HF: this rank's partial sums; not changed.
        returned: to fill with the sums for the rows that this rank sends itself, by peer.
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
    incoming = [
        _message(
            communicator, one, partial_HF.new_empty(len(one.rows_m), row_bytes, dtype=torch.uint8), stages - one.stage
        )
        for one in coming
    ]
    own = [
        StagedMessage(
            peer=peer,
            stage=stages - 1,
            tag=_tag(communicator, 1, communicator.rank),
            rows=rows.new_empty(len(rows), row_bytes, dtype=torch.uint8),
        )
        for peer, rows in returned.items()
        if len(rows)
    ]

    def outgoing(one: RowMessage) -> StagedMessage:
        rows = encode(sums_HF.index_select(0, one.rows_m).to(stored))
        return _message(communicator, one, rows, stages - one.stage)

    ready = _Ready((one.stage, one.batch) for one in coming)
    now = [one for one in plan.arriving if not ready.follow((one.stage + 1, plan.batch_of(one)), one)]

    def received(number: int) -> Iterable[StagedMessage]:
        if number >= len(coming):
            message = own[number - len(coming)]
            returned[message.peer].copy_(wire.decode(message.rows))
            return []
        batch = coming[number].stage, coming[number].batch
        following = ready.after(batch)
        if not ready.is_waiting(batch):
            for place in sorted(of_batch[batch], key=lambda place: coming[place].peer):
                sums_HF.index_add_(0, coming[place].rows_m, wire.decode(incoming[place].rows).float())
        return [outgoing(one) for one in following]

    return communicator.exchange_in_stages(
        [outgoing(one) for one in now],
        [*incoming, *own],
        received,
        num_stages=stages,
        num_bytes=sum(len(one.rows_m) for one in plan.arriving) * row_bytes,
    )


class _Ready:
    """Which messages can be sent when all those of a batch are here."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        """`batches`: of each message that comes."""
        self._following: dict[Batch, list[RowMessage]] = {}
        self._waiting: dict[Batch, int] = defaultdict(int)
        for batch in batches:
            self._waiting[batch] += 1

    def follow(self, batch: Batch, message: RowMessage) -> bool:
        """Send `message` after those of `batch`; False where none of these comes."""
        if not self.is_waiting(batch):
            return False
        self._following.setdefault(batch, []).append(message)
        return True

    def is_waiting(self, batch: Batch) -> bool:
        return self._waiting.get(batch, 0) > 0

    def after(self, batch: Batch) -> Sequence[RowMessage]:
        """One message of `batch` is here: what can be sent if it was the last one."""
        self._waiting[batch] -= 1
        return self._following.pop(batch, []) if not self._waiting[batch] else []


def _message(communicator: Communicator, one: RowMessage, rows: Tensor, stage: int) -> StagedMessage:
    return StagedMessage(peer=one.peer, stage=stage, tag=_tag(communicator, one.stage, one.batch), rows=rows)


def _tag(communicator: Communicator, stage: int, batch: int) -> int:
    """0 is the tag of exchanges without relays."""
    return 1 + (stage - 1) * communicator.world + batch
