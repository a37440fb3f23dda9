"""Batch norm over all ranks; the parity cases try it on several."""

from __future__ import annotations

import torch

from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.layers.norms import BatchNorm


def test_one_rank_is_torch_s_own_batch_norm() -> None:
    """A gradient that takes mean and variance for constants is plausible and wrong; so is a biased running variance."""
    cpu = torch.device("cpu")
    ours = BatchNorm(5, num_nodes=40, communicator=Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu)))
    theirs = torch.nn.BatchNorm1d(5)
    for module in (ours.scale_F, theirs.weight):
        module.data.copy_(torch.linspace(0.5, 2.0, 5))
    rows = 3.0 + 2.0 * torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    direction = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    gradients = []
    for module in (ours, theirs):
        own = rows.clone().requires_grad_()
        (module(own) * direction).sum().backward()
        gradients.append(own.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(ours.scale_F.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.shift_F.grad, theirs.bias.grad)
    torch.testing.assert_close(ours.eval()(rows), theirs.eval()(rows))
