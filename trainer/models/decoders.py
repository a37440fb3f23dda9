"""Scores of pairs of nodes from their rows: the larger, the likelier an edge.

    dot        u . v                                         (Kipf and Welling 2016)
    distmult   sum of u * r * v, r learnt, from ones on      (Yang et al. 2015)
    mlp        W_2 relu(W_1 (u * v) + b_1) + b_2             in undirected graphs, as OGB's examples have it
               W_2 relu(W_1 [u, v] + b_1) + b_2              in directed ones, whose scores depend on the direction

Letters: k pairs, F columns of a row, G hidden ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.models.plan import Plan, zeros


class Dot(nn.Module):
    """The dot product."""

    def forward(self, source_kF: Tensor, destination_kF: Tensor) -> Tensor:
        return (source_kF * destination_kF).sum(1)


class DistMult(nn.Module):
    """The dot product with a learnt weight for each column."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.relation_F = nn.Parameter(torch.ones(width))

    def forward(self, source_kF: Tensor, destination_kF: Tensor) -> Tensor:
        return (source_kF * self.relation_F * destination_kF).sum(1)


class Mlp(nn.Module):
    """Two layers on both rows."""

    def __init__(self, plan: Plan, width: int, *, is_symmetric: bool) -> None:
        super().__init__()
        self._is_symmetric = is_symmetric
        self.weight_FG = plan.weight(width if is_symmetric else 2 * width, plan.hidden)
        self.bias_G = zeros(plan.hidden)
        self.weight_G1, self.bias_1 = plan.weight(plan.hidden, 1), zeros(1)

    def forward(self, source_kF: Tensor, destination_kF: Tensor) -> Tensor:
        together = source_kF * destination_kF if self._is_symmetric else torch.cat([source_kF, destination_kF], dim=1)
        hidden_kG = (together @ self.weight_FG + self.bias_G).relu()
        return (hidden_kG @ self.weight_G1 + self.bias_1).squeeze(1)


def decoder_of(options: Options, cache: Cache, plan: Plan) -> nn.Module | None:
    """The decoder that the options name, with its first weights; None where nodes are learnt, and not pairs."""
    if not options.learns_links:
        return None
    width = options.embedding_width
    if options.decoder == "dot":
        return Dot()
    return DistMult(width) if options.decoder == "distmult" else Mlp(plan, width, is_symmetric=cache.is_undirected)
