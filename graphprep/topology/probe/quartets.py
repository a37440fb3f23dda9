"""Which two pairs of four ranks to try at once.

There are about P^4 / 8 of them: all for few ranks, a seeded sample for more. The sample holds, for every two ranks of
one host (which may share a PCIe switch), a few pairs that leave them; the rest is drawn over all ranks, for what hosts
share.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from graphprep.topology.probe.trial import Pair, pair_of

ALL_UP_TO = 8
"""Ranks: 210 quartets."""
A_PAIR_OF_A_HOST = 4
OVER_ALL = 200


def quartets(hosts: Mapping[int, str], direct: Collection[Pair]) -> list[list[Pair]]:
    """Two disjoint pairs each, none with a link of its own; shuffled, so that any first part is a sample.

    Args:
        hosts: of every rank.
        direct: pairs to leave out.
    """
    dice = random.Random(0)
    found: set[tuple[Pair, Pair]] = set()

    def add(a: int, c: int, b: int, d: int) -> None:
        one, two = sorted((pair_of(a, c), pair_of(b, d)))
        if one not in direct and two not in direct:
            found.add((one, two))

    ranks = sorted(hosts)
    if len(ranks) <= ALL_UP_TO:
        for a, b, c, d in combinations(ranks, 4):
            add(a, b, c, d)
            add(a, c, b, d)
            add(a, d, b, c)
    else:
        for a, b in combinations(ranks, 2):
            if hosts[a] == hosts[b]:
                for c, d in _others(ranks, a, b, hosts, dice):
                    add(a, c, b, d)
        for _ in range(OVER_ALL):
            a, b, c, d = dice.sample(ranks, 4)
            add(a, c, b, d)
    chosen = [[*quartet] for quartet in sorted(found)]
    dice.shuffle(chosen)
    return chosen


def _others(
    ranks: Sequence[int], a: int, b: int, hosts: Mapping[int, str], dice: random.Random
) -> list[tuple[int, int]]:
    """Whom a and b send to: ranks of their own host if it has enough, so that its network is not what is shared."""
    near = [rank for rank in ranks if rank not in (a, b) and hosts[rank] == hosts[a]]
    far = [rank for rank in ranks if rank not in (a, b) and hosts[rank] != hosts[a]]
    choice = near if len(near) > 1 else near + far
    return [(c, d) for c, d in (dice.sample(choice, 2) for _ in range(A_PAIR_OF_A_HOST))]
