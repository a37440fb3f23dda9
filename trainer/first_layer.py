"""What the first layer begins with: sums of features that the cache holds, or the features themselves, or by type."""

from __future__ import annotations

import torch

from trainer.aggregate import Aggregation
from trainer.cache import Cache
from trainer.dropout import Dropout
from trainer.inputs import Features
from trainer.options import Options
from trainer.part import Part
from trainer.precision import TYPES
from trainer.sums import reads_own_rows, sums_suit
from trainer.typed_features import FirstInput, TypedFeatures


def features_of(
    options: Options, cache: Cache, part: Part, aggregation: Aggregation, dropout: Dropout, device: torch.device
) -> FirstInput:
    """The first layer's input of one part; every rank has to call it, when the ranks are connected.

    With the cache's sums no feature is sent, and GCN, which never looks at a row by itself, reads none.
    """
    data_type = TYPES[options.precision]
    if part.typed is not None:
        return TypedFeatures(part.typed, device, data_type, aggregation.clock)
    sums_nF = None
    if part.aggregated_nF is not None and sums_suit(options, cache):
        sums_nF = part.aggregated_nF.to(device, data_type)
    needs_rows = sums_nF is None or reads_own_rows(options)
    x_nF = part.x_nF.to(device, data_type) if needs_rows and part.x_nF is not None else None
    return Features(x_nF, aggregation, dropout, share=options.first_dropout, sums_nF=sums_nF)
