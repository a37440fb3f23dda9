"""Attention scores of GAT and GATv2, before the softmax, and their gradients.

    GAT      e_ij = LeakyReLU(t_i + a . z_j)        t_i a number a head: what node i adds as a destination
             (Velickovic et al. 2018; t_i = a' . z_i there)
    GATv2    e_ij = a . LeakyReLU(t_i + z_j)        t_i a vector a head
             (Brody, Alon and Yahav 2022; t_i = W' h_i there)

GAT's scores are made from one number a node and head. GATv2's need a vector an edge and head, which is made, used and
freed for some edges at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from trainer.sparse.edges import RowBlock, segments

SLOPE = 0.2
"""of LeakyReLU below 0, as in both papers"""
_VALUES = 1 << 20
"""Entries of edges x heads x features that are made at a time: 4 MB."""


class Scores(Protocol):
    """The scores of one layer in one pass, and their gradients, which are added up here piece after piece."""

    terms_grad: Tensor
    vector_grad: Tensor

    def of_sources(self, values_CG: Tensor) -> Tensor:
        """What is needed of the sources of a piece, from their rows."""

    def of_edges(self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor) -> Tensor:
        """The scores of some edges: float32 [B, heads], the caller's to change."""

    def add_gradients(self, score_grad_Bh: Tensor, block: RowBlock, of_sources: Tensor, grad_CG: Tensor) -> None:
        """Go back from the scores of a block of the transpose, whose rows are sources, to terms, vector and sources."""

    def end_of_sources(self, values_CG: Tensor, grad_CG: Tensor) -> None:
        """Go back from `of_sources` to the rows of a piece, when all of its edges are done."""


class GatScores:
    """LeakyReLU(t_i + a . z_j)."""

    def __init__(self, terms_nh: Tensor, vector_hF: Tensor) -> None:
        self._terms_nh, self._vector_hF = terms_nh.float(), vector_hF
        self.terms_grad, self.vector_grad = torch.zeros_like(self._terms_nh), torch.zeros_like(vector_hF)
        self._source_grad_Ch: Tensor | None = None

    def of_sources(self, values_CG: Tensor) -> Tensor:
        values_ChF = by_head(values_CG.float(), len(self._vector_hF))
        # Head by head, since an einsum copies all rows.
        return torch.stack([values_ChF[:, head] @ vector_F for head, vector_F in enumerate(self._vector_hF)], dim=1)

    def of_edges(self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor) -> Tensor:
        sums_Bh = self._terms_nh.index_select(0, destination_B).add_(of_sources.index_select(0, source_B))
        return torch.nn.functional.leaky_relu_(sums_Bh, SLOPE)

    def add_gradients(
        self,
        score_grad_Bh: Tensor,
        block: RowBlock,
        of_sources: Tensor,
        grad_CG: Tensor,  # noqa: ARG002
    ) -> None:
        score_Bh = self.of_edges(of_sources, block.column_B, block.row_B)
        sum_grad_Bh = torch.where(score_Bh > 0, score_grad_Bh, score_grad_Bh * SLOPE)
        self.terms_grad.index_add_(0, block.column_B, sum_grad_Bh)
        if self._source_grad_Ch is None:
            self._source_grad_Ch = torch.zeros_like(of_sources)
        self._source_grad_Ch[block.rows] += segments(sum_grad_Bh, block, "sum", 0.0)

    def end_of_sources(self, values_CG: Tensor, grad_CG: Tensor) -> None:
        if self._source_grad_Ch is None:
            return
        num_heads = len(self._vector_hF)
        values_ChF = by_head(values_CG.float(), num_heads)
        for head, grad_CF in enumerate(by_head(grad_CG, num_heads).unbind(1)):
            self.vector_grad[head] += self._source_grad_Ch[:, head] @ values_ChF[:, head]
            grad_CF.addr_(self._source_grad_Ch[:, head], self._vector_hF[head])
        self._source_grad_Ch = None


class Gatv2Scores:
    """a . LeakyReLU(t_i + z_j)."""

    def __init__(self, terms_nhF: Tensor, vector_hF: Tensor) -> None:
        self._terms_nhF, self._vector_hF = terms_nhF, vector_hF
        self.terms_grad = terms_nhF.new_zeros(terms_nhF.shape, dtype=torch.float32)
        self.vector_grad = torch.zeros_like(vector_hF)

    def of_sources(self, values_CG: Tensor) -> Tensor:
        return by_head(values_CG, len(self._vector_hF))

    def of_edges(self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor) -> Tensor:
        score_Bh = torch.empty(len(source_B), len(self._vector_hF), device=source_B.device)
        for chunk, sums_bhF in self._sums(of_sources, destination_B, source_B):
            leaky_bhF = torch.nn.functional.leaky_relu_(sums_bhF, SLOPE)
            score_Bh[chunk] = torch.einsum("bhf,hf->bh", leaky_bhF, self._vector_hF)
        return score_Bh

    def add_gradients(self, score_grad_Bh: Tensor, block: RowBlock, of_sources: Tensor, grad_CG: Tensor) -> None:
        destination_B, source_B = block.column_B, block.row_B
        grad_ChF = by_head(grad_CG, len(self._vector_hF))
        for chunk, sums_bhF in self._sums(of_sources, destination_B, source_B):
            grad_bh = score_grad_Bh[chunk]
            leaky_bhF = torch.nn.functional.leaky_relu(sums_bhF, SLOPE)
            self.vector_grad += torch.einsum("bh,bhf->hf", grad_bh, leaky_bhF)
            grad_bhF = torch.where(sums_bhF > 0, 1.0, SLOPE).mul_(self._vector_hF).mul_(grad_bh.unsqueeze(2))
            self.terms_grad.index_add_(0, destination_B[chunk], grad_bhF)
            grad_ChF.index_add_(0, source_B[chunk], grad_bhF)

    def end_of_sources(self, values_CG: Tensor, grad_CG: Tensor) -> None:
        """Nothing is left to do: each edge has added to its source's gradient."""

    def _sums(self, of_sources: Tensor, destination_B: Tensor, source_B: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """t_i + z_j, float32 [b, heads, F], of some edges at a time."""
        max_edges = max(_VALUES // self._vector_hF.numel(), 1)
        for begin in range(0, len(source_B), max_edges):
            chunk = slice(begin, begin + max_edges)
            sums_bhF = self._terms_nhF.index_select(0, destination_B[chunk]).float()
            yield chunk, sums_bhF.add_(of_sources.index_select(0, source_B[chunk]))


def scores_of(terms: Tensor, vector_hF: Tensor) -> Scores:
    """GAT's for terms [n, heads], GATv2's for terms [n, heads, F].

    Args:
        terms: of the destinations.
        vector_hF: the attention vector of each head, float32.
    """
    return GatScores(terms, vector_hF) if terms.dim() == 2 else Gatv2Scores(terms, vector_hF)


def by_head(rows_CG: Tensor, num_heads: int) -> Tensor:
    """Rows [C, heads F] as [C, heads, F], on the same memory."""
    return rows_CG.view(len(rows_CG), num_heads, rows_CG.shape[1] // num_heads)
