"""The input of a layer: its own rows, and sums, maxima, messages and attention over in-neighbours; D is dropout.

A (D(H) W) and (A D(H)) W are the same numbers, so each layer takes the order in which the narrower rows are summed and
sent. That decides what travels. Where the layer does not narrow, H itself does, before dropout. Where it narrows, the
product D(H) W does (7 values a row in place of 64 in Cora's last layer), with the mask of the epoch that sent it; the
staleness policies then compare H W, which has no mask in it. For a maximum and for messages H travels, for attention
always D(H) W.

The first layer is special: its input, the features, never changes and needs no gradient. So the halo's features are
fetched once and kept, and no epoch after that sends any. Without input dropout, A X is computed once, and the first
layer's sparse product is gone too. A cache may have A X already; then nothing of the features is ever sent. A
sequential exchange keeps no halo, so there the features travel like any other rows, unless A X is all that is read of
them. Sparse features stay sparse, since X W is quickly computed from them, and A X would have many more entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.exchange.halo_exchange import ComparedRows
from trainer.layers.aggregate import Aggregation
from trainer.layers.attention import Attention
from trainer.layers.halo_rows import with_halo
from trainer.layers.maximum import maximum, maximum_with_halo
from trainer.layers.messages import MessageSums
from trainer.sparse.dense import dense
from trainer.sparse.dropout import Dropout, EdgeMask, Mask
from trainer.sparse.feature_rows import DenseRows, FeatureRows, SparseRows
from trainer.sparse.relation_edges import RelationEdges


class LayerInput(Protocol):
    """The input H [n, F] of one layer in one pass."""

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        """D(H) W: this rank's own rows, transformed by the weight [F, G]: [n, G]. Without a weight D(H)."""

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        """A D(H) W: the neighbour sums, transformed by the weight [F, G]: [n, G]. Without a weight A D(H).

        With `edge_weight` U [D, G] each in-neighbour's row has the D features of its edge beside it
        (`--edge-features`): A [D(H) F] [W; U] = A D(H) W + A F U.
        """

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        """The greatest of D(H) among a node's in-neighbours, feature by feature, 0 where there are none; [n, F], or
        transformed by the weight [F, G]: [n, G]. With `edge_weight` U [D, G] likewise of rows with their edges'
        features, [D(H) F] [W; U]."""

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:
        """The sum over in-edges of relu(D(h_j) + f_ij U + b), edge weights left aside: [n, F], or transformed by the
        weight [F, G]: [n, G].

        Args:
            edge_weight: U [D, F], of the features of edges (`--edge-features`).
            bias_F: b.
            weight_FG: None for the sums themselves.
        """

    def project(self, weight_FG: Tensor) -> Projected:
        """D(H) W as what attention is computed over."""


