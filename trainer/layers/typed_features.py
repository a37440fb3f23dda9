"""The features of each node type, from which a typed model makes the rows that its first layer reads.

Their width differs between types, and they are multiplied by weights before anything is sent; so the products are sent
for layer 1, as wide as any layer, and in every epoch, since weights change.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.base.traffic_log import Clock
from trainer.layers.inputs import Features
from trainer.sparse.feature_rows import feature_rows, is_sparse


class TypedFeatures:
    """The features of this rank's nodes."""

    def __init__(
        self,
        of_types: Sequence[Tensor | None],
        device: torch.device,
        data_type: torch.dtype,
        clock: Clock,
        *,
        may_be_sparse: bool,
    ) -> None:
        """Move them to the device, in the type that rows are stored in.

        Args:
            of_types: the features of each type, in the cache's own type; None for a type that has none.
            may_be_sparse: whether features of which few entries are not 0 are kept as sparse rows.
        """
        self._clock = clock
        self._rows = [
            None if x_kF is None else feature_rows(x_kF, device, data_type, sparse=may_be_sparse and is_sparse(x_kF))
            for x_kF in of_types
        ]

    def products(self, weights: Sequence[Tensor]) -> list[Tensor | None]:
        """The features of each type times a weight: float32 [k, G]; None for a type without features.

        Args:
            weights: [F of the type, G] for each type that has features.
        """
        remaining = iter(weights)
        return [None if rows is None else rows.times(next(remaining), self._clock).float() for rows in self._rows]


FirstInput = Features | TypedFeatures
"""The input of a network."""
