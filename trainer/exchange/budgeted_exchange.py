"""Sends rows with the bits and as often as an error budget allows, pair of ranks by pair.

Both ends of a pair keep the copy C that the receiver computes with. A message has the difference between the rows X and
the part of the copy that predicts them,

    D = X - s C,    s = <X, C> / <C, C>, between 0 and 1

in few bits, and the receiver's new copy is s C + D as it arrives. So what rounding took from a message is in the next
difference (EF21, Richtarik et al. 2021), and where a copy predicts nothing, the rows themselves are sent. The sender
decodes its own message, and so has the same copy.

Gradients are added up over epochs, so what counts of a gradient that is sent every `age` epochs is the sum of what the
owner has applied. The sender keeps what it owes, the sum over all epochs of X - C, and sends X + owed / (2 age): used
for `age` epochs, that pays half of what is owed. The applied sum then differs from the sum of all gradients by no more
than what two sends leave owing, however long the run is. (To pay all at once would double the noise of gradients that
differ from epoch to epoch.) What is added is never longer than the gradients themselves.

Whether a pair sends in an epoch depends on numbers that both ends have, and on nothing else. Pairs of a source are due
in other epochs than those of the next one, so that links are loaded evenly.

Letters: R rows to a peer, I rows received, F values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.exchange.bit_choice import EXACT, Choice
from trainer.exchange.error_budget import WINDOW, ErrorBudget, RowNumbers
from trainer.exchange.halo_exchange import ComparedRows, HaloExchange, PendingRows
from trainer.exchange.packed_rows import (
    NARROW_BITS,
    decode_whole,
    encode_whole,
    message_bytes,
    pack,
    quantise,
    unpack,
)
from trainer.exchange.row_routes import RowRoute

_SHARE_STEPS, _SHARE_BYTES = 255, 1
"""of s on the wire"""
_PAID = 0.5
"""of what is owed, by one send"""


@dataclass(slots=True)
class _Window:
    """How rows change from the first epoch of a cycle on."""

    reference: Tensor
    """[., F], float32: those of that epoch"""
    changes: list[Tensor] = field(default_factory=list)
    """|X(t + k) - X(t)|^2 by k, as the next two"""
    squares: list[Tensor] = field(default_factory=list)
    residual: list[Tensor] = field(default_factory=list)

    def add(self, rows: Tensor) -> None:
        """Compare the rows of one more epoch."""
        squares, product = rows.square().sum(), (rows * self.reference).sum()
        of_reference = self.reference.square().sum()
        self.changes.append((rows - self.reference).square().sum())
        self.squares.append(squares)
        both = squares * of_reference
        self.residual.append(1 - torch.where(both == 0, 1.0, product.square() / both).clamp(0, 1))

    @property
    def square(self) -> Tensor:
        """The mean of |X|^2, to which changes are relative: gradients may be near 0 in single epochs."""
        return torch.stack(self.squares).mean()

    @property
    def drift(self) -> list[Tensor]:
        square = self.square
        return [torch.where(change == 0, 0.0, change / square) for change in self.changes]


@dataclass(slots=True)
class _Sent:
    """What is kept of the rows to one peer."""

    copy: Tensor | None = None
    """[R, F], float32: what the peer has"""
    owed: Tensor | None = None
    """[R, F], float32: the sum of gradients less the sum of what was applied in their place"""
    epoch: int = 0
    """of the last send"""
    num_bytes: int = 0
    """that were sent since the budget was last told"""
    applied: list[Tensor] = field(default_factory=list)
    """|X - C|^2 in the epochs of the window"""
    window: _Window | None = None
    """Of the rows themselves"""


@dataclass(slots=True)
class _LayerState:
    """What is kept of one layer's rows between epochs."""

    sent: dict[int, _Sent] = field(default_factory=dict)
    received: Tensor | None = None
    """[I, F], float32: what this rank has of its peers' rows"""
    received_epochs: dict[int, int] = field(default_factory=dict)
    """of the last send of each peer"""
    compared: _Window | None = None
    """Of the compared rows, of all peers together"""