@dataclass(frozen=True, slots=True)
class Projected:
    """Rows that went through a dense product, over which attention is computed."""

    own_nG: Tensor
    """This rank's."""
    _attention: Callable[[float], Attention]
    """From the share of the coefficients that is dropped to the layer's attention."""
    _halo_HG: Tensor | None = None
    """The halo's where they are here."""

    def attend(self, terms: Tensor, vector_hF: Tensor, *, dropout: float, edge_weight: Tensor | None = None) -> Tensor:
        """The mean of these rows over a node's in-neighbours and itself, weighted by attention: [n, heads F].

        Args:
            terms: what each of this rank's nodes adds as a destination: [n, heads] for GAT's scores, [n, heads, F] for
                GATv2's (`trainer.sparse.attention_scores`).
            vector_hF: the attention vector of each head.
            dropout: the share of the coefficients that is zeroed in training.
            edge_weight: what takes an edge's D features (`--edge-features`) to their part in its scores: [D, heads] for
                GAT's, [D, heads F] for GATv2's; None where they do not count.
        """
        return self._attention(dropout)(self.own_nG, terms, vector_hF, self._halo_HG, edge_weight)


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
        """Fetch the halo's features, and without dropout compute the sums.

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
        self._was_just_fetched = False
        if sums_nF is not None:
            return
        assert rows is not None
        if not aggregation.exchange.is_sequential:
            self._halo = aggregation.exchange.fetch_features(rows)
            self._was_just_fetched = True
        if not share and aggregation.sums is not None and isinstance(rows, DenseRows):
            if self._halo is None:
                self._sums_nF = aggregation(rows.rows_nF, 1, PassContext.evaluation(1))
                self._was_just_fetched = True
            else:
                self._sums_nF = aggregation.with_halo(rows.rows_nF, self._halo.dense())
                self._halo = None

    def of_pass(self, context: PassContext) -> LayerInput:
        """The first layer's input in one pass over the graph."""
        if not self._was_just_fetched and (self._sums_nF is not None or self._halo is not None):
            self._aggregation.exchange.skip_constant(self._width, layer=1)
        self._was_just_fetched = False
        if self._sums_nF is None:
            return self._in_full(context)
        return _FeatureSums(self._rows, self._sums_nF, self._aggregation, lambda: self._in_full(context))

    @property
    def _width(self) -> int:
        if self._rows is not None:
            return self._rows.width
        assert self._sums_nF is not None
        return self._sums_nF.shape[1]

    def again(self, context: PassContext) -> LayerInput:
        """The same once more in one pass."""
        return self._in_full(context, again=True)

    def _in_full(self, context: PassContext, *, again: bool = False) -> LayerInput:
        """The first layer's input where more than the sums is read."""
        assert self._rows is not None
        aggregation, exchange = self._aggregation, self._aggregation.exchange
        mask = self._dropout.mask(self._share, 1, self._rows.width, context)
        if exchange.is_sequential:
            return Hidden(self._rows.dense(), aggregation, mask, self._dropout, layer=1, context=context, again=again)
        if self._halo is None:
            self._halo = exchange.fetch_features(self._rows)
        own, halo = self._rows, self._halo
        if mask is not None:
            own, halo = own.dropped(mask.table, mask.starts_n), halo.dropped(mask.table, mask.starts_H)
        return _FeaturesWithHalo(own, halo, aggregation, self._dropout, context)


@dataclass(frozen=True, slots=True)
class _FeatureSums:
    """The first layer's input where A X is known."""

    _own: FeatureRows | None
    """X; None where no layer reads a row by itself."""
    _sums_nF: Tensor
    _aggregation: Aggregation
    _in_full: Callable[[], LayerInput]
    """Makes an input that has the halo's features too."""

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        assert self._own is not None
        return self._own.dense() if weight_FG is None else self._own.times(weight_FG, self._aggregation.clock)

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        sums_nG = _product(self._sums_nF, weight_FG, self._aggregation.clock)
        return with_edge_sums(sums_nG, self._aggregation, edge_weight)

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        return self._in_full().maximum(weight_FG, edge_weight=edge_weight)

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:
        return self._in_full().messages(edge_weight, bias_F, weight_FG)

    def project(self, weight_FG: Tensor) -> Projected:
        return self._in_full().project(weight_FG)


