"""Dense products in the type of the rows: rows [n, F] times a weight [F, G] that is kept in fp32.

On a CPU, bf16 products are up to five times faster than fp32 ones and fp16 products fifteen times slower (50,000 x 128
by 128 x 256 on one core: 19 ms, 91 ms, 1,350 ms), so fp16 rows are multiplied as fp32 there. The weight's gradient is
returned in fp32. It is the product of two tall matrices, for which the library is up to seventeen times faster if a
width that is not a multiple of its registers' comes first (64,000 rows on one core: 128 x 8 in 57 ms, 8 x 128 in 4.5).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.traffic_log import Clock
from trainer.sparse.dropout import Mask

REGISTER_WIDTH = 16
"""fp32 values in a CPU's widest register"""


def dense(rows_nF: Tensor, weight_FG: Tensor, clock: Clock, mask: Mask | None = None) -> Tensor:
    """rows W: [n, G] in the type of the rows, with gradients for both.

    Args:
        rows_nF: this part's.
        weight_FG: float32.
        clock: what measures products.
        mask: what is dropped of the rows first, some rows at a time, so that the rows after dropout are never in
            memory all at once; the backward pass drops them again.
    """
    return cast(Tensor, _Dense.apply(rows_nF, weight_FG, clock, mask))  # type: ignore[no-untyped-call]


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, weight_FG: Tensor, clock: Clock, mask: Mask | None) -> Tensor:
        ctx.save_for_backward(rows_nF, weight_FG)
        ctx.clock, ctx.mask = clock, mask
        weight_FG = weight_FG.to(rows_nF.dtype)
        with clock("dense product"):
            if mask is None:
                return _product(rows_nF, weight_FG)
            out_nG = rows_nF.new_empty(len(rows_nF), weight_FG.shape[1])
            for chunk, factors_cF in mask.of_own(rows_nF):
                _product(factors_cF.mul_(rows_nF[chunk]), weight_FG, out=out_nG[chunk])
            return out_nG

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor | None, ...]:
        rows_nF, weight_FG = ctx.saved_tensors
        grad_nG, transposed_GF = grad_nG.to(rows_nF.dtype), weight_FG.to(rows_nF.dtype).T
        needs_rows_grad, needs_weight_grad = ctx.needs_input_grad[:2]
        rows_grad = weight_grad = None
        with ctx.clock("dense product"):
            if ctx.mask is None:
                if needs_weight_grad:
                    weight_grad = _weight_gradient(rows_nF, grad_nG).to(weight_FG.dtype)
                if needs_rows_grad:
                    rows_grad = _product(grad_nG, transposed_GF)
                return rows_grad, weight_grad, None, None
            weight_grad = torch.zeros_like(weight_FG) if needs_weight_grad else None
            rows_grad = torch.empty_like(rows_nF) if needs_rows_grad else None
            for chunk, factors_cF in ctx.mask.of_own(rows_nF):
                if rows_grad is not None:
                    _product(grad_nG[chunk], transposed_GF, out=rows_grad[chunk])
                    rows_grad[chunk] *= factors_cF
                if weight_grad is not None:
                    weight_grad += _weight_gradient(factors_cF.mul_(rows_nF[chunk]), grad_nG[chunk])
        return rows_grad, weight_grad, None, None


def _weight_gradient(rows_nF: Tensor, grad_nG: Tensor) -> Tensor:
    """rows^T grad: [F, G]."""
    width_in, width_out = rows_nF.shape[1], grad_nG.shape[1]
    if width_out < width_in and width_out % REGISTER_WIDTH:
        return _product(grad_nG.T, rows_nF).T.contiguous()
    return _product(rows_nF.T, grad_nG)


def _product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """left right, in the type of both; written to `out` if it is given."""
    if left.dtype == torch.float16 and not left.is_cuda:
        product = (left.float() @ right.float()).half()
        return product if out is None else out.copy_(product)
    return torch.mm(left, right, out=out)
