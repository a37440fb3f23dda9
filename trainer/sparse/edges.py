"""A part's edges as a pattern without weights, for what is no sum: maxima and attention.

Edges are walked through in blocks of whole rows, so that what is made edge by edge (a score a head, say) is bounded by
the block, and never as large as edges x features. The transpose is walked through likewise: there, a block's edges
belong to a few sources, whose gradients are complete when the block is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.part import Csr, Part
from trainer.sparse.adjacency import added, by_round, transposed
from trainer.sparse.normalise import missing_loops


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """The edges of some consecutive rows."""

    rows: slice
    indptr: Tensor
    """int32 or int64 [rows + 1], from 0"""
    row_B: Tensor
    """int64 [B]: the row of each edge, counted in the whole pattern"""
    indices: Tensor
    """[B], the type of `indptr`: the column of each edge"""

    @property
    def column_B(self) -> Tensor:
        """int64 [B]"""
        return self.indices.long()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Where a sparse matrix has entries."""

    indptr: Tensor
    indices: Tensor
    num_columns: int

    @classmethod
    def of(cls, csr: Csr, device: torch.device) -> Pattern:
        return cls(indptr=csr.indptr.to(device), indices=csr.indices.to(device), num_columns=csr.num_columns)

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    def blocks(self, most_edges: int) -> Iterator[RowBlock]:
        """All rows that have edges, some at a time.

        Args:
            most_edges: in one block, unless a single row has more.
        """
        ends = self.indptr.cpu()
        begin, last = 0, self.num_rows
        while begin < last and int(ends[begin]) < int(ends[last]):
            room = int(ends[begin]) + most_edges
            end = int(torch.searchsorted(ends, room, right=True)) - 1
            end = min(max(end, begin + 1), last)
            first, final = int(ends[begin]), int(ends[end])
            if final > first:
                indptr = self.indptr[begin : end + 1] - first
                counts = indptr.diff().long()
                numbers = torch.arange(begin, end, device=counts.device)
                yield RowBlock(
                    rows=slice(begin, end),
                    indptr=indptr,
                    row_B=numbers.repeat_interleave(counts, output_size=final - first),
                    indices=self.indices[first:final],
                )
            begin = end


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWayPattern:
    """A pattern and its transpose."""

    forward: Pattern
    """Rows are destinations."""
    backward: Pattern
    """Rows are sources."""

    @classmethod
    def of(cls, csr: Csr, device: torch.device) -> TwoWayPattern:
        return cls(forward=Pattern.of(csr, device), backward=Pattern.of(transposed(csr), device))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """All in-edges of a part, as patterns."""

    local: TwoWayPattern
    halo: Sequence[TwoWayPattern]
    """By round."""

    @classmethod
    def of(cls, part: Part, sources: Sequence[Sequence[int]], device: torch.device, *, with_loops: bool) -> Edges:
        """The patterns of `part`.

        Args:
            part: whose edges.
            sources: the peers of each round.
            device: where they are used.
            with_loops: whether each node that has no self-loop gets one.
        """
        local = added(part.local, missing_loops(part.local)[0]) if with_loops else part.local
        remote: Mapping[int, Csr] = part.remote
        return cls(
            local=TwoWayPattern.of(local, device),
            halo=[TwoWayPattern.of(csr, device) for csr in by_round(local, remote, sources)],
        )


def segments(values_BF: Tensor, block: RowBlock, reduce: str, initial: float) -> Tensor:
    """The greatest (`max`) or the sum (`sum`) of the values of each row's edges: [rows, F], `initial` without edges."""
    lengths = block.indptr.diff().long()
    found: Tensor = torch.segment_reduce(values_BF, reduce, lengths=lengths, initial=initial, unsafe=True)
    return found
