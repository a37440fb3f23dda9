"""What a person asks of an event cache."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option

EVENT_PURPOSES = {
    "events": "of an event store: its stream, by TGN and others in continuous time",
    "snapshots": "of an event store: windows of time, by T-GCN and others in discrete time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCacheRequest:
    """The options of event caches alone."""

    window: str | None = option(
        None,
        "Of event stores: length of a snapshot, a number with ms, s, min, h, d or w; needed for snapshots.",
        metavar="LENGTH",
    )
    split: str = option(
        "0.7,0.15,0.15",
        "Of event stores: shares of the events to train, to validate and to test, by time.",
        metavar="SHARES",
    )
    half_life: str | None = option(
        None,
        "Of event stores: time after which a partner of a node, and the load of a rank, counts half where nodes are "
        "assigned to ranks; by default a twentieth of the time that events span.",
        metavar="LENGTH",
    )
    snapshot_cost: str = option(
        "0,1,1",
        "Of event stores: what a snapshot costs, and each of its events and of its active nodes, e.g. seconds; groups "
        "of snapshots have equal sums.",
        metavar="A,B,C",
    )
    ranks_per_group: int = option(
        1,
        "Of event stores: how many ranks share a group of snapshots, each with its own nodes; for snapshots that one "
        "rank cannot hold, and for more ranks than snapshots. It divides --parts.",
        at_least=1,
    )

    def __post_init__(self) -> None:
        check_options(self)
        cost = self.costs
        if len(cost) != 3 or min(cost) < 0 or sum(cost) <= 0:
            raise UsageError(
                f"--snapshot-cost {self.snapshot_cost} is not three numbers from 0 on, one above 0; give e.g. 0,1,1"
            )
        _ = self.shares

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the split; `split_by_time` checks them."""
        return _numbers("--split", self.split)

    @property
    def costs(self) -> tuple[float, ...]:
        """Of a snapshot, an event and a node."""
        return _numbers("--snapshot-cost", self.snapshot_cost)


def _numbers(flag: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r} is not numbers with commas between; give e.g. 0.7,0.15,0.15") from error
