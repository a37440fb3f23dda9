"""Seeded events in chunks, each from its own stream of random numbers, that come somewhat out of order.

Time goes on with the number of an event, faster by night than by day, and each event is delayed by some minutes. Half
of the events are in the groups that are active at the time; few nodes of a group have most of its events.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import EventReader, EventRows, NodesOfEvents
from graphprep.core.types import Ids
from graphprep.datasets.generators.events import EventsRequest

EVENTS_AT_A_TIME = 1 << 18
SECONDS_A_DAY = 86_400.0
DELAY_SECONDS = 300.0
DAILY = 0.8
"""how much of the activity goes up and down within a day"""
SKEW = 3.0
"""a node's place in its group is u^SKEW for a uniform u"""
ACTIVE_SHARE = 0.05
"""of the groups are active at a time"""


class GeneratedEvents(EventReader):
    """The stream of a request."""

    def __init__(self, request: EventsRequest) -> None:
        self.request = request
        self.num_features, self.has_states = request.features, False

    def rows(self) -> Iterator[EventRows]:
        for number, start in enumerate(range(0, self.request.events, EVENTS_AT_A_TIME)):
            yield _chunk(self.request, number, start, min(EVENTS_AT_A_TIME, self.request.events - start))

    def nodes(self) -> NodesOfEvents:
        return NodesOfEvents(num_nodes=self.request.nodes, sources=_as_they_are, destinations=_as_they_are)

    def read_as(self) -> list[str]:
        return [f"generated: {self.request.groups:,} groups, seed {self.request.seed}"]


def _as_they_are(numbers: Ids) -> Ids:
    return numbers


def _chunk(request: EventsRequest, number: int, start: int, count: int) -> EventRows:
    rng = np.random.default_rng([request.seed, 5, number])
    share = (start + np.arange(count)) / request.events
    days = share * request.days
    days -= DAILY * np.sin(2 * np.pi * days) / (2 * np.pi)
    time = (days * SECONDS_A_DAY + rng.exponential(DELAY_SECONDS, count)).astype(np.int64)
    active = (share * request.groups + rng.exponential(max(1.0, request.groups * ACTIVE_SHARE), count)).astype(np.int64)
    group = np.where(rng.random(count) < 0.5, active, rng.integers(0, request.groups, count)) % request.groups
    other = np.where(rng.random(count) < request.inside, group, rng.integers(0, request.groups, count))
    source, destination = _member(request, group, rng), _member(request, other, rng)
    same = source == destination
    destination[same] = (destination[same] + request.groups) % request.nodes
    x = rng.standard_normal((count, request.features), np.float32) if request.features else None
    return EventRows(source=source, destination=destination, time=time, x=x)


def _member(request: EventsRequest, group: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A node of each group: those of group g are g, g + groups, g + 2 groups ..."""
    size = (request.nodes - 1 - group) // request.groups + 1
    return group + request.groups * (size * rng.random(len(group)) ** SKEW).astype(np.int64)
