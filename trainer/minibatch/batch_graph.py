"""The graph of a batch, which models are called with as with `trainer.layers.graph.Graph`.

Layer l of L reads the rows of the nodes that were there after hop L + 1 - l, and computes those of the nodes that were
there before it: fewer rows in each layer, at last the seeds alone. The latter are its own rows, the nodes that the hop
has added are its halo, and all of them are here: nothing is exchanged. Masks of dropout belong to nodes, as on the
whole graph, so that they are the same on any number of ranks.

Letters: n nodes that a layer computes, H those that its hop has added, T node types, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.to_device import to_device
from trainer.data.csr import Csr
from trainer.data.part import Part
from trainer.data.typed import RelationSums, Typed, TypeRows
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange
from trainer.layers.aggregate import Aggregation
from trainer.layers.inputs import LayerInput
from trainer.layers.typed_features import TypedFeatures
from trainer.minibatch.column_input import ColumnFeatures
from trainer.minibatch.control_variates import ControlledRows, LayerHistory
from trainer.minibatch.feature_rows import stretches
from trainer.minibatch.rows_of_batch import RowsOfBatch
from trainer.sparse.dropout import Dropout

_ADDED = 1
"""What stands for a peer: the source of the rows that the hop has added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLayer:
    """What one layer of a batch computes with."""

    aggregation: Aggregation
    dropout: Dropout
    order: Tensor | None
    """int64 [n + H]: the place of each row, own ones first, in the rows of the layer before; None where they are so"""
    counts: tuple[int, int]
    """n and H"""
    roots: Aggregation | None = None
    """The same edges with weights for noise that is independent from edge to edge"""


