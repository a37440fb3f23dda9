"""Attention scores of GAT, GATv2, R-GAT and HGT, before the softmax, and their gradients.

    GAT      e_ij = LeakyReLU(t_i + a . z_j + u . f_ij)        t_i a number a head: what node i adds as a destination
             (Velickovic et al. 2018; t_i = a' . z_i there)
    GATv2    e_ij = a . LeakyReLU(t_i + z_j + U f_ij)          t_i a vector a head
             (Brody, Alon and Yahav 2022; t_i = W' h_i there)

f are the features of edges, where there are some; u and U belong to the model. R-GAT's and HGT's have two given ends:

    R-GAT    e_ij = LeakyReLU(t_i + s_j)
    HGT      e_ij = q_i . k_j

GAT's scores are made from one number a node and head. GATv2's need a vector an edge and head, which is made, used and
freed for some edges at a time.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor

from trainer.sparse.edge_values import (
    HeadEdges,
    add_at_nodes,
    at_edges,
    by_head,
    products_by_head,
    totals,
    weighted_by_head,
)
from trainer.sparse.edges import RowBlock
from trainer.sparse.row_sums import weighted_row_sums

SLOPE = 0.2
"""of LeakyReLU below 0, as in both papers"""
_VALUES = 1 << 19
"""Entries of edges x heads x features that are made at a time: 2 MB."""


class Scores(Protocol):
    """The scores of one layer in one pass, and their gradients, which are added up here piece after piece."""

    def of_sources(self, values_CG: Tensor) -> Tensor:
        """What is needed of the sources of a piece, from their rows, float32."""

    def of_edges(
        self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor, features_BD: Tensor | None
    ) -> Tensor:
        """The scores of some edges: float32 [heads, B], the caller's to change."""

    def add_gradients(
        self, score_grad_hB: Tensor, score_hB: Tensor, block: RowBlock, values_CG: Tensor, grad_CG: Tensor
    ) -> None:
        """Go back from the scores of a block of the transpose, whose rows are sources, to terms, vector and sources.

        Args:
            score_grad_hB: of the scores, the callee's to change.
            score_hB: the scores.
            block: the edges.
            values_CG: the rows of the sources, float32.
            grad_CG: to which their gradient is added.
        """

    def gradients(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of the terms, in their shape, the vector and the weight of edges' features, when all edges are done."""


class GatScores:
    """LeakyReLU(t_i + a . z_j + u . f_ij)."""

    def __init__(self, terms_nh: Tensor, vector_hF: Tensor, edge_Dh: Tensor | None) -> None:
        self._terms_hn, self._vector_hF, self._edge_Dh = terms_nh.float().T.contiguous(), vector_hF, edge_Dh
        self._edge_grad_hD = None if edge_Dh is None else torch.zeros_like(edge_Dh.T)
        self._terms_grad_hn, self._vector_grad_hF = torch.zeros_like(self._terms_hn), torch.zeros_like(vector_hF)

    def of_sources(self, values_CG: Tensor) -> Tensor:
        return products_by_head(values_CG, self._vector_hF)

    def of_edges(
        self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor, features_BD: Tensor | None
    ) -> Tensor:
        sums_hB = at_edges(self._terms_hn, destination_B).add_(at_edges(of_sources, source_B))
        if self._edge_Dh is not None and features_BD is not None:
            sums_hB.addmm_(self._edge_Dh.T, features_BD.T)
        return torch.nn.functional.leaky_relu_(sums_hB, SLOPE)

    def add_gradients(
        self, score_grad_hB: Tensor, score_hB: Tensor, block: RowBlock, values_CG: Tensor, grad_CG: Tensor
    ) -> None:
        # A sum and its score have the same sign.
        sum_grad_hB = torch.ops.aten.leaky_relu_backward(score_grad_hB, score_hB, SLOPE, True)
        add_at_nodes(self._terms_grad_hn, block.column_B, sum_grad_hB)
        if self._edge_grad_hD is not None and block.features_BD is not None:
            self._edge_grad_hD += sum_grad_hB @ block.features_BD
        total_hr, num_heads = totals(sum_grad_hB, block), len(self._vector_hF)
        self._vector_grad_hF += weighted_by_head(total_hr, values_CG[block.rows])
        by_head(grad_CG[block.rows], num_heads).addcmul_(total_hr.T.unsqueeze(2), self._vector_hF)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor | None]:
        edge_grad = None if self._edge_grad_hD is None else self._edge_grad_hD.T
        return self._terms_grad_hn.T, self._vector_grad_hF, edge_grad


