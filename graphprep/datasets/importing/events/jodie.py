"""JODIE's layout: user_id,item_id,timestamp,state_label,comma_separated_list_of_features; one event a line.

Users and items are counted on their own, so an item is not the user of its number: in the store items follow users.
The state is that of the user right after the event (0, or 1 where a user was banned, or left a course).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graphprep.core.event_rows import EventReader, EventRows, NodesOfEvents
from graphprep.datasets.importing.events.number_rows import Kind, num_fields, number_rows
from graphprep.datasets.importing.events.two_kinds import TwoKinds
from graphprep.errors import DatasetError

JODIE_NAMES = ("user_id", "item_id", "timestamp", "state_label")
FIRST_KINDS: tuple[Kind, ...] = ("id", "id", "time", "state")


class JodieEvents(EventReader):
    """One file."""

    def __init__(self, path: Path) -> None:
        """Look at the first row.

        Raises:
            DatasetError: it has fewer than four fields.
        """
        self.path = path
        fields = num_fields(path)
        if fields < len(FIRST_KINDS):
            raise DatasetError(
                f"{path} has {fields} fields a row, and the layout of JODIE needs {', '.join(JODIE_NAMES)} and features"
            )
        self.num_features = fields - len(FIRST_KINDS)
        self.has_states = True
        self._ids = TwoKinds()
        self._nodes: NodesOfEvents | None = None

    def rows(self) -> Iterator[EventRows]:
        kinds = (*FIRST_KINDS, *["number"] * self.num_features)
        for user, item, time, state, *features in number_rows(self.path, kinds):  # type: ignore[arg-type]
            yield EventRows(
                source=self._ids.sources.codes(user),
                destination=self._ids.destinations.codes(item),
                time=time,
                x=np.stack(features, axis=1).astype(np.float32) if features else None,
                y=state,
            )

    def nodes(self) -> NodesOfEvents:
        if self._nodes is None:
            self._nodes = self._ids.nodes()
        return self._nodes

    def read_as(self) -> list[str]:
        kinds = self.nodes().notes["kinds"]
        users, items = kinds["user"][1], kinds["item"][1]
        words = f"{users:,} users and after them {items:,} items, {self.num_features} features an event, states"
        return [f"{self.path.name}: the layout of JODIE, {words}"]
