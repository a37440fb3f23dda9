"""The slowest link between two ranks, by the topology that the cache was made for.

Bytes are reported by link type, since a byte over the network costs more than one over NVLink. The rule is that of
docs/topology.md: a message goes by the path with the fewest seconds for 1 MiB, then the fewest hops, never through
another rank, unless the topology fixes the route. Only the type of its slowest link is wanted here, so ties between
equally quick paths are not broken further.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import pairwise

from trainer.cache import Cache

_MESSAGE_GBYTES = 2**20 / 1e9
_Hop = tuple[str, float, str]
"""Far end, seconds for 1 MiB, link type."""


def slowest_links(cache: Cache) -> list[list[str]]:
    """The type of the slowest link from rank p (row) to rank q (column); empty where p is q.

    Raises:
        CacheError: the topology is malformed.
    """
    topology = cache.topology
    try:
        names = [str(rank["name"]) for rank in topology["ranks"]]
        hops: dict[str, list[_Hop]] = {name: [] for name in [*names, *map(str, topology["switches"])]}
        for link in topology["links"]:
            one, other = map(str, link["ends"])
            seconds = _MESSAGE_GBYTES / float(link["gbytes_per_s"]) + float(link["latency_us"]) * 1e-6
            hops[one].append((other, seconds, str(link["type"])))
            hops[other].append((one, seconds, str(link["type"])))
        fixed = {tuple(key.split("->")): list(map(str, path)) for key, path in topology.get("routes", {}).items()}
        fixed = {pair[::-1]: path[::-1] for pair, path in fixed.items()} | fixed
        return [
            [_slowest_on(fixed[p, q], hops) if (p, q) in fixed else quickest.get(q, "") for q in names]
            for p in names
            for quickest in [_quickest(p, hops, set(names))]
        ]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise cache.manifest.damaged("zarr.json", f"has a topology with a malformed link ({error!r})") from error


def _quickest(start: str, hops: Mapping[str, Sequence[_Hop]], ranks: set[str]) -> dict[str, str]:
    """The type of the slowest link on the quickest path from `start` to every other rank, by Dijkstra's algorithm."""
    found: dict[str, str] = {}
    waiting: list[tuple[float, int, str, float, str]] = [(0.0, 0, start, 0.0, "")]
    while waiting:
        seconds, length, here, slowest, link_type = heapq.heappop(waiting)
        if here in found:
            continue
        found[here] = link_type
        if here in ranks and here != start:
            continue
        for there, more, there_type in hops[here]:
            worst = max((slowest, link_type), (more, there_type), key=lambda link: link[0])
            heapq.heappush(waiting, (seconds + more, length + 1, there, *worst))
    return found


def _slowest_on(path: Sequence[str], hops: Mapping[str, Sequence[_Hop]]) -> str:
    """The type of the slowest link on a path of names, each step by the quickest link between its ends."""
    steps = [
        min((seconds, link_type) for far, seconds, link_type in hops[here] if far == there)
        for here, there in pairwise(path)
    ]
    return max(steps, key=lambda step: step[0])[1]
