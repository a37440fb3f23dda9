"""What a model is built from: sizes, options, first weights and the norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.config.options import Options
from trainer.models.embeddings import Embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """The node types and relations of a graph, as far as a model's weights depend on them."""

    num_features: Sequence[int]
    """By type; 0 for one without features."""
    rows: Sequence[slice]
    """This rank's rows of each type."""
    source_types: Sequence[int]
    """The number of the type that the edges of each relation begin at."""
    destinations: Sequence[str]
    """The type that the edges of each relation end at."""
    target: str
    """The type that is learnt."""
    embedding: Callable[[int], Embedding]
    """Makes the learnt rows of a type, by its number, for this rank's nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sizes of a model, and what it draws its first weights from."""

    num_features: int
    num_classes: int
    options: Options
    generator: torch.Generator
    """On the CPU, from the run's seed: the same draws on every rank."""
    norm: Callable[[int], nn.Module]
    """The normalisation that the options ask for, of that many features."""
    types: Types | None = None
    """Node types and relations, where the model distinguishes them."""
    num_edge_features: int = 0
    """D, of those that the model reads (`--edge-features`)."""

    @property
    def hidden(self) -> int:
        """Width of the layers between, or of each head of them."""
        return self.options.hidden

    def weight(self, width_in: int, width_out: int) -> nn.Parameter:
        """A first weight [in, out] (Glorot and Bengio 2010)."""
        bound = (6.0 / (width_in + width_out)) ** 0.5
        return nn.Parameter(torch.empty(width_in, width_out).uniform_(-bound, bound, generator=self.generator))

    def weights(self, number: int, width_in: int, width_out: int) -> nn.Parameter:
        """So many first weights [number, in, out], each drawn likewise."""
        drawn = [self.weight(width_in, width_out).detach() for _ in range(number)]
        return nn.Parameter(torch.stack(drawn) if drawn else torch.empty(0, width_in, width_out))

    def vector(self, num_heads: int, width: int) -> nn.Parameter:
        """First attention vectors [heads, width], likewise."""
        bound = (6.0 / (1 + width)) ** 0.5
        return nn.Parameter(torch.empty(num_heads, width).uniform_(-bound, bound, generator=self.generator))

    def vectors(self, number: int, num_heads: int, width: int) -> nn.Parameter:
        """So many first attention vectors [number, heads, width]."""
        return nn.Parameter(torch.stack([self.vector(num_heads, width).detach() for _ in range(number)]))

    def edge_weight(self, width: int) -> nn.Parameter | None:
        """A first weight [D, width] of the features of edges; None where the model reads none."""
        return self.weight(self.num_edge_features, width) if self.num_edge_features else None

    def bias(self, width: int, *, is_last: bool) -> nn.Parameter | None:
        """A graph layer's first bias; None where batch norm follows, which takes every constant away again.

        The gradient of such a bias is 0 but for rounding. Adam would make steps of full size of that rounding, other
        ones on another number of ranks, and running means would lag behind them.
        """
        return None if self.options.norm == "batch" and not is_last else zeros(width)


def zeros(width: int) -> nn.Parameter:
    """A first bias."""
    return nn.Parameter(torch.zeros(width))


def with_bias(rows_nG: Tensor, bias_G: Tensor | None) -> Tensor:
    """The rows, changed in place, with a bias if there is one."""
    return rows_nG if bias_G is None else rows_nG.add_(bias_G)
