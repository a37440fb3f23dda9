"""The models: what a layer does with its own rows and with the neighbour sums.

    gcn     A' H W + b, with GCN's A'
    sage    H W_self + A' H W_neighbours + b, with A' the mean

What a product has made is added to and cut off in place: on 200,000 x 256 rows each copy less is 0.2 GB less to move.

Every rank holds all weights. They are drawn on the CPU from the run's seed, so that they do not depend on the number of
ranks, nor on their devices.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from trainer.aggregate import Aggregation
from trainer.dropout import Dropout
from trainer.inputs import Features, Hidden, LayerInput
from trainer.norms import norm
from trainer.options import Options
from trainer.passes import Pass
from trainer.precision import TYPES
from trainer.ranks import Ranks


class GcnLayer(nn.Module):
    """A graph convolution [F] -> [G]."""

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight_FG = _glorot(width_in, width_out, generator)
        self.bias_G = nn.Parameter(torch.zeros(width_out))

    def forward(self, rows: LayerInput) -> Tensor:
        return rows.aggregated(self.weight_FG).float().add_(self.bias_G)


class SageLayer(nn.Module):
    """A GraphSAGE layer [F] -> [G]: separate weights for a node and for the mean of its neighbours."""

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.own_FG = _glorot(width_in, width_out, generator)
        self.neighbours_FG = _glorot(width_in, width_out, generator)
        self.bias_G = nn.Parameter(torch.zeros(width_out))

    def forward(self, rows: LayerInput) -> Tensor:
        sums_nG = rows.aggregated(self.neighbours_FG).float()
        return sums_nG.add_(rows.transformed(self.own_FG)).add_(self.bias_G)


_LAYERS = {"gcn": GcnLayer, "sage": SageLayer}


class Network(nn.Module):
    """Graph layers with normalisation, ReLU and dropout between them."""

    def __init__(
        self,
        options: Options,
        aggregation: Aggregation,
        dropout: Dropout,
        *,
        num_features: int,
        num_classes: int,
        num_nodes: int,
        ranks: Ranks,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(options.seed)
        widths = [num_features, *[options.hidden] * (options.layers - 1), num_classes]
        layer = _LAYERS[options.model]
        self.layers = nn.ModuleList(layer(*pair, generator) for pair in pairwise(widths))
        self.norms = nn.ModuleList(
            norm(options.norm, width, num_nodes=num_nodes, ranks=ranks) for width in widths[1:-1]
        )
        self._aggregation, self._dropout, self._share = aggregation, dropout, options.dropout
        self._stored_type = TYPES[options.precision]

    def forward(self, features: Features, step: Pass) -> Tensor:
        """The classes' scores of this rank's rows, float32 [n, C], by one pass over the whole graph."""
        scores: Tensor = self.layers[0](features.of_pass(step))
        for number, (layer, normalise) in enumerate(zip(self.layers[1:], self.norms, strict=True), start=2):
            rows_nF = normalise(scores).relu_().to(self._stored_type)
            mask = self._dropout.mask(self._share, number, rows_nF.shape[1], step)
            scores = layer(Hidden(rows_nF, self._aggregation, mask, layer=number, step=step))
        return scores

    def decays(self, weight_decay: float) -> list[tuple[nn.Parameter, float]]:
        """Every parameter with its L2 coefficient: `weight_decay` in layer 1, else 0."""
        first = set(self.layers[0].parameters())
        return [(parameter, weight_decay if parameter in first else 0.0) for parameter in self.parameters()]


def _glorot(width_in: int, width_out: int, generator: torch.Generator) -> nn.Parameter:
    bound = (6.0 / (width_in + width_out)) ** 0.5
    return nn.Parameter(torch.empty(width_in, width_out).uniform_(-bound, bound, generator=generator))