@dataclass(frozen=True, slots=True)
class _FeaturesWithHalo:
    """The first layer's input where the halo's features are kept.

    The halo's rows are multiplied by the weight here as well as at their owners: H x F x G products, no bytes.
    """

    _own: FeatureRows
    _halo: FeatureRows
    _aggregation: Aggregation
    _dropout: Dropout
    _context: PassContext

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        return self._own.dense() if weight_FG is None else self._own.times(weight_FG, self._aggregation.clock)

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        aggregation, clock = self._aggregation, self._aggregation.clock
        if weight_FG is not None and (_narrows(weight_FG) or isinstance(self._own, SparseRows)):
            sums_nG = aggregation.with_halo(self._own.times(weight_FG, clock), self._halo.times(weight_FG, clock))
        else:
            sums_nG = _product(aggregation.with_halo(self._own.dense(), self._halo.dense()), weight_FG, clock)
        return with_edge_sums(sums_nG, aggregation, edge_weight)

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        max_nF = maximum_with_halo(self._own.dense(), self._halo.dense(), self._aggregation)
        return with_edge_maxima(max_nF, weight_FG, self._aggregation, edge_weight)

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:
        of_pass = MessageSums(aggregation=self._aggregation, layer=1, context=self._context, has_constant_halo=True)
        sums_nF = of_pass(self._own.dense(), self._halo.dense(), edge_weight, bias_F)
        return _product(sums_nF.to(self._own.dense().dtype), weight_FG, self._aggregation.clock)

    def project(self, weight_FG: Tensor) -> Projected:
        def attention(share: float) -> Attention:
            edge_mask = self._dropout.of_edges(share, 1, self._context)
            return Attention(aggregation=self._aggregation, layer=1, context=self._context, edge_mask=edge_mask)

        clock = self._aggregation.clock
        return Projected(self._own.times(weight_FG, clock), attention, self._halo.times(weight_FG, clock))


