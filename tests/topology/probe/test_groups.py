"""The tree of groups."""

from __future__ import annotations

from graphprep.topology.probe.groups import as_split, crossing, inside, tree_of
from graphprep.topology.probe.quartets import ALL_UP_TO, quartets

TWO_HOSTS = {rank: "a" if rank < 4 else "b" for rank in range(8)}


def test_groups_lie_inside_each_other_or_apart() -> None:
    """Guards against two groups that overlap, for which no tree of switches exists."""
    overlapping = [frozenset((3, 4)), frozenset((0, 1)), frozenset((1, 2))]
    tree = tree_of(TWO_HOSTS, overlapping, [])
    assert tree.groups == (frozenset((0, 1)), frozenset(range(4)), frozenset(range(4, 8)))
    assert tree.around(frozenset((0, 1))) == frozenset(range(4))
    assert tree.home(2) == frozenset(range(4))
    assert tree.units(frozenset(range(4))) == [frozenset((0, 1)), frozenset((2,)), frozenset((3,))]


def test_a_split_inside_a_host_is_the_side_in_the_host() -> None:
    """Guards against a switch over most of the cluster in place of one over two GPUs."""
    pair = as_split(frozenset((0, 1)), 8)
    assert pair == 0b11111100
    assert frozenset((0, 1)) in tree_of(TWO_HOSTS, [], [pair]).groups
    one_host = dict.fromkeys(range(6), "a")
    assert tree_of(one_host, [], [as_split(frozenset((0, 1, 2)), 6)]).groups == (frozenset((3, 4, 5)),)


def test_one_rank_a_host_makes_no_groups() -> None:
    """Guards against a switch for each single rank."""
    assert tree_of({0: "a", 1: "b", 2: "c"}, [], []).groups == ()


def test_pairs_across_a_boundary_are_spread() -> None:
    """Guards against a boundary that cannot be filled because one other host is."""
    hosts = {rank: "abc"[rank // 2] for rank in range(6)}
    tree = tree_of(hosts, [], [])
    assert crossing(tree, frozenset((0, 1)), set()) == [(0, 2), (1, 4)]
    assert crossing(tree, frozenset((0, 1)), {(0, 2), (1, 4)}) == [(0, 4), (1, 2)]


def test_pairs_inside_groups_keep_every_rank_busy_once() -> None:
    """Guards against a rank with two partners, whose port would look half as fast."""
    tree = tree_of(TWO_HOSTS, [frozenset((0, 1))], [])
    pairs = inside(tree, set())
    assert pairs == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert inside(tree, {(0, 1)}) == [(2, 3), (4, 5), (6, 7)]


def test_quartets_are_all_or_a_sample() -> None:
    """Guards against P^4 trials, and against pairs with a link of their own that say nothing of switches."""
    hosts = dict.fromkeys(range(ALL_UP_TO), "a")
    assert len(quartets(hosts, ())) == 210
    assert all((0, 1) not in quartet for quartet in quartets(hosts, {(0, 1)}))
    many = {rank: str(rank // 8) for rank in range(64)}
    sample = quartets(many, ())
    assert sample == quartets(many, ())
    assert 500 < len(sample) < 1500
    assert all(len({*one, *two}) == 4 for one, two in sample)
    for a in range(0, 64, 2):
        assert sum(
            len({a, a + 1} & set(one)) == 1 and len({a, a + 1} & set(two)) == 1 for one, two in sample
        ) > 1  # fmt: skip
