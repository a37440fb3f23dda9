"""Sums of rows over the in-edges of each node, in float32: sum over edges e of row i of w_e x_(source of e).

A program, which is one warp, computes one row (or one piece of a long row) and up to 128 columns of it: it reads the
sources of a few edges, then the rows of all of these at the same time, 16 bytes a thread, and adds them up in registers
in the order of the edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainer.kernels.numbers import bits, widened
from trainer.kernels.row_pieces import ANY, LONGEST, RowPieces, Segments

_COLUMNS = 128
_VALUES = 512
"""of one program at the same time: 16 a thread"""


@triton.jit
def spmm_kernel(
    sums_ptr: tl.tensor,
    rows_ptr: tl.tensor,
    indices_ptr: tl.tensor,
    weights_ptr: tl.tensor,
    begin_ptr: tl.tensor,
    end_ptr: tl.tensor,
    target_ptr: tl.tensor,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    LONGEST: tl.constexpr,
    IS_BF16: tl.constexpr,
    ADDS: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_F: tl.constexpr,
) -> None:
    """Sums of the segments of edges.

    Args:
        sums_ptr: float32 [., HEADS WIDTH]
        rows_ptr: [., HEADS WIDTH]
        indices_ptr: the source of each edge; None where edge k is of row k.
        weights_ptr: float32 [E, HEADS]; None where every edge weighs 1.
        begin_ptr, end_ptr, target_ptr: of the segments; `target_ptr` None where segment k is row k.
        WIDTH: of one head.
        LONGEST: segments of more edges are left out.
        ADDS: whether to add to what is at `sums_ptr`.
        BLOCK_E, BLOCK_F: edges and columns at the same time.
    """
    BLOCKS: tl.constexpr = (WIDTH + BLOCK_F - 1) // BLOCK_F
    segment = tl.program_id(0)
    head = tl.program_id(1) // BLOCKS
    column = (tl.program_id(1) % BLOCKS) * BLOCK_F + tl.arange(0, BLOCK_F)
    is_column = column < WIDTH
    column += head * WIDTH
    begin, end = tl.load(begin_ptr + segment), tl.load(end_ptr + segment)
    is_summed = end - begin <= LONGEST
    if ADDS:
        # Where nothing is added, the sums need not be read: few rows have edges from a small halo.
        is_summed = is_summed & (begin < end)
    if is_summed:
        sum_F = tl.zeros([BLOCK_F], tl.float32)
        for first in range(begin, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            is_edge = edge < end
            source = edge
            if indices_ptr is not None:
                source = tl.load(indices_ptr + edge, mask=is_edge, other=0)
            place = source.to(tl.int64)[:, None] * (HEADS * WIDTH) + column[None, :]
            value_EF = tl.load(rows_ptr + place, mask=is_edge[:, None] & is_column[None, :], other=0)
            value_EF = widened(value_EF, IS_BF16)
            if weights_ptr is not None:
                weight = tl.load(weights_ptr + edge.to(tl.int64) * HEADS + head, mask=is_edge, other=0)
                value_EF *= weight[:, None]
            sum_F += tl.sum(value_EF, axis=0)
        row = segment
        if target_ptr is not None:
            row = tl.load(target_ptr + segment)
        place_F = sums_ptr + row.to(tl.int64) * (HEADS * WIDTH) + column
        if ADDS:
            sum_F += tl.load(place_F, mask=is_column, other=0)
        tl.store(place_F, sum_F, mask=is_column)


def tile(width: int) -> tuple[int, int]:
    """Edges and columns of one program at the same time, for rows of `width` values a head."""
    columns = min(triton.next_power_of_2(width), _COLUMNS)
    return _VALUES // columns, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class CsrMatrix:
    """A sparse matrix by rows on the device."""

    pieces: RowPieces
    """Of its rows."""
    indices_E: Tensor
    """The column of each edge."""
    weights: Tensor | None
    """float32 [E], or [E, heads] for as many heads side by side in a row; None where every edge weighs 1."""

    @classmethod
    def of(cls, indptr: Tensor, on_device: Tensor, indices_E: Tensor, weights: Tensor | None) -> CsrMatrix:
        """A matrix with these entries.

        Args:
            indptr: [n + 1] on the CPU: where each row's edges begin.
            on_device: the same where the kernels run, as are the others.
        """
        return cls(pieces=RowPieces.of(indptr, on_device), indices_E=indices_E, weights=weights)

    def product(self, rows_CG: Tensor) -> Tensor:
        """Sums of `rows_CG`, float32, float16 or bfloat16, over each row's edges: float32 [n, G]."""
        sums_nG = rows_CG.new_empty(len(self.pieces.rows), rows_CG.shape[1], dtype=torch.float32)
        self._write(rows_CG, sums_nG, adds=False)
        return sums_nG

    def add_product(self, rows_CG: Tensor, sums_nG: Tensor) -> None:
        """Add the sums to `sums_nG`, float32 and contiguous, in place."""
        self._write(rows_CG, sums_nG, adds=True)

    def _write(self, rows_CG: Tensor, sums_nG: Tensor, *, adds: bool) -> None:
        long, width = self.pieces.long, rows_CG.shape[1]
        if not sums_nG.numel():
            return
        rows_CG = rows_CG.contiguous()
        _launch(sums_nG, rows_CG, self.indices_E, self.weights, self.pieces.rows, LONGEST, adds=adds)
        if long is not None:
            of_pieces_sG = sums_nG.new_empty(len(long.pieces), width)
            _launch(of_pieces_sG, rows_CG, self.indices_E, self.weights, long.pieces.numbered(), ANY, adds=False)
            _launch(sums_nG, of_pieces_sG, None, None, long.rows, ANY, adds=adds)


def _launch(
    sums: Tensor,
    rows: Tensor,
    indices_E: Tensor | None,
    weights: Tensor | None,
    segments: Segments,
    longest: int,
    *,
    adds: bool,
) -> None:
    num_heads = 1 if weights is None or weights.dim() == 1 else weights.shape[1]
    width = rows.shape[1] // num_heads
    edges, columns = tile(width)
    spmm_kernel[len(segments), num_heads * triton.cdiv(width, columns)](
        sums,
        bits(rows),
        indices_E,
        weights,
        segments.begin_s,
        segments.end_s,
        segments.target_s,
        WIDTH=width,
        HEADS=num_heads,
        LONGEST=longest,
        IS_BF16=rows.dtype == torch.bfloat16,
        ADDS=adds,
        BLOCK_E=edges,
        BLOCK_F=columns,
        num_warps=1,
    )
