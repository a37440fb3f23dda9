"""Layer norm and batch norm between layers, the same on any number of ranks.

Layer norm is of one row at a time and needs no peer. Batch norm's mean and variance are over all N nodes: the sums are
all-reduced, forward and backward, so that k ranks compute what one rank computes. The variance is that
of the deviations from the mean (two sums, one after the other), since the difference of squares cancels in fp32.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from trainer.dist.communicator import Communicator

_EPSILON = 1e-5
_MOMENTUM = 0.1


class BatchNorm(nn.Module):
    """Batch norm over the nodes of all ranks; in evaluation with running statistics, the same on every rank."""

    mean_F: Tensor
    variance_F: Tensor

    def __init__(self, width: int, *, num_nodes: int, communicator: Communicator) -> None:
        super().__init__()
        self.scale_F, self.shift_F = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean_F", torch.zeros(width))
        self.register_buffer("variance_F", torch.ones(width))
        self._num_nodes, self._communicator = num_nodes, communicator

    def forward(self, rows_nF: Tensor) -> Tensor:
        if self.training:
            standard, mean_F, variance_F = standardised(rows_nF, self._num_nodes, _EPSILON, self._communicator)
            with torch.no_grad():
                self.mean_F.lerp_(mean_F, _MOMENTUM)
                # Evaluation uses the unbiased estimate, as usual.
                self.variance_F.lerp_(variance_F * (self._num_nodes / max(self._num_nodes - 1, 1)), _MOMENTUM)
        else:
            standard = (rows_nF - self.mean_F) * (self.variance_F + _EPSILON).rsqrt()
        return standard * self.scale_F + self.shift_F


def standardised(
    rows_nF: Tensor, num_rows: int, epsilon: float, communicator: Communicator
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with mean 0 and variance 1 over all ranks, with the gradient; every rank has to call it.

    Args:
        rows_nF: of this rank, any number.
        num_rows: of all ranks, at least 1.
        epsilon: added to the variance.
        communicator: the ranks of the run.

    Returns:
        the rows [n, F], and the mean and the biased variance [F] of all ranks' rows, without gradients.
    """
    with torch.no_grad():
        mean_F = communicator.all_reduce(rows_nF.sum(0), "batch norm") / num_rows
        variance_F = communicator.all_reduce((rows_nF - mean_F).square().sum(0), "batch norm") / num_rows
    arguments = (rows_nF, mean_F, variance_F, num_rows, epsilon, communicator)
    return cast(Tensor, _Standardised.apply(*arguments)), mean_F, variance_F  # type: ignore[no-untyped-call]


class _Standardised(torch.autograd.Function):
    """(x - mean) / sqrt(variance + epsilon), where mean and variance are functions of every rank's x."""

    @staticmethod
    def forward(
        ctx: Any,
        rows_nF: Tensor,
        mean_F: Tensor,
        variance_F: Tensor,
        num_rows: int,
        epsilon: float,
        communicator: Communicator,
    ) -> Tensor:
        inverse_F = (variance_F + epsilon).rsqrt()
        standard_nF = (rows_nF - mean_F) * inverse_F
        ctx.save_for_backward(standard_nF, inverse_F)
        ctx.num_rows, ctx.communicator = num_rows, communicator
        return standard_nF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        standard_nF, inverse_F = ctx.saved_tensors
        sums_2F = torch.stack([grad_nF.sum(0), (grad_nF * standard_nF).sum(0)])
        mean_grad_F, mean_projection_F = ctx.communicator.all_reduce(sums_2F, "batch norm") / ctx.num_rows
        return (grad_nF - mean_grad_F - standard_nF * mean_projection_F) * inverse_F, None, None, None, None, None


def norm(kind: str, width: int, *, num_nodes: int, communicator: Communicator) -> nn.Module:
    """The normalisation of `width` features that option `norm` names."""
    if kind == "batch":
        return BatchNorm(width, num_nodes=num_nodes, communicator=communicator)
    if kind == "layer":
        return nn.LayerNorm(width, eps=_EPSILON)
    return nn.Identity()
