"""The features of each node type, of which a model that tells types apart makes the rows that its first layer reads.

They have another width in each type, and are multiplied by weights before anything is sent; so what travels for layer 1
are the products, as wide as any layer, and in every epoch, since weights change.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.accounting import Clock
from trainer.dense import dense
from trainer.inputs import Features
from trainer.typed import Typed


class TypedFeatures:
    """This rank's own."""

    def __init__(self, typed: Typed, device: torch.device, data_type: torch.dtype, clock: Clock) -> None:
        """Bring them to where products are made, in the type that rows are stored in."""
        self._clock = clock
        self._x = [None if of.x_kF is None else of.x_kF.to(device, data_type) for of in typed.types]

    def products(self, weights: Sequence[Tensor]) -> list[Tensor | None]:
        """The features of each type times a weight: float32 [k, G]; None for a type without features.

        Args:
            weights: [F of the type, G] for each type that has features.
        """
        these = iter(weights)
        return [None if x_kF is None else dense(x_kF, next(these), self._clock).float() for x_kF in self._x]


FirstInput = Features | TypedFeatures
"""What a network begins with."""
