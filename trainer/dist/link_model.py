"""What an exchange takes on the links of a cache's topology, by graphprep's cost model. No torch here.

    seconds(link, direction) = sum over the pairs routed over it of bytes / bandwidth  +  messages * latency

The slowest link direction ends an exchange. Routes are those of graphprep: given ones, else the quickest for a message
of 1 MiB to whole nanoseconds, then the fewest hops, then the first links in file order; none goes through a rank.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

_ROUTING_BYTES = 2**20
Route = tuple[int, ...]
"""Link directions: 2 l of link l from the first of its ends to the second, 2 l + 1 back."""


class _Link(NamedTuple):
    """A link of the long form."""

    ends: tuple[str, str]
    bytes_per_s: float
    seconds_a_message: float
    ns: int
    """For the routing message."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> _Link:
        first, second = entry["ends"]
        gbytes_per_s, latency_us = float(entry["gbytes_per_s"]), float(entry["latency_us"])
        ns = round(latency_us * 1000 + _ROUTING_BYTES / gbytes_per_s)
        return cls((str(first), str(second)), gbytes_per_s * 1e9, latency_us * 1e-6, ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkModel:
    """The routes between ranks, and what their links take."""

    routes: Mapping[tuple[int, int], Route]
    """Of every ordered pair of ranks."""
    links: Sequence[_Link]

    @classmethod
    def of(cls, topology: Mapping[str, Any]) -> LinkModel:
        """The model of a topology in long form.

        Raises:
            KeyError, TypeError, ValueError, ZeroDivisionError: it is none, or does not join two ranks.
        """
        ranks = [str(entry["name"]) for entry in topology["ranks"]]
        numbers = {name: number for number, name in enumerate([*ranks, *map(str, topology.get("switches", ()))])}
        links = [_Link.of(entry) for entry in topology["links"]]
        routes = {}
        for source in range(len(ranks)):
            for destination, route in _quickest(source, len(ranks), numbers, links):
                routes[source, destination], routes[destination, source] = route, _reverse(route)
        given = {}
        for pair, names in dict(topology.get("routes", {})).items():
            source, destination = (numbers[name] for name in str(pair).split("->"))
            given[source, destination] = _along([str(name) for name in names], links)
        routes |= {(q, p): _reverse(route) for (p, q), route in given.items()}
        routes |= given
        if len(routes) != len(ranks) * (len(ranks) - 1):
            raise ValueError("two ranks are not joined")
        return cls(routes=routes, links=links)

    def seconds_a_byte(self, source: int, destination: int) -> float:
        """What a byte more takes on the slowest link from one rank to another."""
        return 1 / min(self.links[direction // 2].bytes_per_s for direction in self.routes[source, destination])

    def seconds(self, bytes_PP: Sequence[Sequence[float]]) -> float:
        """Of an exchange that sends so many bytes from rank p (row) to rank q (column), each pair in one message."""
        loads: defaultdict[int, float] = defaultdict(float)
        for (p, q), route in self.routes.items():
            if bytes_PP[p][q]:
                for direction in route:
                    link = self.links[direction // 2]
                    loads[direction] += bytes_PP[p][q] / link.bytes_per_s + link.seconds_a_message
        return max(loads.values(), default=0.0)


def _quickest(
    source: int, num_ranks: int, numbers: Mapping[str, int], links: Sequence[_Link]
) -> Iterator[tuple[int, Route]]:
    """Every higher rank with the best route there, by Dijkstra over labels (nanoseconds, hops, links)."""
    leaving: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, link in enumerate(links):
        first, second = (numbers[name] for name in link.ends)
        leaving[first].append((number, 0, second))
        leaving[second].append((number, 1, first))
    queue: list[tuple[int, int, tuple[int, ...], int, Route]] = [(0, 0, (), source, ())]
    found = set()
    while queue:
        ns, hops, passed, node, route = heapq.heappop(queue)
        if node in found:
            continue
        found.add(node)
        if source < node < num_ranks:
            yield node, route
        if node < num_ranks and node != source:
            continue
        for number, direction, other in leaving[node]:
            if other > source and other not in found:
                label = ns + links[number].ns, hops + 1, (*passed, number)
                heapq.heappush(queue, (*label, other, (*route, 2 * number + direction)))


def _along(names: Sequence[str], links: Sequence[_Link]) -> Route:
    """The route through these nodes, by the quickest link of each step."""
    route = []
    for step in pairwise(names):
        _, number = min((link.ns, number) for number, link in enumerate(links) if set(link.ends) == set(step))
        route.append(2 * number + (links[number].ends[0] != step[0]))
    return tuple(route)


def _reverse(route: Route) -> Route:
    return tuple(direction ^ 1 for direction in reversed(route))
