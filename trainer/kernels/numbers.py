"""bfloat16 inside kernels, by its bits: a kernel gets bf16 tensors as int16, and widens and rounds them itself.

Widening is a shift, and rounding takes four integer instructions where a kernel waits for memory anyway. Triton's
interpreter truncates where a GPU rounds, so a cast could not be tested without a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def bits(values: Tensor) -> Tensor:
    """`values` as a kernel takes them: bf16 as int16, on the same memory; all else as it is."""
    return values.view(torch.int16) if values.dtype == torch.bfloat16 else values


@triton.jit
def widened(values: tl.tensor, IS_BF16: tl.constexpr) -> tl.tensor:
    """Loaded values as float32."""
    if IS_BF16:
        values = (values.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    return values.to(tl.float32)


@triton.jit
def bf16_bits(values: tl.tensor) -> tl.tensor:
    """The bits of the nearest bf16 numbers of float32 `values`, ties to even, as int16; a NaN stays one."""
    binary = values.to(tl.int32, bitcast=True)
    nearest = (binary + 0x7FFF + ((binary >> 16) & 1)) >> 16
    return tl.where(values == values, nearest, 0x7FC0).to(tl.int16)
