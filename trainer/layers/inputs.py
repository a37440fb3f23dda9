"""What a layer reads: its own rows, and what their in-neighbours on all ranks make of them, D being dropout.

A (D(H) W) and (A D(H)) W are the same numbers, so each layer takes the order in which the narrower rows are summed and
sent. That decides what travels. Where the layer does not narrow, H itself does, before dropout. Where it narrows, the
product D(H) W does (7 values a row in place of 64 in Cora's last layer), with the mask of the epoch that sent it; the
policies then judge by the change of H W, which has no mask in it. For a maximum H travels, for attention always D(H) W.

The first layer is special: its input, the features, never changes and needs no gradient. So the halo's features come
once and stay, and no epoch after that sends any. Without input dropout, A X is made once, and the first layer's sparse
product is gone too. A cache may hold A X already; then nothing of the features is ever sent. A sequential exchange
keeps no halo, so there the features travel like any other rows, unless A X is all that is wanted of them. Features that
are held by their entries stay as they are, since X W is quickly made of them, and A X would have many more entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.layers.aggregate import Aggregation
from trainer.layers.attention import Attending
from trainer.layers.maximum import maximum, maximum_of_kept
from trainer.sparse.dense import dense
from trainer.sparse.dropout import Dropout, Mask
from trainer.sparse.feature_rows import DenseRows, FeatureRows, SparseRows


class LayerInput(Protocol):
    """The input H [n, F] of one layer in one pass."""

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        """D(H) W: this rank's own rows, transformed by the weight [F, G]: [n, G]. Without a weight D(H)."""

    def aggregate(self, weight_FG: Tensor | None = None) -> Tensor:
        """A D(H) W: the neighbour sums, transformed by the weight [F, G]: [n, G]. Without a weight A D(H)."""

    def maximum(self, weight_FG: Tensor | None = None) -> Tensor:
        """The greatest of D(H) among a node's in-neighbours, feature by feature, 0 where there are none; [n, F], or
        transformed by the weight [F, G]: [n, G]."""

    def project(self, weight_FG: Tensor) -> Projected:
        """D(H) W as what nodes attend to."""


class Projected:
    """Rows that went through a dense product and are about to be attended to."""

    def __init__(
        self,
        own_nG: Tensor,
        attending: Callable[[float], Attending],
        halo_HG: Tensor | None = None,
    ) -> None:
        """Know the rows.

        Args:
            own_nG: this rank's.
            attending: from the share of the coefficients that is dropped to the layer's attention.
            halo_HG: the halo's where they are here.
        """
        self.own_nG, self._attending, self._halo_HG = own_nG, attending, halo_HG

    def attend(self, terms: Tensor, vector_hF: Tensor, *, dropout: float) -> Tensor:
        """The mean of these rows over a node's in-neighbours and itself, weighted by attention: [n, heads F].

        Args:
            terms: what each of this rank's nodes adds as a destination: [n, heads] for GAT's scores, [n, heads, F] for
                GATv2's (`trainer.sparse.attention_scores`).
            vector_hF: the attention vector of each head.
            dropout: the share of the coefficients that is zeroed in training.
        """
        return self._attending(dropout)(self.own_nG, terms, vector_hF, self._halo_HG)


