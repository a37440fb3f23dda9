"""The features of a batch where each rank has some columns of all nodes' (`--features-by columns`).

Up to its first nonlinearity layer 1 is linear in the features: A D(X) W, with A the edges of a batch and D dropout. So
with the columns shared out among the ranks it is a sum over ranks r of A D(X[:, r]) W[r, :]. Each rank computes its
part for the batches of all ranks, sends each rank that of its batch, and adds up what it gets for its own: rows as wide
as the hidden layer travel, in place of rows of features. Backward the gradient of these rows goes to all ranks, each of
which computes from it the gradient of its own rows of W; the sum over ranks of all gradients puts them together. This
is the push-pull parallelism of P3 (Gandhi and Iyer, OSDI 2021), but that every rank has all of W, of which the F x G
values are few beside the rows of a batch.

A maximum over neighbours is column by column, so it may come before W too. Masks of dropout are those of whole rows.

Letters: P ranks, n nodes that a rank's layer 1 computes, H those that its hop has added, W columns of this rank, of F.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import TrafficLog
from trainer.dist.communicator import Communicator, PendingExchange
from trainer.layers.inputs import LayerInput, Projected
from trainer.minibatch.idle_time import IdleTime
from trainer.minibatch.rows_of_batch import RowsOfBatch

if TYPE_CHECKING:
    from trainer.minibatch.batch_graph import BatchLayer

Linear = Callable[[LayerInput], Tensor]
"""A part of a layer that is linear in its weights' products: from features to rows [n, G]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFeatures:
    """This rank's columns of the nodes of all ranks' batches."""

    rows_MW: Tensor
    """those of one rank below the other's, n + H of each, own ones first"""
    layers: Sequence[BatchLayer]
    """layer 1 of each rank's batch"""
    columns: slice
    width: int
    """F"""
    exchange: HiddenRows

    def of_pass(self, share: float, context: PassContext) -> ColumnInput:
        """The input of layer 1 in one pass, of which `share` is dropped."""
        rows = self.rows_MW
        ids = torch.cat([torch.cat([layer.dropout.ids_n, layer.dropout.halo_ids_H]) for layer in self.layers])
        mask = replace(self.layers[0].dropout, ids_n=ids, halo_ids_H=ids[:0]).mask(share, 1, self.width, context)
        if mask is not None:
            rows = replace(mask, starts_n=mask.starts_n + self.columns.start).own(rows)
        pieces = torch.split(rows, [number for layer in self.layers for number in layer.counts])
        parts = [
            _ColumnsOfBatch(
                RowsOfBatch(
                    rows_nF=own_nW,
                    aggregation=layer.aggregation,
                    mask=None,
                    dropout=layer.dropout,
                    layer=1,
                    context=context,
                    halo_HF=halo_HW,
                ),
                self.columns,
            )
            for layer, own_nW, halo_HW in zip(self.layers, pieces[::2], pieces[1::2], strict=True)
        ]
        return ColumnInput(parts, [layer.counts[0] for layer in self.layers], self.exchange)


@dataclass(frozen=True, slots=True)
class ColumnInput:
    """The input of layer 1, whose products are summed over the ranks' columns."""

    _parts_P: Sequence[LayerInput]
    _counts_P: Sequence[int]
    """n of each rank"""
    _exchange: HiddenRows

    def summed(self, linear: Linear) -> Tensor:
        """What `linear` makes of the features of this rank's batch: [n, G], by one exchange of such rows.

        Args:
            linear: of the features, by products with weights alone; it is called with some of their columns, once for
                each rank's batch.
        """
        return self._exchange.sum_of(self._parts_P, self._counts_P, linear)

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        return self.summed(lambda part: part.own(_needed(weight_FG)))

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        return self.summed(lambda part: part.aggregate(_needed(weight_FG), edge_weight=edge_weight))

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        return self.summed(lambda part: part.maximum(_needed(weight_FG), edge_weight=edge_weight))

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:  # noqa: ARG002
        raise _refused("each row with the features of its edge")

    def project(self, weight_FG: Tensor) -> Projected:  # noqa: ARG002
        raise _refused("attention")


def summed_over_columns(rows: LayerInput, linear: Linear) -> Tensor:
    """What `linear` makes of a layer's input, by one exchange where ranks have columns of it."""
    return rows.summed(linear) if isinstance(rows, ColumnInput) else linear(rows)


