"""Edges of a matrix in blocks of whole rows, for what is no sum: maxima and attention.

What is made edge by edge (a score a head, say) is then bounded by the block, and never as large as edges x features.
The transpose is walked through likewise: there, a block's edges belong to a few sources, whose gradients are complete
when the block is done.

The blocks depend on the graph alone. They are made once, with the row of every edge, so no step copies `indptr` to the
host to find out where blocks begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """[B], the type of `indptr`: the row of each edge, counted in the whole matrix"""
    column_B: Tensor
    """[B], the type of `indptr`: the column of each edge"""
    host_indptr: Tensor
    """`indptr` in the host's memory"""
    features_BD: Tensor | None
    """float32, of each edge; None where edges have none"""
    weight_B: Tensor | None = None
    """float32, what each edge counts; None where every edge counts 1"""

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.column_B)

    def chunks(self, max_edges: int) -> Iterator[tuple[slice, slice]]:
        """Some edges at a time, never more than `max_edges`, and the rows that they belong to, counted from the block's
        first; a row may be in several chunks."""
        begins = torch.arange(0, self.num_edges, max_edges, dtype=self.host_indptr.dtype)
        ends = (begins + max_edges).clamp_(max=self.num_edges)
        first_rows = torch.searchsorted(self.host_indptr, begins, right=True) - 1
        last_rows = torch.searchsorted(self.host_indptr, ends)
        for begin, end, first, last in torch.stack([begins, ends, first_rows, last_rows]).T.tolist():
            yield slice(begin, end), slice(first, last)

    def indptr_of(self, edges: slice, rows: slice) -> Tensor:
        """Where the rows of a chunk begin and end among its edges: [rows + 1], the type of `indptr`."""
        return self.indptr[rows.start : rows.stop + 1].clamp(edges.start, edges.stop).sub_(edges.start)


class EdgeBlocks:
    """The edges of a matrix in blocks of rows."""

    def __init__(self, csr: Csr) -> None:
        self.csr = csr
        self.num_rows, self.num_columns = csr.num_rows, csr.num_columns
        self._row_E: Tensor | None = None
        self._blocks: dict[int, Sequence[RowBlock]] = {}

    def blocks(self, max_edges: int) -> Sequence[RowBlock]:
        """All rows that have edges, some at a time.

        Args:
            max_edges: in one block, unless a single row has more.
        """
        if max_edges not in self._blocks:
            self._blocks[max_edges] = self._divided(max_edges)
        return self._blocks[max_edges]

    def _divided(self, max_edges: int) -> Sequence[RowBlock]:
        csr, blocks = self.csr, list[RowBlock]()
        if self._row_E is None:
            self._row_E = csr.row_E
        ends = csr.indptr.cpu()
        begin, first, last = 0, 0, csr.num_rows
        while begin < last and first < csr.num_edges:
            end = int(torch.searchsorted(ends, first + max_edges, right=True)) - 1
            end = min(max(end, begin + 1), last)
            final = int(ends[end])
            if final > first:
                host_indptr = ends[begin : end + 1] - first
                blocks.append(
                    RowBlock(
                        rows=slice(begin, end),
                        indptr=host_indptr.to(csr.indptr.device),
                        row_B=self._row_E[first:final],
                        column_B=csr.indices[first:final],
                        host_indptr=host_indptr,
                        features_BD=None if csr.features is None else csr.features[first:final],
                        weight_B=None if csr.weights is None else csr.weights[first:final],
                    )
                )
            begin, first = end, final
        return blocks


def segments(values_BF: Tensor, block: RowBlock, reduce: str, initial: float) -> Tensor:
    """The greatest (`max`) or the sum (`sum`) of the values of each row's edges: [rows, F], `initial` without edges."""
    lengths = block.indptr.diff().long()
    reduced: Tensor = torch.segment_reduce(values_BF, reduce, lengths=lengths, initial=initial, unsafe=True)
    return reduced
