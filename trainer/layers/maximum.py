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
from trainer.layers.aggregate import Aggregation, in_turn
from trainer.sparse.dropout import Mask
from trainer.sparse.edges import Pattern, segments

_VALUES = 1 << 20
"""Entries of edges x features that are made at a time: 4 MB in fp32."""
_NOBODY = -1


def maximum(rows_nF: Tensor, aggregation: Aggregation, layer: int, step: PassContext, mask: Mask | None) -> Tensor:
    """The greatest of D(H) over in-neighbours: [n, F] to [n, F].

    Args:
        rows_nF: this part's rows, before dropout.
        aggregation: the part's edges.
        layer: whose copies are meant and where bytes are booked.
        step: the pass.
        mask: what is dropped of the rows, here and in the halo.
    """
    arguments = (rows_nF, None, aggregation, layer, step, mask)
    return cast(Tensor, _Maximum.apply(*arguments))  # type: ignore[no-untyped-call]


def maximum_of_kept(rows_nF: Tensor, halo_HF: Tensor, aggregation: Aggregation) -> Tensor:
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
        step: PassContext,
        mask: Mask | None,
    ) -> Tensor:
        ctx.aggregation, ctx.layer, ctx.step, ctx.mask = aggregation, layer, step, mask
        ctx.halo_is_given = halo_HF is not None
        if halo_HF is None and aggregation.exchange.rounds[0].sample(layer, step) is not None:
            with found_by_every_rank():
                raise TrainingError(
                    "the model takes a maximum over in-neighbours, and over a sample that is too small; leave out "
                    "--boundary-sampling, or use a sum or a mean"
                )
        edges, clock, n = aggregation.edges(with_loops=False), aggregation.clock, len(rows_nF)
        greatest_nF = torch.full_like(rows_nF, float("-inf"))
        who_nF = torch.full(rows_nF.shape, _NOBODY, dtype=torch.int32, device=rows_nF.device)

        def local() -> None:
            with clock("local product"):
                _compare(edges.local.forward, rows_nF if mask is None else mask.own(rows_nF), 0, greatest_nF, who_nF)

        if halo_HF is not None:
            local()
            with clock("halo product"):
                _compare(edges.halo[0].forward, halo_HF, n, greatest_nF, who_nF)
        else:

            def fetch(one: Round) -> PendingRows:
                return one.fetch(rows_nF, layer, step, before_dropout_RF=lambda: aggregation.exchange.needed(rows_nF))

            for number, one, rows_of_round in in_turn(aggregation.exchange.rounds, fetch):
                if not number:
                    local()
                arrived_HF = rows_of_round()
                with clock("halo product"):
                    if mask is not None:
                        arrived_HF = mask.halo(arrived_HF, one.columns)
                    first = n + one.columns.start
                    _compare(edges.halo[number].forward, arrived_HF, first, greatest_nF, who_nF)
                del arrived_HF
        greatest_nF.masked_fill_(greatest_nF == float("-inf"), 0)
        ctx.save_for_backward(who_nF)
        return greatest_nF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        [who_nF] = ctx.saved_tensors
        aggregation: Aggregation = ctx.aggregation
        clock, n, grad_nF = aggregation.clock, len(grad_nF), grad_nF.contiguous()
        if ctx.halo_is_given:
            own, halo = ctx.needs_input_grad[:2]
            num_halo = aggregation.exchange.num_halo
            return (
                _handed_back(grad_nF, who_nF, 0, n) if own else None,
                _handed_back(grad_nF, who_nF, n, num_halo) if halo else None,
                *[None] * 4,
            )
        own_nF = torch.zeros_like(grad_nF, dtype=torch.float32)
        returning: PendingRows | None = None
        for one in aggregation.exchange.rounds:
            with clock("halo product"):
                columns = one.columns
                partial_HF = _handed_back(grad_nF, who_nF, n + columns.start, columns.stop - columns.start)
            if returning is not None:
                returning.add_to(own_nF)
            returning = one.give_back(partial_HF, ctx.layer, ctx.step)
            del partial_HF
        with clock("local product"):
            own_nF += _handed_back(grad_nF, who_nF, 0, n)
        if returning is not None:
            returning.add_to(own_nF)
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF.to(grad_nF.dtype), None, None, None, None, None


def _compare(pattern: Pattern, rows_CF: Tensor, first: int, greatest_nF: Tensor, who_nF: Tensor) -> None:
    """Put in what is greater among the rows of one piece, whose columns are counted from `first`."""
    width = rows_CF.shape[1]
    for block in pattern.blocks(max(_VALUES // max(width, 1), 1)):
        place_B, column_B = block.row_B - block.rows.start, block.column_B
        value_BF = rows_CF.index_select(0, column_B).float()
        best_rF = segments(value_BF, block, "max", float("-inf"))
        is_best_BF = value_BF == best_rF.index_select(0, place_B)
        nobody = pattern.num_columns
        candidate_BF = torch.where(is_best_BF, column_B.unsqueeze(1), nobody)
        winner_rF = torch.full(best_rF.shape, nobody, device=best_rF.device)
        winner_rF.scatter_reduce_(0, place_B.unsqueeze(1).expand_as(candidate_BF), candidate_BF, "amin")
        before_rF, who_rF = greatest_nF[block.rows], who_nF[block.rows]
        is_better_rF = (best_rF > before_rF) & (winner_rF < nobody)
        who_nF[block.rows] = torch.where(is_better_rF, winner_rF + first, who_rF).int()
        greatest_nF[block.rows] = torch.maximum(before_rF, best_rF.to(before_rF.dtype))


def _handed_back(grad_nF: Tensor, who_nF: Tensor, first: int, number: int) -> Tensor:
    """The gradient [number, F] of the rows whose columns are counted from `first`."""
    width = grad_nF.shape[1]
    back_CF = grad_nF.new_zeros(number, width)
    some = max(_VALUES // max(width, 1), 1)
    for begin in range(0, len(grad_nF), some):
        who_rF = who_nF[begin : begin + some].long() - first
        is_here_rF = (who_rF >= 0) & (who_rF < number)
        grad_rF = torch.where(is_here_rF, grad_nF[begin : begin + some], 0)
        if number:
            back_CF.scatter_add_(0, who_rF.clamp_(0, number - 1), grad_rF)
    return back_CF
