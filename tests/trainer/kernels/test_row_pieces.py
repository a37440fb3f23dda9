"""Pieces of long rows."""

from __future__ import annotations

import torch

from trainer.data.csr import indptr_of
from trainer.kernels.row_pieces import LONGEST, RowPieces


def test_each_edge_of_a_long_row_is_in_one_piece() -> None:
    """An edge between two pieces that is lost or counted twice, and a last piece that reaches into the next row."""
    counts = torch.tensor([5, 3 * LONGEST, LONGEST, LONGEST + 1, 0])
    indptr = indptr_of(counts, torch.int32)
    long = RowPieces.of(indptr, indptr).long
    assert long is not None
    assert long.pieces.target_s is not None
    assert long.rows.target_s is not None
    assert long.rows.target_s.tolist() == [1, 3]
    for row, first, last in zip(
        long.rows.target_s.tolist(), long.rows.begin_s.tolist(), long.rows.end_s.tolist(), strict=True
    ):
        assert long.pieces.target_s[first:last].tolist() == [row] * (last - first)
        edges = [
            edge
            for begin, end in zip(long.pieces.begin_s[first:last], long.pieces.end_s[first:last], strict=True)
            for edge in range(int(begin), int(end))
        ]
        assert edges == list(range(int(indptr[row]), int(indptr[row + 1])))
    assert int((long.pieces.end_s - long.pieces.begin_s).max()) <= LONGEST


def test_no_long_row_needs_no_pieces() -> None:
    """Two more launches for each product of a graph without hubs."""
    indptr = indptr_of(torch.tensor([LONGEST, 0, 1]), torch.int64)
    pieces = RowPieces.of(indptr, indptr)
    assert pieces.long is None
    assert (pieces.rows.end_s - pieces.rows.begin_s).tolist() == [LONGEST, 0, 1]