@dataclass(frozen=True, slots=True)
class BudgetedExchange(HaloExchange):
    """The exchanges of one boundary route in all layers; evaluations and constant rows are those of its base."""

    budget: ErrorBudget = field(kw_only=True)
    _states: dict[int, _LayerState] = field(default_factory=dict, init=False)

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
        """Send `rows` [., F] to the peers that are due, and get those of the peers that are. See the base."""
        if not context.training:
            return self.exchange_all(rows, layer, self.direction, begins=begins)
        route, peers = route or self.route, self.communicator.peers
        phase = self.budget.begin(context.epoch)
        state = self._states.setdefault(layer, _LayerState())
        by_peer = dict(zip(peers, route.split_sent(route.pack(rows.detach())), strict=True))
        drift = None if compared is None else _drift(state, compared, phase)
        outgoing: dict[int, Tensor] = {}
        for peer, packed in by_peer.items():
            link = state.sent.setdefault(peer, _Sent())
            exact = packed.float()
            if not phase:
                link.window, link.applied = _Window(exact.clone()), []
            elif link.window is not None:
                link.window.add(exact)
                if phase == WINDOW:
                    self._note(link, exact, layer, peer, drift)
            choice, is_due = self._plan(layer, self.communicator.rank, peer, link.epoch, context)
            if is_due and len(packed):
                outgoing[peer] = _encoded(link, exact, choice, packed.dtype)
                link.epoch = context.epoch
                link.num_bytes += len(outgoing[peer])
            if link.window is not None and link.copy is not None:
                link.applied.append((exact - link.copy).square().sum())
            if self.direction == "backward" and link.copy is not None:
                owed = exact - link.copy
                link.owed = owed if link.owed is None else link.owed.add_(owed)
        sent = [len(outgoing[peer]) if peer in outgoing else None for peer in peers]
        self._record_links(route, layer, rows.shape[1], sent, begins=begins)
        return self._receive_links(route, rows, layer, state, context, outgoing)

    def _plan(self, layer: int, source: int, destination: int, last: int, context: PassContext) -> tuple[Choice, bool]:
        """How rows are sent from one rank to another, and whether in this epoch."""
        if not context.may_skip:
            return EXACT, True
        choice = self.budget.choice(layer, self.direction, source, destination)
        turn = source * choice.age // self.communicator.world
        is_due = not last or context.epoch - last >= choice.age or context.epoch % choice.age == turn
        return choice, is_due

    def _note(self, link: _Sent, exact: Tensor, layer: int, peer: int, drift: list[Tensor] | None) -> None:
        """Give the budget what was measured of the rows [R, F] to a peer since the cycle's first epoch."""
        window, link.window = link.window, None
        assert window is not None
        difference = exact if link.copy is None else exact - _share(exact, link.copy) * link.copy
        rounding = [
            _relative_square(quantise(difference, bits).values(*exact.shape) - difference, difference)
            for bits in NARROW_BITS
        ]
        rounding.append(_relative_square(exact.bfloat16().float() - exact, exact))
        square, of_rows = window.square, window.drift
        drift = drift or of_rows
        applied = torch.stack(link.applied).mean() if link.applied else torch.zeros_like(square)
        age = self.budget.choice(layer, self.direction, self.communicator.rank, peer).age
        # What old masks do to rows is no error, and is not in the drift of the rows without dropout.
        masks = sum((one - other for one, other in zip(of_rows[: age - 1], drift, strict=False)), torch.zeros(()))
        numbers = RowNumbers(
            rows=exact.shape[0],
            width=exact.shape[1],
            sent=link.num_bytes,
            square=square,
            applied=torch.where(applied == 0, 0.0, applied / square - masks.to(applied) / age).clamp(min=0),
            drift=drift,
            residual=window.residual,
            rounding=rounding,
        )
        self.budget.note(layer, self.direction, peer, numbers)
        link.num_bytes = 0

    def _receive_links(
        self,
        route: RowRoute,
        rows: Tensor,
        layer: int,
        state: _LayerState,
        context: PassContext,
        outgoing: dict[int, Tensor],
    ) -> PendingRows:
        """Start to send, and to receive the rows of the peers that are due."""
        width, rank = rows.shape[1], self.communicator.rank
        if state.received is None:
            state.received = torch.zeros(sum(route.recv_counts), width, device=rows.device)
        received = state.received
        choices, incoming = {}, {}
        copies = dict(zip(self.communicator.peers, route.split_received(received), strict=True))
        for peer, copy in copies.items():
            choice, is_due = self._plan(layer, peer, rank, state.received_epochs.get(peer, 0), context)
            if is_due and len(copy):
                choices[peer], state.received_epochs[peer] = choice, context.epoch
                size = _size(choice.bits, len(copy), width, rows.dtype)
                incoming[peer] = torch.empty(size, dtype=torch.uint8, device=rows.device)
        pending = self.communicator.exchange(outgoing, incoming)

        def receive() -> Tensor:
            pending.wait()
            self.traffic_log.record_seconds(layer, self.direction, pending.seconds)
            for peer, message in incoming.items():
                copies[peer].copy_(_decoded(message, choices[peer].bits, copies[peer], rows.dtype))
            return received if rows.dtype == received.dtype else received.to(rows.dtype)

        return PendingRows(receive, route)

    def _record_links(
        self, route: RowRoute, layer: int, width: int, sent: Sequence[int | None], *, begins: bool
    ) -> None:
        """Record an exchange with the bytes of each peer's message; None for a peer that was sent none."""
        peers = self.communicator.peers
        by_peer = {peer: number for peer, number in zip(peers, sent, strict=True) if number is not None}
        self.traffic_log.record(
            layer,
            self.direction,
            rows=dict(zip(peers, route.send_counts, strict=True)),
            width=width,
            sent=by_peer or None,
            begins=begins,
        )


