"""Sort a stream of events by time in bounded memory; events of equal times keep the order of the input.

Runs of so many events as memory allows are sorted and written to files, one a column. A stream that is sorted already
stays as it is; else the runs are merged block by block. The merge goes on as far as the earliest end of a block:
everything up to there is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import EventRows
from graphprep.errors import DatasetError
from graphprep.temporal.events import ROWS_AT_A_TIME

MOST_RUN_BYTES = 256_000_000
COPIES = 4
"""of a run's bytes are in memory while it is sorted"""
LEAST_BLOCK_ROWS = 1024
EXACT = 2**53
"""whole numbers up to here are exact in float64"""
TIME = 2
"""the column of times"""


@dataclass(slots=True, kw_only=True, eq=False)
class EventSpool:
    """Events on their way to a store."""

    folder: Path
    """for the files; the caller removes it"""
    num_features: int
    has_states: bool
    budget: int
    """bytes that may be in memory"""
    num_events: int = 0
    is_sorted: bool = True
    """whether the runs follow each other in time"""
    was_sorted: bool = True
    """whether the events came in the order of time"""
    highest_state: int = 0
    _waiting: list[EventRows] = field(default_factory=list)
    _num_waiting: int = 0
    _runs: list[tuple[int, int]] = field(default_factory=list)
    _last_time: Any = None
    _dtypes: list[np.dtype[Any]] = field(init=False)
    _widths: list[int] = field(init=False)
    """of a row of each column, in elements"""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._dtypes = [np.dtype(name) for name in ("int64", "int64", "int64", "float32", "int64")]
        self._widths = [1, 1, 1, self.num_features, int(self.has_states)]

    @property
    def row_bytes(self) -> int:
        """Of one event."""
        return sum(dtype.itemsize * width for dtype, width in zip(self._dtypes, self._widths, strict=True))

    @property
    def run_rows(self) -> int:
        """Events that are sorted at a time."""
        return max(LEAST_BLOCK_ROWS, min(MOST_RUN_BYTES, self.budget // COPIES) // self.row_bytes)

    @property
    def time_dtype(self) -> np.dtype[Any]:
        """int64, or float64 where some time was no whole number's type."""
        return self._dtypes[TIME]

    @property
    def num_waiting(self) -> int:
        """Events that are in memory still."""
        return self._num_waiting

    def add(self, rows: EventRows) -> None:
        """Take in some events.

        Raises:
            DatasetError: some times are whole numbers that float64 cannot hold, and others are not whole.
        """
        self._agree_on_times(rows)
        if rows.y is not None and len(rows.y):
            self.highest_state = max(self.highest_state, int(rows.y.max()))
        self._waiting.append(rows)
        self._num_waiting += len(rows.time)
        if self._num_waiting >= self.run_rows:
            self._flush()

    def sorted_rows(self) -> Iterator[EventRows]:
        """All events in the order of time, once."""
        if self._num_waiting:
            self._flush()
        if not self.num_events:
            return
        with ExitStack() as stack:
            files = [stack.enter_context(self._file(column)) if width else None for column, width in self._columns()]
            if self.is_sorted:
                for start in range(0, self.num_events, ROWS_AT_A_TIME):
                    yield self._read(files, [(start, min(self.num_events, start + ROWS_AT_A_TIME))])
            else:
                yield from self._merged(files)

    def _columns(self) -> Iterator[tuple[int, int]]:
        return enumerate(self._widths)

    def _file(self, column: int, mode: str = "rb") -> BinaryIO:
        return (self.folder / f"column-{column}").open(mode)  # type: ignore[return-value]

    def _agree_on_times(self, rows: EventRows) -> None:
        if rows.time.dtype == self.time_dtype or self.time_dtype.kind == "f":
            return
        if not self.num_events and not self._waiting:
            self._dtypes[TIME] = rows.time.dtype
            return
        if self._num_waiting:
            self._flush()
        with self._file(TIME, "r+b") as file:
            for start in range(0, self.num_events, self.run_rows):
                file.seek(8 * start)
                whole = np.frombuffer(file.read(8 * self.run_rows), np.int64)
                if len(whole) and max(-int(whole.min()), int(whole.max())) > EXACT:
                    raise DatasetError(
                        "some times are whole numbers beyond 2^53 and others are not whole; give all in one form"
                    )
                file.seek(8 * start)
                file.write(whole.astype(np.float64).data)
        self._dtypes[TIME] = np.dtype(np.float64)

    def _flush(self) -> None:
        """Sort what is waiting, and append it to the files as a run."""
        waiting, self._waiting, self._num_waiting = self._waiting, [], 0
        times = np.concatenate([rows.time for rows in waiting]).astype(self.time_dtype, copy=False)
        if not len(times):
            return
        is_ascending = bool((times[1:] >= times[:-1]).all())
        order = None if is_ascending else np.argsort(times, kind="stable")
        for column, width in self._columns():
            if not width:
                continue
            whole = times if column == TIME else np.concatenate([rows[column] for rows in waiting])
            whole = whole.astype(self._dtypes[column], copy=False)
            with self._file(column, "ab") as file:
                file.write(np.ascontiguousarray(whole if order is None else whole[order]).data.cast("B"))
        first, last = (times[0], times[-1]) if order is None else (times[order[0]], times[order[-1]])
        self.is_sorted &= self._last_time is None or bool(first >= self._last_time)
        self.was_sorted &= self.is_sorted and order is None
        self._last_time = last
        self._runs.append((self.num_events, self.num_events + len(times)))
        self.num_events += len(times)

    def _read_column(self, file: BinaryIO, column: int, start: int, stop: int) -> NDArray[Any]:
        dtype, width = self._dtypes[column], self._widths[column]
        file.seek(start * width * dtype.itemsize)
        found = np.fromfile(file, dtype, (stop - start) * width)
        return found.reshape(stop - start, width) if column == 3 else found

    def _read(self, files: list[BinaryIO | None], ranges: list[tuple[int, int]]) -> EventRows:
        """Ranges of rows of the files behind each other."""
        columns = [
            None
            if file is None
            else np.concatenate([self._read_column(file, column, start, stop) for start, stop in ranges])
            for column, file in enumerate(files)
        ]
        return EventRows(*columns)  # type: ignore[arg-type]

    def _merged(self, files: list[BinaryIO | None]) -> Iterator[EventRows]:
        times_file = files[TIME]
        assert times_file is not None
        block_rows = max(LEAST_BLOCK_ROWS, min(self.run_rows, ROWS_AT_A_TIME) // len(self._runs))
        positions = [start for start, _ in self._runs]
        blocks: list[NDArray[Any]] = [np.empty(0, self.time_dtype)] * len(self._runs)
        while True:
            for run, (_, stop) in enumerate(self._runs):
                if not len(blocks[run]) and positions[run] < stop:
                    end = min(stop, positions[run] + block_rows)
                    blocks[run] = self._read_column(times_file, TIME, positions[run], end)
            unread = [run for run, (_, stop) in enumerate(self._runs) if positions[run] + len(blocks[run]) < stop]
            # Equal times go in the order of runs: behind the run that ends the block they wait for the rest of it.
            ending = min(unread, key=lambda run: (blocks[run][-1], run)) if unread else len(self._runs)
            ranges = []
            for run, block in enumerate(blocks):
                count = len(block)
                if unread:
                    side = "right" if run <= ending else "left"
                    count = int(np.searchsorted(block, blocks[ending][-1], side=side))  # type: ignore[call-overload]
                if count:
                    ranges.append((run, positions[run], positions[run] + count))
            if not ranges:
                return
            rows = self._read(files, [(start, stop) for _, start, stop in ranges])
            for run, start, stop in ranges:
                blocks[run] = blocks[run][stop - start :]
                positions[run] = stop
            order = np.argsort(rows.time, kind="stable")
            yield EventRows(*(None if column is None else column[order] for column in rows))  # type: ignore[arg-type]
