"""Boundary sampling (BNS-GCN, Wan et al. 2022): which rows of its boundary a rank sends in one layer and epoch.

Each node is kept with probability P, by a hash of (seed, epoch, layer, node) that the owner and every receiver compute
alike, so no rank has to send which rows it keeps. Kept rows are multiplied by 1/P, and so are their gradients on the
way back: the expectation of a sum or a mean over in-edges is the exact one, forward and backward. P = 1 samples nothing
and is exact; with P = 0 no row is sent and each rank trains with its own edges alone.

The hash is computed by the host, on a GPU's rank too: the sizes of messages depend on it, and the host would wait for a
GPU to count them. It is computed once a layer and epoch, for the forward and the backward pass.

A maximum has no such factor (it is refused), and a softmax is a ratio of two sums, so attention is only approximated:
its kept edges weigh 1/P times in both sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.base.hash_rng import SAMPLING, bernoulli, key_of
from trainer.base.pass_context import PassContext
from trainer.base.to_device import to_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one exchange of one epoch keeps; in the host's memory."""

    sent_R: Tensor
    """bool: which of the rows that peers need are sent"""
    halo_H: Tensor
    """bool: which of the halo's rows are received"""
    factor: float
    """What each of them is multiplied by, 1/P; 0 where none is kept."""
    device: torch.device
    """Where rows are"""

    def weights(self) -> Tensor:
        """Each halo row's factor, float32 [H] on the device: 0 for one not kept."""
        return to_device(torch.where(self.halo_H, self.factor, 0.0), self.device)

    def log_weights(self) -> Tensor:
        """The logarithm of each halo row's factor, float32 [H] on the device: minus infinity for one not kept."""
        return self.weights().log()


@dataclass(frozen=True, slots=True)
class Sampling:
    """The samples of one rank's boundary; numbers of nodes are in the host's memory."""

    probability: float
    """P, 0 .. 1"""
    sent_ids_R: Tensor
    """int64: the number in the whole graph of each row that a peer needs"""
    halo_ids_H: Tensor
    """int64, the same of the halo"""
    seed: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where rows are"""
    _newest: dict[int, tuple[int, Sample]] = field(default_factory=dict, init=False)
    """By layer the epoch and its sample"""

    def sample(self, layer: int, context: PassContext) -> Sample | None:
        """What `layer` keeps in a pass; None for everything, as in every evaluation."""
        if not context.training or self.probability == 1:
            return None
        epoch, sample = self._newest.get(layer, (0, None))
        if sample is None or epoch != context.epoch:
            key = key_of(self.seed, context.epoch, layer, SAMPLING)
            sample = Sample(
                sent_R=bernoulli(self.sent_ids_R, key, self.probability),
                halo_H=bernoulli(self.halo_ids_H, key, self.probability),
                factor=1 / self.probability if self.probability else 0.0,
                device=self.device,
            )
            self._newest[layer] = context.epoch, sample
        return sample
