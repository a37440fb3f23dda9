"""What a person asks of the partitioner, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.fallback import Fallback
from graphprep.errors import UsageError
from graphprep.system.nearest import nearest
from graphprep.traffic import LIMITS, Balance, Quality, Traffic

MOST_ROW_BYTES = 2**31
METHODS = (
    "auto",
    "metis",
    "metis-recursive",
    "metis-volume",
    "metis-balanced",
    "metis-hierarchical",
    "mtkahypar",
    "mtkahypar-rows",
    "mtkahypar-steiner",
    "kaminpar",
    "multilevel",
    "ldg",
    "random",
)
EFFORTS = ("none", "fast", "default", "best")
MINIMISE = ("slowest", "total")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """The options that change an assignment."""

    method: str = "auto"
    """one of METHODS; auto starts from several and keeps what is best by the cost model"""
    effort: str = "default"
    """one of EFFORTS: how long parts are laid on ranks and refined; none leaves them as the method made them"""
    seed: int = 0
    imbalance: float = 1.05
    """largest share over target share"""
    row_bytes: int = 1024
    """bytes of one node's row in one exchange"""
    balance: Balance = "rows"
    """what the seconds of a link count"""
    minimise: str = "slowest"
    """one of MINIMISE: the seconds of the slowest link direction and then of all, or first the sum of all. On links
    that are all alike, with `balance` edges, the sum is the number of cut edges"""
    limits: tuple[str, ...] = LIMITS
    """which loads are held within `imbalance`, of `traffic.LIMITS`; put in their order, each once"""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(
                f"--method {self.method!r} is unknown{nearest(self.method, METHODS)}; use one of {', '.join(METHODS)}"
            )
        if self.effort not in EFFORTS:
            raise UsageError(
                f"--effort {self.effort!r} is unknown{nearest(self.effort, EFFORTS)}; use one of {', '.join(EFFORTS)}"
            )
        if self.minimise not in MINIMISE:
            raise UsageError(f"--minimise {self.minimise!r} is unknown; use one of {', '.join(MINIMISE)}")
        asked = {name.strip() for name in self.limits} - {""}
        for name in sorted(asked):
            if name not in LIMITS:
                raise UsageError(f"--limits {name!r} is unknown; use some of {', '.join(LIMITS)}, with commas between")
        object.__setattr__(self, "limits", tuple(name for name in LIMITS if name in asked))
        if not 1.0 < self.imbalance <= 10.0:
            raise UsageError(f"--imbalance {self.imbalance} must be above 1 and at most 10, e.g. 1.05")
        if not 1 <= self.row_bytes <= MOST_ROW_BYTES:
            raise UsageError(f"--row-bytes {self.row_bytes} must be from 1 to {MOST_ROW_BYTES}")
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"--seed {self.seed} must be from 0 to {2**31 - 1}")


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
                "cut_edges": quality.cut_edges,
                "broken_limits": [limit.what for limit in quality.limits if not limit.met],
            }
        if self.failure:
            row["failure"] = self.failure
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The assignment that won and how it was judged."""

    assignment: NDArray[np.int32]
    """int32 [N], the part of each node"""
    traffic: Traffic
    quality: Quality
    method: str = ""
    tried: tuple[dict[str, Any], ...] = ()
    """one row a candidate: method, seconds, and bottleneck_seconds, sum_seconds, cut_edges, broken_limits or failure"""
    fallback: Fallback | None = None
    """None where a method that was asked for gave the parts"""
