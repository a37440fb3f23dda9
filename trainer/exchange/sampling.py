"""Boundary sampling (BNS-GCN, Wan et al. 2022): which rows of its boundary a rank sends in one layer and epoch.

Each node is kept with probability P, by a hash of (seed, epoch, layer, node) that the owner and every receiver compute
alike, so no rank has to send which rows it keeps. Kept rows are multiplied by 1/P, and so are their gradients on the
way back: the expectation of a sum or a mean over in-edges is the exact one, forward and backward. P = 1 samples nothing
and is exact; with P = 0 no row is sent and each rank trains with its own edges alone.

A maximum has no such factor (it is refused), and a softmax is a ratio of two sums, so attention is only approximated:
its kept edges weigh 1/P times in both sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.base.hash_rng import SAMPLING, bernoulli, key_of
from trainer.base.pass_context import PassContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one exchange of one epoch keeps."""

    sent_R: Tensor
    """bool: which of the rows that peers need are sent"""
    halo_H: Tensor
    """bool: which of the halo's rows are received"""
    factor: float
    """What each of them is multiplied by, 1/P; 0 where none is kept."""

    def log_weights(self) -> Tensor:
        """The logarithm of each halo row's factor, float32 [H]: minus infinity for one that is not kept."""
        return torch.where(self.halo_H, self.factor, 0.0).log()


@dataclass(frozen=True, slots=True)
class Sampling:
    """The samples of one rank's boundary."""

    probability: float
    """P, 0 .. 1"""
    sent_ids_R: Tensor
    """int64: the number in the whole graph of each row that a peer needs"""
    halo_ids_H: Tensor
    """int64, the same of the halo"""
    seed: int

    def sample(self, layer: int, context: PassContext) -> Sample | None:
        """What `layer` keeps in a pass; None for everything, as in every evaluation."""
        if not context.training or self.probability == 1:
            return None
        key = key_of(self.seed, context.epoch, layer, SAMPLING)
        return Sample(
            sent_R=bernoulli(self.sent_ids_R, key, self.probability),
            halo_H=bernoulli(self.halo_ids_H, key, self.probability),
            factor=1 / self.probability if self.probability else 0.0,
        )
