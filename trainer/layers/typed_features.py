"""The features of each node type, of which a model that tells types apart makes the rows that its first layer reads.

They have another width in each type, and are multiplied by weights before anything is sent; so what travels for layer 1
are the products, as wide as any layer, and in every epoch, since weights change.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.base.traffic_log import Clock
from trainer.data.typed import Typed
from trainer.layers.inputs import Features
from trainer.sparse.feature_rows import feature_rows, is_sparse


class TypedFeatures:
    """This rank's own."""

    def __init__(
        self, typed: Typed, device: torch.device, data_type: torch.dtype, clock: Clock, *, may_be_sparse: bool
    ) -> None:
        """Bring them to where products are made, in the type that rows are stored in.

        Args:
            typed: with the features.
            device: where products are made.
            data_type: what rows are stored in.
            clock: what measures products.
            may_be_sparse: whether features of which few are not 0 are held by these.
        """
        self._clock = clock
        self._rows = [
            None
            if of.x_kF is None
            else feature_rows(of.x_kF, device, data_type, by_entries=may_be_sparse and is_sparse(of.x_kF))
            for of in typed.types
        ]

    def products(self, weights: Sequence[Tensor]) -> list[Tensor | None]:
        """The features of each type times a weight: float32 [k, G]; None for a type without features.

        Args:
            weights: [F of the type, G] for each type that has features.
        """
        these = iter(weights)
        return [None if rows is None else rows.times(next(these), self._clock).float() for rows in self._rows]


FirstInput = Features | TypedFeatures
"""What a network begins with."""
