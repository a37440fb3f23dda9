"""What a person asks of the generator of events."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option, required

MOST_NODES = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsRequest:
    """A stream of events between nodes of groups that become active one after the other, as an event store."""

    nodes: int = required("Number of nodes.", at_least=2, at_most=MOST_NODES)
    events: int = required("Number of events.", at_least=1)
    groups: int = option(64, "Groups of nodes, most of whose events are among themselves.", at_least=1)
    inside: float = option(0.9, "Probability that both ends of an event are in one group.")
    days: float = option(100.0, "Time that the events span.", above=0, at_most=1e6)
    features: int = option(0, "Number of features of each event; 0 for none.", at_least=0)
    seed: int = option(0, "Seed of all random numbers.", at_least=0)

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 <= self.inside <= 1:
            raise UsageError(f"--inside {self.inside} is a probability, from 0 to 1")
        if 2 * self.groups > self.nodes:
            raise UsageError(
                f"--groups {self.groups} of --nodes {self.nodes} have less than two nodes each; give fewer groups"
            )
