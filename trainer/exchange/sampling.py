"""Boundary sampling (BNS-GCN, Wan et al. 2022): which rows of its boundary a rank sends in one layer and epoch.

Each node is kept with probability P, by a draw from (seed, epoch, layer, node) that the owner and every receiver make
alike, so no rank has to say which rows it sends. Kept rows count 1/P times, and so do their gradients on the way back:
the expectation of a sum or a mean over in-edges is the exact one, forward and backward. P = 1 draws nothing and is
exact; with P = 0 no row travels and each rank trains with its own edges alone.

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
    """bool: which of the rows that peers need go"""
    halo_H: Tensor
    """bool: which of the halo's rows come"""
    factor: float
    """What each of them counts, 1/P; 0 where none is kept."""

    def log_weights(self) -> Tensor:
        """The logarithm of what each halo row counts, float32 [H]: minus infinity for one that is not kept."""
        return torch.where(self.halo_H, self.factor, 0.0).log()


class Sampling:
    """The draws of one rank's boundary."""

    def __init__(self, chance: float, sent_ids_R: Tensor, halo_ids_H: Tensor, *, seed: int) -> None:
        """Know the nodes.

        Args:
            chance: P, 0 .. 1.
            sent_ids_R: int64 [R], the number in the whole graph of each row that a peer needs.
            halo_ids_H: int64 [H], the same of the halo.
            seed: of the run.
        """
        self._chance, self._sent_ids_R, self._halo_ids_H, self._seed = chance, sent_ids_R, halo_ids_H, seed

    def draw(self, layer: int, step: PassContext) -> Sample | None:
        """What `layer` keeps in the pass `step`; None for everything, as in every evaluation."""
        if not step.training or self._chance == 1:
            return None
        key = key_of(self._seed, step.epoch, layer, SAMPLING)
        return Sample(
            sent_R=bernoulli(self._sent_ids_R, key, self._chance),
            halo_H=bernoulli(self._halo_ids_H, key, self._chance),
            factor=1 / self._chance if self._chance else 0.0,
        )