class Gatv2Scores:
    """a . LeakyReLU(t_i + z_j + U f_ij).

    With d_ij the gradient of a score and l_ij the slopes (1 or 0.2) at the values of t_i + z_j + U f_ij, gradients are

        of t_i   a * sum over j of d_ij l_ij        of z_j   a * sum over i of d_ij l_ij
        of U     a * sum over i and j of f_ij d_ij l_ij
        of a     sum over i and j of d_ij l_ij * (t_i + z_j + U f_ij)

    and the last is made of the same sums: t_i times the first one, z_j times the second, and U times the third.
    """

    def __init__(self, terms_nhF: Tensor, vector_hF: Tensor, edge_DG: Tensor | None) -> None:
        self._terms_nG, self._vector_hF, self._edge_DG = terms_nhF.flatten(1), vector_hF, edge_DG
        self._slopes_DG = None if edge_DG is None else torch.zeros_like(edge_DG)
        """sum over i and j of f_ij d_ij l_ij"""
        self._slopes_nG = torch.zeros_like(self._terms_nG, dtype=torch.float32)
        """sum over j of d_ij l_ij"""
        self._vector_grad_G = torch.zeros_like(vector_hF).flatten()

    def of_sources(self, values_CG: Tensor) -> Tensor:
        return values_CG

    def of_edges(
        self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor, features_BD: Tensor | None
    ) -> Tensor:
        score_hB = torch.empty(len(self._vector_hF), len(source_B), device=source_B.device)
        vector_hG = torch.block_diag(*self._vector_hF.unsqueeze(1))  # type: ignore[no-untyped-call]
        for begin in range(0, len(source_B), self._max_edges):
            chunk = slice(begin, begin + self._max_edges)
            features_bD = None if features_BD is None else features_BD[chunk]
            sums_bG = self._sums(of_sources, destination_B[chunk], source_B[chunk], features_bD)
            # A product with zeros in three of four heads is still several times as fast as an einsum over the heads.
            score_hB[:, chunk] = vector_hG @ torch.nn.functional.leaky_relu_(sums_bG, SLOPE).T
        return score_hB

    def add_gradients(
        self,
        score_grad_hB: Tensor,
        score_hB: Tensor,  # noqa: ARG002
        block: RowBlock,
        values_CG: Tensor,
        grad_CG: Tensor,
    ) -> None:
        num_heads, values_rG = len(self._vector_hF), values_CG[block.rows]
        slopes_rG = torch.zeros_like(values_rG)
        for chunk, rows in block.chunks(self._max_edges):
            destination_b = block.column_B[chunk]
            features_bD = None if block.features_BD is None else block.features_BD[chunk]
            sums_bhF = by_head(self._sums(values_CG, destination_b, block.row_B[chunk], features_bD), num_heads)
            grad_bh1 = score_grad_hB[:, chunk].T.contiguous().unsqueeze(2)
            slopes_bG = torch.ops.aten.leaky_relu_backward(grad_bh1, sums_bhF, SLOPE, False).flatten(1)
            self._slopes_nG.index_add_(0, destination_b, slopes_bG)
            if self._slopes_DG is not None and features_bD is not None:
                self._slopes_DG += features_bD.T @ slopes_bG
            numbers_b = torch.arange(len(slopes_bG), dtype=block.indptr.dtype, device=block.indptr.device)
            slopes_rG[rows] += weighted_row_sums(block.indptr_of(chunk, rows), numbers_b, None, slopes_bG)
        self._vector_grad_G += (slopes_rG * values_rG).sum(0)
        grad_CG[block.rows].addcmul_(slopes_rG, self._vector_hF.flatten())

    def gradients(self) -> tuple[Tensor, Tensor, Tensor | None]:
        vector_grad_G = self._vector_grad_G + (self._slopes_nG * self._terms_nG).sum(0)
        edge_grad_DG = None
        if self._slopes_DG is not None and self._edge_DG is not None:
            vector_grad_G += (self._slopes_DG * self._edge_DG).sum(0)
            edge_grad_DG = self._slopes_DG * self._vector_hF.flatten()
        terms_grad_nhF = by_head(self._slopes_nG, len(self._vector_hF)) * self._vector_hF
        return terms_grad_nhF, vector_grad_G.view_as(self._vector_hF), edge_grad_DG

    @property
    def _max_edges(self) -> int:
        return max(_VALUES // self._vector_hF.numel(), 1)

    def _sums(self, values_CG: Tensor, destination_b: Tensor, source_b: Tensor, features_bD: Tensor | None) -> Tensor:
        """t_i + z_j + U f_ij, float32 [b, heads F]."""
        sums_bG = self._terms_nG.index_select(0, destination_b).float()
        if self._edge_DG is not None and features_bD is not None:
            sums_bG.addmm_(features_bD, self._edge_DG)
        return sums_bG.add_(values_CG.index_select(0, source_b))


class SumScores:
    """LeakyReLU(t_i + s_j) head by head, with t of the destinations and s of the sources."""

    def __init__(self, destination_nh: Tensor, source_Ch: Tensor, num_heads: int) -> None:  # noqa: ARG002
        self._ends = [one.float().T.contiguous() for one in (destination_nh, source_Ch)]
        self._gradients = [torch.zeros_like(one) for one in self._ends]

    def of_sources(self, values_CG: Tensor) -> Tensor:  # noqa: ARG002
        return self._ends[1]

    def of_edges(
        self,
        of_sources: Tensor,
        destination_B: Tensor,
        source_B: Tensor,
        features_BD: Tensor | None,  # noqa: ARG002
    ) -> Tensor:
        sums_hB = at_edges(self._ends[0], destination_B).add_(at_edges(of_sources, source_B))
        return torch.nn.functional.leaky_relu_(sums_hB, SLOPE)

    def add_gradients(
        self,
        score_grad_hB: Tensor,
        score_hB: Tensor,
        block: RowBlock,
        values_CG: Tensor,  # noqa: ARG002
        grad_CG: Tensor,  # noqa: ARG002
    ) -> None:
        # A sum and its score have the same sign.
        sum_grad_hB = torch.ops.aten.leaky_relu_backward(score_grad_hB, score_hB, SLOPE, True)
        of_destinations_hn, of_sources_hC = self._gradients
        add_at_nodes(of_destinations_hn, block.column_B, sum_grad_hB)
        of_sources_hC[:, block.rows] += totals(sum_grad_hB, block)

    def gradients(self) -> tuple[Tensor, Tensor, None]:
        of_destinations_hn, of_sources_hC = self._gradients
        return of_destinations_hn.T, of_sources_hC.T, None


class DotScores:
    """q_i . k_j head by head, with q of the destinations and k of the sources."""

    def __init__(self, query_nG: Tensor, key_CG: Tensor, num_heads: int) -> None:
        self._query_nG, self._key_CG = query_nG.float().contiguous(), key_CG.float().contiguous()
        self._num_heads = num_heads
        self._query_grad_nG, self._key_grad_CG = torch.zeros_like(self._query_nG), torch.zeros_like(self._key_CG)

    def of_sources(self, values_CG: Tensor) -> Tensor:  # noqa: ARG002
        return self._key_CG

    def of_edges(
        self,
        of_sources: Tensor,
        destination_B: Tensor,
        source_B: Tensor,
        features_BD: Tensor | None,  # noqa: ARG002
    ) -> Tensor:
        score_hB = torch.empty(self._num_heads, len(source_B), device=source_B.device)
        for begin in range(0, len(source_B), self._max_edges):
            chunk = slice(begin, begin + self._max_edges)
            products_bG = self._query_nG.index_select(0, destination_B[chunk])
            products_bG.mul_(of_sources.index_select(0, source_B[chunk]))
            score_hB[:, chunk] = by_head(products_bG, self._num_heads).sum(2).T
        return score_hB

    def add_gradients(
        self,
        score_grad_hB: Tensor,
        score_hB: Tensor,  # noqa: ARG002
        block: RowBlock,
        values_CG: Tensor,  # noqa: ARG002
        grad_CG: Tensor,  # noqa: ARG002
    ) -> None:
        of_heads = HeadEdges(block, self._num_heads, len(self._query_nG))
        of_keys = by_head(self._key_grad_CG[block.rows], self._num_heads)
        of_keys.add_(of_heads.weighted_sums(score_grad_hB, self._query_nG))
        for chunk, _ in block.chunks(self._max_edges):
            key_bhF = by_head(self._key_CG.index_select(0, block.row_B[chunk]), self._num_heads)
            key_bhF.mul_(score_grad_hB[:, chunk].T.unsqueeze(2))
            self._query_grad_nG.index_add_(0, block.column_B[chunk], key_bhF.flatten(1))

    def gradients(self) -> tuple[Tensor, Tensor, None]:
        return self._query_grad_nG, self._key_grad_CG, None

    @property
    def _max_edges(self) -> int:
        return max(_VALUES // max(self._query_nG.shape[1], 1), 1)


def destination_terms(own_nG: Tensor, vector_hF: Tensor) -> Tensor:
    """GAT's terms of this part's rows as destinations, a' . z_i head by head: float32 [n, heads], with gradients."""
    return cast(Tensor, _DestinationTerms.apply(own_nG, vector_hF))  # type: ignore[no-untyped-call]


class _DestinationTerms(torch.autograd.Function):
    """One pass over the rows each way. Autograd's for an einsum, or for a product with few columns, take ten."""

    @staticmethod
    def forward(ctx: Any, own_nG: Tensor, vector_hF: Tensor) -> Tensor:
        ctx.save_for_backward(own_nG, vector_hF)
        return products_by_head(own_nG.float(), vector_hF).T

    @staticmethod
    def backward(ctx: Any, grad_nh: Tensor) -> tuple[Tensor, Tensor]:
        own_nG, vector_hF = ctx.saved_tensors
        grad_nG = (grad_nh.unsqueeze(2) * vector_hF).flatten(1).to(own_nG.dtype)
        return grad_nG, weighted_by_head(grad_nh.T.contiguous(), own_nG.float())


def scores_of(terms: Tensor, vector_hF: Tensor, edge_weight: Tensor | None) -> Scores:
    """GAT's for terms [n, heads], GATv2's for terms [n, heads, F].

    Args:
        terms: of the destinations.
        vector_hF: the attention vector of each head, float32.
        edge_weight: of the edges' features, float32, [D, heads] or [D, heads F]; None where they do not count.
    """
    return (GatScores if terms.dim() == 2 else Gatv2Scores)(terms, vector_hF, edge_weight)
