"""Softmax over the in-edges of each node, head by head: p_e = exp(s_e - L_i), L_i = log of the sum of exp(s) of row i.

L is computed first, of each row or piece of a long row (those of its pieces are then summed the same way), and the
exponentials after that, edge by edge. From p and L of several pieces of the edges (local ones, those of each round)
one softmax is made without going back to the scores: those of piece k count exp(L_k - L) times, L being the logarithm
of the sum of exp(L_k). A backward pass that has kept L makes p again by the second step alone.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainer.kernels.row_pieces import ANY, LONGEST, RowPieces, Segments

_SCORES = 128
"""of one program, which is one warp, at the same time: 4 a thread, which is 16 bytes"""


@triton.jit
def log_sum_kernel(
    log_sums_ptr: tl.tensor,
    scores_ptr: tl.tensor,
    begin_ptr: tl.tensor,
    end_ptr: tl.tensor,
    target_ptr: tl.tensor,
    HEADS: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_H: tl.constexpr,
) -> None:
    """The logarithm of the sum of exponentials of each segment and head: minus infinity without edges."""
    segment = tl.program_id(0)
    head = tl.arange(0, BLOCK_H)
    is_head = head < HEADS
    begin, end = tl.load(begin_ptr + segment), tl.load(end_ptr + segment)
    if end - begin <= LONGEST:
        greatest_EH = tl.full([BLOCK_E, BLOCK_H], float("-inf"), tl.float32)
        for first in range(begin, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            place = edge.to(tl.int64)[:, None] * HEADS + head[None, :]
            is_score = (edge < end)[:, None] & is_head[None, :]
            greatest_EH = tl.maximum(greatest_EH, tl.load(scores_ptr + place, mask=is_score, other=float("-inf")))
        greatest_H = tl.max(greatest_EH, axis=0)
        shift_H = tl.where(greatest_H == float("-inf"), 0.0, greatest_H)
        total_EH = tl.zeros([BLOCK_E, BLOCK_H], tl.float32)
        for first in range(begin, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            place = edge.to(tl.int64)[:, None] * HEADS + head[None, :]
            is_score = (edge < end)[:, None] & is_head[None, :]
            score_EH = tl.load(scores_ptr + place, mask=is_score, other=float("-inf"))
            total_EH += tl.exp(score_EH - shift_H[None, :])
        row = segment
        if target_ptr is not None:
            row = tl.load(target_ptr + segment)
        log_sum_H = shift_H + tl.log(tl.sum(total_EH, axis=0))
        tl.store(log_sums_ptr + row.to(tl.int64) * HEADS + head, log_sum_H, mask=is_head)


@triton.jit
def exponentials_kernel(
    probabilities_ptr: tl.tensor,
    scores_ptr: tl.tensor,
    log_sums_ptr: tl.tensor,
    begin_ptr: tl.tensor,
    end_ptr: tl.tensor,
    target_ptr: tl.tensor,
    HEADS: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_H: tl.constexpr,
) -> None:
    """exp(score - log-sum of its row) of each edge and head."""
    segment = tl.program_id(0)
    head = tl.arange(0, BLOCK_H)
    is_head = head < HEADS
    begin, end = tl.load(begin_ptr + segment), tl.load(end_ptr + segment)
    if end - begin <= LONGEST:
        row = segment
        if target_ptr is not None:
            row = tl.load(target_ptr + segment)
        log_sum_H = tl.load(log_sums_ptr + row.to(tl.int64) * HEADS + head, mask=is_head, other=0.0)
        shift_H = tl.where(log_sum_H == float("-inf"), 0.0, log_sum_H)
        for first in range(begin, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            place = edge.to(tl.int64)[:, None] * HEADS + head[None, :]
            is_score = (edge < end)[:, None] & is_head[None, :]
            score_EH = tl.load(scores_ptr + place, mask=is_score, other=float("-inf"))
            tl.store(probabilities_ptr + place, tl.exp(score_EH - shift_H[None, :]), mask=is_score)


def tile(num_heads: int) -> tuple[int, int]:
    """Edges and heads of one program at the same time."""
    heads = triton.next_power_of_2(num_heads)
    return max(_SCORES // heads, 1), heads


def log_sums(scores_Eh: Tensor, pieces: RowPieces) -> Tensor:
    """The logarithm of the sum of exp(score) over each row's edges: float32 [n, heads]; minus infinity without edges.

    Args:
        scores_Eh: float32, contiguous; minus infinity for an edge that is left out.
        pieces: of the rows.
    """
    num_heads = scores_Eh.shape[1]
    edges, heads = tile(num_heads)

    def launch(log_sums: Tensor, scores: Tensor, segments: Segments, longest: int) -> None:
        log_sum_kernel[(len(segments),)](
            log_sums,
            scores,
            segments.begin_s,
            segments.end_s,
            segments.target_s,
            HEADS=num_heads,
            LONGEST=longest,
            BLOCK_E=edges,
            BLOCK_H=heads,
            num_warps=1,
        )

    log_sums_nh = scores_Eh.new_empty(len(pieces.rows), num_heads)
    if len(pieces.rows):
        launch(log_sums_nh, scores_Eh, pieces.rows, LONGEST)
    if pieces.long is not None:
        of_pieces_sh = scores_Eh.new_empty(len(pieces.long.pieces), num_heads)
        launch(of_pieces_sh, scores_Eh, pieces.long.pieces.numbered(), ANY)
        launch(log_sums_nh, of_pieces_sh, pieces.long.rows, ANY)
    return log_sums_nh


def probabilities(scores_Eh: Tensor, log_sums_nh: Tensor, pieces: RowPieces) -> Tensor:
    """exp(score - log-sum) of each edge, float32 [E, heads]; 0 in a row whose log-sum is minus infinity.

    Args:
        scores_Eh: as of `log_sums`.
        log_sums_nh: of these edges, or of more edges of the same rows: then they sum to less than 1.
        pieces: of the rows.
    """
    probabilities_Eh, num_heads = torch.empty_like(scores_Eh), scores_Eh.shape[1]
    edges, heads = tile(num_heads)
    segments = [(pieces.rows, LONGEST)] if len(pieces.rows) else []
    if pieces.long is not None:
        segments.append((pieces.long.pieces, ANY))
    for some, longest in segments:
        exponentials_kernel[(len(some),)](
            probabilities_Eh,
            scores_Eh,
            log_sums_nh,
            some.begin_s,
            some.end_s,
            some.target_s,
            HEADS=num_heads,
            LONGEST=longest,
            BLOCK_E=edges,
            BLOCK_H=heads,
            num_warps=1,
        )
    return probabilities_Eh


def segment_softmax(scores_Eh: Tensor, pieces: RowPieces) -> tuple[Tensor, Tensor]:
    """The softmax over each row's edges [E, heads], and the log-sums [n, heads] that make it mergeable."""
    log_sums_nh = log_sums(scores_Eh, pieces)
    return probabilities(scores_Eh, log_sums_nh, pieces), log_sums_nh
