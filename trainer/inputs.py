"""What a layer reads: its own rows, and the product A H W that is at the heart of every layer.

A (H W) and (A H) W are the same numbers, so each layer takes the order in which the narrower rows are summed and sent.

The first layer is special: its input, the features, never changes and needs no gradient. So the halo's features come
once and stay, and no epoch after that sends any. With input dropout, each rank drops entries of its halo copies by
itself. Without it, A X is made once, and the first layer's sparse product is gone too.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from trainer.aggregate import Aggregation
from trainer.dropout import dropped


class LayerInput(Protocol):
    """The input of one layer in one pass."""

    @property
    def own_nF(self) -> Tensor:
        """This rank's rows, float32 [n, F], after dropout."""

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        """A H W: the neighbour sums, transformed by the weight [F, G]: float32 [n, G]."""


class Features:
    """The features of a part and of its halo."""

    def __init__(self, x_nF: Tensor, aggregation: Aggregation, *, dropout: float) -> None:
        """Fetch the halo's features, and without dropout make the sums.

        Args:
            x_nF: float32 [n, F].
            aggregation: the part's neighbour sum.
            dropout: share of the entries that is zeroed in training.
        """
        self._x_nF, self._aggregation, self._dropout = x_nF, aggregation, dropout
        self._passes = 0
        self._halo_HF = aggregation.exchange.fetch(x_nF, layer=1).wait()
        self._summed: _Summed | None = None
        if not dropout:
            self._summed = _Summed(x_nF, aggregation.of_kept(x_nF, self._halo_HF))
            del self._halo_HF

    def of_pass(self, *, training: bool) -> LayerInput:
        """The first layer's input in one pass over the graph, with a new mask if it is a training pass."""
        self._passes += 1
        if self._passes > 1:
            self._aggregation.exchange.skip(layer=1, width=self._x_nF.shape[1])
        if self._summed is not None:
            return self._summed
        return _Kept(
            dropped(self._x_nF, self._dropout, training=training),
            dropped(self._halo_HF, self._dropout, training=training),
            self._aggregation,
        )


class _Summed:
    """The first layer's input where A X is known."""

    def __init__(self, own_nF: Tensor, sums_nF: Tensor) -> None:
        self.own_nF, self._sums_nF = own_nF, sums_nF

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        return self._sums_nF @ weight_FG


class _Kept:
    """The first layer's input where the halo's features are kept."""

    def __init__(self, own_nF: Tensor, halo_HF: Tensor, aggregation: Aggregation) -> None:
        self.own_nF, self._halo_HF, self._aggregation = own_nF, halo_HF, aggregation

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        if _narrows(weight_FG):
            # The halo's rows are transformed here as well as at their owners: H x F x G products, no bytes.
            return self._aggregation.of_kept(self.own_nF @ weight_FG, self._halo_HF @ weight_FG)
        return self._aggregation.of_kept(self.own_nF, self._halo_HF) @ weight_FG


class Hidden:
    """The input of layers 2 .. L: what the layer before gave, fetched from its owners in every pass."""

    def __init__(self, own_nF: Tensor, aggregation: Aggregation, layer: int) -> None:
        self.own_nF, self._aggregation, self._layer = own_nF, aggregation, layer

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        if _narrows(weight_FG):
            return self._aggregation(self.own_nF @ weight_FG, self._layer)
        return self._aggregation(self.own_nF, self._layer) @ weight_FG


def _narrows(weight_FG: Tensor) -> bool:
    return weight_FG.shape[1] < weight_FG.shape[0]
