"""Neighbour sums over all ranks, with their gradient: H' = A_local D(H) + A_halo D(H_halo), D being dropout.

Forward, the halo's rows travel while the local product runs; backward, the halo's partial sums A_halo^T G travel back
to their owners while A_local^T G runs. Rows travel before dropout, and so do their gradients: both ends know the mask
of every row, so a copy of any age is dropped anew in each epoch. The gradient of a stale row goes back to its owner as
if the row were current. The matrices are constants: no gradient is ever made for their entries. Sums are in fp32, and
are stored in the type of the rows.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from trainer.accounting import Clock
from trainer.adjacency import Adjacency, Block
from trainer.dropout import Mask
from trainer.exchange import Exchange
from trainer.passes import Pass


class Aggregation:
    """The neighbour sum of one part, as a function of its own rows."""

    def __init__(self, adjacency: Adjacency, exchange: Exchange, clock: Clock) -> None:
        self.adjacency, self.exchange, self.clock = adjacency, exchange, clock

    def __call__(
        self,
        rows_nF: Tensor,
        layer: int,
        step: Pass,
        *,
        mask: Mask | None = None,
        before_dropout_nF: Tensor | None = None,
    ) -> Tensor:
        """Sum over in-neighbours on all ranks: [n, F] to [n, F].

        Args:
            rows_nF: this part's rows.
            layer: whose copies are meant and where bytes are booked.
            step: the pass.
            mask: what is dropped of the rows, here and in the halo.
            before_dropout_nF: what the rows would be without dropout, if they have been through it already.
        """
        arguments = (rows_nF, self, layer, step, mask, before_dropout_nF)
        return cast(Tensor, _OverRanks.apply(*arguments))  # type: ignore[no-untyped-call]

    def of_kept(self, rows_nF: Tensor, halo_HF: Tensor) -> Tensor:
        """The same sum where the halo's rows are here already: nothing travels, forward or backward."""
        return cast(Tensor, _OfKept.apply(rows_nF, halo_HF, self))  # type: ignore[no-untyped-call]


class _OverRanks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows_nF: Tensor,
        aggregation: Aggregation,
        layer: int,
        step: Pass,
        mask: Mask | None,
        before_dropout_nF: Tensor | None,
    ) -> Tensor:
        ctx.aggregation, ctx.layer, ctx.step, ctx.mask = aggregation, layer, step, mask
        arriving = aggregation.exchange.fetch(rows_nF, layer, step, before_dropout_nF)
        with aggregation.clock("local product"):
            sums_nF = aggregation.adjacency.local.forward @ (rows_nF if mask is None else mask.own(rows_nF))
        halo_HF = arriving.wait()
        with aggregation.clock("halo product"):
            aggregation.adjacency.halo.forward.add_product(halo_HF if mask is None else mask.halo(halo_HF), sums_nF)
        return sums_nF.to(rows_nF.dtype)

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        aggregation: Aggregation = ctx.aggregation
        grad_nF = grad_nF.contiguous()
        with aggregation.clock("halo product"):
            partial_HF = (aggregation.adjacency.halo.backward @ grad_nF).to(grad_nF.dtype)
        returning = aggregation.exchange.give_back(partial_HF, ctx.layer, ctx.step)
        with aggregation.clock("local product"):
            own_nF = aggregation.adjacency.local.backward @ grad_nF
        own_nF += returning.wait()
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF.to(grad_nF.dtype), None, None, None, None, None


class _OfKept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, halo_HF: Tensor, aggregation: Aggregation) -> Tensor:
        ctx.aggregation = aggregation
        with aggregation.clock("local product"):
            sums_nF = aggregation.adjacency.local.forward @ rows_nF
        with aggregation.clock("halo product"):
            aggregation.adjacency.halo.forward.add_product(halo_HF, sums_nF)
        return sums_nF.to(rows_nF.dtype)

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        grad_nF = grad_nF.contiguous()
        adjacency, clock = ctx.aggregation.adjacency, ctx.aggregation.clock
        return (
            _gradient(adjacency.local, grad_nF, clock, "local product") if ctx.needs_input_grad[0] else None,
            _gradient(adjacency.halo, grad_nF, clock, "halo product") if ctx.needs_input_grad[1] else None,
            None,
        )


def _gradient(block: Block, grad_nF: Tensor, clock: Clock, activity: str) -> Tensor:
    with clock(activity):
        return (block.backward @ grad_nF).to(grad_nF.dtype)