@dataclass(frozen=True, slots=True)
class _ColumnsOfBatch:
    """Some columns of one rank's batch, to be multiplied by those rows of a weight [F, G] that belong to them."""

    _rows: RowsOfBatch
    _columns: slice

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        return self._rows.own(self._part(weight_FG))

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        return self._rows.aggregate(self._part(weight_FG), edge_weight=edge_weight)

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        return self._rows.maximum(self._part(weight_FG), edge_weight=edge_weight)

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:  # noqa: ARG002
        raise _refused("each row with the features of its edge")

    def project(self, weight_FG: Tensor) -> Projected:  # noqa: ARG002
        raise _refused("attention")

    def _part(self, weight_FG: Tensor | None) -> Tensor:
        return _needed(weight_FG)[self._columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRows:
    """The exchange of the rows that layer 1 computes, and of their gradients."""

    communicator: Communicator
    traffic_log: TrafficLog
    idle: IdleTime
    wire: torch.dtype
    """what they are sent in"""

    def sum_of(self, parts_P: Sequence[LayerInput], counts_P: Sequence[int], linear: Linear) -> Tensor:
        """The sum over ranks of what `linear` makes of their columns of this rank's batch: [n, G]; every rank has to
        call it. While rows travel, this rank computes for its own batch."""
        rank, peers = self.communicator.rank, self.communicator.peers
        partials = [linear(parts_P[peer]) for peer in peers]
        shapes = {peer: (counts_P[rank], rows.shape[1]) for peer, rows in zip(peers, partials, strict=True)}
        pending = self.start(dict(zip(peers, partials, strict=True)), shapes)
        own_nG = linear(parts_P[rank])
        return cast(Tensor, _Sum.apply(self, pending, own_nG, *partials))  # type: ignore[no-untyped-call]

    def start(self, outgoing: Mapping[int, Tensor], shapes: Mapping[int, tuple[int, ...]]) -> _Pending:
        """Start to send each peer some rows, and to receive those of `shapes`."""
        sent = {peer: rows.detach().to(self.wire).contiguous() for peer, rows in outgoing.items()}
        device = self.communicator.device
        received = {peer: torch.empty(shape, dtype=self.wire, device=device) for peer, shape in shapes.items()}
        self.traffic_log.record_batch(
            layer=1,
            width=next(iter(sent.values())).shape[1],
            sent={peer: rows.numel() * rows.element_size() for peer, rows in sent.items()},
        )
        return _Pending(self.communicator.exchange(sent, received), received, self.idle)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Rows of all peers on their way. Call `wait` once."""

    _exchange: PendingExchange
    _rows: Mapping[int, Tensor]
    _idle: IdleTime

    def wait(self) -> Mapping[int, Tensor]:
        started = time.perf_counter()
        self._exchange.wait()
        self._idle.add(time.perf_counter() - started)
        return self._rows


class _Sum(torch.autograd.Function):
    """The sum of what all ranks have computed for this one; backward its gradient goes to all of them."""

    @staticmethod
    def forward(ctx: Any, exchange: HiddenRows, pending: _Pending, own_nG: Tensor, *partials: Tensor) -> Tensor:
        rank, received = exchange.communicator.rank, dict(pending.wait())
        ctx.exchange, ctx.kind = exchange, own_nG.dtype
        ctx.shapes = {peer: tuple(rows.shape) for peer, rows in zip(exchange.communicator.peers, partials, strict=True)}
        received[rank] = own_nG
        total_nG = torch.zeros_like(own_nG, dtype=torch.float32)
        for each in range(exchange.communicator.world):  # in one order, so that runs are alike
            total_nG += received[each]
        return total_nG.to(own_nG.dtype)

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor | None, ...]:
        exchange: HiddenRows = ctx.exchange
        received = exchange.start(dict.fromkeys(ctx.shapes, grad_nG), ctx.shapes).wait()
        return None, None, grad_nG, *(received[peer].to(ctx.kind) for peer in ctx.shapes)


def _needed(weight_FG: Tensor | None) -> Tensor:
    if weight_FG is None:
        raise _refused("whole rows of the features")
    return weight_FG


def _refused(what: str) -> TrainingError:
    with found_by_every_rank():
        raise TrainingError(
            "with --features-by columns each rank has some columns of the features, and layer 1 of the model needs "
            f"{what}; use --features-by rows"
        )
