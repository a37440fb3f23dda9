"""A stream of events: pairs of nodes with times, in the order of time. It is in memory, or in files that are read piece
by piece.

Letters: M events, N nodes, F features of an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import ChangingFeatures
from graphprep.errors import DatasetError
from graphprep.temporal.changing_features import FeatureHistory
from graphprep.temporal.format import DESTINATION, EVENT_X, EVENT_Y, NODE_X, SOURCE, TIME

ROWS_AT_A_TIME = 1 << 19
"""of events that are copied or looked through"""


class EventSource(Protocol):
    """Where the arrays of a stream of events are read from."""

    @property
    def num_events(self) -> int:
        """M"""

    @property
    def num_nodes(self) -> int:
        """N"""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """By the names of the format: `events/source` and the like. They may be memory maps."""

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Iterator[NDArray[Any]]:
        """Rows `start` to `stop` of one of them in pieces of at most `ROWS_AT_A_TIME`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventArrays:
    """Events in memory."""

    arrays: Mapping[str, NDArray[Any]]
    num_nodes: int

    @classmethod
    def of(
        cls,
        source: NDArray[Any],
        destination: NDArray[Any],
        time: NDArray[Any],
        *,
        x: NDArray[Any] | None = None,
        y: NDArray[Any] | None = None,
        node_x: NDArray[Any] | None = None,
        changing: ChangingFeatures | None = None,
        num_nodes: int | None = None,
    ) -> EventArrays:
        """From arrays in any order of time; events of equal times keep their order.

        Args:
            source, destination: numbers of nodes, [M].
            time: whole or floating-point numbers, [M].
            x: features of the events, [M, F].
            y: the state of each event's source after it, [M].
            node_x: features of the nodes, [N, D].
            changing: features of the nodes that change.
            num_nodes: N; None for the highest number of a node and one.

        Raises:
            DatasetError: lengths differ, a number of a node is out of range, or a time is not finite.
        """
        columns = {SOURCE: source, DESTINATION: destination, TIME: time, EVENT_X: x, EVENT_Y: y}
        given = {name: np.asarray(column) for name, column in columns.items() if column is not None}
        for name, column in given.items():
            if len(column) != len(given[TIME]):
                raise DatasetError(f"{name} has {len(column)} rows for {len(given[TIME])} times; give one an event")
        times = given[TIME]
        if times.dtype.kind == "f" and not np.isfinite(times).all():
            row = int(np.flatnonzero(~np.isfinite(times))[0])
            raise DatasetError(f"the time of event {row} is {times[row]}; give each event a finite time")
        if num_nodes is None:
            num_nodes = len(node_x) if node_x is not None else _end(given[SOURCE], given[DESTINATION])
        for name in (SOURCE, DESTINATION):
            ids = given[name]
            if len(ids) and (ids.min() < 0 or ids.max() >= num_nodes):
                wrong = int(ids.min() if ids.min() < 0 else ids.max())
                raise DatasetError(f"{name} names node {wrong} and nodes are 0 .. {num_nodes - 1}; give other numbers")
        if node_x is not None and len(node_x) != num_nodes:
            raise DatasetError(f"{NODE_X} has {len(node_x)} rows for {num_nodes} nodes; give one a node")
        order = np.argsort(times, kind="stable")
        dtypes = {
            SOURCE: np.int64,
            DESTINATION: np.int64,
            TIME: time_dtype(times.dtype),
            EVENT_X: np.float32,
            EVENT_Y: np.int64,
        }
        arrays = {name: column[order].astype(dtypes[name], copy=False) for name, column in given.items()}
        if node_x is not None:
            arrays[NODE_X] = np.asarray(node_x, np.float32)
        if changing is not None:
            arrays |= FeatureHistory.sorted(changing, num_nodes, arrays[TIME].dtype).named()
        return cls(arrays=arrays, num_nodes=num_nodes)

    @property
    def num_events(self) -> int:
        return len(self.arrays[TIME])

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Iterator[NDArray[Any]]:
        array = self.arrays[name]
        end = len(array) if stop is None else stop
        for first in range(start, end, ROWS_AT_A_TIME):
            yield array[first : min(end, first + ROWS_AT_A_TIME)]


def time_dtype(dtype: np.dtype[Any]) -> type[np.int64 | np.float64]:
    """The type that times are kept in: whole numbers stay whole."""
    return np.float64 if dtype.kind == "f" else np.int64


def _end(*ids: NDArray[Any]) -> int:
    return max((int(numbers.max()) + 1 for numbers in ids if len(numbers)), default=0)
