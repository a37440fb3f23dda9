"""One number an edge and head, as attention has them: reductions over a row's edges, and products with rows.

Values are [heads, B] for the B edges of a block, head after head. So every operation here runs over long rows of
numbers, and a gather from one number a node reads a table that fits into the processor's cache. Rows [C, heads F] count
as C heads rows of F features: row j of head k is row j heads + k, and nothing is copied to take the heads apart.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.data.csr import index_type
from trainer.sparse.edges import RowBlock
from trainer.sparse.row_sums import bag_sums, csr_tensor, weighted_row_sums

_ROWS = 1 << 11
"""Rows whose products are made at a time, to be summed while they are in the processor's cache."""


def by_head(rows_CG: Tensor, num_heads: int) -> Tensor:
    """Rows [C, heads F] as [C, heads, F], on the same memory."""
    return rows_CG.view(len(rows_CG), num_heads, rows_CG.shape[1] // num_heads)


def products_by_head(rows_CG: Tensor, vector_hF: Tensor) -> Tensor:
    """The inner product of each head of each row with the head's vector: [heads, C]. It records no gradient."""
    # One head at a time on strided memory: an einsum over the heads copies all rows.
    with torch.no_grad():
        rows_hCF = by_head(rows_CG, len(vector_hF)).transpose(0, 1)
        return torch.stack([rows_CF @ vector_F for rows_CF, vector_F in zip(rows_hCF, vector_hF, strict=True)])


def weighted_by_head(weights_hC: Tensor, rows_CG: Tensor) -> Tensor:
    """The sum over all rows of each head of them times its weight: [heads, F]. It records no gradient."""
    with torch.no_grad():
        rows_hFC = by_head(rows_CG, len(weights_hC)).permute(1, 2, 0)
        return torch.stack([rows_FC @ weights_C for rows_FC, weights_C in zip(rows_hFC, weights_hC, strict=True)])


def inner_products(one_CG: Tensor, other_CG: Tensor, num_heads: int) -> Tensor:
    """The inner products of rows with rows, head by head: float32 [heads, C]."""
    products_hC = torch.empty(num_heads, len(one_CG), device=one_CG.device)
    for begin in range(0, len(one_CG), _ROWS):
        chunk = slice(begin, begin + _ROWS)
        products_hC[:, chunk] = by_head(one_CG[chunk].float() * other_CG[chunk], num_heads).sum(2).T
    return products_hC


def at_edges(values_hC: Tensor, place_B: Tensor) -> Tensor:
    """The value of one end of each edge, from one a node: [heads, B] from [heads, C]."""
    if not values_hC.is_cpu:
        return values_hC.index_select(1, place_B)
    # Along the second dimension torch's CPU kernel copies numbers one at a time.
    values_hB = values_hC.new_empty(len(values_hC), len(place_B))
    for of_nodes_C, of_edges_B in zip(values_hC, values_hB, strict=True):
        torch.index_select(of_nodes_C, 0, place_B, out=of_edges_B)
    return values_hB


def add_at_nodes(values_hC: Tensor, place_B: Tensor, values_hB: Tensor) -> None:
    """Add the value of each edge to that of its end, in the order of the edges."""
    if not values_hC.is_cpu:
        values_hC.index_add_(1, place_B, values_hB)
        return
    for of_nodes_C, of_edges_B in zip(values_hC, values_hB, strict=True):
        of_nodes_C.index_add_(0, place_B, of_edges_B)


def greatest(values_hB: Tensor, block: RowBlock) -> Tensor:
    """The greatest value of each row's edges: [heads, rows], -inf without edges."""
    lengths = block.indptr.diff().long().repeat(len(values_hB))
    maxima: Tensor = torch.segment_reduce(
        values_hB.reshape(-1), "max", lengths=lengths, initial=float("-inf"), unsafe=True
    )
    return maxima.view(len(values_hB), block.num_rows)


def totals(values_hB: Tensor, block: RowBlock) -> Tensor:
    """The sum of the values of each row's edges: [heads, rows]."""
    # The values weigh a row of one 1, which is as quick as torch.segment_reduce is, and runs on all threads.
    indices = torch.zeros(values_hB.numel(), dtype=block.indptr.dtype, device=values_hB.device)
    sums = bag_sums(_head_after_head(block, len(values_hB)), indices, values_hB.reshape(-1), values_hB.new_ones(1, 1))
    return sums.view(len(values_hB), block.num_rows)


class HeadEdges:
    """The edges of a block once for each head, as edges from rows of one head to rows of one head."""

    def __init__(self, block: RowBlock, num_heads: int, num_columns: int) -> None:
        """Number the ends of the edges.

        Args:
            block: the edges.
            num_heads: of the rows.
            num_columns: C, of the matrix.
        """
        self._num_rows, self._num_heads = block.num_rows, num_heads
        small = index_type(num_columns * num_heads, block.num_edges * num_heads)
        small = torch.promote_types(small, block.indptr.dtype)
        heads_h = torch.arange(num_heads, dtype=small, device=block.indptr.device)
        self._indices = torch.add(heads_h.unsqueeze(1), block.column_B, alpha=num_heads).view(-1)
        self._indptr = _head_after_head(block, num_heads).to(small)

    def weighted_sums(self, weights_hB: Tensor, rows_CG: Tensor) -> Tensor:
        """The sum over each row's edges of the other end's row times the edge's weight, head by head: [rows, heads, F].

        Args:
            weights_hB: float32.
            rows_CG: float32, without gaps.
        """
        rows = rows_CG.view(len(rows_CG) * self._num_heads, -1)
        sums_rF = weighted_row_sums(self._indptr, self._indices, weights_hB.reshape(-1), rows)
        return sums_rF.view(self._num_heads, self._num_rows, -1).transpose(0, 1)

    def products(self, rows_rG: Tensor, rows_CG: Tensor) -> Tensor:
        """The inner product of the rows at both ends of each edge, head by head: [heads, B].

        Args:
            rows_rG: float32, of the block's rows.
            rows_CG: float32, without gaps.
        """
        left = by_head(rows_rG, self._num_heads).transpose(0, 1).reshape(self._num_heads * self._num_rows, -1)
        right = rows_CG.view(len(rows_CG) * self._num_heads, -1)
        with torch.no_grad():
            places = csr_tensor(self._indptr, self._indices, left.new_zeros(len(self._indices)), len(right))
            # Into the same matrix: otherwise it is copied, indices and all.
            torch.sparse.sampled_addmm(places, left, right.T, beta=0.0, out=places)
        return places.values().view(self._num_heads, -1)


def _head_after_head(block: RowBlock, num_heads: int) -> Tensor:
    """Where the edges of each row of each head begin among [heads, B], and where they end: [heads rows + 1]."""
    starts_h = torch.arange(num_heads, dtype=block.indptr.dtype, device=block.indptr.device) * block.num_edges
    last = torch.full_like(block.indptr[:1], num_heads * block.num_edges)
    return torch.cat([(starts_h.unsqueeze(1) + block.indptr[:-1]).view(-1), last])
