"""Splits with a shared link, from trials written by hand."""

from __future__ import annotations

from itertools import combinations

from graphprep.topology.probe.sharing import shared_splits
from graphprep.topology.probe.trial import Pair, Trial, pair_of


def trial(one: Pair, two: Pair, kept: float) -> Trial:
    return Trial(pairs=(pair_of(*one), pair_of(*two)), alone=(10.0, 10.0), kept=(kept, kept))


def all_trials(num_ranks: int, groups: dict[frozenset[int], float]) -> list[Trial]:
    """All pairs of pairs; two that both leave a group keep the part that the group's link leaves them."""
    found = []
    for a, b, c, d in combinations(range(num_ranks), 4):
        for one, two in (((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c))):
            shared = [part for group, part in groups.items() if all(len(group & set(pair)) == 1 for pair in (one, two))]
            found.append(trial(one, two, min([1.0, *shared])))
    return found


def mask(*ranks: int) -> int:
    return sum(1 << rank for rank in ranks)


def test_a_switch_in_each_half() -> None:
    """Guards against the wrong two of the three ways to split four ranks."""
    assert shared_splits(all_trials(4, {frozenset((0, 1)): 0.5}), [], 4) == [mask(2, 3)]
    assert shared_splits(all_trials(4, {frozenset((0, 3)): 0.5}), [], 4) == [mask(1, 2)]


def test_nothing_shared() -> None:
    """Guards against splits made of nothing, or of a little noise."""
    assert shared_splits(all_trials(6, {}), [], 6) == []
    assert shared_splits([], [], 2) == []
    noisy = [
        Trial(pairs=one.pairs, alone=one.alone, kept=(0.93 if number % 2 else 1.0, 0.95))
        for number, one in enumerate(all_trials(6, {}))
    ]
    assert shared_splits(noisy, [], 6) == []


def test_sockets_with_switches_in_them() -> None:
    """Guards against the outer link hiding the inner ones, or being hidden by them."""
    groups = {frozenset((0, 1)): 0.5, frozenset((2, 3)): 0.5, frozenset((4, 5)): 0.5, frozenset((0, 1, 2, 3)): 0.75}
    found = shared_splits(all_trials(8, groups), [], 8)
    assert set(found) == {mask(2, 3, 4, 5, 6, 7), mask(2, 3), mask(4, 5), mask(4, 5, 6, 7)}


def test_what_a_known_split_explains_is_not_explained_again() -> None:
    """Guards against a second switch beside the host that was known already."""
    trials = all_trials(6, {frozenset((0, 1, 2)): 0.5})
    assert shared_splits(trials, [mask(3, 4, 5)], 6) == []


def test_what_everybody_shares_is_no_split() -> None:
    """Guards against a switch made up where all pairs slow each other down, such as the ranks of one processor."""
    trials = [trial(*one.pairs, 0.5) for one in all_trials(6, {})]
    assert shared_splits(trials, [], 6) == []


def test_many_ranks_are_searched_by_their_neighbours() -> None:
    """Guards against 2^32 subsets of ranks."""
    trials = [trial(one, two, 0.5) for one, two in (((4, 9), (5, 20)), ((4, 30), (5, 11)))]
    trials += [trial((4, 5), (9, 20), 1.0), trial((3, 9), (5, 20), 1.0), trial((4, 9), (6, 20), 1.0)]
    assert mask(4, 5) in shared_splits(trials, [], 32)
