"""Neighbour sums over all ranks, with their gradient: H' = A_local H + A_halo H_halo.

Forward, the halo's rows travel while the local product runs; backward, the halo's partial sums A_halo^T G travel back
to their owners while A_local^T G runs. The matrices are constants: no gradient is ever made for their entries.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from trainer.accounting import Clock
from trainer.adjacency import Adjacency, Block
from trainer.exchange import Exchange


class Aggregation:
    """The neighbour sum of one part, as a function of its own rows."""

    def __init__(self, adjacency: Adjacency, exchange: Exchange, clock: Clock) -> None:
        self.adjacency, self.exchange, self.clock = adjacency, exchange, clock

    def __call__(self, rows_nF: Tensor, layer: int) -> Tensor:
        """Sum over in-neighbours on all ranks, float32 [n, F] to [n, F]; `layer` says where bytes are booked."""
        return cast(Tensor, _OverRanks.apply(rows_nF, self, layer))  # type: ignore[no-untyped-call]

    def of_kept(self, rows_nF: Tensor, halo_HF: Tensor) -> Tensor:
        """The same sum where the halo's rows are here already: nothing travels, forward or backward."""
        own, halo = self.adjacency.local, self.adjacency.halo
        return product(own, rows_nF) + product(halo, halo_HF) if len(halo_HF) else product(own, rows_nF)


def product(block: Block, rows: Tensor) -> Tensor:
    """The sparse product of a block with float32 [columns, F], with a gradient for the rows."""
    return cast(Tensor, _Product.apply(rows, block))  # type: ignore[no-untyped-call]


class _OverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, aggregation: Aggregation, layer: int) -> Tensor:
        ctx.aggregation, ctx.layer = aggregation, layer
        arriving = aggregation.exchange.fetch(rows_nF, layer)
        with aggregation.clock("local product"):
            sums_nF = aggregation.adjacency.local.forward @ rows_nF
        halo_HF = arriving.wait()
        with aggregation.clock("halo product"):
            aggregation.adjacency.halo.forward.add_product(halo_HF, sums_nF)
        return sums_nF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor, None, None]:
        aggregation: Aggregation = ctx.aggregation
        grad_nF = grad_nF.contiguous()
        with aggregation.clock("halo product"):
            partial_HF = aggregation.adjacency.halo.backward @ grad_nF
        returning = aggregation.exchange.give_back(partial_HF, ctx.layer)
        with aggregation.clock("local product"):
            own_nF = aggregation.adjacency.local.backward @ grad_nF
        returning.add_to(own_nF)
        return own_nF, None, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, block: Block) -> Tensor:
        ctx.block = block
        return block.forward @ rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        block: Block = ctx.block
        return block.backward @ grad.contiguous(), None
