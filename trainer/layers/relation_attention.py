"""Attention over in-edges of several relations, whose rows are here already, with gradients (R-GAT, HGT).

    out_i = sum over j of p_ij v_j,    p_ij = exp(e_ij) / sum over k of exp(e_ik),    head by head

Unlike `trainer.layers.attention` each relation has rows of its own for one source, made here from the rows of the halo;
there is no self-loop, and a row without in-edges gets 0. Blocks of edges, the softmax and what the backward pass makes
again are those of that module.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.traffic_log import Clock
from trainer.layers.attention import Piece, Softmax, SoftmaxGradient
from trainer.sparse.adjacency import TwoWay
from trainer.sparse.attention_scores import DotScores, SumScores
from trainer.sparse.dropout import EdgeMask
from trainer.sparse.edge_values import by_head, inner_products
from trainer.sparse.edges import EdgeBlocks

_LOWEST = -1e30
"""Below any score, and finite: the greatest score of a row that has no edge yet."""


def attend(
    values_CG: Tensor,
    destination: Tensor,
    source: Tensor,
    edges: TwoWay[EdgeBlocks],
    *,
    scores: type[SumScores] | type[DotScores],
    num_heads: int,
    clock: Clock,
    edge_mask: EdgeMask | None = None,
) -> Tensor:
    """The weighted sums, [rows, heads F], in the type of the values.

    Args:
        values_CG: v of the sources, all heads side by side.
        destination: what a destination adds to a score, [rows, heads] or [rows, heads F].
        source: what a source adds, [C, heads] or [C, heads F].
        edges: [rows, C] and the transpose.
        scores: how the two make a score.
        num_heads: of the values.
        clock: what measures it.
        edge_mask: what is dropped of the coefficients p, by the numbers of rows and sources.
    """
    arguments = (values_CG, destination, source, edges, scores, num_heads, clock, edge_mask)
    return cast(Tensor, _Attend.apply(*arguments))  # type: ignore[no-untyped-call]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values_CG: Tensor,
        destination: Tensor,
        source: Tensor,
        edges: TwoWay[EdgeBlocks],
        scores: type[SumScores] | type[DotScores],
        num_heads: int,
        clock: Clock,
        edge_mask: EdgeMask | None,
    ) -> Tensor:
        num_rows, device = len(destination), values_CG.device
        softmax = Softmax(
            greatest_hn=torch.full((num_heads, num_rows), _LOWEST, device=device),
            total_hn=torch.zeros(num_heads, num_rows, device=device),
            sums_nG=torch.zeros(num_rows, values_CG.shape[1], device=device),
        )
        piece = Piece(edge_mask=edge_mask, columns=slice(None))
        with clock("local product"):
            softmax.update(piece, scores(destination, source, num_heads), edges.forward, values_CG)
        total_hn = torch.where(softmax.total_hn > 0, softmax.total_hn, 1.0)
        out_nG = softmax.sums_nG
        by_head(out_nG, num_heads).div_(total_hn.T.unsqueeze(2))
        out_nG = out_nG.to(values_CG.dtype)
        ctx.edges, ctx.scores, ctx.clock, ctx.piece = edges, scores, clock, piece
        log_total_hn = total_hn.log_().add_(softmax.greatest_hn)
        ctx.save_for_backward(values_CG, destination, source, log_total_hn, out_nG)
        return out_nG

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor | None, ...]:
        values_CG, destination, source, log_total_hn, out_nG = ctx.saved_tensors
        num_heads = len(log_total_hn)
        grad_nG = grad_nG.float().contiguous()
        scores = ctx.scores(destination, source, num_heads)
        gradient = SoftmaxGradient(
            scores=scores,
            grad_nG=grad_nG,
            mean_hn=inner_products(grad_nG, out_nG, num_heads),
            log_total_hn=log_total_hn,
        )
        grad_CG = torch.zeros_like(values_CG, dtype=torch.float32)
        with ctx.clock("local product"):
            gradient.of_sources(ctx.piece, ctx.edges.backward, values_CG, grad_CG)
        destination_grad, source_grad, _ = scores.gradients()
        of_scores = destination_grad.to(destination.dtype), source_grad.to(source.dtype)
        return grad_CG.to(values_CG.dtype), *of_scores, None, None, None, None, None
