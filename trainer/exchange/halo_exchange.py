"""Rows on their way along a lane: sent or not sent, in the form of the wire, beside the copies that stand for them.

For each layer the courier of a lane keeps what each source last delivered. In a training pass it asks the policy about
every source, all ranks alike, and then

    a source that is due    packs, encodes and sends its rows; its peers decode them over their copies
    one that is not         sends nothing; its peers go on with the copies that they have

so the receiver sees [all rows] either way, and nothing later has to know which of them travelled in this epoch. Who is
due is known on every rank before any rank posts a receive; so nobody waits for rows that are not coming.

What a change is measured on never travels: the source keeps the values of its last delivery, in fp32, before dropout
and before the wire's rounding. A rank's own rows never come this way, and are never stale.

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
from trainer.dist.communicator import Communicator, PendingExchange
from trainer.exchange.row_routes import RowRoute
from trainer.exchange.saturation import Saturation
from trainer.exchange.wire import AsStored, Wire
from trainer.sparse.feature_rows import SparseRows

_COUNT_BYTES, _COLUMN_BYTES = 4, 4
"""of a row's number of entries, and of each entry beside its value"""

Watched = Callable[[], Tensor]
"""Makes the values whose change decides, [., F]; asked for only where it matters."""


@dataclass(slots=True)
class _Copies:
    """What is kept of one layer's rows."""

    arrived: Tensor | None = None
    """[I, F] as the sources last delivered it, all peers' rows"""
    delivered: list[int] = field(default_factory=list)
    """The epoch of each source's last delivery, by rank; the same list on all ranks."""
    watched: Tensor | None = None
    """This rank's values at its own last delivery, float32."""
    error: Tensor | None = None
    """What the wire's rounding took from this rank's last delivery, float32."""


class PendingRows:
    """Rows that may still be on their way."""

    def __init__(
        self, swap: PendingExchange, finish: Callable[[], Tensor], route: RowRoute, book: Callable[[float], None]
    ) -> None:
        self._swap, self._finish, self._route, self._book = swap, finish, route, book

    def wait(self) -> Tensor:
        """All rows, unpacked, when the fresh ones are here; this or `add_to` is to be called, once."""
        return self._route.unpack(self._arrived())

    def add_to(self, sums_nF: Tensor) -> None:
        """Add all rows, unpacked, to `sums_nF`."""
        self._route.add_to(self._arrived(), sums_nF)

    def _arrived(self) -> Tensor:
        self._swap.wait()
        self._book(self._swap.seconds)
        return self._finish()


