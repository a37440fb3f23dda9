"""Which column of a table of edges is what, for text with a header and for Parquet.

If the columns' names say which one is the source and which the destination, they count; else the first two columns do.
Weights and times are found by name, else in the first columns that are left. Names are compared in lower case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NAMES = {
    "source": ("src", "source", "from", "fromnodeid", "head", "u", "src_id", "source_id"),
    "destination": ("dst", "dest", "destination", "target", "to", "tonodeid", "tail", "v", "dst_id", "target_id"),
    "weight": ("weight", "weights", "w", "edge_weight", "value", "rating"),
    "time": ("time", "times", "timestamp", "timestamps", "t", "edge_time", "ts", "unixts"),
}


class Roles(NamedTuple):
    """Positions of columns; None where a role is not wanted."""

    src: int
    dst: int
    weight: int | None = None
    time: int | None = None

    def used(self) -> list[int]:
        """The positions in the order of the roles."""
        return [position for position in self if position is not None]


def names_ends(names: Sequence[str]) -> bool:
    """Whether these are the names of columns, one of sources and one of destinations among them."""
    known = {name.strip().lower() for name in names}
    return all(known.intersection(NAMES[end]) for end in ("source", "destination"))


def roles(names: Sequence[str] | None, columns: int, *, weights: bool, times: bool) -> Roles | None:
    """The roles of a table's columns; None if it has no column left for what is wanted.

    Args:
        names: of the columns, None if they have none.
        columns: how many there are.
        weights: whether one is wanted.
        times: likewise.
    """
    named = {name.strip().strip('"').lower(): position for position, name in reversed(list(enumerate(names or ())))}

    def called(role: str) -> int | None:
        return next((named[name] for name in NAMES[role] if name in named), None)

    places = {role: called(role) for role in NAMES}
    src, dst = places["source"], places["destination"]
    if src is None or dst is None:
        if (src, dst) not in ((None, None), (0, None), (None, 1)):
            return None  # one end is somewhere else, so the first two columns are not the ends
        src, dst = 0, 1
    found: dict[str, int] = {}
    for role, wanted in (("weight", weights), ("time", times)):
        if not wanted:
            continue
        place = places[role]
        if place is None or place in (src, dst):
            taken = {src, dst, *found.values(), *(place for place in places.values() if place is not None)}
            place = next((position for position in range(columns) if position not in taken), None)
        if place is None:
            return None
        found[role] = place
    if max(src, dst) >= columns:
        return None
    return Roles(src, dst, found.get("weight"), found.get("time"))