class Features:
    """The features of a part and of its halo."""

    def __init__(
        self,
        rows: FeatureRows | None,
        aggregation: Aggregation,
        dropout: Dropout,
        *,
        share: float,
        sums_nF: Tensor | None = None,
    ) -> None:
        """Fetch the halo's features, and without dropout make the sums.

        Args:
            rows: X, this part's; None where no layer reads a row by itself and the sums are known.
            aggregation: the part's in-edges.
            dropout: the masks of the run.
            share: of the entries that is zeroed in training.
            sums_nF: A X, [n, F] in the type that rows are stored in, if it is known and `share` is 0; then nothing is
                fetched.
        """
        self._rows, self._sums_nF, self._aggregation = rows, sums_nF, aggregation
        self._dropout, self._share = dropout, share
        self._halo: FeatureRows | None = None
        self._has_just_travelled = False
        if sums_nF is not None:
            return
        assert rows is not None
        if not aggregation.exchange.is_sequential:
            self._halo = aggregation.exchange.fetch_features(rows)
            self._has_just_travelled = True
        if not share and aggregation.sums is not None and isinstance(rows, DenseRows):
            if self._halo is None:
                self._sums_nF = aggregation(rows.rows_nF, 1, PassContext.evaluation(1))
                self._has_just_travelled = True
            else:
                self._sums_nF = aggregation.of_kept(rows.rows_nF, self._halo.dense())
                self._halo = None

    def of_pass(self, step: PassContext) -> LayerInput:
        """The first layer's input in one pass over the graph."""
        if not self._has_just_travelled and (self._sums_nF is not None or self._halo is not None):
            self._aggregation.exchange.skip_constant(self._width, layer=1)
        self._has_just_travelled = False
        if self._sums_nF is None:
            return self._in_full(step)
        return _Summed(self._rows, self._sums_nF, self._aggregation.clock, lambda: self._in_full(step))

    @property
    def _width(self) -> int:
        if self._rows is not None:
            return self._rows.width
        assert self._sums_nF is not None
        return self._sums_nF.shape[1]

    def again(self, step: PassContext) -> LayerInput:
        """The same once more in one pass."""
        return self._in_full(step, again=True)

    def _in_full(self, step: PassContext, *, again: bool = False) -> LayerInput:
        """The first layer's input where more than the sums is wanted."""
        assert self._rows is not None
        aggregation, exchange = self._aggregation, self._aggregation.exchange
        mask = self._dropout.mask(self._share, 1, self._rows.width, step)
        if exchange.is_sequential:
            return Hidden(self._rows.dense(), aggregation, mask, self._dropout, layer=1, step=step, again=again)
        if self._halo is None:
            self._halo = exchange.fetch_features(self._rows)
        own, halo = self._rows, self._halo
        if mask is not None:
            own, halo = own.dropped(mask.table, mask.starts_n), halo.dropped(mask.table, mask.starts_H)
        return _Kept(own, halo, aggregation, self._dropout, step=step)


class _Summed:
    """The first layer's input where A X is known."""

    def __init__(
        self, own: FeatureRows | None, sums_nF: Tensor, clock: Clock, in_full: Callable[[], LayerInput]
    ) -> None:
        """Know the sums.

        Args:
            own: this rank's features; None where no layer reads a row by itself.
            sums_nF: their sums over in-neighbours.
            clock: what measures products.
            in_full: makes an input that knows the halo's features too.
        """
        self._own, self._sums_nF, self._clock, self._in_full = own, sums_nF, clock, in_full

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        assert self._own is not None
        return self._own.dense() if weight_FG is None else self._own.times(weight_FG, self._clock)

    def aggregate(self, weight_FG: Tensor | None = None) -> Tensor:
        return self._sums_nF if weight_FG is None else dense(self._sums_nF, weight_FG, self._clock)

    def maximum(self, weight_FG: Tensor | None = None) -> Tensor:
        return self._in_full().maximum(weight_FG)

    def project(self, weight_FG: Tensor) -> Projected:
        return self._in_full().project(weight_FG)


class _Kept:
    """The first layer's input where the halo's features are kept."""

    def __init__(
        self, own: FeatureRows, halo: FeatureRows, aggregation: Aggregation, dropout: Dropout, *, step: PassContext
    ) -> None:
        self._own, self._halo, self._aggregation, self._dropout = own, halo, aggregation, dropout
        self._step = step

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        return self._own.dense() if weight_FG is None else self._own.times(weight_FG, self._aggregation.clock)

    def aggregate(self, weight_FG: Tensor | None = None) -> Tensor:
        if weight_FG is not None and (_narrows(weight_FG) or isinstance(self._own, SparseRows)):
            return self._aggregation.of_kept(*self._through(weight_FG))
        sums_nF = self._aggregation.of_kept(self._own.dense(), self._halo.dense())
        return sums_nF if weight_FG is None else dense(sums_nF, weight_FG, self._aggregation.clock)

    def maximum(self, weight_FG: Tensor | None = None) -> Tensor:
        greatest_nF = maximum_of_kept(self._own.dense(), self._halo.dense(), self._aggregation)
        return greatest_nF if weight_FG is None else dense(greatest_nF, weight_FG, self._aggregation.clock)

    def project(self, weight_FG: Tensor) -> Projected:
        own_nG, halo_HG = self._through(weight_FG)

        def attending(share: float) -> Attending:
            edge_mask = self._dropout.of_edges(share, 1, self._step)
            return Attending(aggregation=self._aggregation, layer=1, step=self._step, edge_mask=edge_mask)

        return Projected(own_nG, attending, halo_HG)

    def _through(self, weight_FG: Tensor) -> tuple[Tensor, Tensor]:
        """The halo's rows are transformed here as well as at their owners: H x F x G products, no bytes."""
        clock = self._aggregation.clock
        return self._own.times(weight_FG, clock), self._halo.times(weight_FG, clock)