@dataclass(slots=True)
class Hidden:
    """The input of layers 2 .. L: what the layer before gave, fetched from its owners."""

    rows_nF: Tensor
    """This rank's, before dropout."""
    aggregation: Aggregation
    mask: Mask | None
    """What is dropped of the rows, None for nothing."""
    dropout: Dropout
    layer: int
    """1 .. L"""
    context: PassContext
    again: bool = False
    """Whether the layer has had them in this pass already, and is computed again for the backward pass."""
    _is_exchanged: bool = False

    def own(self, weight_FG: Tensor | None = None) -> Tensor:
        if weight_FG is not None:
            return dense(self.rows_nF, weight_FG, self.aggregation.clock, self.mask)
        return self.rows_nF if self.mask is None else self.mask.own(self.rows_nF)

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        if weight_FG is not None and _narrows(weight_FG):
            self._exchange_once()
            product_nG, compared = self.own(weight_FG), self._compared(weight_FG)
            sums_nG = self.aggregation(product_nG, self.layer, self.context, compared=compared)
        else:
            sums_nG = _product(self._sums(), weight_FG, self.aggregation.clock)
        return with_edge_sums(sums_nG, self.aggregation, edge_weight)

    def aggregate_by_relation(self, weights: Sequence[Tensor | None]) -> Tensor:
        """The sum over relations r of A_r D(H) W_r: float32 [n, G]. The rows travel once for all of them.

        Args:
            weights: W_r [F, G] for each relation of the graph; None for one that is left out, though not for all.
        """
        sums_MF, relations = self._sums(), self.aggregation.relations
        assert relations is not None
        by_relation = torch.split(sums_MF, [len(relation.rows_m) for relation in relations])
        width = next((weight.shape[1] for weight in weights if weight is not None), 0)
        out_nG = torch.zeros(len(self.rows_nF), width, device=sums_MF.device)
        for relation, sums_mF, weight_FG in zip(relations, by_relation, weights, strict=True):
            # Also where there is no sum, so that the backward pass runs through here on every rank.
            if weight_FG is not None:
                out_nG.index_add_(0, relation.rows_m, dense(sums_mF, weight_FG, self.aggregation.clock).float())
        return out_nG

    def with_halo(self) -> Tensor:
        """D(H) of this rank's rows, and below them of the halo's: [n + H, F]."""
        self._exchange_once()
        rows = with_halo(self.rows_nF, self.aggregation.exchange, self.layer, self.context, again=self.again)
        return rows if self.mask is None else self.mask.with_halo(rows)

    def mask_of_relations(self, edges: RelationEdges, share: float) -> EdgeMask | None:
        """What is dropped of attention coefficients, by the rows and columns of `edges`; None for nothing."""
        mask = self.dropout.of_edges(share, self.layer, self.context)
        if mask is None:
            return None
        # The same two nodes in another relation are another edge.
        numbers = zip(edges.numbers, edges.destinations, strict=True)
        ids = [mask.ids_n[rows_m] + number * self.dropout.num_nodes for number, rows_m in numbers]
        everyone = torch.cat([mask.ids_n, mask.halo_ids_H])
        return replace(mask, ids_n=torch.cat(ids), halo_ids_H=everyone[torch.cat(list(edges.sources))])

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        self._exchange_once()
        max_nF = maximum(self.rows_nF, self.aggregation, self.layer, self.context, self.mask)
        return with_edge_maxima(max_nF, weight_FG, self.aggregation, edge_weight)

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:
        self._exchange_once()
        of_pass = MessageSums(aggregation=self.aggregation, layer=self.layer, context=self.context, mask=self.mask)
        sums_nF = of_pass(self.rows_nF, None, edge_weight, bias_F)
        return _product(sums_nF.to(self.rows_nF.dtype), weight_FG, self.aggregation.clock)

    def project(self, weight_FG: Tensor) -> Projected:
        self._exchange_once()

        def attention(share: float) -> Attention:
            return Attention(
                aggregation=self.aggregation,
                layer=self.layer,
                context=self.context,
                edge_mask=self.dropout.of_edges(share, self.layer, self.context),
                compared=self._compared(weight_FG),
                is_recomputed=self.again,
            )

        if self.aggregation.exchange.is_sequential:
            # Memory comes before time there.
            own_nG = dense(self.rows_nF, weight_FG, self.aggregation.clock, self.mask)
        else:
            own_nG = self.own(weight_FG)
        return Projected(own_nG, attention)

    def _sums(self) -> Tensor:
        """A D(H)."""
        self._exchange_once()
        return self.aggregation(self.rows_nF, self.layer, self.context, mask=self.mask)

    def _compared(self, weight_FG: Tensor) -> ComparedRows:
        """H W without dropout, of the rows that some peer needs."""
        needed, clock = self.aggregation.exchange.needed, self.aggregation.clock
        rows_nF, weight_FG = self.rows_nF.detach(), weight_FG.detach()
        return lambda: dense(needed(rows_nF), weight_FG, clock)

    def _exchange_once(self) -> None:
        """Refuse a second exchange, whose rows would be taken for those of the first one of the epoch before."""
        if self._is_exchanged:
            with found_by_every_rank():
                raise TrainingError(
                    f"layer {self.layer} of the model asks twice for its in-neighbours' rows; give the rows to "
                    "graph.rows once more and ask the second one"
                )
        self._is_exchanged = True


def _product(rows_nF: Tensor, weight_FG: Tensor | None, clock: Clock) -> Tensor:
    """rows W, or without a weight the rows."""
    return rows_nF if weight_FG is None else dense(rows_nF, weight_FG, clock)


def with_edge_sums(sums_nG: Tensor, aggregation: Aggregation, edge_weight: Tensor | None) -> Tensor:
    """The sums of rows, and those of the features of edges, transformed by their weight if there is one."""
    if edge_weight is None:
        return sums_nG
    return dense(aggregation.edge_sums_nD, edge_weight, aggregation.clock).add_(sums_nG)


def with_edge_maxima(
    max_nF: Tensor, weight_FG: Tensor | None, aggregation: Aggregation, edge_weight: Tensor | None
) -> Tensor:
    """The maxima transformed by the weight, with those of the features of edges likewise."""
    max_nG = _product(max_nF, weight_FG, aggregation.clock)
    if edge_weight is None:
        return max_nG
    return dense(aggregation.edge_maxima_nD, edge_weight, aggregation.clock).add_(max_nG)


def _narrows(weight_FG: Tensor) -> bool:
    return weight_FG.shape[1] < weight_FG.shape[0]
