"""Values that are too large for `--wire fp16`, counted where they are sent.

Rows are sent as the largest number that fp16 has, 65,504, and the receiver computes with that: it has to be known.
Gradients are sent as infinities instead, so that the loss scale is halved and the step left out, as with
`--precision fp16`; they are counted as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Saturation:
    """The values of one rank. Every rank notes the same layers and directions."""

    def __init__(self, *, rank: int, world: int, device: torch.device) -> None:
        self._rank, self._world, self._device = rank, world, device
        self._found: dict[tuple[int, str], Tensor] = {}
        """How many, and the largest absolute value: float64 [2], on the device, where nothing waits for it."""

    def note(self, layer: int, direction: str, rows: Tensor, limit: float) -> None:
        """Count the entries of `rows` beyond `limit`; a NaN, which travels as it is, is none."""
        key = layer, direction
        if key not in self._found:
            self._found[key] = torch.zeros(2, dtype=torch.float64, device=self._device)
        if not rows.numel():
            return
        size = rows.detach().abs()
        if not size.is_cuda and float(size.nan_to_num(0.0, posinf=torch.inf).amax()) <= limit:
            return
        too_large = size > limit
        found = self._found[key]
        found[0] += too_large.sum()
        found[1] = torch.maximum(found[1], torch.where(too_large, size, 0.0).amax().double())

    def count(self) -> int:
        """Of this rank, in all layers."""
        return int(sum(float(found[0]) for found in self._found.values()))

    def table(self, all_reduce: Callable[[Tensor], Tensor]) -> list[dict[str, Any]]:
        """One row a layer and direction with such values on any rank; every rank has to call it."""
        keys = sorted(self._found)
        everybody = torch.zeros(len(keys), self._world, 2, dtype=torch.float64, device=self._device)
        for row, key in enumerate(keys):
            # An infinity times nothing would be no number in a sum.
            everybody[row, self._rank] = self._found[key].clamp(max=torch.finfo(torch.float64).max)
        everybody = all_reduce(everybody).cpu()
        rows = []
        for (layer, direction), ranks in zip(keys, everybody, strict=True):
            count, largest = int(ranks[:, 0].sum()), float(ranks[:, 1].max())
            if count:
                rows.append({"layer": layer, "direction": direction, "values": count, "largest": largest})
        return rows


def in_words(rows: list[dict[str, Any]]) -> str:
    """The sentence about a table that is not empty."""
    worst = max(rows, key=lambda row: row["largest"])
    number = sum(row["values"] for row in rows)
    return (
        f"--wire fp16: {number} values beyond 65,504 so far, the largest {worst['largest']:.4g} in layer "
        f"{worst['layer']} {worst['direction']}; rows are sent as 65,504, and gradients halve the loss scale; "
        "--wire bf16 has the range of fp32"
    )
