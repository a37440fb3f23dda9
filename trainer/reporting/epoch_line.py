"""What is reported of one validated epoch: by `--json`, in the history of the run, on a terminal and to trackers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUsage:
    """One rank since the line before. What a GPU spends its seconds on is not measured: None."""

    rank: int
    seconds: float
    """The sum of the next three, where they are measured."""
    compute_seconds: float | None
    """In which the rank did not wait for others."""
    exchange_seconds: float | None
    """In which it waited for rows, from the first rank that had not sent them to the last."""
    waiting_seconds: float | None
    """In which it waited in sums over all ranks, until the slowest one had come to them."""
    exchange_seconds_by_link_type: dict[str, float]
    """The exchanges' by the type of the slowest link to the rank whose rows it waited for."""
    memory_bytes: int
    """The most that it has held so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraffic:
    """Rows and their gradients that all ranks have sent since the line before, in one layer over one type of link."""

    layer: int
    direction: str
    link_type: str
    bytes_sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """One validated epoch. Seconds and bytes are those since the line before, the bytes of all ranks together."""

    epoch: int
    loss: float
    """Mean over the training nodes, in training mode."""
    val: float | None
    """The metric of the validation nodes; None where it is not defined, for instance without validation nodes."""
    others: Mapping[str, float | None] = field(default_factory=dict)
    """Further metrics of the validation, by their names in JSON."""
    seconds: float
    bytes_sent: int
    """All that left a rank: the sum of the three below."""
    row_bytes_sent: int
    """Rows and their gradients."""
    weight_bytes_sent: int
    """Weights and their gradients."""
    other_bytes_sent: int
    bytes_skipped: int
    """Of rows."""
    ranks: Sequence[RankUsage] = ()
    links: Sequence[LinkTraffic] = ()
    error_budget: Mapping[str, Any] | None = None
    """With --error-budget its errors, and bits and age by layer, direction and type of link."""

    @property
    def seconds_by_kind(self) -> dict[str, float | None]:
        """The means over the ranks, by name; None where they are not measured."""
        names = ("compute_seconds", "exchange_seconds", "waiting_seconds")
        return {name: _mean([getattr(rank, name) for rank in self.ranks]) for name in names}

    @property
    def exchange_seconds_by_link_type(self) -> dict[str, float]:
        """The means over the ranks."""
        kinds = sorted({kind for rank in self.ranks for kind in rank.exchange_seconds_by_link_type})
        return {kind: fmean(rank.exchange_seconds_by_link_type.get(kind, 0.0) for rank in self.ranks) for kind in kinds}

    @property
    def bytes_by_link_type(self) -> dict[str, int]:
        """Rows and their gradients of all layers."""
        kinds = sorted({link.link_type for link in self.links})
        return {kind: sum(link.bytes_sent for link in self.links if link.link_type == kind) for kind in kinds}

    @property
    def fullest_rank(self) -> RankUsage | None:
        """The rank that has held the most memory, the first of equals."""
        return max(self.ranks, key=lambda rank: rank.memory_bytes, default=None)

    def numbers(self, metric: str) -> dict[str, float | None]:
        """The numbers of the line by name, with `val` under its metric's name, and the further metrics after it."""
        plain: dict[str, float | None] = {}
        for name, value in asdict(self).items():
            if name not in ("ranks", "links", "error_budget"):
                plain |= value if name == "others" else {f"val_{metric}" if name == "val" else name: value}
        fullest = self.fullest_rank
        return {
            **plain,
            **self.seconds_by_kind,
            "memory_bytes_max": None if fullest is None else fullest.memory_bytes,
        }

    def to_json(self, metric: str) -> dict[str, Any]:
        """The same, and the ranks and layers."""
        more: dict[str, Any] = {name: [asdict(row) for row in getattr(self, name)] for name in ("ranks", "links")}
        if self.error_budget is not None:
            more["error_budget"] = self.error_budget
        return self.numbers(metric) | more


class EpochListener(Protocol):
    """What is told of every validated epoch: a file, a curve or a tracker."""

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Take one line; `metric` names its `val`."""

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Take the result, after the last line; None if training failed."""


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
