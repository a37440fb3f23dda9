"""Attention over all in-edges of a node, local and remote, and a self-loop, with gradients (GAT, GATv2).

    out_i = sum over j of p_ij z_j,    p_ij = exp(e_ij) / sum over k of exp(e_ik),    head by head

z are rows that went through their dense product at their owner, which is what travels. The scores e come from
`trainer.sparse.attention_scores`. A softmax over edges that are never all here at the same time is carried on from
piece to piece (the local edges, then those of each round): the greatest score so far, the sum of exponentials below it,
and the weighted sum of rows, all of which fade when a greater score comes up (the online softmax of Milakov and
Gimelshein 2018, which Sequential Aggregation and Rematerialization, Mostafa 2022, uses across ranks). All of it is in
fp32.

No tensor has edges x heads x features entries: edge by edge there is one number a head, which a sparse product takes
as its weights, one head at a time, and a block of edges at a time. The backward pass makes them again, in the order of
the transpose, from one number a node and head: the logarithm of the sum of exponentials. With one round the halo's
rows are still here; with several they are fetched again.

Under boundary sampling the kept edges weigh 1/P times in both sums, so the result is a ratio of two unbiased sums,
which is not unbiased itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.data.part import Csr
from trainer.exchange.exchange import Round
from trainer.exchange.halo_exchange import PendingRows
from trainer.layers.aggregate import Aggregation, Watched, in_turn
from trainer.sparse.adjacency import Matrix
from trainer.sparse.attention_scores import Scores, by_head, scores
from trainer.sparse.dropout import EdgeMask
from trainer.sparse.edges import Pattern, RowBlock, segments

_SCORES = 1 << 18
"""Scores in one block of edges, where a block need not be larger: 1 MB, and a few times that for what makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What belongs to the edges of one round, or to the local ones, apart from rows and scores."""

    edge_mask: EdgeMask | None = None
    columns: slice | None = None
    """Where its sources are in the halo; None for the local ones."""
    log_weights_C: Tensor | None = None
    """Of its sources, under boundary sampling."""

    def scored(self, how: Scores, of_sources: Tensor, destination_B: Tensor, source_B: Tensor) -> Tensor:
        """The scores of some edges, float32 [B, heads]."""
        score_Bh = how.of_edges(of_sources, destination_B, source_B)
        return score_Bh if self.log_weights_C is None else score_Bh.add_(self.log_weights_C[source_B].unsqueeze(1))

    def kept(self, destination_B: Tensor, source_B: Tensor, num_heads: int) -> Tensor | None:
        """What dropout multiplies the coefficients of some edges by, [B, heads]; None for nothing."""
        if self.edge_mask is None:
            return None
        return self.edge_mask.factors(destination_B, source_B, num_heads, self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attending:
    """One layer's attention in one pass, apart from its tensors."""

    aggregation: Aggregation
    layer: int
    step: PassContext
    edge_mask: EdgeMask | None
    """What is dropped of the coefficients p."""
    watched: Watched | None = None
    """What the change of the rows is measured on; None where they do not travel."""
    is_again: bool = False
    """Whether the layer is made again for the backward pass."""

    def __call__(self, values_nG: Tensor, terms: Tensor, vector_hF: Tensor, halo_HG: Tensor | None) -> Tensor:
        """The weighted sums, [n, heads F].

        Args:
            values_nG: z of this part's rows, all heads side by side.
            terms: of this part's rows as destinations: [n, heads], or [n, heads, F]; see
                `trainer.sparse.attention_scores`.
            vector_hF: the attention vector of each head, float32.
            halo_HG: z of the halo's rows where they are here; None to fetch them.
        """
        return cast(Tensor, _Attended.apply(values_nG, terms, vector_hF, halo_HG, self))  # type: ignore[no-untyped-call]

    @property
    def local_piece(self) -> Piece:
        return Piece(edge_mask=self.edge_mask)

    def rounds(
        self, values_nG: Tensor, halo_HG: Tensor | None, *, again: bool = False
    ) -> Iterator[tuple[int, Piece, Callable[[], Tensor]]]:
        """The rounds, each with its piece and a call that waits for its rows; `halo_HG` where they are here."""
        rounds = self.aggregation.exchange.rounds
        if halo_HG is not None and not again:
            yield 0, Piece(edge_mask=self.edge_mask, columns=rounds[0].columns), lambda: halo_HG
            return

        def fetch(one: Round) -> PendingRows:
            return one.fetch(
                values_nG, self.layer, self.step, before_dropout_RF=self.watched, again=again or self.is_again
            )

        def piece(one: Round) -> Piece:
            sample = one.sample(self.layer, self.step)
            log_weights = None if sample is None else sample.log_weights()
            return Piece(edge_mask=self.edge_mask, columns=one.columns, log_weights_C=log_weights)

        if halo_HG is not None:
            yield 0, piece(rounds[0]), lambda: halo_HG
            return
        for number, one, rows_of_round in in_turn(rounds, fetch):
            yield number, piece(one), rows_of_round


