"""Messages of rows, made and read as `trainer.exchange.wire` defines them, in one pass over the rows.

torch's formulas read and write the rows once for each step (select, clamp, convert; or greatest entry, divide, round,
join). Here a program selects a few rows, converts them in registers and writes the message. The bytes are those that
torch's formulas give on a CPU: divisions round to nearest, and stochastic rounding gets its chances from the caller,
who draws them from torch's generator.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainer.kernels.numbers import bf16_bits, bits, widened

SCALE_BYTES = 2
_COLUMNS = 256
_VALUES = 1024
"""of one program at the same time; 8 a thread"""
WARPS = 4


@triton.jit
def half_kernel(
    message_ptr: tl.tensor,
    rows_ptr: tl.tensor,
    picks_ptr: tl.tensor,
    num_rows: tl.tensor,
    WIDTH: tl.constexpr,
    GREATEST: tl.constexpr,
    TO_BF16: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
) -> None:
    """Rows in fp16 or bf16.

    Args:
        message_ptr: float16, or int16 for bf16 [R, WIDTH]
        rows_ptr: float32 [., WIDTH]
        picks_ptr: which row each of the message is; None for row k.
        num_rows: R
        GREATEST: what greater values are sent as; 0 for infinities.
    """
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    is_value = (row < num_rows)[:, None] & (column < WIDTH)[None, :]
    source = row
    if picks_ptr is not None:
        source = tl.load(picks_ptr + row, mask=row < num_rows, other=0)
    value = tl.load(rows_ptr + source.to(tl.int64)[:, None] * WIDTH + column[None, :], mask=is_value, other=0)
    if GREATEST > 0:
        value = tl.where(value > GREATEST, GREATEST, value)
        value = tl.where(value < -GREATEST, -GREATEST, value)
    place = message_ptr + row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    if TO_BF16:
        tl.store(place, bf16_bits(value), mask=is_value)
    else:
        tl.store(place, value.to(tl.float16), mask=is_value)


@triton.jit
def int8_kernel(
    message_ptr: tl.tensor,
    rows_ptr: tl.tensor,
    picks_ptr: tl.tensor,
    chances_ptr: tl.tensor,
    num_rows: tl.tensor,
    WIDTH: tl.constexpr,
    IS_BF16: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
) -> None:
    """Rows in whole numbers of steps, each followed by its scale.

    Args:
        message_ptr: int8 [R, WIDTH + 2]
        rows_ptr: [., WIDTH]
        picks_ptr: which row each of the message is; None for row k.
        chances_ptr: float32 [R, WIDTH], from 0 to below 1; what is left of a step is rounded up if they sum to 1.
        num_rows: R
    """
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    is_row = row < num_rows
    source = row
    if picks_ptr is not None:
        source = tl.load(picks_ptr + row, mask=is_row, other=0)
    row, source = row.to(tl.int64), source.to(tl.int64)
    # As whole numbers absolute values have the same order, and a NaN is the greatest of all.
    size_RF = tl.zeros([BLOCK_R, BLOCK_F], tl.int32)
    for first in range(0, WIDTH, BLOCK_F):
        column = first + tl.arange(0, BLOCK_F)
        is_value = is_row[:, None] & (column < WIDTH)[None, :]
        value = tl.load(rows_ptr + source[:, None] * WIDTH + column[None, :], mask=is_value, other=0)
        value = widened(value, IS_BF16)
        size_RF = tl.maximum(size_RF, value.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    greatest_R = tl.max(size_RF, axis=1).to(tl.float32, bitcast=True)
    exact_R = tl.div_rn(greatest_R, 127.0)
    # The least bf16 number that is not below: the bits that are cut off count up if any is set.
    scale_R = (exact_R.to(tl.int32, bitcast=True) + 0xFFFF) >> 16
    # A GPU's NaN has all bits set, which would count up to -0.
    scale_R = tl.where(exact_R == exact_R, scale_R, 0x7FC0)
    step_R = (scale_R << 16).to(tl.float32, bitcast=True)
    step_R = tl.where(step_R > 0, step_R, 1.0)
    place_R = message_ptr + row * (WIDTH + 2)
    for first in range(0, WIDTH, BLOCK_F):
        column = first + tl.arange(0, BLOCK_F)
        is_value = is_row[:, None] & (column < WIDTH)[None, :]
        value = tl.load(rows_ptr + source[:, None] * WIDTH + column[None, :], mask=is_value, other=0)
        chance = tl.load(chances_ptr + row[:, None] * WIDTH + column[None, :], mask=is_value, other=0)
        step_RF = tl.broadcast_to(step_R[:, None], [BLOCK_R, BLOCK_F])
        whole = tl.floor(tl.div_rn(widened(value, IS_BF16), step_RF) + chance)
        whole = tl.where(whole > 127.0, 127.0, whole)
        whole = tl.where(whole < -127.0, -127.0, whole)
        tl.store(place_R[:, None] + column[None, :], whole.to(tl.int8), mask=is_value)
    tl.store(place_R + WIDTH, (scale_R & 0xFF).to(tl.int8), mask=is_row)
    tl.store(place_R + WIDTH + 1, (scale_R >> 8).to(tl.int8), mask=is_row)


@triton.jit
def unpack_int8_kernel(
    rows_ptr: tl.tensor,
    message_ptr: tl.tensor,
    num_rows: tl.tensor,
    WIDTH: tl.constexpr,
    TO_BF16: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_F: tl.constexpr,
) -> None:
    """The rows [R, WIDTH] of what `int8_kernel` writes, in the type of `rows_ptr`."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    is_row = row < num_rows
    is_value = is_row[:, None] & (column < WIDTH)[None, :]
    row = row.to(tl.int64)
    place_R = message_ptr + row * (WIDTH + 2)
    low = tl.load(place_R + WIDTH, mask=is_row, other=0).to(tl.int32) & 0xFF
    high = tl.load(place_R + WIDTH + 1, mask=is_row, other=0).to(tl.int32)
    step_R = ((high << 24) | (low << 16)).to(tl.float32, bitcast=True)
    whole = tl.load(place_R[:, None] + column[None, :], mask=is_value, other=0)
    value = whole.to(tl.float32) * step_R[:, None]
    place = rows_ptr + row[:, None] * WIDTH + column[None, :]
    if TO_BF16:
        tl.store(place, bf16_bits(value), mask=is_value)
    else:
        tl.store(place, value, mask=is_value)


