"""This rank's rows with those of the halo below them, with gradients: for layers that need all of them at once."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.exchange.exchange import Exchange, Round
from trainer.exchange.halo_exchange import PendingRows
from trainer.layers.aggregate import ReturningGradients, fetch_rounds


def with_halo(rows_nF: Tensor, exchange: Exchange, layer: int, context: PassContext, *, again: bool = False) -> Tensor:
    """[n + H, F]: the halo's rows come from their owners, to which their gradients go back.

    Args:
        rows_nF: this rank's.
        exchange: of the part.
        layer: whose copies are used and under which bytes are recorded.
        context: the pass.
        again: whether they were fetched before in this pass, and not kept.
    """
    return cast(Tensor, _WithHalo.apply(rows_nF, exchange, layer, context, again))  # type: ignore[no-untyped-call]


class _WithHalo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, exchange: Exchange, layer: int, context: PassContext, again: bool) -> Tensor:
        ctx.exchange, ctx.layer, ctx.context, ctx.num_rows = exchange, layer, context, len(rows_nF)

        def fetch(one: Round) -> PendingRows:
            return one.fetch(rows_nF, layer, context, compared=lambda: exchange.needed(rows_nF), again=again)

        rows = rows_nF.new_empty(len(rows_nF) + exchange.num_halo, rows_nF.shape[1])
        rows[: len(rows_nF)], halo_HF = rows_nF, rows[len(rows_nF) :]
        for _, one, wait in fetch_rounds(exchange.rounds, fetch):
            halo_HF[one.columns] = wait()
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own_nF, halo_HF = grad[: ctx.num_rows].to(torch.float32, copy=True), grad[ctx.num_rows :]
        returning = ReturningGradients(ctx.layer, ctx.context)
        for one in ctx.exchange.rounds:
            returning.send(one, halo_HF[one.columns].contiguous(), lambda: own_nF)
        returning.add_to(lambda: own_nF)
        return own_nF.to(grad.dtype), None, None, None, None
