"""Seconds over bytes as a straight line: what a pair of ranks takes for a message of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_BYTES_PER_S, LEAST_BYTES_PER_S = 1e15, 1e3
"""The limits of a topology file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """seconds = latency_s + bytes / bytes_per_s, with both directions at once."""

    latency_s: float
    bytes_per_s: float
    """In each direction."""

    def seconds(self, num_bytes: float) -> float:
        """For one message of `num_bytes`."""
        return self.latency_s + num_bytes / self.bytes_per_s

    def rate(self, num_bytes: float) -> float:
        """Bytes a second that messages of `num_bytes`, one after the other, get through."""
        return num_bytes / self.seconds(num_bytes)


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """The line through the medians of several message sizes, by least squares of the relative deviations.

    Relative, because a microsecond is nothing for the largest message and everything for the smallest. A latency that
    would be negative is 0. Seconds that do not grow with the bytes say nothing of the bandwidth but that it is no less
    than that of the largest message.

    Args:
        sizes: bytes, at least one, above 0.
        seconds: the median for each size, above 0.
    """
    latency = slowness = -1.0
    if len(set(sizes)) > 1:
        slowness, latency = map(float, np.polyfit(sizes, seconds, 1, w=1 / np.asarray(seconds)))
    if latency < 0:
        rates = np.asarray(sizes) / seconds
        latency, slowness = 0.0, float(rates.sum() / (rates**2).sum())
    if slowness <= 0:
        largest, slowest = max(zip(sizes, seconds, strict=True))
        latency, slowness = min(seconds), slowest / largest
    return Line(latency_s=latency, bytes_per_s=min(MOST_BYTES_PER_S, max(LEAST_BYTES_PER_S, 1 / slowness)))