class BatchGraph:
    """One pass over the graph of a batch, with the members of `trainer.layers.graph.Graph`."""

    last_rows_nF: Tensor | None = None

    def __init__(
        self,
        features: Tensor | TypedFeatures | ColumnFeatures,
        layers: Sequence[BatchLayer],
        context: PassContext,
        *,
        first_share: float,
        share: float,
        stored_type: torch.dtype,
        histories: Sequence[LayerHistory] | None = None,
        means: BatchGraph | None = None,
    ) -> None:
        """Begin a pass.

        Args:
            features: [n + H, F] of the first layer; with node types those of each type; or some columns of all ranks'.
            layers: the first one first.
            context: the pass; its epoch is the number of the step, which decides the masks.
            first_share: of the entries of layer 1's input that is zeroed.
            share: of those of the rows after that.
            stored_type: what rows are kept and multiplied in.
            histories: of each layer, for control variates; None without.
            means: with these, the pass without dropout over the same batch, if this one has dropout.
        """
        self._layers, self._context, self._stored_type = layers, context, stored_type
        self._histories, self._means = histories, means
        self._controlled: list[ControlledRows] = []
        self._first_share, self._share = first_share, share
        self.by_type = features if isinstance(features, TypedFeatures) else None
        self._layer = 0
        if isinstance(features, Tensor):
            self.features: LayerInput = self.rows(features)
        elif isinstance(features, ColumnFeatures):
            self._layer = 1
            self.features = features.of_pass(first_share, context)

    def rows(self, rows_nF: Tensor) -> RowsOfBatch:
        """The next layer's input: what the layer before gave."""
        self._layer += 1
        rows = rows_nF.to(self._stored_type)
        is_beyond = self._layer > len(self._layers)
        layer = self._layers[min(self._layer, len(self._layers)) - 1]
        if not is_beyond and layer.order is not None:
            rows = rows.index_select(0, layer.order)
        share = self._share if self._layer > 1 else self._first_share
        mask = layer.dropout.mask(share, self._layer, rows.shape[1], self._context)
        halo_HF: Tensor | None = None
        if is_beyond:
            rows = rows if mask is None else mask.own(rows)
        else:
            rows, halo_HF = torch.split(rows if mask is None else mask.with_halo(rows), list(layer.counts))
        found = RowsOfBatch(
            rows_nF=rows,
            aggregation=layer.aggregation,
            mask=None,
            dropout=layer.dropout,
            layer=self._layer,
            context=self._context,
            halo_HF=halo_HF,
        )
        return found if self._histories is None or is_beyond else self._with_history(found, self._histories, layer)

    def _with_history(self, rows: RowsOfBatch, histories: Sequence[LayerHistory], layer: BatchLayer) -> ControlledRows:
        number = self._layer - 1
        found = ControlledRows(
            **{each.name: getattr(rows, each.name) for each in fields(rows)},
            history=histories[number],
            means=None if self._means is None else self._means._controlled[number],
            roots=layer.roots,
        )
        self._controlled.append(found)
        return found

    def through(self, layer: Callable[[LayerInput], Tensor], rows_nF: Tensor | None) -> Tensor:
        """What `layer` makes of the next layer's input, or of the features for None."""
        return layer(self.features if rows_nF is None else self.rows(rows_nF))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """What the batches of a run have in common."""

    type_names: Sequence[str]
    first_ids: Sequence[int]
    """what is added to the numbers of each type's nodes to count those of all types"""
    relation_names: Sequence[str]
    target: str
    is_typed: bool
    """whether models distinguish types"""
    sums: str | None
    num_nodes: int
    """of the whole graph"""
    seed: int
    communicator: Communicator

    def layers(self, arrays: Mapping[str, Tensor]) -> list[BatchLayer]:
        """The layers of a batch.

        Args:
            arrays: of graphprep's sampler (graphprep/sampling/batches.py).
        """
        counts_LT: list[list[int]] = arrays["counts"].tolist()
        ids = [arrays[f"ids/{name}"] + first for name, first in zip(self.type_names, self.first_ids, strict=True)]
        layers = []
        for number, (own_T, all_T) in enumerate(zip(counts_LT[-2::-1], counts_LT[:0:-1], strict=True), start=1):
            own_ids = torch.cat([of_type[:count] for of_type, count in zip(ids, own_T, strict=True)])
            halo_ids = torch.cat([of_type[count:end] for of_type, count, end in zip(ids, own_T, all_T, strict=True)])
            layers.append(
                BatchLayer(
                    aggregation=self._aggregation(arrays, f"layer/{number}", own_ids, halo_ids, own_T),
                    roots=self._aggregation(arrays, f"layer/{number}", own_ids, halo_ids, own_T, weights="roots")
                    if f"layer/{number}/own_roots" in arrays
                    else None,
                    dropout=Dropout(
                        to_device(own_ids, self.communicator.device),
                        to_device(halo_ids, self.communicator.device),
                        num_nodes=self.num_nodes,
                        seed=self.seed,
                    ),
                    order=self._order(own_T, all_T),
                    counts=(len(own_ids), len(halo_ids)),
                )
            )
        return layers

    def first_layer(self, arrays: Mapping[str, Tensor]) -> BatchLayer:
        """Layer 1 of another rank's batch, of one node type, from its edges, `ids` and `sizes` of `ColumnBatches`."""
        computed, nodes = arrays["sizes"][:2].tolist()
        [name] = self.type_names
        counts = torch.tensor([[computed], [nodes]])
        [layer] = self.layers({**arrays, "counts": counts, f"ids/{name}": arrays["ids"].long()})
        return layer

    def _order(self, own_T: Sequence[int], all_T: Sequence[int]) -> Tensor | None:
        if len(all_T) == 1:
            return None
        places = [torch.arange(stretch.start, stretch.stop) for stretch in stretches(all_T)]
        parts = [torch.split(place, [own, len(place) - own]) for place, own in zip(places, own_T, strict=True)]
        order = torch.cat([own for own, _ in parts] + [added for _, added in parts])
        return to_device(order, self.communicator.device)

    def _aggregation(
        self,
        arrays: Mapping[str, Tensor],
        prefix: str,
        own_ids: Tensor,
        halo_ids: Tensor,
        own_T: Sequence[int],
        *,
        weights: str = "weights",
    ) -> Aggregation:
        own, halo = (
            Csr(
                indptr=arrays[f"{prefix}/{side}_indptr"],
                indices=arrays[f"{prefix}/{side}_indices"],
                weights=arrays.get(f"{prefix}/{side}_{weights}"),
                features=arrays.get(f"{prefix}/{side}_features"),
                num_columns=len(ids),
            )
            for side, ids in (("own", own_ids), ("halo", halo_ids))
        )
        typed = None
        if self.is_typed:
            typed = self._typed(arrays[f"{prefix}/rows"], arrays[f"{prefix}/rows_per_relation"].tolist(), own_T)
        return Aggregation(
            _part(own, halo, own_ids, halo_ids, typed),
            _all_rows_here(len(halo_ids)),
            self.communicator,
            sums=self.sums,
            weighted_edges=(own, {_ADDED: halo}),
            weighs_messages=self.sums is None,
        )

    def _typed(self, rows_M: Tensor, rows_per_relation: Sequence[int], own_T: Sequence[int]) -> Typed:
        types = [
            TypeRows(name=name, rows=rows, first_id=first_id, num_nodes=0, x_kF=None)
            for name, rows, first_id in zip(self.type_names, stretches(own_T), self.first_ids, strict=True)
        ]
        relations = [
            RelationSums(name=name, rows_m=rows_m)
            for name, rows_m in zip(self.relation_names, torch.split(rows_M, list(rows_per_relation)), strict=True)
        ]
        return Typed(types=types, relations=relations, target=next(one for one in types if one.name == self.target))


def _part(own: Csr, halo: Csr, own_ids: Tensor, halo_ids: Tensor, typed: Typed | None) -> Part:
    """One layer's rows and edges in the form of a part with halo rows."""
    nothing = torch.zeros(0, dtype=torch.bool)
    return Part(
        number=0,
        ids_n=own_ids,
        halo_ids={_ADDED: halo_ids},
        x_nF=None,
        aggregated_nF=None,
        y=nothing,
        train_n=nothing,
        val_n=nothing,
        test_n=nothing,
        degree_n=nothing,
        local=own,
        remote={_ADDED: halo},
        send_rows={},
        typed=typed,
    )


def _all_rows_here(num_halo: int) -> Exchange:
    """What an aggregation reads of an exchange where the halo's rows are here: one round, which fetches nothing."""
    one = SimpleNamespace(columns=slice(0, num_halo))
    here = SimpleNamespace(num_halo=num_halo, sources=[[_ADDED]], rounds=[one], is_sequential=False)
    return cast(Exchange, here)
