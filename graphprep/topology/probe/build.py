"""From a survey to ranks, switches and links.

A pair with a link of its own gets it (type direct). Every other rank joins the switch of its smallest group by a port,
as fast as its fastest pair in that group; if pairs slow each other down even there, since ranks share a processor or a
memory, as fast as with all of them busy. A group's switch joins the one around it by a link (type uplink, or network
between hosts) that carries what all pairs across got at once. Where each of these pairs is held up below what its ports
and that link would allow, every rank has a port of its own for the way out: one NIC a GPU, or one stream that cannot
fill a NIC. Latencies are fitted over all routes together.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np
from scipy.optimize import nnls

from graphprep.topology.network import Link, Rank, Topology
from graphprep.topology.probe.groups import Group, Tree
from graphprep.topology.probe.survey import Survey
from graphprep.topology.probe.trial import SHARED, Pair
from graphprep.topology.units import MAX_GBYTES_PER_S

SLOWER = 0.8
"""A pair that is slower than this part of its two ports is held up elsewhere."""
PLATEAU = 0.85
"""Rates above this part of the highest are the same rate, but for noise."""
MOST_PAIRS_FITTED = 3000
"""For the latencies; a sample of more pairs says the same."""
EVENNESS = 0.03
"""Weight, against one pair, of keeping a latency small: of links that only ever occur together it takes equal parts."""
NETWORK = "net"


def build(survey: Survey, ranks: Sequence[Rank], *, name: str) -> Topology:
    """The topology that explains the survey.

    Args:
        survey: what was measured.
        ranks: in rank order; those of a host have one machine.
        name: of the topology.
    """
    builder = _Builder(survey, ranks)
    links = [*builder.direct(), *builder.ports(), *builder.uplinks()]
    names = {rank.name for rank in ranks}
    switches = tuple(dict.fromkeys(end for link in links for end in link.ends if end not in names))
    topology = Topology.build(name=name, ranks=tuple(ranks), switches=switches, links=tuple(links))
    fitted = _with_latencies(topology, {pair: line.latency_s * 1e6 for pair, line in survey.lines.items()})
    return Topology.build(name=name, ranks=tuple(ranks), switches=switches, links=fitted)


class _Builder:
    """The links of a survey."""

    def __init__(self, survey: Survey, ranks: Sequence[Rank]) -> None:
        self.survey, self.tree = survey, survey.tree
        self.names = [rank.name for rank in ranks]
        self.switch_of = _switch_names(self.tree, ranks)
        self.rates = {pair: line.bytes_per_s for pair, line in survey.lines.items() if pair not in survey.direct}
        self.port_of = {rank: self._port(rank) for rank in self.tree.everyone}

    def direct(self) -> list[Link]:
        return [
            _link("direct", self.names[a], self.names[b], self.survey.lines[a, b].bytes_per_s)
            for a, b in sorted(self.survey.direct)
        ]

    def ports(self) -> list[Link]:
        found = []
        for rank, rate in sorted(self.port_of.items()):
            if rate:
                switch = self.switch_of[self.tree.home(rank)]
                found.append(_link("network" if switch == NETWORK else "port", self.names[rank], switch, rate))
        return found

    def uplinks(self) -> list[Link]:
        found = []
        for group in self.tree.groups:
            across, full = self._leaving(group), self.survey.full.get(group)
            if not across:
                continue
            below, above = self.switch_of[group], self.switch_of[self.tree.around(group)]
            word = "network" if above == NETWORK else "uplink"
            is_filled = full is None or full.is_shared
            # What a link got through when it was full is its bandwidth; what it got otherwise is the least that it has.
            least = median(across.values()) if is_filled else _plateau(across.values())
            carried = max(full.total if full else 0.0, least)
            if self._is_held_up(across, carried):
                ports = {rank: [rate for pair, rate in across.items() if rank in pair] for rank in sorted(group)}
                below = f"{below}-out" if is_filled else above
                own = "port" if is_filled else word
                found += [
                    _link(own, self.names[rank], below, _plateau(rates)) for rank, rates in ports.items() if rates
                ]
            if below != above:
                found.append(_link(word, below, above, carried))
        return found

    def _port(self, rank: int) -> float:
        """Bytes a second; 0 for a rank that needs no port."""
        mine = {pair: rate for pair, rate in self.rates.items() if rank in pair}
        near = {pair: rate for pair, rate in mine.items() if self.tree.home(rank).issuperset(pair)}
        return _plateau((near or mine).values()) * self._kept_when_busy(rank) if mine else 0.0

    def _kept_when_busy(self, rank: int) -> float:
        """The part of its speed that a rank keeps when its whole group is busy; 1 where that is noise."""
        busy = self.survey.busy
        if busy is None:
            return 1.0
        home = self.tree.home(rank)
        near = [kept for pair, kept in zip(busy.pairs, busy.kept, strict=True) if home.issuperset(pair)]
        kept = median(near) if near else 1.0
        return kept if kept < SHARED else 1.0

    def _leaving(self, group: Group) -> Mapping[Pair, float]:
        """Speeds alone of the pairs across the link above a group: to the ranks of the group around it if there are."""
        around = self.tree.around(group)
        every = {pair: rate for pair, rate in self.rates.items() if len(group.intersection(pair)) == 1}
        return {pair: rate for pair, rate in every.items() if around.issuperset(pair)} or every

    def _is_held_up(self, across: Mapping[Pair, float], carried: float) -> bool:
        """Whether pairs across a group's link are slower alone than their ports and the link would let them be."""
        expected = {(a, b): min(self.port_of[a], self.port_of[b], carried) for a, b in across}
        return median(rate / expected[pair] for pair, rate in across.items()) < SLOWER


