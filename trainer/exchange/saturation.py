"""Counts the values that are too large for `--wire fp16`, where they are sent.

Rows are sent as the largest number that fp16 has, 65,504, and the receiver computes with that: users have to know.
Gradients are sent as infinities instead, so that the loss scale is halved and the step left out, as with
`--precision fp16`; they are counted as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Saturation:
    """The counts of one rank. Every rank calls `note` for the same layers and directions."""

    def __init__(self, *, rank: int, world: int, device: torch.device) -> None:
        self._rank, self._world, self._device = rank, world, device
        self._counts: dict[tuple[int, str], Tensor] = {}
        """How many, and the largest absolute value: float64 [2], on the device, where nothing waits for it."""

    def note(self, layer: int, direction: str, rows: Tensor, limit: float) -> None:
        """Count the entries of `rows` beyond `limit`; a NaN, which travels as it is, is none."""
        key = layer, direction
        if key not in self._counts:
            self._counts[key] = torch.zeros(2, dtype=torch.float64, device=self._device)
        if not rows.numel():
            return
        size = rows.detach().abs()
        if not size.is_cuda and float(size.nan_to_num(0.0, posinf=torch.inf).amax()) <= limit:
            return
        too_large = size > limit
        counts = self._counts[key]
        counts[0] += too_large.sum()
        counts[1] = torch.maximum(counts[1], torch.where(too_large, size, 0.0).amax().double())

    def count(self) -> int:
        """Of this rank, in all layers."""
        return int(torch.stack(list(self._counts.values()))[:, 0].sum()) if self._counts else 0

    def table(self, all_reduce: Callable[[Tensor], Tensor]) -> list[dict[str, Any]]:
        """One row a layer and direction with such values on any rank; every rank has to call it."""
        keys = sorted(self._counts)
        by_rank = torch.zeros(len(keys), self._world, 2, dtype=torch.float64, device=self._device)
        for row, key in enumerate(keys):
            # An infinity times nothing would be no number in a sum.
            by_rank[row, self._rank] = self._counts[key].clamp(max=torch.finfo(torch.float64).max)
        by_rank = all_reduce(by_rank).cpu()
        rows = []
        for (layer, direction), counts in zip(keys, by_rank, strict=True):
            count, largest = int(counts[:, 0].sum()), float(counts[:, 1].max())
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
