"""Rows in 2, 4 or 8 bits a value on the wire, and as they are stored or in bf16, for `--error-budget`.

The values of a message, row after row, are cut into blocks of 64. A block is sent as whole numbers and one step in
bf16: a value x is sent as the whole number nearest to x / step. With b bits these are -(2^(b-1) - 1) .. 2^(b-1), and
the step has the sign of the block's value that is farthest from 0; so 0 is sent as 0, and rows that are never negative,
as behind a ReLU, use as many of the numbers as others. The step is the one, of four shares of the largest that a block
could need, that gives the smallest square error; a step smaller than that cuts off the few largest values.

Values are rounded to the nearest number, not at random: what is sent here is the difference to what the receiver has
already (`trainer.exchange.budgeted_exchange`), so what rounding took is in the next difference, and need not cancel in
the mean. With 2 bits, and differences as of a normal distribution, the square error is an eighth of their own square; a
step that is wide enough for unbiased rounding gives one as large as they are.

Letters: R rows, F values a row, N blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

NARROW_BITS = (2, 4, 8)
"""In which differences are sent, with a step a block."""
BITS = (*NARROW_BITS, 16, 32)
"""bf16, and as stored, too."""
_BLOCK, _STEP_BYTES = 64, 2
_SHARES = (1.0, 0.75, 0.5, 0.35)
"""of the largest step; with 8 bits the first alone"""


class Quantised(NamedTuple):
    """Values in whole numbers."""

    numbers_NB: Tensor
    """int8 [N, 64]"""
    step_N1: Tensor
    """bfloat16 [N, 1]"""

    def values(self, number: int, width: int) -> Tensor:
        """The values that they are of: float32 [number, width]."""
        values_NB = self.numbers_NB.float() * self.step_N1.float()
        return values_NB.view(-1)[: number * width].view(number, width)


def message_bytes(bits: int, number: int, width: int, stored_bytes: int) -> int:
    """The bytes of a message of `number` rows of `width` values, of `stored_bytes` each where they are stored."""
    if bits in NARROW_BITS:
        return -(-number * width // _BLOCK) * (_BLOCK * bits // 8 + _STEP_BYTES)
    return number * width * min(bits // 8, stored_bytes)


def quantise(rows: Tensor, bits: int) -> Quantised:
    """Rows [R, F] in whole numbers of `bits` bits, one of `NARROW_BITS`."""
    values = rows.float().reshape(-1)
    values_NB = pad(values, (0, -len(values) % _BLOCK)).view(-1, _BLOCK)
    top = 2 ** (bits - 1)
    if not len(values_NB):
        return Quantised(values_NB.to(torch.int8), values_NB[:, :1].bfloat16())
    farthest_N1 = values_NB.gather(1, values_NB.abs().argmax(1, keepdim=True))
    # 128 is no int8, so 8 bits end at 127.
    greatest = min(top, torch.iinfo(torch.int8).max)
    best: tuple[Tensor, Tensor, Tensor] | None = None
    for share in _SHARES if bits < max(NARROW_BITS) else _SHARES[:1]:
        step_N1 = (farthest_N1 * (share / greatest)).bfloat16()
        step_float_N1 = step_N1.float()
        divisor_N1 = torch.where(step_float_N1 == 0, 1.0, step_float_N1)
        numbers_NB = (values_NB / divisor_N1).round_().clamp_(-(top - 1), greatest)
        error_N1 = (numbers_NB * step_float_N1 - values_NB).square_().sum(1, keepdim=True)
        if best is not None:
            is_better_N1 = error_N1 < best[2]
            numbers_NB = torch.where(is_better_N1, numbers_NB, best[0])
            step_N1 = torch.where(is_better_N1, step_N1, best[1])
            error_N1 = torch.where(is_better_N1, error_N1, best[2])
        best = numbers_NB, step_N1, error_N1
    assert best is not None
    return Quantised(best[0].to(torch.int8), best[1])


def pack(quantised: Quantised, bits: int) -> Tensor:
    """The message, uint8."""
    offset = 2 ** (bits - 1) - 1
    codes_NB = (quantised.numbers_NB.short() + offset).to(torch.uint8)
    per_byte = 8 // bits
    parts_NBp = codes_NB.view(len(codes_NB), _BLOCK // per_byte, per_byte)
    packed_NB = parts_NBp[:, :, 0]
    for place in range(1, per_byte):
        packed_NB = packed_NB | parts_NBp[:, :, place] << bits * place
    return torch.cat([packed_NB, quantised.step_N1.contiguous().view(torch.uint8)], dim=1).view(-1)


def unpack(message: Tensor, bits: int) -> Quantised:
    """What `pack` made the message of."""
    message_NB = message.view(-1, _BLOCK * bits // 8 + _STEP_BYTES)
    packed_NB, step_N2 = message_NB[:, :-_STEP_BYTES], message_NB[:, -_STEP_BYTES:]
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=message.device)
    codes_NB = (packed_NB.unsqueeze(2) >> shifts & (2**bits - 1)).flatten(1)
    numbers_NB = (codes_NB.short() - (2 ** (bits - 1) - 1)).to(torch.int8)
    step_N1 = step_N2.clone(memory_format=torch.contiguous_format).view(torch.bfloat16)
    return Quantised(numbers_NB, step_N1)


def encode_whole(rows: Tensor, bits: int) -> Tensor:
    """Rows [R, F] themselves as a message of 16 or 32 bits a value, uint8; never wider than they are stored."""
    sent = rows.bfloat16() if bits == 16 and rows.dtype.itemsize > torch.bfloat16.itemsize else rows
    return sent.contiguous().view(torch.uint8).view(-1)


def decode_whole(message: Tensor, bits: int, number: int, width: int, stored: torch.dtype) -> Tensor:
    """The rows [number, width] of a message of `encode_whole`, in the type that they are stored in."""
    sent = torch.bfloat16 if bits == 16 and stored.itemsize > torch.bfloat16.itemsize else stored
    return message.view(sent).view(number, width).to(stored)