def _plateau(rates: Collection[float]) -> float:
    """The mean of the highest rates: the highest alone would be the one that noise favoured most."""
    highest = max(rates)
    return fmean(rate for rate in rates if rate > PLATEAU * highest)


def _switch_names(tree: Tree, ranks: Sequence[Rank]) -> dict[Group, str]:
    """`net` over all hosts, m<i>.host for a host, m<i>.switch<j> inside it, switch<j> over several hosts."""
    several = len(set(tree.hosts.values())) > 1
    names: dict[Group, str] = {}
    counts: dict[str, int] = {}
    for group in sorted((*tree.groups, tree.everyone), key=lambda group: (min(group), -len(group))):
        machines = {ranks[rank].machine for rank in group}
        prefix = f"{machines.pop()}." if len(machines) == 1 else ""
        if group == tree.everyone:
            names[group] = NETWORK if several else f"{prefix}host"
        elif tree.is_host(group):
            names[group] = f"{prefix}host"
        else:
            names[group] = f"{prefix}switch{counts.setdefault(prefix, 0)}"
            counts[prefix] += 1
    return names


def _link(type: str, a: str, b: str, bytes_per_s: float) -> Link:
    gbytes_per_s = min(MAX_GBYTES_PER_S, max(1e-6, float(f"{bytes_per_s / 1e9:.3g}")))
    return Link(ends=(a, b), type=type, gbytes_per_s=gbytes_per_s, latency_us=0.0)


def _with_latencies(topology: Topology, microseconds: Mapping[Pair, float]) -> tuple[Link, ...]:
    """The links with latencies, none below 0, whose sums over routes are as near as can be to those of the pairs."""
    pairs = sorted(microseconds)
    if len(pairs) > MOST_PAIRS_FITTED:
        pairs = random.Random(0).sample(pairs, MOST_PAIRS_FITTED)
    num_links = len(topology.links)
    crossed = np.zeros((len(pairs), num_links))
    for row, (p, q) in enumerate(pairs):
        crossed[row, [hop.link for hop in topology.routes[p][q]]] = 1
    wanted = np.array([microseconds[pair] for pair in pairs])
    system = np.vstack([crossed, EVENNESS * np.eye(num_links)])
    found, _ = nnls(system, np.concatenate([wanted, np.zeros(num_links)]))
    return tuple(
        replace(link, latency_us=round(float(latency), 2)) for link, latency in zip(topology.links, found, strict=True)
    )
