"""The time index: the events of each node in the order of time, with the node at the other end of each.

Every event has two entries, one at each end (an event from a node to itself has both at that node). Entries are made
for as many nodes at a time as memory allows, each time by one pass over the events, and are written in the order of
nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.format import payload_path
from graphprep.system import progress
from graphprep.temporal.events import EventSource
from graphprep.temporal.format import DESTINATION, INDEX_EVENT, INDEX_NEIGHBOUR, INDEX_OFFSETS, SOURCE
from graphprep.temporal.time_index_kernels import count_ends, place_ends

BYTES_AN_ENTRY = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeIndex:
    """An index that has been written."""

    folder: Path
    """of the cache"""
    offsets_N: NDArray[np.int64]
    """[N + 1]"""

    def entries(self, low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The events and neighbours of nodes `low` to `high`, read without a memory map."""
        start, count = int(self.offsets_N[low]), int(self.offsets_N[high] - self.offsets_N[low])
        event_k, neighbour_k = (
            np.fromfile(self.folder / payload_path(name, 1), np.int64, count, offset=8 * start)
            for name in (INDEX_EVENT, INDEX_NEIGHBOUR)
        )
        return event_k, neighbour_k

    def ranges(self, entry_bytes: int) -> Iterator[tuple[int, int]]:
        """Ranges of nodes whose entries take about so many bytes; a node with more is a range of its own."""
        return _node_ranges(self.offsets_N, max(1, entry_bytes // BYTES_AN_ENTRY))


def write_time_index(writer: FolderWriter, events: EventSource, *, entry_bytes: int) -> TimeIndex:
    """Write the index of all events.

    Args:
        writer: of the cache.
        events: in the order of time.
        entry_bytes: how many bytes of entries may be in memory at once.
    """
    offsets_N = index_offsets(events)
    writer.array(INDEX_OFFSETS, offsets_N)
    int64 = np.dtype(np.int64)
    with (
        writer.growing_array(INDEX_EVENT, int64) as append_events,
        writer.growing_array(INDEX_NEIGHBOUR, int64) as append_neighbours,
        progress.task("writing the time index", total=events.num_nodes, unit="nodes") as task,
    ):
        for low, high in _node_ranges(offsets_N, max(1, entry_bytes // BYTES_AN_ENTRY)):
            event_k, neighbour_k = index_entries(events, offsets_N, low, high)
            append_events(event_k)
            append_neighbours(neighbour_k)
            task.advance(high - low)
    return TimeIndex(folder=writer.folder, offsets_N=offsets_N)


def index_offsets(events: EventSource) -> NDArray[np.int64]:
    """Where the entries of each node begin; int64 [N + 1]."""
    counts_N = np.zeros(events.num_nodes, np.int64)
    for source_m, destination_m in zip(events.rows(SOURCE), events.rows(DESTINATION), strict=True):
        count_ends(source_m, destination_m, counts_N)
    return np.concatenate([[0], np.cumsum(counts_N)])


def index_entries(
    events: EventSource, offsets_N: NDArray[np.int64], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The events and neighbours of nodes `low` to `high`, by one pass over the events."""
    place_n = offsets_N[low:high] - offsets_N[low]
    event_k, neighbour_k = np.empty((2, int(offsets_N[high] - offsets_N[low])), np.int64)
    pieces = zip(events.rows(SOURCE), events.rows(DESTINATION), strict=True)
    first_event = 0
    for source_m, destination_m in pieces:
        place_ends(source_m, destination_m, first_event, low, high, place_n, event_k, neighbour_k)
        first_event += len(source_m)
    return event_k, neighbour_k


def _node_ranges(offsets_N: NDArray[np.int64], entries_at_a_time: int) -> Iterator[tuple[int, int]]:
    """Ranges of nodes with about so many entries each; a node with more is a range of its own."""
    low, num_nodes = 0, len(offsets_N) - 1
    while low < num_nodes:
        end = int(np.searchsorted(offsets_N, offsets_N[low] + entries_at_a_time, side="right")) - 1
        high = min(num_nodes, max(low + 1, end))
        yield low, high
        low = high
