"""What TGN's and TGB's preprocessing writes: ml_NAME.csv with the columns u, i, ts, label, idx, and two arrays.

Nodes and events are counted from 1. `ml_NAME.npy` has the features of event idx in row idx, and `ml_NAME_node.npy`
those of node u in row u; row 0 of both is padding. Without the second there are as many nodes as the highest number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import EventReader, EventRows, NodesOfEvents
from graphprep.core.types import Ids
from graphprep.datasets.formats.arrays import map_npy
from graphprep.datasets.formats.text_file import first_bytes
from graphprep.datasets.importing.events.number_rows import Kind, num_fields, number_rows
from graphprep.errors import DatasetError
from graphprep.system import progress

TGN_NAMES = ("u", "i", "ts", "label", "idx")
KINDS: dict[str, Kind] = {"u": "id", "i": "id", "ts": "time", "label": "state", "idx": "index"}


class TgnEvents(EventReader):
    """One table with its arrays."""

    def __init__(self, path: Path) -> None:
        """Find the columns and the arrays.

        Raises:
            DatasetError: a column is missing, or an array is not what it should be.
        """
        self.path = path
        names = first_bytes(path, 1 << 16).split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(",")
        names = [name.strip().lower() for name in names]
        if missing := [name for name in TGN_NAMES if name not in names]:
            raise DatasetError(f"{path} has no column {missing[0]}; the layout tgn has {', '.join(TGN_NAMES)}")
        fields = num_fields(path)
        if fields != len(names):
            raise DatasetError(f"{path}, line 2: there are {fields} fields and the first line names {len(names)}")
        self._kinds: list[Kind] = [KINDS.get(name, "number") for name in names]
        self._places = [names.index(name) for name in TGN_NAMES]
        self._x_file, self._node_file = arrays_beside(path)
        self._x, self._node_x = self._rows_from_1(self._x_file), self._rows_from_1(self._node_file)
        self.num_features = 0 if self._x is None else int(self._x.shape[1])
        self.has_states = True
        self._highest = 0

    @staticmethod
    def _rows_from_1(path: Path) -> NDArray[Any] | None:
        """An array without its row 0; None where the file is not there."""
        if not path.exists():
            progress.say(f"{path.name} is not beside the events, so they are imported without its features")
            return None
        try:
            found = map_npy(path, "fiu", (None, None))
        except DatasetError as error:
            raise DatasetError(f"{path} cannot be used: {error}") from error
        if not np.isfinite(found[:1]).all() or not len(found):
            raise DatasetError(f"{path} has no row 0 of finite numbers, which pads the features; write it again")
        return found

    def rows(self) -> Iterator[EventRows]:
        for columns in number_rows(self.path, self._kinds):
            source, destination, time, state, index = (columns[place] for place in self._places)
            for ids, what in ((source, "u"), (destination, "i")):
                if len(ids) and int(ids.min()) < 1:
                    raise DatasetError(f"{self.path} has the node 0 in column {what}, and the layout tgn counts from 1")
            self._highest = max(self._highest, int(source.max()), int(destination.max()))
            yield EventRows(source=source - 1, destination=destination - 1, time=time, x=self._features(index), y=state)

    def _features(self, index: NDArray[np.int64]) -> NDArray[np.float32] | None:
        if self._x is None:
            return None
        if int(index.max()) >= len(self._x):
            raise DatasetError(
                f"{self.path} has the event {int(index.max())}, but {self._x_file.name} ends at {len(self._x) - 1}"
            )
        x = self._x[index].astype(np.float32)
        if not np.isfinite(x).all():
            row = int(index[np.flatnonzero(~np.isfinite(x).all(axis=1))[0]])
            raise DatasetError(f"{self._x_file}: row {row} has a value that is not finite; correct it")
        return x

    def nodes(self) -> NodesOfEvents:
        num_nodes = self._highest
        if self._node_x is not None:
            num_nodes = len(self._node_x) - 1
            if self._highest > num_nodes:
                raise DatasetError(
                    f"{self.path} has the node {self._highest}, but {self._node_file.name} ends at {num_nodes}"
                )
        x = None if self._node_x is None else self._node_x[1:]
        if x is not None and not x.any():
            progress.say(f"all of {self._node_file.name} is 0, so no features of nodes are kept")
            x = None
        return NodesOfEvents(num_nodes=num_nodes, sources=_as_they_are, destinations=_as_they_are, x=x)

    def read_as(self) -> list[str]:
        return [f"{self.path.name}: the layout tgn, nodes from 1 on, {self.num_features} features an event"]


def arrays_beside(path: Path) -> tuple[Path, Path]:
    """Where the features of the events and of the nodes of a table would be."""
    return path.with_suffix(".npy"), path.with_name(f"{path.stem}_node.npy")


def _as_they_are(numbers: Ids) -> Ids:
    return numbers