def tile(width: int) -> tuple[int, int]:
    """Rows and columns of one program, for rows of `width` values."""
    columns = min(triton.next_power_of_2(width), _COLUMNS)
    return _VALUES // columns, columns


def pack_half(rows_CF: Tensor, sent: torch.dtype, *, clamps: bool, picks_R: Tensor | None = None) -> Tensor:
    """The message, uint8 [R, 2 F], of float32 rows in `sent`, a type of two bytes.

    Args:
        rows_CF: float32
        sent: float16 or bfloat16.
        clamps: whether what is too large is sent as the greatest number, or as infinite.
        picks_R: which rows; None for all.
    """
    rows_CF = rows_CF.contiguous()
    number, width = len(rows_CF) if picks_R is None else len(picks_R), rows_CF.shape[1]
    message_RF = rows_CF.new_empty(number, width, dtype=sent)
    if message_RF.numel():
        rows, columns = tile(width)
        half_kernel[triton.cdiv(number, rows), triton.cdiv(width, columns)](
            bits(message_RF),
            rows_CF,
            picks_R,
            number,
            WIDTH=width,
            GREATEST=torch.finfo(sent).max if clamps else 0.0,
            TO_BF16=sent == torch.bfloat16,
            BLOCK_R=rows,
            BLOCK_F=columns,
            num_warps=WARPS,
        )
    return message_RF.view(torch.uint8)


def pack_int8(rows_CF: Tensor, chances_RF: Tensor, picks_R: Tensor | None = None) -> Tensor:
    """The message, uint8 [R, F + 2], of rows in whole numbers of steps.

    Args:
        rows_CF: float32, float16 or bfloat16
        chances_RF: float32, from 0 to below 1: what decides whether to round up.
        picks_R: which rows; None for all.
    """
    rows_CF, width = rows_CF.contiguous(), rows_CF.shape[1]
    number = len(chances_RF)
    message = rows_CF.new_empty(number, width + SCALE_BYTES, dtype=torch.int8)
    if number:
        rows, columns = tile(width)
        int8_kernel[(triton.cdiv(number, rows),)](
            message,
            bits(rows_CF),
            picks_R,
            chances_RF,
            number,
            WIDTH=width,
            IS_BF16=rows_CF.dtype == torch.bfloat16,
            BLOCK_R=rows,
            BLOCK_F=columns,
            num_warps=WARPS,
        )
    return message.view(torch.uint8)


def unpack_int8(message: Tensor, stored: torch.dtype) -> Tensor:
    """The rows of a message of `pack_int8`, in the type `stored`."""
    message, number, width = message.contiguous(), len(message), message.shape[1] - SCALE_BYTES
    rows_RF = message.new_empty(number, width, dtype=stored)
    if rows_RF.numel():
        rows, columns = tile(width)
        unpack_int8_kernel[triton.cdiv(number, rows), triton.cdiv(width, columns)](
            bits(rows_RF),
            message.view(torch.int8),
            number,
            WIDTH=width,
            TO_BF16=stored == torch.bfloat16,
            BLOCK_R=rows,
            BLOCK_F=columns,
            num_warps=WARPS,
        )
    return rows_RF
