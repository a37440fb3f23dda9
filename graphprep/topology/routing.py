"""One route for every pair of ranks: Dijkstra with labels (nanoseconds, hops, link numbers).

A label grows by appending a link, and of two labels the smaller stays smaller when both grow by the same link: with
equal time and hops the link tuples have equal length, so their order is that of their common part. That is all that
Dijkstra needs, and it makes the route unique: the quickest, then the shortest, then the first in file order. Times are
whole nanoseconds, so that no sum depends on the order of its terms.

Nodes are numbers: ranks are 0 .. P-1, switches follow. Ranks are never expanded, so no route relays through one. Each
unordered pair is searched once, from its lower rank; the way back is the way there, reversed.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Hop(NamedTuple):
    """A link crossed in one direction: 0 from the first of its ends to the second, 1 back."""

    link: int
    direction: int


Route = tuple[Hop, ...]


class Wire(NamedTuple):
    """What routing knows of a link: the nodes that it joins, and its nanoseconds for the routing message."""

    ends: tuple[int, int]
    ns: int


def all_routes(
    num_ranks: int, num_nodes: int, wires: Sequence[Wire], fixed: Mapping[tuple[int, int], Route]
) -> dict[tuple[int, int], Route]:
    """The routes of all ordered pairs of ranks that a path joins.

    Args:
        num_ranks: P.
        num_nodes: ranks and switches.
        wires: the links, in file order.
        fixed: routes of ordered pairs that are given. A pair given in one direction only goes back the same way.
    """
    leaving: list[list[int]] = [[] for _ in range(num_nodes)]
    for number, wire in enumerate(wires):
        for end in wire.ends:
            leaving[end].append(number)
    hops = [(Hop(number, 0), Hop(number, 1)) for number in range(len(wires))]
    routes: dict[tuple[int, int], Route] = {}
    for p in range(num_ranks):
        for q, there, back in _quickest(p, num_ranks, leaving, wires, hops):
            routes[p, q] = there
            routes[q, p] = back
    routes.update({(q, p): reverse(route) for (p, q), route in fixed.items()})
    routes.update(fixed)
    return routes


def reverse(route: Route) -> Route:
    """The same links from the far end."""
    return tuple(Hop(hop.link, 1 - hop.direction) for hop in reversed(route))


def along(nodes: Iterable[int], wires: Sequence[Wire]) -> Route:
    """The route through `nodes`, by the quickest link of each step and the first among equals.

    Raises:
        LookupError: two nodes in a row that no link joins; its argument is their pair.
    """
    path = list(nodes)
    links: list[int] = []
    for step in pairwise(path):
        joining = [(wire.ns, number) for number, wire in enumerate(wires) if set(wire.ends) == set(step)]
        if not joining:
            raise LookupError(step)
        links.append(min(joining)[1])
    return _directed(path[0], links, wires)


def joined(pairs: Collection[tuple[int, int]], alone: Iterable[int] = ()) -> Iterator[frozenset[int]]:
    """Nodes that paths of `pairs` join, by their lowest; those of `alone` that no pair joins are groups too."""
    left = {node for pair in pairs for node in pair}.union(alone)
    neighbours: dict[int, set[int]] = {node: set() for node in left}
    for a, b in pairs:
        neighbours[a].add(b)
        neighbours[b].add(a)
    while left:
        found = [min(left)]
        left.discard(found[0])
        for node in found:
            new = neighbours[node] & left
            left -= new
            found += sorted(new)
        yield frozenset(found)


def _quickest(
    source: int,
    num_ranks: int,
    leaving: Sequence[Sequence[int]],
    wires: Sequence[Wire],
    hops: Sequence[tuple[Hop, Hop]],
) -> Iterator[tuple[int, Route, Route]]:
    """Every higher rank that rank `source` can reach, with the best route there and the same back.

    A node's routes are those of the node before it and one hop more, so that no path is walked twice.
    """
    found: dict[int, tuple[Route, Route]] = {source: ((), ())}
    queue: list[tuple[int, int, tuple[int, ...], int, int]] = []

    def leave(node: int, ns: int, links: tuple[int, ...]) -> None:
        for number in leaving[node]:
            wire = wires[number]
            other = wire.ends[wire.ends[0] == node]
            if other > source and other not in found:
                heapq.heappush(queue, (ns + wire.ns, len(links) + 1, (*links, number), other, node))

    leave(source, 0, ())
    while queue:
        ns, _, links, node, before = heapq.heappop(queue)
        if node in found:
            continue
        there, back = found[before]
        direction = 0 if wires[links[-1]].ends[1] == node else 1
        onward, homeward = hops[links[-1]][direction], hops[links[-1]][1 - direction]
        found[node] = ((*there, onward), (homeward, *back))
        if node < num_ranks:
            yield node, *found[node]
        else:
            leave(node, ns, links)


def _directed(start: int, links: Iterable[int], wires: Sequence[Wire]) -> Route:
    node, hops = start, []
    for number in links:
        ends = wires[number].ends
        direction = 0 if ends[0] == node else 1
        hops.append(Hop(number, direction))
        node = ends[1 - direction]
    return tuple(hops)
