"""What a layer reads: its own rows, and the product A D(H) W that is at the heart of every layer, D being dropout.

A (D(H) W) and (A D(H)) W are the same numbers, so each layer takes the order in which the narrower rows are summed and
sent. That decides what travels. Where the layer does not narrow, H itself does, before dropout. Where it narrows, the
product D(H) W does (7 values a row in place of 64 in Cora's last layer), with the mask of the epoch that sent it; the
policies then judge by the change of H W, which has no mask in it.

The first layer is special: its input, the features, never changes and needs no gradient. So the halo's features come
once and stay, and no epoch after that sends any. Without input dropout, A X is made once, and the first layer's sparse
product is gone too.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from trainer.aggregate import Aggregation
from trainer.dense import dense
from trainer.dropout import Dropout, Mask
from trainer.passes import Pass


class LayerInput(Protocol):
    """The input of one layer in one pass."""

    def transformed(self, weight_FG: Tensor) -> Tensor:
        """D(H) W: this rank's own rows, transformed by the weight [F, G]: [n, G]."""

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        """A D(H) W: the neighbour sums, transformed by the weight [F, G]: [n, G]."""


class Features:
    """The features of a part and of its halo."""

    def __init__(self, x_nF: Tensor, aggregation: Aggregation, dropout: Dropout, *, share: float) -> None:
        """Fetch the halo's features, and without dropout make the sums.

        Args:
            x_nF: [n, F], in the type that rows are stored in.
            aggregation: the part's neighbour sum.
            dropout: the masks of the run.
            share: of the entries that is zeroed in training.
        """
        self._x_nF, self._aggregation, self._dropout, self._share = x_nF, aggregation, dropout, share
        self._passes = 0
        self._halo_HF = aggregation.exchange.fetch_constant(x_nF, layer=1)
        self._summed: _Summed | None = None
        if not share:
            self._summed = _Summed(x_nF, aggregation.of_kept(x_nF, self._halo_HF), aggregation)
            del self._halo_HF

    def of_pass(self, step: Pass) -> LayerInput:
        """The first layer's input in one pass over the graph."""
        self._passes += 1
        if self._passes > 1:
            self._aggregation.exchange.skip_constant(self._x_nF, layer=1)
        if self._summed is not None:
            return self._summed
        mask = self._dropout.mask(self._share, 1, self._x_nF.shape[1], step)
        if mask is None:
            return _Kept(self._x_nF, self._halo_HF, self._aggregation)
        return _Kept(mask.own(self._x_nF), mask.halo(self._halo_HF), self._aggregation)


class _Summed:
    """The first layer's input where A X is known."""

    def __init__(self, own_nF: Tensor, sums_nF: Tensor, aggregation: Aggregation) -> None:
        self._own_nF, self._sums_nF, self._clock = own_nF, sums_nF, aggregation.clock

    def transformed(self, weight_FG: Tensor) -> Tensor:
        return dense(self._own_nF, weight_FG, self._clock)

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        return dense(self._sums_nF, weight_FG, self._clock)


class _Kept:
    """The first layer's input where the halo's features are kept."""

    def __init__(self, own_nF: Tensor, halo_HF: Tensor, aggregation: Aggregation) -> None:
        self._own_nF, self._halo_HF, self._aggregation = own_nF, halo_HF, aggregation

    def transformed(self, weight_FG: Tensor) -> Tensor:
        return dense(self._own_nF, weight_FG, self._aggregation.clock)

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        clock = self._aggregation.clock
        if _narrows(weight_FG):
            # The halo's rows are transformed here as well as at their owners: H x F x G products, no bytes.
            own_nG, halo_HG = (dense(rows, weight_FG, clock) for rows in (self._own_nF, self._halo_HF))
            return self._aggregation.of_kept(own_nG, halo_HG)
        return dense(self._aggregation.of_kept(self._own_nF, self._halo_HF), weight_FG, clock)


class Hidden:
    """The input of layers 2 .. L: what the layer before gave, fetched from its owners."""

    def __init__(self, rows_nF: Tensor, aggregation: Aggregation, mask: Mask | None, *, layer: int, step: Pass) -> None:
        """Know the rows.

        Args:
            rows_nF: this rank's, before dropout.
            aggregation: the part's neighbour sum.
            mask: what is dropped of them, None for nothing.
            layer: 2 .. L.
            step: the pass.
        """
        self.rows_nF = rows_nF
        self._aggregation, self._mask, self._layer, self._step = aggregation, mask, layer, step

    def transformed(self, weight_FG: Tensor) -> Tensor:
        rows_nF = self.rows_nF if self._mask is None else self._mask.own(self.rows_nF)
        return dense(rows_nF, weight_FG, self._aggregation.clock)

    def aggregated(self, weight_FG: Tensor) -> Tensor:
        aggregation, clock = self._aggregation, self._aggregation.clock
        if not _narrows(weight_FG):
            sums_nF = aggregation(self.rows_nF, self._layer, self._step, mask=self._mask)
            return dense(sums_nF, weight_FG, clock)
        before_dropout_nG = None
        if self._mask is not None and aggregation.exchange.watches(self._step):
            before_dropout_nG = dense(self.rows_nF.detach(), weight_FG.detach(), clock)
        product_nG = self.transformed(weight_FG)
        return aggregation(product_nG, self._layer, self._step, before_dropout_nF=before_dropout_nG)


def _narrows(weight_FG: Tensor) -> bool:
    return weight_FG.shape[1] < weight_FG.shape[0]
