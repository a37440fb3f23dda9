"""Which pairs have a link of their own, and which ranks are close, by the bandwidth of each pair alone.

Through switches the speed of a pair is that of the slowest link on its path, so r(a, b) >= min(r(a, w), r(w, b)) for
every third rank w: ranks that are fast with the same rank are fast with each other. Speeds are sorted into bands, a gap
of `GAP` between them. Ranks that are joined by pairs above the floor of a band are a group behind one switch, or their
fast pairs have cables. A rank that sends to several at once tells: by cables it reaches the sum, through its one port
it does not. Behind a switch all pairs of the group are fast; if they are not (the cube mesh of a DGX-1), and there are
no cables either, it is noise. The ranks of a single host are asked the same, even if all their pairs are of one band.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise

from graphprep.topology.probe.trial import Instrument, Pair, Trial, pair_of
from graphprep.topology.routing import joined

GAP = 1.35
"""Speeds that differ by less than this factor are of one band."""
FULL = 0.85
"""The part of the pairs of a group that must be fast for it to be one switch; the rest may be noise."""
MOST_AT_ONCE = 4
"""Pairs of one rank that are tried at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What the speeds of pairs alone say."""

    direct: frozenset[Pair]
    """Pairs with a link of their own."""
    groups: tuple[frozenset[int], ...]
    """Ranks that are faster among themselves than with others, at least two of them, from small to large."""


def find(rates: Mapping[Pair, float], hosts: Mapping[int, str], instrument: Instrument) -> Levels:
    """Sort pairs and ranks by speed, with a few trials where the speeds alone leave it open.

    Args:
        rates: bytes a second of every pair alone.
        hosts: of every rank.
        instrument: for the trials.
    """
    direct: set[Pair] = set()
    groups: list[frozenset[int]] = []
    lowest = [min(rates.values())] if len(set(hosts.values())) == 1 else []
    for floor in (*floors(rates), *lowest):
        fast = {pair for pair, rate in rates.items() if rate >= floor}
        fans = {ranks: _fans(ranks, fast - direct, hosts) for ranks in joined(fast - direct) if ranks not in groups}
        wanted = [fan for some in fans.values() for fan in some]
        trials = {
            trial.pairs: trial for trial in instrument.together(wanted, share=0.1, purpose="one rank with several")
        }
        for ranks, some in fans.items():
            among = {pair for pair in fast if ranks.issuperset(pair)}
            if len(hosts) == 2 or _has_cables([trials[fan] for fan in some if fan in trials]):
                direct |= among
            elif len(among) >= FULL * len(ranks) * (len(ranks) - 1) / 2:
                groups.append(ranks)
    return Levels(direct=frozenset(direct), groups=tuple(sorted(groups, key=len)))


def floors(rates: Mapping[Pair, float]) -> list[float]:
    """The lowest speed of every band but the lowest, the highest band first."""
    ascending = sorted(rates.values())
    return [b for a, b in pairwise(ascending) if b >= GAP * a][::-1]


def _fans(ranks: frozenset[int], fast: Collection[Pair], hosts: Mapping[int, str]) -> list[tuple[Pair, ...]]:
    """Pairs of one rank of a group to try at once, for two of its ranks: fast ones and, if it has one, another."""
    found = []
    for hub in (min(ranks), max(ranks)):
        fan = [pair for pair in sorted(fast) if hub in pair][:MOST_AT_ONCE]
        if len(fan) == 1:
            outside = sorted(set(hosts) - ranks, key=lambda rank: (hosts[rank] != hosts[hub], rank))
            fan += [pair_of(hub, rank) for rank in outside[:1]]
        if len(fan) > 1:
            found.append(tuple(fan))
    return found


def _has_cables(trials: Collection[Trial]) -> bool:
    """Whether ranks got more through to several others at once than one port would let them."""
    lost = sum(trial.total_alone - trial.total for trial in trials)
    lost_through_one_port = sum(trial.total_alone - max(trial.alone) for trial in trials)
    return lost < lost_through_one_port / 2
