"""What comes back from the partitioner: the methods that were tried, and the assignment that won."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.fallback import Fallback
from graphprep.traffic import Quality, Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One method that was tried."""

    method: str
    seconds: float
    """how long it took"""
    assignment: NDArray[np.int32] | None = None
    """int32 [N], or None where the method failed"""
    failure: str | None = None

    def summary(self, quality: Quality | None) -> dict[str, Any]:
        """A row for reports."""
        row: dict[str, Any] = {"method": self.method, "seconds": round(self.seconds, 3)}
        if quality is not None:
            row |= {
                "bottleneck_seconds": quality.bottleneck_seconds,
                "sum_seconds": quality.sum_seconds,
                "step_seconds": quality.step_seconds,
                "cut_edges": quality.cut_edges,
                "halo_rows": quality.halo_rows,
                "memory_bytes_max": max(rank.memory_bytes for rank in quality.ranks),
                "broken_limits": [limit.what for limit in quality.limits if not limit.met],
            }
            if quality.batches is not None:
                row |= {
                    "batch_rows": quality.batches.rows,
                    "batch_bottleneck_seconds": quality.batches.bottleneck_seconds,
                }
        if self.failure:
            row["failure"] = self.failure
        return row


REFERENCES = ("metis", "metis-balanced", "metis-recursive", "metis-volume", "metis-hierarchical")
"""The starts whose figures stand for METIS, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The assignment that won and how it was judged."""

    assignment: NDArray[np.int32]
    """int32 [N], the part of each node"""
    traffic: Traffic
    quality: Quality
    method: str = ""
    tried: tuple[dict[str, Any], ...] = ()
    """one row a candidate, as `Candidate.summary` makes it"""
    fallback: Fallback | None = None
    """None where a method that was asked for gave the parts"""

    def reference(self, *, is_mapped: bool) -> dict[str, Any] | None:
        """METIS' own parts, before refinement, to compare the result with; None where no start of METIS was made.

        Args:
            is_mapped: whether starts were mapped to ranks.
        """
        starts = {row["method"]: row for row in self.tried if "step_seconds" in row}
        name = next((name for name in REFERENCES if name in starts), None)
        return None if name is None else {**starts[name], "is_mapped": is_mapped}
