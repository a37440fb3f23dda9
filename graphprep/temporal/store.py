"""Event stores, and views of them: windows of time, snapshots and splits, none of which copies an event."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.original_ids import OriginalIds
from graphprep.errors import DatasetError, UsageError
from graphprep.temporal.changing_features import FeatureHistory
from graphprep.temporal.folder import ArrayFolder
from graphprep.temporal.format import (
    CHANGING_OFFSETS,
    CHANGING_TIME,
    CHANGING_X,
    DESTINATION,
    EVENT_STORE_KIND,
    EVENT_X,
    EVENT_Y,
    NODE_X,
    ORIGINAL_ID,
    SOURCE,
    TIME,
    WORD_BYTES,
    WORD_OFFSETS,
)
from graphprep.temporal.splits import DEFAULT_SHARES, split_by_time
from graphprep.temporal.windows import in_units, snapshot_offsets, window_seconds

if TYPE_CHECKING:
    from torch_geometric.data import TemporalData


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventView:
    """A range of the events of a store; arrays are views of memory maps and read-only."""

    store: EventStore
    first: int
    """number of its first event"""
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def source(self) -> NDArray[np.int64]:
        """Rows of nodes, int64 [m]."""
        return self._rows(SOURCE)

    @property
    def destination(self) -> NDArray[np.int64]:
        """Rows of nodes, int64 [m]."""
        return self._rows(DESTINATION)

    @property
    def time(self) -> NDArray[Any]:
        """int64 or float64 [m], ascending."""
        return self._rows(TIME)

    @property
    def x(self) -> NDArray[np.float32] | None:
        """Features of events [m, F]; None where they have none."""
        return self._rows(EVENT_X) if self.store.has(EVENT_X) else None

    @property
    def y(self) -> NDArray[np.int64] | None:
        """The state of each event's source after it, int64 [m]; None where events say none."""
        return self._rows(EVENT_Y) if self.store.has(EVENT_Y) else None

    def _rows(self, name: str) -> NDArray[Any]:
        return self.store.arrays[name][self.first : self.stop]

    def window(self, start: float | None = None, end: float | None = None) -> EventView:
        """The events of times from `start` up to below `end`, in the unit of the times; None for no limit."""
        if start is not None and end is not None and end < start:
            raise UsageError(f"a window from {start:g} to {end:g} ends before it begins; give the earlier time first")
        first = 0 if start is None else int(np.searchsorted(self.time, start, side="left"))
        stop = len(self) if end is None else int(np.searchsorted(self.time, end, side="left"))
        return EventView(store=self.store, first=self.first + first, stop=self.first + stop)

    def snapshots(self, window: str | float) -> list[EventView]:
        """The events of each window of time from the first event on, windows without events among them.

        Args:
            window: with a unit (`1d`, `6h`), or a number in the unit of the times.

        Raises:
            UsageError: it is not positive, there is no event, or there would be very many windows.
        """
        offsets = snapshot_offsets(self.time, self.store.window_in_units(window)) + self.first
        return [
            EventView(store=self.store, first=first, stop=stop) for first, stop in itertools.pairwise(offsets.tolist())
        ]

    def split(self, shares: Sequence[float] = DEFAULT_SHARES) -> tuple[EventView, EventView, EventView]:
        """The events to train, to validate and to test, each strictly later than those before.

        Raises:
            UsageError: the shares are wrong, or one of the three would have no event.
        """
        validation, test = split_by_time(self.time, shares)
        borders = [self.first, self.first + validation, self.first + test, self.stop]
        train, val, test_view = (
            EventView(store=self.store, first=first, stop=stop) for first, stop in itertools.pairwise(borders)
        )
        return train, val, test_view

    def to_pyg(self) -> TemporalData:
        """The events as PyTorch Geometric's TemporalData: src, dst, t, msg (features), y (states).

        Its tensors are copies. Times that are not whole are rounded down, as PyTorch Geometric wants whole ones.
        """
        import torch
        from torch_geometric.data import TemporalData

        arrays = {"src": self.source, "dst": self.destination, "t": np.floor(self.time).astype(np.int64)}
        arrays["msg"] = np.zeros((len(self), 0), np.float32) if self.x is None else self.x
        if self.y is not None:
            arrays["y"] = self.y
        return TemporalData(**{name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


class EventStore(ArrayFolder):
    """A finished event store, opened for reading."""

    kind = EVENT_STORE_KIND
    called = "an event store"
    error = DatasetError
    again = "import it again with --replace"
    required = (SOURCE, DESTINATION, TIME)
    kinds = {"time_range": list, "notes": dict}  # noqa: RUF012

    def __len__(self) -> int:
        return self.num_events

    @property
    def events(self) -> EventView:
        """All events."""
        return EventView(store=self, first=0, stop=self.num_events)

    @property
    def time_range(self) -> tuple[float, float]:
        """The first and the last time."""
        first, last = self.attributes["time_range"]
        return first, last

    @property
    def node_x(self) -> NDArray[np.float32] | None:
        """Features of nodes [N, D]; None where they have none."""
        return self.arrays.get(NODE_X)

    @property
    def changing_features(self) -> FeatureHistory | None:
        """Features of nodes that change; None where none do."""
        if not self.has(CHANGING_X):
            return None
        return FeatureHistory(
            offsets_N=self.arrays[CHANGING_OFFSETS], time_R=self.arrays[CHANGING_TIME], x_RD=self.arrays[CHANGING_X]
        )

    def window(self, start: float | None = None, end: float | None = None) -> EventView:
        """The events of times from `start` up to below `end`; see `EventView.window`."""
        return self.events.window(start, end)

    def snapshots(self, window: str | float) -> list[EventView]:
        """The events of each window of time; see `EventView.snapshots`."""
        return self.events.snapshots(window)

    def split(self, shares: Sequence[float] = DEFAULT_SHARES) -> tuple[EventView, EventView, EventView]:
        """The events to train, to validate and to test; see `EventView.split`."""
        return self.events.split(shares)

    def to_pyg(self) -> TemporalData:
        """All events as PyTorch Geometric's TemporalData."""
        return self.events.to_pyg()

    def window_in_units(self, window: str | float) -> float:
        """A window with a unit, or a number, in the unit of the times."""
        if isinstance(window, str):
            return in_units(window_seconds(window), self.time_unit)
        if not window > 0:
            raise UsageError(f"a window of {window:g} is not above 0; give a positive number, or e.g. 1d")
        return float(window)

    def original_ids(self) -> OriginalIds | None:
        """The ids that nodes had in the source, by row; None where these are the row numbers."""
        if self.has(ORIGINAL_ID):
            return OriginalIds(numbers=self.array(ORIGINAL_ID))
        if not self.has(WORD_OFFSETS):
            return None
        return OriginalIds.of_words(self.array(WORD_OFFSETS), self.array(WORD_BYTES), self.location, DatasetError)

    def check(self) -> int:
        """Read all and check it; returns the number of files.

        Raises:
            DatasetError: a file has changed, times do not ascend, or an event names a node that is not there.
        """
        files = self.verify_files()
        self.check_events()
        return files
