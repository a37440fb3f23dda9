"""Scores of pairs of nodes from their rows: the larger, the likelier an edge.

    dot        u . v                                         (Kipf and Welling 2016)
    distmult   sum of u * r * v, r learnt, from ones on      (Yang et al. 2015)
    mlp        W_2 relu(W_1 (u * v) + b_1) + b_2             in undirected graphs, as OGB's examples have it
               W_2 relu(W_1 [u, v] + b_1) + b_2              in directed ones, whose scores depend on the direction

The labels of edges are learnt by W_2 relu(W_1 [u, v, f] + b_1) + b_2, f being features of the edge.

Letters: k pairs, F columns of a row, D features of an edge, G hidden columns, C scores of a pair.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.models.plan import Plan, zeros


class Dot(nn.Module):
    """The dot product."""

    def forward(self, source_kF: Tensor, destination_kF: Tensor, _features_kD: Tensor | None) -> Tensor:
        return (source_kF * destination_kF).sum(1)


class DistMult(nn.Module):
    """The dot product with a learnt weight for each column."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.relation_F = nn.Parameter(torch.ones(width))

    def forward(self, source_kF: Tensor, destination_kF: Tensor, _features_kD: Tensor | None) -> Tensor:
        return (source_kF * self.relation_F * destination_kF).sum(1)


class Mlp(nn.Module):
    """Two layers on both rows."""

    def __init__(
        self, plan: Plan, width: int, *, num_scores: int | None, num_features: int = 0, is_symmetric: bool = False
    ) -> None:
        """Draw the first weights.

        Args:
            plan: of the run.
            width: F.
            num_scores: C; None for one score, without a dimension of its own.
            num_features: D, of an edge.
            is_symmetric: whether the score is the same in both directions.
        """
        super().__init__()
        self._is_symmetric, self._is_one = is_symmetric, num_scores is None
        self.weight_FG = plan.weight((width if is_symmetric else 2 * width) + num_features, plan.hidden)
        self.bias_G = zeros(plan.hidden)
        self.weight_GC, self.bias_C = plan.weight(plan.hidden, num_scores or 1), zeros(num_scores or 1)

    def forward(self, source_kF: Tensor, destination_kF: Tensor, features_kD: Tensor | None) -> Tensor:
        columns = [source_kF * destination_kF] if self._is_symmetric else [source_kF, destination_kF]
        if features_kD is not None:
            columns.append(features_kD)
        hidden_kG = (torch.cat(columns, dim=1) @ self.weight_FG + self.bias_G).relu()
        scores_kC = hidden_kG @ self.weight_GC + self.bias_C
        return scores_kC.squeeze(1) if self._is_one else scores_kC


def decoder_of(options: Options, cache: Cache, num_scores: int, num_features: int, plan: Plan) -> nn.Module | None:
    """The decoder that the options name, with its first weights; None where nodes are learnt, and not pairs.

    Args:
        options: of the run.
        cache: whose graph it is.
        num_scores: C, of an edge whose label is learnt.
        num_features: D, of an edge, of those that the run reads.
        plan: of the run.
    """
    width = options.embedding_width
    if options.learns_edge_labels:
        return Mlp(plan, width, num_scores=num_scores, num_features=num_features)
    if not options.learns_links:
        return None
    if options.decoder == "dot":
        return Dot()
    if options.decoder == "distmult":
        return DistMult(width)
    return Mlp(plan, width, num_scores=None, is_symmetric=cache.is_undirected)