@dataclass(slots=True)
class _Softmax:
    """A softmax over the edges so far, and the sum of rows that it weighs."""

    greatest_nh: Tensor
    total_nh: Tensor
    sums_nG: Tensor

    def carry_on(self, piece: Piece, how: Scores, pattern: Pattern, values_CG: Tensor) -> None:
        """Take in the edges of one piece."""
        num_heads = self.total_nh.shape[1]
        of_sources = how.of_sources(values_CG)
        for block in pattern.blocks(_edges_at_a_time(pattern, num_heads)):
            rows, place_B = block.rows, block.row_B - block.rows.start
            score_Bh = piece.scored(how, of_sources, block.row_B, block.column_B)
            greatest_rh = segments(score_Bh, block, "max", float("-inf"))
            greatest_rh = torch.maximum(greatest_rh, self.greatest_nh[rows])
            fade_rh = (self.greatest_nh[rows] - greatest_rh).exp_()
            weight_Bh = score_Bh.sub_(greatest_rh.index_select(0, place_B)).exp_()
            self.greatest_nh[rows] = greatest_rh
            self.total_nh[rows] = self.total_nh[rows] * fade_rh + segments(weight_Bh, block, "sum", 0.0)
            kept_Bh = piece.kept(block.row_B, block.column_B, num_heads)
            if kept_Bh is not None:
                weight_Bh *= kept_Bh
            sums_rhF = by_head(self.sums_nG[rows], num_heads)
            sums_rhF *= fade_rh.unsqueeze(2)
            for head, values_CF in enumerate(by_head(values_CG, num_heads).unbind(1)):
                sums_rhF[:, head] += _matrix(block, weight_Bh[:, head], len(values_CG)) @ values_CF.contiguous()


