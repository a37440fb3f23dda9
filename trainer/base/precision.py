"""The type in which rows are stored and multiplied, and the scale of the loss under fp16.

Rows of nodes (features, neighbour sums, outputs of layers, and their gradients) are stored in the type of
`--precision`. Weights, their gradients, Adam, normalisation and the loss stay fp32, and so do all sums over edges: a
plain fp16 sum of ones stops growing at 2048.

fp16 loses what is below 6e-8, and the gradient of a mean over T training nodes is of the order of 1/T. So the loss is
multiplied by a power of two, and the sum of the gradients is divided by it before the optimiser's step. It begins at
16 T, and is halved after a sum that is not finite; that step is left out on all ranks. bf16 has the range of fp32.
"""

from __future__ import annotations

import torch

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class LossScale:
    """The factor on the loss of one run: a power of two; 1 if fp16 is not used."""

    def __init__(self, *, num_train: int, is_needed: bool) -> None:
        """Begin with a scale that suits the loss of `num_train` nodes."""
        self.factor = float(1 << (16 * num_train - 1).bit_length()) if is_needed else 1.0

    def can_shrink(self) -> bool:
        """Whether the scale may be the cause of a sum that is not finite."""
        return self.factor > 1.0

    def shrink(self) -> None:
        """Halve the scale."""
        self.factor /= 2
