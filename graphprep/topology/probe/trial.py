"""A trial: pairs of ranks that send at once, and the share of their speed alone that each keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from graphprep.topology.probe.fit import Line

Pair = tuple[int, int]
"""Two ranks, the lower one first. They send to each other in both directions at once."""
SHARED = 0.85
"""Pairs that keep a smaller share of their speed than this have a link in common; noise costs less."""


def pair_of(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Pairs that sent at once."""

    pairs: tuple[Pair, ...]
    alone: tuple[float, ...]
    """Bytes a second of each pair with no other pair sending."""
    kept: tuple[float, ...]
    """The share of it, 0 .. 1, that each pair kept."""

    @property
    def total_alone(self) -> float:
        """Bytes a second."""
        return sum(self.alone)

    @property
    def total(self) -> float:
        """Bytes a second of all pairs together."""
        return sum(alone * kept for alone, kept in zip(self.alone, self.kept, strict=True))

    @property
    def is_shared(self) -> bool:
        """Whether the pairs slowed each other down."""
        return self.total < SHARED * self.total_alone


class Instrument(Protocol):
    """What measures trials: the ranks of a run, or a simulated network."""

    def alone(self, pairs: Sequence[Pair]) -> Mapping[Pair, Line]:
        """Measure every pair with no other pair sending."""
        ...

    def together(self, groups: Sequence[Sequence[Pair]], *, share: float, purpose: str) -> list[Trial]:
        """Measure the pairs of each group at once, one group after the other.

        Args:
            groups: what to measure; the first ones first, if time runs out.
            share: of the time that is left, 0 .. 1.
            purpose: for people.

        Returns:
            One trial a group, without those for which there was no time.
        """
        ...
