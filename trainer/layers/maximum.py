"""The greatest value among a node's in-neighbours on all ranks, feature by feature, with its gradient.

The gradient of a maximum goes to the row that had it: of equal rows to the first, this rank's own before the halo's.
Which one it was is kept as a column number, so the backward pass needs no rows again. A node without in-edges gets 0
and gives no gradient. Weights of edges do not count.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.exchange.exchange import Round
from trainer.exchange.halo_exchange import PendingRows
from trainer.layers.aggregate import Aggregation, ReturningGradients, fetch_rounds
from trainer.sparse.dropout import Mask
from trainer.sparse.edges import EdgeBlocks, segments

_VALUES = 1 << 20
"""Entries of edges x features that are made at a time: 4 MB in fp32."""
_NONE = -1
"""The column of a maximum without in-edges."""


def maximum(rows_nF: Tensor, aggregation: Aggregation, layer: int, context: PassContext, mask: Mask | None) -> Tensor:
    """The greatest of D(H) over in-neighbours: [n, F] to [n, F].

    Args:
        rows_nF: this part's rows, before dropout.
        aggregation: the part's edges.
        layer: whose copies are used and under which bytes are recorded.
        context: the pass.
        mask: what is dropped of the rows, here and in the halo.
    """
    arguments = (rows_nF, None, aggregation, layer, context, mask)
    return cast(Tensor, _Maximum.apply(*arguments))  # type: ignore[no-untyped-call]


def maximum_with_halo(rows_nF: Tensor, halo_HF: Tensor, aggregation: Aggregation) -> Tensor:
    """The same where the halo's rows are here already."""
    arguments = (rows_nF, halo_HF, aggregation, 0, None, None)
    return cast(Tensor, _Maximum.apply(*arguments))  # type: ignore[no-untyped-call]


class _Maximum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows_nF: Tensor,
        halo_HF: Tensor | None,
        aggregation: Aggregation,
        layer: int,
        context: PassContext,
        mask: Mask | None,
    ) -> Tensor:
        ctx.aggregation, ctx.layer, ctx.context, ctx.mask = aggregation, layer, context, mask
        ctx.has_halo = halo_HF is not None
        if halo_HF is None and aggregation.exchange.rounds[0].sample(layer, context) is not None:
            with found_by_every_rank():
                raise TrainingError(
                    "the model takes a maximum over in-neighbours, and over a sample that is too small; leave out "
                    "--boundary-sampling, or use a sum or a mean"
                )
        edges, clock, n = aggregation.patterns(with_loops=False, with_features=False), aggregation.clock, len(rows_nF)
        max_nF = torch.full_like(rows_nF, float("-inf"))
        column_nF = torch.full(rows_nF.shape, _NONE, dtype=torch.int32, device=rows_nF.device)

        def local() -> None:
            with clock("local product"):
                _update(edges.local.forward, rows_nF if mask is None else mask.own(rows_nF), 0, max_nF, column_nF)

        def fetch(one: Round) -> PendingRows:
            return one.fetch(rows_nF, layer, context, compared=lambda: aggregation.exchange.needed(rows_nF))

        if halo_HF is not None:
            local()
            with clock("halo product"):
                _update(edges.halo[0].forward, halo_HF, n, max_nF, column_nF)
        else:
            for number, one, wait in fetch_rounds(aggregation.exchange.rounds, fetch):
                if not number:
                    local()
                arrived_HF = wait()
                with clock("halo product"):
                    if mask is not None:
                        arrived_HF = mask.halo(arrived_HF, one.columns)
                    _update(edges.halo[number].forward, arrived_HF, n + one.columns.start, max_nF, column_nF)
                del arrived_HF
        max_nF.masked_fill_(max_nF == float("-inf"), 0)
        ctx.save_for_backward(column_nF)
        return max_nF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        [column_nF] = ctx.saved_tensors
        aggregation: Aggregation = ctx.aggregation
        clock, n, grad_nF = aggregation.clock, len(grad_nF), grad_nF.contiguous()
        if ctx.has_halo:
            stretches = (0, n), (n, aggregation.exchange.num_halo)
            grads = (
                _gradient_of_columns(grad_nF, column_nF, *stretch) if is_needed else None
                for stretch, is_needed in zip(stretches, ctx.needs_input_grad, strict=False)
            )
            return *grads, None, None, None, None
        own_nF = torch.zeros_like(grad_nF, dtype=torch.float32)
        returning = ReturningGradients(ctx.layer, ctx.context)
        for one in aggregation.exchange.rounds:
            with clock("halo product"):
                first, number = n + one.columns.start, one.columns.stop - one.columns.start
                partial_HF = _gradient_of_columns(grad_nF, column_nF, first, number)
            returning.send(one, partial_HF, lambda: own_nF)
            del partial_HF
        with clock("local product"):
            own_nF += _gradient_of_columns(grad_nF, column_nF, 0, n)
        returning.add_to(lambda: own_nF)
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF.to(grad_nF.dtype), None, None, None, None, None


def _update(edges: EdgeBlocks, rows_CF: Tensor, first: int, max_nF: Tensor, column_nF: Tensor) -> None:
    """Replace what is less than the rows of one piece, whose columns are counted from `first`."""
    width = rows_CF.shape[1]
    for block in edges.blocks(max(_VALUES // max(width, 1), 1)):
        place_B, column_B = block.row_B.long() - block.rows.start, block.column_B.long()
        value_BF = rows_CF.index_select(0, column_B).float()
        block_max_rF = segments(value_BF, block, "max", float("-inf"))
        is_max_BF = value_BF == block_max_rF.index_select(0, place_B)
        none = edges.num_columns
        candidate_BF = torch.where(is_max_BF, column_B.unsqueeze(1), none)
        block_column_rF = torch.full(block_max_rF.shape, none, device=block_max_rF.device)
        block_column_rF.scatter_reduce_(0, place_B.unsqueeze(1).expand_as(candidate_BF), candidate_BF, "amin")
        before_rF, column_rF = max_nF[block.rows], column_nF[block.rows]
        is_greater_rF = (block_max_rF > before_rF) & (block_column_rF < none)
        column_nF[block.rows] = torch.where(is_greater_rF, block_column_rF + first, column_rF).int()
        max_nF[block.rows] = torch.maximum(before_rF, block_max_rF.to(before_rF.dtype))


def _gradient_of_columns(grad_nF: Tensor, column_nF: Tensor, first: int, number: int) -> Tensor:
    """The gradient [number, F] of the rows whose columns are counted from `first`."""
    width = grad_nF.shape[1]
    grad_CF = grad_nF.new_zeros(number, width)
    num_rows = max(_VALUES // max(width, 1), 1)
    for begin in range(0, len(grad_nF), num_rows):
        place_rF = column_nF[begin : begin + num_rows].long() - first
        is_here_rF = (place_rF >= 0) & (place_rF < number)
        grad_rF = torch.where(is_here_rF, grad_nF[begin : begin + num_rows], 0)
        if number:
            grad_CF.scatter_add_(0, place_rF.clamp_(0, number - 1), grad_rF)
    return grad_CF
