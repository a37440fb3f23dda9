"""Edges of a matrix in blocks of whole rows, for what is no sum: maxima and attention.

What is made edge by edge (a score a head, say) is then bounded by the block, and never as large as edges x features.
The transpose is walked through likewise: there, a block's edges belong to a few sources, whose gradients are complete
when the block is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.csr import Csr


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """The edges of some consecutive rows."""

    rows: slice
    indptr: Tensor
    """int32 or int64 [rows + 1], from 0"""
    row_B: Tensor
    """int64 [B]: the row of each edge, counted in the whole matrix"""
    indices: Tensor
    """[B], the type of `indptr`: the column of each edge"""

    @property
    def column_B(self) -> Tensor:
        """int64 [B]"""
        return self.indices.long()


def row_blocks(csr: Csr, max_edges: int) -> Iterator[RowBlock]:
    """All rows that have edges, some at a time.

    Args:
        csr: the matrix; weights do not count.
        max_edges: in one block, unless a single row has more.
    """
    ends = csr.indptr.cpu()
    begin, last = 0, csr.num_rows
    while begin < last and int(ends[begin]) < int(ends[last]):
        end = int(torch.searchsorted(ends, int(ends[begin]) + max_edges, right=True)) - 1
        end = min(max(end, begin + 1), last)
        first, final = int(ends[begin]), int(ends[end])
        if final > first:
            indptr = csr.indptr[begin : end + 1] - first
            counts = indptr.diff().long()
            numbers = torch.arange(begin, end, device=counts.device)
            yield RowBlock(
                rows=slice(begin, end),
                indptr=indptr,
                row_B=numbers.repeat_interleave(counts, output_size=final - first),
                indices=csr.indices[first:final],
            )
        begin = end


def segments(values_BF: Tensor, block: RowBlock, reduce: str, initial: float) -> Tensor:
    """The greatest (`max`) or the sum (`sum`) of the values of each row's edges: [rows, F], `initial` without edges."""
    lengths = block.indptr.diff().long()
    reduced: Tensor = torch.segment_reduce(values_BF, reduce, lengths=lengths, initial=initial, unsafe=True)
    return reduced
