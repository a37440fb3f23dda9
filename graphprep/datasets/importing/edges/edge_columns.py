"""Which column of a table of edges is what, for text with a header and for Parquet.

What was said counts most. Else, if the columns' names say which one is the source and which the destination, they
count; else the first two columns do that are not named as a weight, a time or a label and do not number the rows.
Weights and times are found by name, else in the first columns that are left. Names are compared in lower case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

NAMES = {
    "source": (
        *("src", "source", "from", "fromnodeid", "head", "u", "src_id", "source_id"),
        *("from_id", "from_node", "id1", "id_1", "node1", "node_1"),
    ),
    "destination": (
        *("dst", "dest", "destination", "target", "to", "tonodeid", "tail", "v", "dst_id", "target_id"),
        *("to_id", "to_node", "id2", "id_2", "node2", "node_2"),
    ),
    "weight": ("weight", "weights", "w", "edge_weight", "value", "rating"),
    "time": ("time", "times", "timestamp", "timestamps", "t", "edge_time", "ts", "unixts", "date", "datetime"),
}
PAIRS = (("user", "item"), ("user_id", "item_id"), ("userid", "itemid"), ("follower", "followee"))
"""names of two ends that say what the columns are, but not which way the edges go: the first column is the source"""
OTHER_VALUES = ("label", "labels", "class", "type", "kind", "relation", "rel", "predicate", "edge_type", "edge_label")
"""names of columns that are neither ends nor weights nor times"""


class Roles(NamedTuple):
    """Positions of columns; None where a role is not wanted."""

    src: int
    dst: int
    weight: int | None = None
    time: int | None = None

    def used(self) -> list[int]:
        """The positions in the order of the roles."""
        return [position for position in self if position is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedColumns:
    """Columns that a person names: each the name of one, or its number from 1; None to find it."""

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    time: str | None = None

    def any(self) -> bool:
        """Whether one is given."""
        return any((self.source, self.target, self.weight, self.time))


NO_COLUMNS = RequestedColumns()


def names_ends(names: Sequence[str]) -> bool:
    """Whether these are the names of columns, one of sources and one of destinations among them."""
    known = {name.strip().lower() for name in names}
    return all(known.intersection(NAMES[end]) for end in ("source", "destination")) or any(
        known.issuperset(pair) for pair in PAIRS
    )


def names_value(name: str) -> bool:
    """Whether a column of this name holds something else than ends."""
    return name.strip().lower() in (*NAMES["weight"], *NAMES["time"], *OTHER_VALUES)


def column_place(column: str, names: Sequence[str] | None, columns: int) -> int:
    """The position of a column that a person names.

    Args:
        column: its name, or its number from 1.
        names: of the columns, None if they have none.
        columns: how many there are.

    Raises:
        KeyError: there is none; the end of a sentence.
    """
    if names is not None and column in names:
        return list(names).index(column)
    if names is not None and (same := [name for name in names if name.strip().lower() == column.strip().lower()]):
        return list(names).index(same[0])
    if column.isdecimal() and 1 <= int(column) <= columns:
        return int(column) - 1
    known = f"; there are {', '.join(name or '(no name)' for name in names)}" if names else ""
    raise KeyError(f"there is no column {column!r} among the {columns}{known}")


def roles(
    names: Sequence[str] | None,
    columns: int,
    *,
    weights: bool,
    times: bool,
    requested: RequestedColumns = NO_COLUMNS,
    no_ends: Sequence[int] = (),
) -> Roles | None:
    """The roles of a table's columns; None if it has no column left for what is wanted.

    Args:
        names: of the columns, None if they have none.
        columns: how many there are.
        weights: whether one is wanted.
        times: likewise.
        requested: what a person says.
        no_ends: positions of columns that hold nothing of the edges: they number the rows.

    Raises:
        KeyError: a column that was named is not there; the end of a sentence.
    """
    named = {name.strip().strip('"').lower(): position for position, name in reversed(list(enumerate(names or ())))}
    said = {
        role: None if column is None else column_place(column, names, columns)
        for role, column in (
            ("source", requested.source),
            ("destination", requested.target),
            ("weight", requested.weight),
            ("time", requested.time),
        )
    }
    places_said = [place for place in said.values() if place is not None]
    if len(set(places_said)) < len(places_said):
        raise KeyError("one column is given for two things; the source, target, weight and time need one each")

    def called(role: str) -> int | None:
        if said[role] is not None:
            return said[role]
        places = (named[name] for name in NAMES[role] if name in named)
        return next((place for place in places if place not in places_said and place < columns), None)

    places = {role: called(role) for role in NAMES}
    src, dst = places["source"], places["destination"]
    if src is None or dst is None:
        others = {place for name, place in named.items() if name in OTHER_VALUES and len(named) - len(no_ends) > 2} | {
            place for place in (places["weight"], places["time"]) if place is not None
        }
        left = [place for place in range(columns) if place not in others and place not in no_ends]
        if said["source"] is not None or said["destination"] is not None:
            other = next((place for place in left if place not in (src, dst)), None)
            src, dst = other if src is None else src, other if dst is None else dst
            if src is None or dst is None:
                return None
        else:
            if len(left) < 2 and names is None:
                return None
            if len(left) < 2 or (src, dst) not in ((None, None), (left[0], None), (None, left[1])):
                return None  # one end is somewhere else, so the first two columns are not the ends
            src, dst = left[0], left[1]
    value_places: dict[str, int] = {}
    for role, needed in (
        ("weight", weights or requested.weight is not None),
        ("time", times or requested.time is not None),
    ):
        if not needed:
            continue
        place = places[role]
        if place is None or (place in (src, dst) and said[role] is None):
            used = {src, dst, *value_places.values(), *places.values(), *no_ends}
            place = next((position for position in range(columns) if position not in used), None)
        if place is None:
            return None
        value_places[role] = place
    if max(src, dst) >= columns:
        return None
    return Roles(src, dst, value_places.get("weight"), value_places.get("time"))
