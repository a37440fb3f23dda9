"""Attention over all in-edges of a node, local and remote, and a self-loop, with gradients (GAT, GATv2).

    out_i = sum over j of p_ij z_j,    p_ij = exp(e_ij) / sum over k of exp(e_ik),    head by head

z are rows that went through their dense product at their owner, which is what travels. The scores e come from
`trainer.sparse.attention_scores`. The edges are never all here at the same time, so the softmax is updated piece by
piece (the local edges, then those of each round): the greatest score so far, the sum of exponentials below it, and the
weighted sum of rows, all of which are rescaled when a greater score comes (the online softmax of Milakov and Gimelshein
2018, which Sequential Aggregation and Rematerialization, Mostafa 2022, uses across ranks). All of it is in fp32.

No tensor has edges x heads x features entries: edge by edge there is one number a head, for a block of edges at a time
(`trainer.sparse.edge_values`), which weighs the rows in a sum. The backward pass makes them again, in the order of the
transpose, from one number a node and head: the logarithm of the sum of exponentials. With one round the halo's rows are
still here; with several they are fetched again.

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
from trainer.exchange.exchange import Round
from trainer.exchange.halo_exchange import ComparedRows, PendingRows
from trainer.layers.aggregate import Aggregation, ReturningGradients, fetch_rounds
from trainer.sparse.adjacency import InEdges
from trainer.sparse.attention_scores import Scores, scores_of
from trainer.sparse.dropout import EdgeMask
from trainer.sparse.edge_values import HeadEdges, at_edges, by_head, greatest, inner_products, totals
from trainer.sparse.edges import EdgeBlocks

_SCORES = 1 << 19
"""Scores in one block of edges, where a block need not be larger: 2 MB, and a few times that for what makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What belongs to the edges of one round, or to the local ones, apart from rows and scores."""

    edge_mask: EdgeMask | None = None
    columns: slice | None = None
    """Where its sources are in the halo; None for the local ones."""
    log_weights_C: Tensor | None = None
    """Of its sources, under boundary sampling."""

    def weighted(self, score_hB: Tensor, source_B: Tensor) -> Tensor:
        """The scores of some edges with the logarithms of their weights, float32 [heads, B]."""
        return score_hB if self.log_weights_C is None else score_hB + self.log_weights_C[source_B]

    def dropout_factors(self, destination_B: Tensor, source_B: Tensor, num_heads: int) -> Tensor | None:
        """What dropout multiplies the coefficients of some edges by, [heads, B]; None for nothing."""
        if self.edge_mask is None:
            return None
        return self.edge_mask.factors(destination_B, source_B, num_heads, self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One layer's attention in one pass, apart from its tensors."""

    aggregation: Aggregation
    layer: int
    context: PassContext
    edge_mask: EdgeMask | None
    """What is dropped of the coefficients p."""
    compared: ComparedRows | None = None
    """The rows whose change decides whether to send; None where no rows are sent, and so none are sampled."""
    is_recomputed: bool = False
    """Whether the layer is computed again for the backward pass."""

    def __call__(
        self,
        values_nG: Tensor,
        terms: Tensor,
        vector_hF: Tensor,
        halo_HG: Tensor | None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """The weighted sums, [n, heads F].

        Args:
            values_nG: z of this part's rows, all heads side by side.
            terms: of this part's rows as destinations: [n, heads], or [n, heads, F]; see
                `trainer.sparse.attention_scores`.
            vector_hF: the attention vector of each head, float32.
            halo_HG: z of the halo's rows where they are here; None to fetch them.
            edge_weight: of the edges' features, float32; None where they do not count.
        """
        if edge_weight is not None:
            self.aggregation.check_edge_features()
        arguments = (values_nG, terms, vector_hF, halo_HG, edge_weight, self)
        return cast(Tensor, _Attend.apply(*arguments))  # type: ignore[no-untyped-call]

    def edges(self, edge_weight: Tensor | None) -> InEdges[EdgeBlocks]:
        """All in-edges with a self-loop at every node, with features where they are multiplied by a weight."""
        return self.aggregation.patterns(with_loops=True, with_features=edge_weight is not None)

    def rounds(
        self, values_nG: Tensor, halo_HG: Tensor | None, *, again: bool = False
    ) -> Iterator[tuple[int, Piece, Callable[[], Tensor]]]:
        """The rounds, each with its piece and a call that waits for its rows; `halo_HG` where they are here."""
        rounds = self.aggregation.exchange.rounds

        def fetch(one: Round) -> PendingRows:
            return one.fetch(
                values_nG, self.layer, self.context, compared=self.compared, again=again or self.is_recomputed
            )

        def piece(one: Round) -> Piece:
            sample = None if self.compared is None else one.sample(self.layer, self.context)
            log_weights = None if sample is None else sample.log_weights()
            return Piece(edge_mask=self.edge_mask, columns=one.columns, log_weights_C=log_weights)

        if halo_HG is not None:
            yield 0, piece(rounds[0]), lambda: halo_HG
            return
        for number, one, wait in fetch_rounds(rounds, fetch):
            yield number, piece(one), wait


@dataclass(slots=True)
class Softmax:
    """A softmax over the edges so far, and the sum of rows that it weighs."""

    greatest_hn: Tensor
    total_hn: Tensor
    sums_nG: Tensor
    _has_edges: bool = False

    def update(self, piece: Piece, scores: Scores, edges: EdgeBlocks, values_CG: Tensor) -> None:
        """Add the edges of one piece."""
        num_heads, values_CG, is_first = len(self.total_hn), values_CG.float().contiguous(), not self._has_edges
        self._has_edges = True
        of_sources = scores.of_sources(values_CG)
        for block in edges.blocks(_edges_at_a_time(edges, num_heads)):
            rows, place_B = block.rows, block.row_B - block.rows.start
            score_hB = scores.of_edges(of_sources, block.row_B, block.column_B, block.features_BD)
            score_hB = piece.weighted(score_hB, block.column_B)
            greatest_hr = torch.maximum(greatest(score_hB, block), self.greatest_hn[:, rows])
            rescale_hr = (self.greatest_hn[:, rows] - greatest_hr).exp_()
            weight_hB = score_hB.sub_(at_edges(greatest_hr, place_B)).exp_()
            self.greatest_hn[:, rows] = greatest_hr
            self.total_hn[:, rows] = self.total_hn[:, rows] * rescale_hr + totals(weight_hB, block)
            factor_hB = piece.dropout_factors(block.row_B, block.column_B, num_heads)
            if factor_hB is not None:
                weight_hB *= factor_hB
            sums_rhF = HeadEdges(block, num_heads, edges.num_columns).weighted_sums(weight_hB, values_CG)
            if not is_first:
                sums_rhF = sums_rhF.addcmul_(by_head(self.sums_nG[rows], num_heads), rescale_hr.T.unsqueeze(2))
            by_head(self.sums_nG[rows], num_heads).copy_(sums_rhF)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values_nG: Tensor,
        terms: Tensor,
        vector_hF: Tensor,
        halo_HG: Tensor | None,
        edge_weight: Tensor | None,
        attention: Attention,
    ) -> Tensor:
        edges, clock = attention.edges(edge_weight), attention.aggregation.clock
        num_rows, num_heads = len(values_nG), len(vector_hF)
        softmax = Softmax(
            greatest_hn=vector_hF.new_full((num_heads, num_rows), float("-inf")),
            total_hn=vector_hF.new_zeros(num_heads, num_rows),
            sums_nG=vector_hF.new_zeros(values_nG.shape),
        )
        scores = scores_of(terms, vector_hF, edge_weight)
        ctx.attention, ctx.has_halo = attention, halo_HG is not None
        for number, piece, wait in attention.rounds(values_nG, halo_HG):
            if not number:
                with clock("local product"):
                    softmax.update(Piece(edge_mask=attention.edge_mask), scores, edges.local.forward, values_nG)
            arrived_HG = wait()
            with clock("halo product"):
                softmax.update(piece, scores, edges.halo[number].forward, arrived_HG)
            if len(edges.halo) == 1:
                halo_HG = arrived_HG
            del arrived_HG
        out_nG = softmax.sums_nG
        by_head(out_nG, num_heads).div_(softmax.total_hn.T.unsqueeze(2))
        out_nG = out_nG.to(values_nG.dtype)
        log_total_hn = softmax.total_hn.log_().add_(softmax.greatest_hn)
        ctx.save_for_backward(values_nG, terms, vector_hF, halo_HG, edge_weight, log_total_hn, out_nG)
        return out_nG

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor | None, ...]:
        values_nG, terms, vector_hF, halo_HG, edge_weight, log_total_hn, out_nG = ctx.saved_tensors
        attention: Attention = ctx.attention
        edges, clock = attention.edges(edge_weight), attention.aggregation.clock
        num_heads = len(vector_hF)
        grad_nG = grad_nG.float().contiguous()
        scores = scores_of(terms, vector_hF, edge_weight)
        mean_hn = inner_products(grad_nG, out_nG, num_heads)
        # The result is not needed any more, which is as large as the rows.
        del out_nG
        ctx.maybe_clear_saved_tensors()
        backward = SoftmaxGradient(scores=scores, grad_nG=grad_nG, mean_hn=mean_hn, log_total_hn=log_total_hn)
        halo_grad_HG: Tensor | None = None
        own_nG: Tensor | None = None
        returning = ReturningGradients(attention.layer, attention.context)

        def own_sums() -> Tensor:
            """Float32 sums, made once there is something to add: not earlier, for they take memory."""
            nonlocal own_nG
            if own_nG is None:
                own_nG = values_nG.new_zeros(values_nG.shape, dtype=torch.float32)
            return own_nG

        for number, piece, wait in attention.rounds(values_nG, halo_HG, again=True):
            arrived_HG = wait()
            with clock("halo product"):
                partial_HG = torch.zeros_like(arrived_HG, dtype=torch.float32)
                backward.of_sources(piece, edges.halo[number].backward, arrived_HG, partial_HG)
                partial_HG = partial_HG.to(values_nG.dtype)
            del arrived_HG
            if ctx.has_halo:
                halo_grad_HG = partial_HG
            else:
                returning.send(attention.aggregation.exchange.rounds[number], partial_HG, own_sums)
            del partial_HG
        with clock("local product"):
            backward.of_sources(Piece(edge_mask=attention.edge_mask), edges.local.backward, values_nG, own_sums())
        returning.add_to(own_sums)
        own_nG = own_sums()
        terms_grad, vector_grad, edge_grad = scores.gradients()
        own_grad = own_nG.to(values_nG.dtype), terms_grad.to(terms.dtype)
        return *own_grad, vector_grad, halo_grad_HG, edge_grad, None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxGradient:
    """The gradient of one attention, piece by piece."""

    scores: Scores
    grad_nG: Tensor
    """float32, of the result"""
    mean_hn: Tensor
    """The mean of the coefficients' gradients: sum over j of p_ij dp_ij."""
    log_total_hn: Tensor
    """The logarithm of the sum of exponentials."""

    def of_sources(self, piece: Piece, edges: EdgeBlocks, values_CG: Tensor, grad_CG: Tensor) -> None:
        """Add the gradient of the sources' rows to `grad_CG`, float32; the destinations' is added up in `scores`."""
        num_heads, values_CG = len(self.mean_hn), values_CG.float().contiguous()
        of_sources = self.scores.of_sources(values_CG)
        for block in edges.blocks(_edges_at_a_time(edges, num_heads)):
            source_B, destination_B = block.row_B, block.column_B
            score_hB = self.scores.of_edges(of_sources, destination_B, source_B, block.features_BD)
            share_hB = piece.weighted(score_hB, source_B) - at_edges(self.log_total_hn, destination_B)
            share_hB = share_hB.exp_()
            factor_hB = piece.dropout_factors(destination_B, source_B, num_heads)
            weight_hB = share_hB if factor_hB is None else share_hB * factor_hB
            of_heads = HeadEdges(block, num_heads, edges.num_columns)
            share_grad_hB = of_heads.products(values_CG[block.rows], self.grad_nG)
            by_head(grad_CG[block.rows], num_heads).add_(of_heads.weighted_sums(weight_hB, self.grad_nG))
            if factor_hB is not None:
                share_grad_hB *= factor_hB
            score_grad_hB = share_grad_hB.sub_(at_edges(self.mean_hn, destination_B)).mul_(share_hB)
            self.scores.add_gradients(score_grad_hB, score_hB, block, values_CG, grad_CG)


def _edges_at_a_time(edges: EdgeBlocks, num_heads: int) -> int:
    """On a GPU at least as many as there are rows on either side, so that there are few kernels to start."""
    if edges.csr.indptr.is_cpu:
        return max(_SCORES // num_heads, 1)
    return max(_SCORES // num_heads, edges.num_rows, edges.num_columns)