class HaloExchange:
    """One lane's traffic in all layers. Every rank calls it for the same layers in the same order."""

    def __init__(
        self,
        route: RowRoute,
        direction: Direction,
        *,
        policy: Policy,
        wire: Wire,
        error_feedback: bool,
        communicator: Communicator,
        traffic_log: TrafficLog,
        saturation: Saturation | None = None,
    ) -> None:
        self._route, self._direction, self._saturation = route, direction, saturation
        self._policy, self._wire, self._error_feedback = policy, wire, error_feedback
        self._communicator, self._traffic_log = communicator, traffic_log
        self._copies: dict[int, _Copies] = {}

    def send(
        self,
        rows: Tensor,
        layer: int,
        step: PassContext,
        watched: Watched | None = None,
        *,
        route: RowRoute | None = None,
        begins: bool = True,
    ) -> PendingRows:
        """Send `rows` [., F] where they are due, and get the peers'.

        Args:
            rows: what the lane packs.
            layer: 1 .. L, whose copies are meant and where bytes are booked.
            step: the pass that they belong to.
            watched: the values whose change decides; None for the rows themselves.
            lane: another one for this time alone, on which nothing may be kept.
            begins: whether this begins an exchange of all peers, or goes on with one.
        """
        if not step.training:
            return self.send_all(rows, layer, self._direction, begins=begins)
        route = route or self._route
        copies = self._copies.setdefault(layer, _Copies())
        due = self._who_is_due(copies, step, watched or (lambda: rows))
        is_mine_due = due[self._communicator.rank]
        message = self._message(route, rows, layer, copies) if is_mine_due else None
        row_bytes = self._wire.row_bytes(rows.shape[1]) if is_mine_due else None
        self._book(route, layer, rows.shape[1], row_bytes, self._direction, begins=begins)
        arrived = copies.arrived
        if arrived is None:
            arrived = rows.new_empty(sum(route.arriving), rows.shape[1])
        if self._policy.keeps:
            copies.arrived = arrived
            copies.delivered = [
                step.epoch if is_due else last for is_due, last in zip(due, copies.delivered, strict=True)
            ]
        is_fresh = [due[peer] for peer in self._communicator.peers]
        return self._swap(route, message, arrived, self._wire, is_fresh, layer, self._direction)

    def send_all(self, rows: Tensor, layer: int, direction: Direction, *, begins: bool = True) -> PendingRows:
        """Send all rows as they are stored, and get all of the peers'; nothing is kept."""
        wire = AsStored(rows.dtype)
        self._book(self._route, layer, rows.shape[1], wire.row_bytes(rows.shape[1]), direction, begins=begins)
        arrived = rows.new_empty(sum(self._route.arriving), rows.shape[1])
        message = wire.encode(self._route.pack(rows))
        is_fresh = [True] * len(self._communicator.peers)
        return self._swap(self._route, message, arrived, wire, is_fresh, layer, direction)

    def send_entries(self, rows: SparseRows, layer: int, direction: Direction, *, begins: bool = True) -> SparseRows:
        """Send all rows as they are stored, by their entries, and get all of the peers', unpacked; nothing is kept.

        First it is told how many entries each row has, then their columns follow, and their values.
        """
        route, peers = self._route, self._communicator.peers
        leaving = rows.chosen(_numbers_through(route.pack, len(rows), rows.device))
        by_peer = [int(counts.sum()) for counts in route.pieces(leaving.counts)]
        value_bytes = rows.stored_type.itemsize
        sent = [
            _COUNT_BYTES * number + (_COLUMN_BYTES + value_bytes) * entries
            for number, entries in zip(route.departing, by_peer, strict=True)
        ]
        self._traffic_log.record(
            layer,
            direction,
            rows=dict(zip(peers, route.departing, strict=True)),
            width=rows.width,
            sent=dict(zip(peers, sent, strict=True)),
            begins=begins,
        )

        def swapped(values: Tensor, route: RowRoute) -> Tensor:
            arrived = values.new_empty(sum(route.arriving), values.shape[1])
            outgoing = dict(zip(peers, route.pieces(values), strict=True))
            swap = self._communicator.exchange(outgoing, dict(zip(peers, route.places(arrived), strict=True)))
            swap.wait()
            self._traffic_log.record_seconds(layer, direction, swap.seconds)
            return arrived

        counts_I = swapped(leaving.counts.unsqueeze(1), route).squeeze(1)
        coming = [int(counts.sum()) for counts in route.places(counts_I)]
        of_entries = replace(route, departing=by_peer, arriving=coming)
        columns_E = swapped(leaving.columns.unsqueeze(1), of_entries).squeeze(1)
        values = leaving.values_E.to(rows.stored_type).unsqueeze(1).view(torch.uint8)
        values_E = swapped(values, of_entries).view(rows.stored_type).squeeze(1)
        arrived = SparseRows.of_entries(counts_I, columns_E, values_E, width=rows.width)
        return arrived.chosen(_numbers_through(route.unpack, len(arrived), rows.device))

    def record_skipped(self, width: int, layer: int, *, begins: bool = True) -> None:
        """Book an exchange of rows [., `width`] that was not made, since the receivers hold what never changes."""
        self._book(self._route, layer, width, None, self._direction, begins=begins)

    def _who_is_due(self, copies: _Copies, step: PassContext, watched: Watched) -> list[bool]:
        """Whether each rank sends, the same list on all ranks."""
        communicator = self._communicator
        if not copies.delivered:
            copies.delivered = [step.epoch] * communicator.world
            self._watch(copies, watched)
            return [True] * communicator.world
        if not step.may_skip or not self._policy.keeps:
            self._watch(copies, watched)
            return [True] * communicator.world

        def is_due(source: int, change: float) -> bool:
            age = step.epoch - copies.delivered[source]
            question = StalenessQuery(epoch=step.epoch, age=age, source=source, world=communicator.world, change=change)
            return self._policy.is_due(question)

        if not self._policy.watches:
            return [is_due(source, float("nan")) for source in range(communicator.world)]
        now = watched().detach().float()
        mine = is_due(communicator.rank, relative_change(now, copies.watched))
        if mine:
            copies.watched = now.clone()
        return communicator.all_gather_flag(mine)

    def _watch(self, copies: _Copies, watched: Watched) -> None:
        if self._policy.watches:
            copies.watched = watched().detach().float().clone()

    def _message(self, route: RowRoute, rows: Tensor, layer: int, copies: _Copies) -> Tensor:
        leaving = route.pack(rows)
        wanted = leaving
        if self._error_feedback and copies.error is not None:
            wanted = (leaving.float() + copies.error).to(leaving.dtype)
        if self._saturation is not None and self._wire.limit < math.inf:
            self._saturation.note(layer, self._direction, wanted, self._wire.limit)
        message = self._wire.encode(wanted)
        if self._error_feedback:
            error = wanted.float() - self._wire.decode(message).float()
            # What a value is beyond the wire's range would be added to it again for ever.
            copies.error = error.masked_fill_((wanted.abs() > self._wire.limit) | ~error.isfinite(), 0.0)
        return message

    def _swap(
        self,
        route: RowRoute,
        message: Tensor | None,
        arrived: Tensor,
        wire: Wire,
        is_fresh: Sequence[bool],
        layer: int,
        direction: Direction,
    ) -> PendingRows:
        communicator = self._communicator
        outgoing = {} if message is None else dict(zip(communicator.peers, route.pieces(message), strict=True))
        places = [
            (peer, place)
            for peer, place, fresh in zip(communicator.peers, route.places(arrived), is_fresh, strict=True)
            if fresh
        ]
        row_bytes = wire.row_bytes(arrived.shape[1])
        if isinstance(wire, AsStored):
            # Straight into their places.
            incoming = {peer: place.view(torch.uint8) for peer, place in places}
        else:
            incoming = {peer: place.new_empty(len(place), row_bytes, dtype=torch.uint8) for peer, place in places}
        swap = communicator.exchange(outgoing, incoming)

        def finish() -> Tensor:
            if not isinstance(wire, AsStored):
                for peer, place in places:
                    place.copy_(wire.decode(incoming[peer]))
            return arrived

        return PendingRows(swap, finish, route, partial(self._traffic_log.record_seconds, layer, direction))

    def _book(
        self, route: RowRoute, layer: int, width: int, row_bytes: int | None, direction: Direction, *, begins: bool
    ) -> None:
        """Book an exchange in which a row takes `row_bytes`, or that was not made."""
        rows = dict(zip(self._communicator.peers, route.departing, strict=True))
        sent = None if row_bytes is None else {peer: number * row_bytes for peer, number in rows.items()}
        self._traffic_log.record(layer, direction, rows=rows, width=width, sent=sent, begins=begins)


def _numbers_through(layout: Callable[[Tensor], Tensor], number: int, device: torch.device) -> Tensor:
    """Which of `number` rows a lane's `pack` or `unpack` takes, in its order: int64."""
    return layout(torch.arange(number, device=device).unsqueeze(1)).squeeze(1)


def relative_change(now: Tensor, then: Tensor | None) -> float:
    """|now - then| / |then|; 0 where both are 0, infinite where only `then` is or there is none."""
    if then is None:
        return float("inf")
    change, size = float(torch.linalg.vector_norm(now - then)), float(torch.linalg.vector_norm(then))
    if size == 0:
        return 0.0 if change == 0 else float("inf")
    return change / size
