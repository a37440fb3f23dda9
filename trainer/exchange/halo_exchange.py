"""Sends rows along one route and receives the peers', encoded for the wire, or reuses copies of an earlier epoch.

For each layer a halo exchange keeps what each source last sent (SANCUS, Peng et al. 2022). In a training pass it asks
the staleness policy about every source, all ranks alike, and then

    a source that is due    packs, encodes and sends its rows; its peers decode them over their copies
    one that is not         sends nothing; its peers go on with the copies that they have

so the receiver sees [all rows] either way, and no later step depends on which of them were sent in this epoch. Which
sources are due is known on every rank before any rank posts a receive; so no rank waits for rows that are not sent.

The values whose change is measured are never sent: the source keeps those of its last send, in fp32, before dropout and
before the wire's rounding. A rank's own rows are not exchanged, and are never stale.

An evaluation sends all rows as they are stored and leaves copies, ages and errors alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Direction, TrafficLog
from trainer.config.policies import Policy, StalenessQuery
from trainer.dist.communicator import Communicator
from trainer.dist.staged_exchange import StagedExchange
from trainer.exchange.relay_routes import RowMessage, rows_by_peer
from trainer.exchange.relayed_exchange import start_backward, start_forward
from trainer.exchange.row_routes import RowRoute
from trainer.exchange.saturation import Saturation
from trainer.exchange.wire import AsStored, Wire
from trainer.sparse.feature_rows import SparseRows

_COUNT_BYTES, _COLUMN_BYTES = 4, 4
"""of a sparse row's number of entries, and of each entry's column"""

ComparedRows = Callable[[], Tensor]
"""Makes the rows whose change since the last send decides whether to send, without dropout: [., F]. It is called only
where the policy depends on it."""


@dataclass(slots=True)
class _LayerState:
    """What is kept of one layer's rows between epochs."""

    received: Tensor | None = None
    """[I, F] as the sources last sent it, all peers' rows"""
    sent_epochs: list[int] = field(default_factory=list)
    """The epoch of each source's last send, by rank; the same list on all ranks."""
    compared: Tensor | None = None
    """This rank's compared rows at its own last send, float32."""
    error: Tensor | None = None
    """What the wire's rounding took from this rank's last send, float32."""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows that may still be on their way. Call one of the methods, once."""

    _receive: Callable[[], Tensor]
    _route: RowRoute

    def wait(self) -> Tensor:
        """All rows, unpacked, as soon as those that were sent are here."""
        return self._route.unpack(self._receive())

    def add_to(self, sums_nF: Tensor) -> None:
        """Add all rows, unpacked, to `sums_nF`."""
        self._route.add_to(self._receive(), sums_nF)


@dataclass(frozen=True, slots=True)
class HaloExchange:
    """The exchanges of one route in all layers. Every rank calls it for the same layers in the same order."""

    route: RowRoute
    direction: Direction
    policy: Policy
    wire: Wire
    error_feedback: bool
    communicator: Communicator
    traffic_log: TrafficLog
    saturation: Saturation | None = None
    _layers: dict[int, _LayerState] = field(default_factory=dict)

    def exchange(
        self,
        rows: Tensor,
        layer: int,
        context: PassContext,
        compared: ComparedRows | None = None,
        *,
        route: RowRoute | None = None,
        begins: bool = True,
    ) -> PendingRows:
        """Send `rows` [., F] if this rank is due, and get the peers'.

        Args:
            rows: what the route packs.
            layer: 1 .. L, whose copies are used and under which bytes are recorded.
            context: the pass that they belong to.
            compared: None for the rows themselves.
            route: another one for this call alone, whose rows may not be kept.
            begins: whether this begins an exchange of all peers, or goes on with one.
        """
        if not context.training:
            return self.exchange_all(rows, layer, self.direction, begins=begins)
        route = route or self.route
        state = self._layers.setdefault(layer, _LayerState())
        due = self._due_ranks(state, context, compared or (lambda: rows))
        if route.relays is not None and self.direction == "backward":
            return self._return(route, rows, layer, state, begins=begins)
        message = self._message(route, rows, layer, state) if due[self.communicator.rank] else None
        received = state.received
        if received is None:
            received = rows.new_empty(sum(route.recv_counts), rows.shape[1])
        if self.policy.keeps:
            state.received = received
            state.sent_epochs = [
                context.epoch if is_due else last for is_due, last in zip(due, state.sent_epochs, strict=True)
            ]
        return self._start(route, message, received, self.wire, due, layer, self.direction, begins=begins)

    def exchange_all(self, rows: Tensor, layer: int, direction: Direction, *, begins: bool = True) -> PendingRows:
        """Send all rows as they are stored, and get all of the peers'; nothing is kept."""
        wire, due = AsStored(rows.dtype), [True] * self.communicator.world
        received = rows.new_empty(sum(self.route.recv_counts), rows.shape[1])
        message = wire.encode(self.route.pack(rows))
        return self._start(self.route, message, received, wire, due, layer, direction, begins=begins)

    def exchange_sparse(self, rows: SparseRows, layer: int, direction: Direction, *, begins: bool = True) -> SparseRows:
        """Send all rows as they are stored, by their entries, and get all of the peers', unpacked; nothing is kept.

        First the number of entries of each row is sent, then their columns, then their values; all of them by the
        owners of the rows, since they travel once.
        """
        route, peers = self.route.without_relays or self.route, self.communicator.peers
        packed = rows.select(_row_numbers(route.pack, len(rows), rows.device))
        entries = [int(counts.sum()) for counts in route.split_sent(packed.counts)]
        entry_bytes = _COLUMN_BYTES + rows.stored_type.itemsize
        sent = [
            _COUNT_BYTES * number + entry_bytes * count
            for number, count in zip(route.send_counts, entries, strict=True)
        ]
        self._record(route, layer, rows.width, sent, direction, begins=begins)

        def exchanged(values: Tensor, route: RowRoute) -> Tensor:
            received = values.new_empty(sum(route.recv_counts), values.shape[1])
            outgoing = dict(zip(peers, route.split_sent(values), strict=True))
            incoming = dict(zip(peers, route.split_received(received), strict=True))
            pending = self.communicator.exchange(outgoing, incoming)
            pending.wait()
            self.traffic_log.record_seconds(layer, direction, pending.seconds)
            return received

        counts_I = exchanged(packed.counts.unsqueeze(1), route).squeeze(1)
        expected = [int(counts.sum()) for counts in route.split_received(counts_I)]
        of_entries = replace(route, send_counts=entries, recv_counts=expected)
        columns_E = exchanged(packed.columns.unsqueeze(1), of_entries).squeeze(1)
        values = packed.values_E.to(rows.stored_type).unsqueeze(1).view(torch.uint8)
        values_E = exchanged(values, of_entries).view(rows.stored_type).squeeze(1)
        received = SparseRows.of_entries(counts_I, columns_E, values_E, width=rows.width)
        return received.select(_row_numbers(route.unpack, len(received), rows.device))

    def record_skipped(self, width: int, layer: int, *, begins: bool = True) -> None:
        """Record an exchange of rows [., `width`] that was left out, since the receivers have what never changes."""
        self._record(self.route.without_relays or self.route, layer, width, None, self.direction, begins=begins)

    def _due_ranks(self, state: _LayerState, context: PassContext, compared: ComparedRows) -> list[bool]:
        """Whether each rank sends, the same list on all ranks."""
        rank, world, policy = self.communicator.rank, self.communicator.world, self.policy
        is_first = not state.sent_epochs
        if is_first:
            state.sent_epochs = [context.epoch] * world
        if is_first or not context.may_skip or not policy.keeps:
            if policy.watches:
                state.compared = compared().detach().float().clone()
            return [True] * world

        def is_due(source: int, change: float = math.nan) -> bool:
            age = context.epoch - state.sent_epochs[source]
            return policy.is_due(
                StalenessQuery(epoch=context.epoch, age=age, source=source, world=world, change=change)
            )

        if not policy.watches:
            return [is_due(source) for source in range(world)]
        now = compared().detach().float()
        this_is_due = is_due(rank, relative_change(now, state.compared))
        if this_is_due:
            state.compared = now.clone()
        return self.communicator.all_gather_flag(this_is_due)

    def _message(self, route: RowRoute, rows: Tensor, layer: int, state: _LayerState) -> Tensor:
        """The message of those of `rows` that leave, selected as they are encoded where nothing else looks at them."""
        is_looked_at = self.error_feedback or (self.saturation is not None and self.wire.limit < math.inf)
        if route.picks_R is None or is_looked_at:
            return self._encode(route.pack(rows), layer, state)
        return self.wire.encode(rows, route.picks_R)

    def _encode(self, packed: Tensor, layer: int, state: _LayerState) -> Tensor:
        """The message of packed rows, after error feedback."""
        corrected = packed
        if self.error_feedback and state.error is not None:
            corrected = (packed.float() + state.error).to(packed.dtype)
        if self.saturation is not None and self.wire.limit < math.inf:
            self.saturation.note(layer, self.direction, corrected, self.wire.limit)
        message = self.wire.encode(corrected)
        if self.error_feedback:
            error = corrected.float() - self.wire.decode(message).float()
            # What a value is beyond the wire's range would be added to it again for ever.
            state.error = error.masked_fill_((corrected.abs() > self.wire.limit) | ~error.isfinite(), 0.0)
        return message

    def _start(
        self,
        route: RowRoute,
        message: Tensor | None,
        received: Tensor,
        wire: Wire,
        due: Sequence[bool],
        layer: int,
        direction: Direction,
        *,
        begins: bool,
    ) -> PendingRows:
        """Send `message`, if there is one, and start to receive the rows of the ranks that are due into `received`."""
        peers, row_bytes = self.communicator.peers, wire.row_bytes(received.shape[1])
        sent = None if message is None else [number * row_bytes for number in route.send_counts]
        self._record(route, layer, received.shape[1], sent, direction, begins=begins)
        outgoing = {} if message is None else dict(zip(peers, route.split_sent(message), strict=True))
        if route.relays is not None:
            plan = route.relays.of_due(due)
            self._record_messages(plan.passed_on, layer, received.shape[1], wire, direction)
            if not all(due):
                left_out = route.relays.of_due([not is_due for is_due in due])
                self._record_messages(left_out.passed_on, layer, received.shape[1], None, direction)
            relayed = start_forward(self.communicator, plan.on(received.device), outgoing, received, wire)
            return PendingRows(partial(self._receive, relayed, received, layer, direction), route)
        by_peer = dict(zip(peers, route.split_received(received), strict=True))
        fresh = {peer: rows for peer, rows in by_peer.items() if due[peer]}
        is_decoded = isinstance(wire, AsStored)
        incoming = {
            peer: rows.view(torch.uint8) if is_decoded else rows.new_empty(len(rows), row_bytes, dtype=torch.uint8)
            for peer, rows in fresh.items()
        }
        pending = self.communicator.exchange(outgoing, incoming)

        def receive() -> Tensor:
            pending.wait()
            self.traffic_log.record_seconds(layer, direction, pending.seconds)
            if not is_decoded:
                for peer, rows in fresh.items():
                    rows.copy_(wire.decode(incoming[peer]))
            return received

        return PendingRows(receive, route)

    def _return(
        self, route: RowRoute, partial_HF: Tensor, layer: int, state: _LayerState, *, begins: bool
    ) -> PendingRows:
        """Send partial sums back by the relays of the route, and get those for the rows that this rank sends itself."""
        assert route.relays is not None
        width = partial_HF.shape[1]
        self._record_messages(route.relays.arriving, layer, width, self.wire, self.direction, begins=begins)
        received = partial_HF.new_empty(sum(route.recv_counts), width)
        relayed = start_backward(
            self.communicator,
            route.relays.on(partial_HF.device),
            route.pack(partial_HF),
            received,
            route.recv_counts,
            self.wire,
            lambda sums: self._encode(sums, layer, state),
        )
        return PendingRows(partial(self._receive, relayed, received, layer, self.direction), route)

    def _receive(self, relayed: StagedExchange, received: Tensor, layer: int, direction: Direction) -> Tensor:
        relayed.wait()
        self.traffic_log.record_seconds(layer, direction, relayed.seconds)
        return received

    def _record_messages(
        self,
        messages: Sequence[RowMessage],
        layer: int,
        width: int,
        wire: Wire | None,
        direction: Direction,
        *,
        begins: bool = False,
    ) -> None:
        """Record messages of an exchange in the traffic log; without a wire those that were left out."""
        rows = rows_by_peer(messages, self.communicator.peers)
        sent = None if wire is None else {peer: number * wire.row_bytes(width) for peer, number in rows.items()}
        self.traffic_log.record(layer, direction, rows=rows, width=width, sent=sent, begins=begins)

    def _record(
        self,
        route: RowRoute,
        layer: int,
        width: int,
        sent: Sequence[int] | None,
        direction: Direction,
        *,
        begins: bool,
    ) -> None:
        """Record an exchange in the traffic log, with the bytes sent to each peer; None for one that was left out."""
        peers = self.communicator.peers
        self.traffic_log.record(
            layer,
            direction,
            rows=dict(zip(peers, route.send_counts, strict=True)),
            width=width,
            sent=None if sent is None else dict(zip(peers, sent, strict=True)),
            begins=begins,
        )


def _row_numbers(layout: Callable[[Tensor], Tensor], number: int, device: torch.device) -> Tensor:
    """Which of `number` rows a route's `pack` or `unpack` selects, in its order: int64."""
    return layout(torch.arange(number, device=device).unsqueeze(1)).squeeze(1)


def relative_change(now: Tensor, then: Tensor | None) -> float:
    """|now - then| / |then|; 0 where both are 0, infinite where only `then` is or there is none."""
    if then is None:
        return float("inf")
    lengths = torch.stack([torch.linalg.vector_norm(now - then), torch.linalg.vector_norm(then)])
    change, size = (float(length) for length in lengths.tolist())
    if size == 0:
        return 0.0 if change == 0 else float("inf")
    return change / size