class Hidden:
    """The input of layers 2 .. L: what the layer before gave, fetched from its owners."""

    def __init__(
        self,
        rows_nF: Tensor,
        aggregation: Aggregation,
        mask: Mask | None,
        dropout: Dropout,
        *,
        layer: int,
        step: PassContext,
        again: bool = False,
    ) -> None:
        """Know the rows.

        Args:
            rows_nF: this rank's, before dropout.
            aggregation: the part's in-edges.
            mask: what is dropped of them, None for nothing.
            dropout: the masks of the run.
            layer: 1 .. L.
            step: the pass.
            again: whether the layer has had them in this pass already, and is made again for the backward pass.
        """
        self._rows_nF, self._aggregation, self._mask, self._dropout = rows_nF, aggregation, mask, dropout
        self._layer, self._step, self._again = layer, step, again
        self._has_travelled = False

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        rows_nF = self._rows_nF if self._mask is None else self._mask.own(self._rows_nF)
        return rows_nF if weight_FG is None else dense(rows_nF, weight_FG, self._aggregation.clock)

    def aggregate(self, weight_FG: Tensor | None = None) -> Tensor:
        aggregation, clock = self._aggregation, self._aggregation.clock
        self._travel()
        if weight_FG is not None and _narrows(weight_FG):
            product_nG, watched = self.own(weight_FG), self._watched(weight_FG)
            return aggregation(product_nG, self._layer, self._step, before_dropout_RF=watched)
        sums_nF = aggregation(self._rows_nF, self._layer, self._step, mask=self._mask)
        return sums_nF if weight_FG is None else dense(sums_nF, weight_FG, clock)

    def aggregate_by_relation(self, weights: Sequence[Tensor | None]) -> Tensor:
        """The sum over relations r of A_r D(H) W_r: float32 [n, G]. The rows travel once for all of them.

        Args:
            weights: W_r [F, G] for each relation of the graph; None for one that is left out, though not for all.
        """
        aggregation, clock = self._aggregation, self._aggregation.clock
        self._travel()
        assert aggregation.relations is not None
        sums_MF = aggregation(self._rows_nF, self._layer, self._step, mask=self._mask)
        each = torch.split(sums_MF, [len(relation.rows_m) for relation in aggregation.relations])
        width = next((weight.shape[1] for weight in weights if weight is not None), 0)
        out_nG = torch.zeros(len(self._rows_nF), width, device=sums_MF.device)
        for relation, sums_mF, weight_FG in zip(aggregation.relations, each, weights, strict=True):
            # Also where there is no sum, so that the backward pass comes by here on every rank.
            if weight_FG is not None:
                out_nG.index_add_(0, relation.rows_m, dense(sums_mF, weight_FG, clock).float())
        return out_nG

    def maximum(self, weight_FG: Tensor | None = None) -> Tensor:
        self._travel()
        greatest_nF = maximum(self._rows_nF, self._aggregation, self._layer, self._step, self._mask)
        return greatest_nF if weight_FG is None else dense(greatest_nF, weight_FG, self._aggregation.clock)

    def project(self, weight_FG: Tensor) -> Projected:
        self._travel()

        def attending(share: float) -> Attending:
            return Attending(
                aggregation=self._aggregation,
                layer=self._layer,
                step=self._step,
                edge_mask=self._dropout.of_edges(share, self._layer, self._step),
                watched=self._watched(weight_FG),
                is_again=self._again,
            )

        if self._aggregation.exchange.is_sequential:
            # Memory comes before time there.
            own_nG = dense(self._rows_nF, weight_FG, self._aggregation.clock, self._mask)
        else:
            own_nG = self.own(weight_FG)
        return Projected(own_nG, attending)

    def _watched(self, weight_FG: Tensor) -> Callable[[], Tensor]:
        """H W without dropout, of the rows that some peer needs."""
        needed, clock = self._aggregation.exchange.needed, self._aggregation.clock
        rows_nF, weight_FG = self._rows_nF.detach(), weight_FG.detach()
        return lambda: dense(needed(rows_nF), weight_FG, clock)

    def _travel(self) -> None:
        """Refuse a second exchange, whose rows would be taken for those of the first one of the epoch before."""
        if self._has_travelled:
            with found_by_every_rank():
                raise TrainingError(
                    f"layer {self._layer} of the model asks twice for its in-neighbours' rows; give the rows to "
                    "graph.rows once more and ask the second one"
                )
        self._has_travelled = True


def _narrows(weight_FG: Tensor) -> bool:
    return weight_FG.shape[1] < weight_FG.shape[0]
