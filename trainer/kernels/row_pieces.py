"""The rows of a sparse matrix, and the pieces of its long ones.

One program of a kernel walks through the edges of one row. A node of 70,000 in-edges would keep one program busy long
after all others are done, so a row of more than LONGEST edges is cut into pieces of LONGEST, each a program's, and a
further launch adds up their results in order. Which edges are a piece depends on the row alone: results do not depend
on how programs are scheduled, and no two programs write to one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

LONGEST = 256
"""Edges of a row that one program walks through."""
ANY = 2**31 - 1
"""in place of LONGEST, where no segment is left out"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Runs of consecutive edges, one a program."""

    begin_s: Tensor
    """The first edge of each."""
    end_s: Tensor
    """Where each ends."""
    target_s: Tensor | None = None
    """The row that its result is for; None where segment k is row k."""

    def __len__(self) -> int:
        return len(self.begin_s)

    def numbered(self) -> Segments:
        """The same, with a result each."""
        return replace(self, target_s=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRows:
    """Rows of more than LONGEST edges."""

    pieces: Segments
    """All of their pieces, row after row, with the row that each is of."""
    rows: Segments
    """Of each row, which of `pieces` are its own, and its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPieces:
    """The rows of one matrix."""

    rows: Segments
    """All of them; kernels leave out those of more than LONGEST edges."""
    long: LongRows | None
    """None where no row is."""

    @classmethod
    def of(cls, indptr: Tensor, on_device: Tensor) -> RowPieces:
        """Cut up the rows of a matrix.

        Args:
            indptr: [n + 1] on the CPU: where each row's edges begin.
            on_device: the same where the kernels run.
        """
        rows = Segments(begin_s=on_device[:-1], end_s=on_device[1:])
        counts_n = indptr.diff()
        row_l = (counts_n > LONGEST).nonzero().squeeze(1)
        if not len(row_l):
            return cls(rows=rows, long=None)
        pieces_l = (counts_n[row_l] + LONGEST - 1) // LONGEST
        last_l = pieces_l.cumsum(0)
        first_l = last_l - pieces_l
        row_s = row_l.repeat_interleave(pieces_l)
        begin_s = indptr[row_s] + LONGEST * (torch.arange(len(row_s)) - first_l.repeat_interleave(pieces_l))
        end_s = torch.minimum(begin_s + LONGEST, indptr[row_s + 1])

        def segments(begin_s: Tensor, end_s: Tensor, target_s: Tensor) -> Segments:
            begin_s, end_s, target_s = (values.to(on_device) for values in (begin_s, end_s, target_s))
            return Segments(begin_s=begin_s, end_s=end_s, target_s=target_s)

        long = LongRows(pieces=segments(begin_s, end_s, row_s), rows=segments(first_l, last_l, row_l))
        return cls(rows=rows, long=long)
