"""Positions of the ranks and switches of a topology in a drawing: ranks in a row, switches above them by level.

A switch lies one level above the lowest nodes that it joins, over their middle. One that joins ranks alone, where
others lead further up (an NVSwitch beside a PCIe tree), lies below the ranks. Links between ranks are arcs below them.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphprep.topology import Topology

Point = tuple[float, float]


def positions(topology: Topology) -> dict[str, Point]:
    """x from 0 to P - 1 and y in levels (0 for ranks) of every node, by name."""
    ranks = [rank.name for rank in topology.ranks]
    places: dict[str, Point] = {name: (float(number), 0.0) for number, name in enumerate(ranks)}
    neighbours: dict[str, list[str]] = {name: [] for name in topology.nodes}
    for link in topology.links:
        one, other = link.ends
        neighbours[one].append(other)
        neighbours[other].append(one)
    below = _hubs_below(topology, neighbours)
    level, unplaced = 0, [name for name in topology.switches if name not in below]
    while unplaced:
        level += 1
        row = [name for name in unplaced if any(other in places for other in neighbours[name])] or unplaced
        below_it = {name: [places[other][0] for other in neighbours[name] if other in places] for name in row}
        middles = {name: _mean(xs, default=(len(ranks) - 1) / 2) for name, xs in below_it.items()}
        places |= {name: (x, float(level)) for name, x in _apart(middles, len(ranks)).items()}
        unplaced = [name for name in unplaced if name not in row]
    middles = {name: _mean([places[other][0] for other in neighbours[name]], default=0.0) for name in below}
    return places | {name: (x, -1.0) for name, x in _apart(middles, len(ranks)).items()}


def _hubs_below(topology: Topology, neighbours: dict[str, list[str]]) -> list[str]:
    ranks = {rank.name for rank in topology.ranks}
    hubs = [name for name in topology.switches if set(neighbours[name]) <= ranks]
    return hubs if len(hubs) < len(topology.switches) else []


def _mean(values: Sequence[float], *, default: float) -> float:
    return sum(values) / len(values) if values else default


def _apart(middles: dict[str, float], num_ranks: int) -> dict[str, float]:
    """Nodes of one level in the order of their middles, moved so that no two lie on one another."""
    names = sorted(middles, key=lambda name: middles[name])
    gap = min(1.0, max(num_ranks - 1, 1) / max(len(names), 1))
    placed: dict[str, float] = {}
    last = float("-inf")
    for name in names:
        last = max(middles[name], last + gap)
        placed[name] = last
    shift = _mean([placed[name] - middles[name] for name in names], default=0.0)
    return {name: x - shift for name, x in placed.items()}