class _Attended(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values_nG: Tensor, terms: Tensor, vector_hF: Tensor, halo_HG: Tensor | None, call: Attending
    ) -> Tensor:
        edges, clock = call.aggregation.edges(with_loops=True), call.aggregation.clock
        num_rows, num_heads = len(values_nG), len(vector_hF)
        softmax = _Softmax(
            greatest_nh=vector_hF.new_full((num_rows, num_heads), float("-inf")),
            total_nh=vector_hF.new_zeros(num_rows, num_heads),
            sums_nG=vector_hF.new_zeros(values_nG.shape),
        )
        how = scores(terms, vector_hF)
        ctx.call, ctx.halo_is_given = call, halo_HG is not None
        for number, piece, rows_of_round in call.rounds(values_nG, halo_HG):
            if not number:
                with clock("local product"):
                    softmax.carry_on(call.local_piece, how, edges.local.forward, values_nG)
            arrived_HG = rows_of_round()
            with clock("halo product"):
                softmax.carry_on(piece, how, edges.halo[number].forward, arrived_HG)
            if len(edges.halo) == 1:
                halo_HG = arrived_HG
            del arrived_HG
        out_nG = softmax.sums_nG
        by_head(out_nG, num_heads).div_(softmax.total_nh.unsqueeze(2))
        out_nG = out_nG.to(values_nG.dtype)
        log_total_nh = softmax.total_nh.log_().add_(softmax.greatest_nh)
        ctx.save_for_backward(values_nG, terms, vector_hF, halo_HG, log_total_nh, out_nG)
        return out_nG

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor | None, ...]:
        values_nG, terms, vector_hF, halo_HG, log_total_nh, out_nG = ctx.saved_tensors
        call: Attending = ctx.call
        edges, clock = call.aggregation.edges(with_loops=True), call.aggregation.clock
        num_heads = len(vector_hF)
        grad_nG = grad_nG.float()
        how = scores(terms, vector_hF)
        mean_nh = torch.einsum("nhf,nhf->nh", by_head(grad_nG, num_heads), by_head(out_nG.float(), num_heads))
        # The result is not needed any more, which is as large as the rows.
        del out_nG
        ctx.maybe_clear_saved_tensors()
        backward = _Backward(how=how, grad_nG=grad_nG, mean_nh=mean_nh, log_total_nh=log_total_nh)
        halo_grad_HG: Tensor | None = None
        own_nG: Tensor | None = None
        returning: PendingRows | None = None
        for number, piece, rows_of_round in call.rounds(values_nG, halo_HG, again=True):
            arrived_HG = rows_of_round()
            with clock("halo product"):
                partial_HG = torch.zeros_like(arrived_HG, dtype=torch.float32)
                backward.of_sources(piece, edges.halo[number].backward, arrived_HG, partial_HG)
                partial_HG = partial_HG.to(values_nG.dtype)
            del arrived_HG
            if ctx.halo_is_given:
                halo_grad_HG = partial_HG
                continue
            if returning is not None:
                own_nG = _begun(own_nG, values_nG)
                returning.add_to(own_nG)
            returning = call.aggregation.exchange.rounds[number].give_back(partial_HG, call.layer, call.step)
            del partial_HG
        own_nG = _begun(own_nG, values_nG)
        with clock("local product"):
            backward.of_sources(call.local_piece, edges.local.backward, values_nG, own_nG)
        if returning is not None:
            returning.add_to(own_nG)
        return own_nG.to(values_nG.dtype), how.terms_grad.to(terms.dtype), how.vector_grad, halo_grad_HG, None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backward:
    """The gradient of one attention, piece by piece."""

    how: Scores
    grad_nG: Tensor
    """float32, of the result"""
    mean_nh: Tensor
    """The mean of the coefficients' gradients: sum over j of p_ij dp_ij."""
    log_total_nh: Tensor
    """The logarithm of the sum of exponentials."""

    def of_sources(self, piece: Piece, pattern: Pattern, values_CG: Tensor, grad_CG: Tensor) -> None:
        """Add the gradient of the sources' rows to `grad_CG`, float32; the destinations' is added up in `how`."""
        num_heads = self.mean_nh.shape[1]
        of_sources = self.how.of_sources(values_CG)
        grads_nhF, grads_ChF = by_head(self.grad_nG, num_heads), by_head(grad_CG, num_heads)
        for block in pattern.blocks(_edges_at_a_time(pattern, num_heads)):
            source_B, destination_B = block.row_B, block.column_B
            share_Bh = piece.scored(self.how, of_sources, destination_B, source_B)
            share_Bh = share_Bh.sub_(self.log_total_nh.index_select(0, destination_B)).exp_()
            kept_Bh = piece.kept(destination_B, source_B, num_heads)
            weight_Bh = share_Bh if kept_Bh is None else share_Bh * kept_Bh
            share_grad_Bh = torch.empty_like(share_Bh)
            for head, values_cF in enumerate(by_head(values_CG[block.rows], num_heads).unbind(1)):
                matrix, grad_nF = _matrix(block, weight_Bh[:, head], len(self.grad_nG)), grads_nhF[:, head].contiguous()
                share_grad_Bh[:, head] = matrix.products_at_entries(values_cF.contiguous(), grad_nF)
                grads_ChF[block.rows, head] += matrix @ grad_nF
            if kept_Bh is not None:
                share_grad_Bh *= kept_Bh
            score_grad_Bh = share_grad_Bh.sub_(self.mean_nh.index_select(0, destination_B)).mul_(share_Bh)
            self.how.add_gradients(score_grad_Bh, block, of_sources, grad_CG)
        self.how.end_of_sources(values_CG, grad_CG)


def _begun(sums_nG: Tensor | None, rows_nG: Tensor) -> Tensor:
    """The sums so far, or zeros, float32, once there is something to add: not earlier, for they take memory."""
    return rows_nG.new_zeros(rows_nG.shape, dtype=torch.float32) if sums_nG is None else sums_nG


def _edges_at_a_time(pattern: Pattern, num_heads: int) -> int:
    """At least as many as there are rows on either side, so that what is done once a block costs no more than it."""
    return max(_SCORES // num_heads, pattern.num_rows, pattern.num_columns)


def _matrix(block: RowBlock, weight_B: Tensor, num_columns: int) -> Matrix:
    csr = Csr(indptr=block.indptr, indices=block.indices, weights=weight_B.contiguous(), num_columns=num_columns)
    return Matrix(csr, weight_B.device)
