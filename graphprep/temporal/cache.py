"""Event caches, opened for reading."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import payload_path
from graphprep.errors import CacheError
from graphprep.system import progress
from graphprep.temporal.folder import ArrayFolder
from graphprep.temporal.format import (
    DESTINATION,
    EVENT_CACHE_KIND,
    EVENT_FORMAT,
    INDEX_EVENT,
    INDEX_NEIGHBOUR,
    INDEX_OFFSETS,
    MEMBER_OF,
    RANK_OF,
    SHARED_FORMAT,
    SNAPSHOT_GROUP,
    SNAPSHOT_OFFSETS,
    SOURCE,
    TIME,
)
from graphprep.temporal.time_index import TimeIndex, index_entries

ENTRY_BYTES = 128_000_000


class EventCache(ArrayFolder):
    """A finished event cache."""

    kind = EVENT_CACHE_KIND
    called = "an event cache"
    error = CacheError
    again = "partition again with --replace"
    formats = (EVENT_FORMAT, SHARED_FORMAT)
    required = (SOURCE, DESTINATION, TIME, RANK_OF, INDEX_OFFSETS, INDEX_EVENT, INDEX_NEIGHBOUR)
    kinds = {"num_parts": int, "num_snapshots": int, "split": list, "options": dict, "quality": dict}  # noqa: RUF012

    @property
    def num_parts(self) -> int:
        """P"""
        return int(self.attributes["num_parts"])

    @property
    def ranks_per_group(self) -> int:
        """S, how many ranks share a group of snapshots."""
        if self.attributes["graphprep_format"] == EVENT_FORMAT:
            return 1
        number = self.attributes.get("ranks_per_group")
        if type(number) is not int or number < 1 or self.num_parts % number:
            raise self.fault("is damaged: its zarr.json has a wrong number of ranks that share a group")
        return number

    @property
    def split(self) -> tuple[int, int]:
        """First event to validate, first event to test."""
        borders = self.attributes["split"]
        if [type(border) for border in borders] != [int, int]:
            raise self.fault("is damaged: its zarr.json has a wrong split")
        return borders[0], borders[1]

    @property
    def quality(self) -> dict[str, Any]:
        """The figures of the ranks, and of the snapshots where there are some."""
        found = dict(self.attributes["quality"])
        if "ranks" not in found or (self.has(SNAPSHOT_GROUP) and "snapshots" not in found):
            raise self.fault("is damaged: its zarr.json lacks figures of its ranks or snapshots")
        if self.ranks_per_group > 1 and "members" not in found:
            raise self.fault("is damaged: its zarr.json lacks figures of the ranks that share a group")
        return found

    @property
    def rank_of(self) -> NDArray[np.int16]:
        """The rank of each node, int16 [N]."""
        return self.arrays[RANK_OF]

    @property
    def member_of(self) -> NDArray[np.int16] | None:
        """Which of the ranks that share a group has each node, int16 [N]; None where each rank has its own group."""
        return self.arrays.get(MEMBER_OF)

    @property
    def snapshot_offsets(self) -> NDArray[np.int64] | None:
        """The first event of each window, int64 [T + 1]; None where there are no windows."""
        return self.arrays.get(SNAPSHOT_OFFSETS)

    @property
    def snapshot_group(self) -> NDArray[np.int16] | None:
        """The group of each snapshot, int16 [T]: ranks S g to S g + S - 1 have group g."""
        return self.arrays.get(SNAPSHOT_GROUP)

    def check(self) -> int:
        """Read all and check it; returns the number of files.

        Raises:
            CacheError: a file has changed, times do not ascend, the time index is not that of the events, or a rank or
                a snapshot is not there.
        """
        files = self.verify_files()
        self.check_events()
        times = self.arrays[TIME]
        for border in self.split:
            if not 0 < border < self.num_events or times[border - 1] >= times[border]:
                raise self.fault("is damaged: its split divides events of one time, or leaves a part empty")
        self._check_index()
        self._check_ranks()
        return files

    def _check_index(self) -> None:
        """Make the index again, range by range, and compare."""
        offsets_N = self.arrays[INDEX_OFFSETS]
        if len(offsets_N) != self.num_nodes + 1 or offsets_N[0] != 0 or offsets_N[-1] != 2 * self.num_events:
            raise self.fault("is damaged: its time index has not two entries an event")
        if (offsets_N[1:] < offsets_N[:-1]).any():
            raise self.fault("is damaged: the offsets of its time index fall")
        for name in (INDEX_EVENT, INDEX_NEIGHBOUR):
            if (self.folder / payload_path(name, 1)).stat().st_size != 16 * self.num_events:
                raise self.fault(f"is damaged: {name} has not two entries an event")
        index = TimeIndex(folder=self.folder, offsets_N=np.array(offsets_N))
        with progress.task("checking the time index", total=self.num_nodes, unit="nodes") as task:
            for low, high in index.ranges(ENTRY_BYTES):
                stored = index.entries(low, high)
                if not self._fits(index.offsets_N, low, high):
                    raise self.fault("is damaged: its time index counts other events of a node than there are")
                for found, expected in zip(stored, index_entries(self, index.offsets_N, low, high), strict=True):
                    if not np.array_equal(found, expected):
                        raise self.fault("is damaged: its time index is not that of its events")
                task.advance(high - low)

    def _fits(self, offsets_N: NDArray[np.int64], low: int, high: int) -> bool:
        """Whether these nodes have as many ends of events as entries, so that those can be placed."""
        counts = np.zeros(high - low, np.int64)
        for name in (SOURCE, DESTINATION):
            for ids in self.rows(name):
                chosen = ids[(ids >= low) & (ids < high)] - low
                counts += np.bincount(chosen, minlength=high - low)
        return bool((counts == np.diff(offsets_N[low : high + 1])).all())

    def _check_ranks(self) -> None:
        rank_of_N = self.rank_of
        if len(rank_of_N) and (rank_of_N.min() < 0 or rank_of_N.max() >= self.num_parts):
            raise self.fault(f"is damaged: {RANK_OF} does not give each node one of {self.num_parts} ranks")
        offsets_T, group_T = self.snapshot_offsets, self.snapshot_group
        if offsets_T is None or group_T is None:
            return
        if len(offsets_T) != len(group_T) + 1 or offsets_T[0] != 0 or offsets_T[-1] != self.num_events:
            raise self.fault("is damaged: its snapshots are not all of its events")
        if (offsets_T[1:] < offsets_T[:-1]).any() or (group_T[1:] < group_T[:-1]).any():
            raise self.fault("is damaged: its snapshots or their groups are not in the order of time")
        number = self.ranks_per_group
        if group_T.min() < 0 or group_T.max() >= self.num_parts // number:
            raise self.fault(
                f"is damaged: {SNAPSHOT_GROUP} names a group outside of 0 .. {self.num_parts // number - 1}"
            )
        member_of_N = self.member_of
        if number == 1:
            return
        if member_of_N is None or len(member_of_N) != self.num_nodes:
            raise self.fault(f"is damaged: it has no {MEMBER_OF} for each node")
        if len(member_of_N) and (member_of_N.min() < 0 or member_of_N.max() >= number):
            raise self.fault(f"is damaged: {MEMBER_OF} does not give each node one of {number} ranks of a group")
