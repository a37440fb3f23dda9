"""Makes the first layer's input: the features, sums of them that the cache has, or the features of each node type."""

from __future__ import annotations

import torch

from trainer.base.precision import TYPES
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.layers.aggregate import Aggregation
from trainer.layers.inputs import Features
from trainer.layers.sums import reads_own_rows, sums_suit
from trainer.layers.typed_features import FirstInput, TypedFeatures
from trainer.sparse.dropout import Dropout
from trainer.sparse.feature_rows import FeatureRows, feature_rows


def features_of(
    options: Options,
    cache: Cache,
    part: Part,
    aggregation: Aggregation,
    dropout: Dropout,
    device: torch.device,
    *,
    sparse: bool,
) -> FirstInput:
    """The first layer's input of one part; every rank has to call it, when the process group is there.

    With the cache's sums no feature is sent, and GCN, which never reads a row by itself, reads none.
    """
    data_type = TYPES[options.precision]
    may_be_sparse = not options.dense_features
    if part.typed is not None:
        of_types = [of.x_kF for of in part.typed.types]
        return TypedFeatures(of_types, device, data_type, aggregation.clock, may_be_sparse=may_be_sparse)
    if cache.learns_rows_for(options.model):
        return TypedFeatures([None], device, data_type, aggregation.clock, may_be_sparse=may_be_sparse)
    sums_nF = None
    if part.aggregated_nF is not None and sums_suit(options, cache):
        sums_nF = part.aggregated_nF.to(device, data_type)
    needs_rows = sums_nF is None or reads_own_rows(options)
    rows: FeatureRows | None = None
    if needs_rows and part.x_nF is not None:
        rows = feature_rows(part.x_nF, device, data_type, sparse=sparse)
    return Features(rows, aggregation, dropout, share=options.first_dropout, sums_nF=sums_nF)