def _drift(state: _LayerState, compared: ComparedRows, phase: int) -> list[Tensor] | None:
    """How the compared rows have changed from the cycle's first epoch on, after the last that is measured."""
    if not phase:
        state.compared = _Window(compared().detach().float().clone())
        return None
    if state.compared is None:
        return None
    window = state.compared
    window.add(compared().detach().float())
    if phase < WINDOW:
        return None
    state.compared = None
    return window.drift


def _encoded(link: _Sent, exact: Tensor, choice: Choice, stored: torch.dtype) -> Tensor:
    """The message of rows [R, F] to one peer, whose copy it changes as the peer does."""
    if choice == EXACT:
        link.owed = None
    wanted = exact if link.owed is None else exact + _payment(link.owed, exact, choice.age)
    if choice.bits not in NARROW_BITS:
        message = encode_whole(wanted.to(stored), choice.bits)
        link.copy = _decoded(message, choice.bits, wanted, stored)
        return message
    before = torch.zeros_like(exact) if link.copy is None else link.copy
    share = _share(wanted, before)
    quantised = quantise(wanted - share * before, choice.bits)
    link.copy = share * before + quantised.values(*exact.shape)
    steps = (share * _SHARE_STEPS).round().to(torch.uint8).view(1)
    return torch.cat([pack(quantised, choice.bits), steps])


def _payment(owed: Tensor, exact: Tensor, age: int) -> Tensor:
    """What is added to gradients [R, F] that are used for `age` epochs: at most as long as they are."""
    payment, limit = owed * (_PAID / age), torch.linalg.vector_norm(exact)
    length = torch.linalg.vector_norm(payment)
    return payment * torch.where(length > limit, limit / length, 1.0)


def _decoded(message: Tensor, bits: int, before: Tensor, stored: torch.dtype) -> Tensor:
    """The rows [R, F] that a message makes of the copy before it, float32."""
    if bits not in NARROW_BITS:
        return decode_whole(message, bits, len(before), before.shape[1], stored).float()
    share = message[-_SHARE_BYTES].float() / _SHARE_STEPS
    return share * before + unpack(message[:-_SHARE_BYTES], bits).values(*before.shape)


def _size(bits: int, number: int, width: int, stored: torch.dtype) -> int:
    """The bytes of a message."""
    return message_bytes(bits, number, width, stored.itemsize) + (_SHARE_BYTES if bits in NARROW_BITS else 0)


def _share(rows: Tensor, copy: Tensor) -> Tensor:
    """s, in the steps that the wire has: one number."""
    square = copy.square().sum()
    share = (rows * copy).sum() / torch.where(square == 0, 1.0, square)
    return (share.clamp(0, 1).nan_to_num() * _SHARE_STEPS).round() / _SHARE_STEPS


def _relative_square(error: Tensor, rows: Tensor) -> Tensor:
    """|error|^2 / |rows|^2, 0 where both are 0: one number."""
    square, of_error = rows.square().sum(), error.square().sum()
    return torch.where(of_error == 0, 0.0, of_error / square)
