"""Bands of speeds."""

from __future__ import annotations

from collections.abc import Sequence

from graphprep.topology.probe.levels import find, floors, joined
from graphprep.topology.probe.trial import Pair, Trial


class Fans:
    """Trials in which everybody keeps the same part of his speed."""

    def __init__(self, kept: float) -> None:
        self.kept = kept

    def alone(self, pairs):  # type: ignore[no-untyped-def]
        raise AssertionError("not asked for")

    def together(self, groups: Sequence[Sequence[Pair]], *, share: float, purpose: str) -> list[Trial]:
        ones = [(1.0,) * len(pairs) for pairs in groups]
        return [
            Trial(pairs=tuple(pairs), alone=one, kept=tuple(self.kept for _ in one))
            for pairs, one in zip(groups, ones, strict=True)
        ]


def test_floors_of_bands() -> None:
    """Guards against a band for every figure, and against bands that noise joins."""
    rates = {(0, 1): 45.0, (0, 2): 9.0, (0, 3): 10.0, (1, 2): 11.0, (1, 3): 22.0, (2, 3): 24.0}
    assert floors(rates) == [45.0, 22.0]
    assert floors({(0, 1): 5.0}) == []


def test_ranks_that_pairs_join() -> None:
    """Guards against two groups that are taken for one."""
    assert list(joined([(0, 4), (4, 5), (1, 2)])) == [frozenset((0, 4, 5)), frozenset((1, 2))]


def test_fast_pairs_are_cables_or_a_switch_by_what_a_rank_reaches_with_both() -> None:
    """Guards against a switch of two ranks and a cable between them being the same."""
    rates = {(0, 1): 40.0, (2, 3): 40.0, **dict.fromkeys([(0, 2), (0, 3), (1, 2), (1, 3)], 10.0)}
    hosts = dict.fromkeys(range(4), "here")
    assert find(rates, hosts, Fans(1.0)).direct >= {(0, 1), (2, 3)}
    found = find(rates, hosts, Fans(0.5))
    assert (found.direct, found.groups[:2]) == (frozenset(), (frozenset((0, 1)), frozenset((2, 3))))


def test_pairs_that_are_fast_by_chance_are_neither() -> None:
    """Guards against a link of its own for every pair that noise favours."""
    rates = {(0, 1): 40.0, (1, 2): 40.0, **dict.fromkeys([(0, 2), (0, 3), (1, 3), (2, 3)], 10.0)}
    found = find(rates, dict.fromkeys(range(4), "here"), Fans(0.5))
    assert found.direct == frozenset()
    assert frozenset((0, 1, 2)) not in found.groups
