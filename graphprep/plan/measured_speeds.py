"""The speed of each rank by what it computed and how long that took, and what other parts would gain.

Ranks of one topology may turn out slower than it says: a shared GPU, a throttled one, a busy machine. A rank's seconds
of computing are taken to be its work (the cost model of `graphprep.traffic`) over its speed; ROC (Jia et al., MLSys
2020) fits a linear model of the same kind online. Medians over epochs leave single slow ones out.

Letters: P ranks, T epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphprep.topology import Topology

DIGITS = 3
"""Of a speed: more would make other caches of the same measurement."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredSpeeds:
    """Speeds, and what they mean for the present parts."""

    speed_P: NDArray[np.float64]
    """relative; the fastest rank has 1"""
    seconds_P: NDArray[np.float64]
    """of computing in an epoch, medians"""
    balanced_seconds: float
    """of computing in an epoch if every rank had its share of the work"""

    @classmethod
    def of(cls, work_P: NDArray[np.float64], seconds_TP: NDArray[np.float64]) -> MeasuredSpeeds:
        """The speeds.

        Args:
            work_P: what each rank computes in an epoch, above 0.
            seconds_TP: that each took for it, above 0.
        """
        seconds_P = np.median(seconds_TP, axis=0)
        speed_P = work_P / seconds_P
        return cls(
            speed_P=np.maximum(np.round(speed_P / speed_P.max(), DIGITS), 10.0**-DIGITS),
            seconds_P=seconds_P,
            balanced_seconds=float(work_P.sum() / speed_P.sum()),
        )

    @property
    def gain_seconds(self) -> float:
        """That an epoch would be shorter, at most: all ranks wait for the slowest."""
        return float(self.seconds_P.max() - self.balanced_seconds)

    @property
    def imbalance(self) -> float:
        """Seconds of the slowest rank over those with balanced parts."""
        return float(self.seconds_P.max() / self.balanced_seconds)

    def topology(self, before: Topology) -> Topology:
        """The machine with these speeds."""
        ranks = (replace(rank, speed=float(speed)) for rank, speed in zip(before.ranks, self.speed_P, strict=True))
        return replace(before, ranks=tuple(ranks))
