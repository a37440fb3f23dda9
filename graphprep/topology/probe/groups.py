"""The tree of groups of ranks, and which pairs to try at once to fill the link above each group.

A group is a host with several ranks, ranks that are close by their speed, or one side of a split with a shared link.
The groups lie inside each other or apart; one that would overlap another is left out. Each has a switch; its ranks and
groups join it, and it joins the switch of the group around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphprep.topology.probe.sharing import Split
from graphprep.topology.probe.trial import Pair, pair_of

Group = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Groups that lie inside each other or apart."""

    hosts: Mapping[int, str]
    """Of every rank."""
    groups: tuple[Group, ...]
    """Each with 2 .. P - 1 ranks, small ones first."""

    @property
    def everyone(self) -> Group:
        return frozenset(self.hosts)

    def around(self, inner: Group) -> Group:
        """The smallest group around a group, or all ranks."""
        return next((group for group in self.groups if group > inner), self.everyone)

    def home(self, rank: int) -> Group:
        """The smallest group of a rank, or all ranks."""
        return next((group for group in self.groups if rank in group), self.everyone)

    def units(self, group: Group) -> list[Group]:
        """What joins the switch of `group`: its groups and the ranks that are in none of them, by their first rank."""
        inside = [inner for inner in self.groups if inner < group and self.around(inner) == group]
        inside += [frozenset((rank,)) for rank in group if self.home(rank) == group]
        return sorted(inside, key=min)

    def is_host(self, group: Group) -> bool:
        """Whether it is all of one host's ranks, and there are other hosts."""
        return group in host_groups(self.hosts) and len(set(self.hosts.values())) > 1


def host_groups(hosts: Mapping[int, str]) -> list[Group]:
    """The ranks of every host, by their first rank."""
    ranks: dict[str, set[int]] = {}
    for rank, host in sorted(hosts.items()):
        ranks.setdefault(host, set()).add(rank)
    return [frozenset(group) for group in ranks.values()]


def tree_of(hosts: Mapping[int, str], closer: Iterable[Group], splits: Iterable[Split]) -> Tree:
    """Fit groups together: hosts first, then `closer`, then the sides of `splits`, each in their order.

    Args:
        hosts: of every rank.
        closer: ranks that are faster among themselves.
        splits: with a shared link.
    """
    everyone = frozenset(hosts)
    wanted = [*host_groups(hosts), *closer, *(_side(split, hosts) for split in splits)]
    chosen: list[Group] = []
    for group in wanted:
        fits = all(group <= other or other <= group or not group & other for other in chosen)
        if fits and 1 < len(group) < len(everyone) and group not in chosen:
            chosen.append(group)
    return Tree(hosts=hosts, groups=tuple(sorted(chosen, key=lambda group: (len(group), min(group)))))


def as_split(group: Group, num_ranks: int) -> Split:
    """The split of a group from the other ranks, by the side without rank 0."""
    mask = sum(1 << rank for rank in group)
    return mask ^ (1 << num_ranks) - 1 if mask & 1 else mask


def _side(split: Split, hosts: Mapping[int, str]) -> Group:
    """The side that becomes a group: the one inside a host, else the smaller one."""
    one = frozenset(rank for rank in hosts if split >> rank & 1)
    two = frozenset(hosts) - one
    inside = [side for side in (one, two) if len({hosts[rank] for rank in side}) == 1]
    candidates = inside if len(inside) == 1 else [one, two]
    return min(candidates, key=lambda side: (len(side), 0 in side))


def crossing(tree: Tree, group: Group, direct: Collection[Pair]) -> list[Pair]:
    """As many disjoint pairs as there are from `group` to the ranks around it, spread over these."""
    return list(_matched(sorted(group), _spread(tree, tree.around(group), group), direct))


def inside(tree: Tree, direct: Collection[Pair]) -> list[Pair]:
    """Disjoint pairs that keep every rank busy within the smallest group that it is in."""
    found: list[Pair] = []
    for group in (*tree.groups, tree.everyone):
        left = [rank for rank in sorted(group) if tree.home(rank) == group]
        while len(left) > 1:
            rank = left.pop(0)
            found += _matched([rank], left, direct)
            left = [other for other in left if all(other not in pair for pair in found)]
    return found


def _matched(ranks: list[int], others: list[int], direct: Collection[Pair]) -> Iterator[Pair]:
    """Each of `ranks` with the first of `others` that is free and that it has no link of its own to."""
    free = list(others)
    for rank in ranks:
        partner = next((other for other in free if pair_of(rank, other) not in direct), None)
        if partner is not None:
            free.remove(partner)
            yield pair_of(rank, partner)


def _spread(tree: Tree, around: Group, without: Group) -> list[int]:
    """The ranks of `around` that are not in `without`, one of every unit in turn."""
    queues = [sorted(unit) for unit in tree.units(around) if not unit & without]
    found = []
    while any(queues):
        found += [queue.pop(0) for queue in queues if queue]
    return found
