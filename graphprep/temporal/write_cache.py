"""Write an event cache: the events, the time index, the rank of each node, and snapshots with their groups.

All ranks share the arrays and map them. Everything is copied and counted in pieces, so that memory is bounded; the
caller renames the folder into place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.manifest import Manifest
from graphprep.core.event_rows import ChangingFeatures
from graphprep.errors import PartitionError
from graphprep.system import memory, progress
from graphprep.system.files.atomic import PARTIAL_PREFIX, publish_folder
from graphprep.temporal.events import EventArrays, EventSource
from graphprep.temporal.format import (
    CHANGING_ARRAYS,
    CHANGING_X,
    DESTINATION,
    EVENT_ARRAYS,
    EVENT_CACHE_KIND,
    EVENT_FORMAT,
    EVENT_X,
    EVENT_Y,
    MEMBER_OF,
    NODE_X,
    ORIGINAL_ID,
    RANK_OF,
    SHARED_FORMAT,
    SNAPSHOT_GROUP,
    SNAPSHOT_OFFSETS,
    TIME,
    WORD_BYTES,
    WORD_OFFSETS,
)
from graphprep.temporal.snapshot_groups import balanced_groups, group_figures
from graphprep.temporal.snapshot_members import MemberNodes, assessed_members, rows_of_nodes
from graphprep.temporal.splits import DEFAULT_SHARES, split_by_time
from graphprep.temporal.stream_partition import NodeRanks, assessed
from graphprep.temporal.time_index import TimeIndex, write_time_index
from graphprep.temporal.windows import in_units, snapshot_offsets
from graphprep.version import __version__

MOST_PARTS = 2**15 - 1
"""ranks are int16"""
MOST_ENTRY_BYTES = 512_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshots:
    """Windows of time, and which group of ranks has which."""

    window_seconds: float
    offsets_T: NDArray[np.int64]
    """[T + 1]"""
    group_T: NDArray[np.int16]
    ranks_per_group: int = 1
    """S"""
    members: Callable[[TimeIndex], MemberNodes] | None = None
    """the nodes of each of the ranks that share a group, from the index of events; None where S is 1"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventCacheContent:
    """What an event cache holds in addition to the events."""

    dataset: str
    num_parts: int
    ranks: Callable[[TimeIndex], NodeRanks]
    """the rank of each node, from the index of its events"""
    split: tuple[int, int]
    """first event to validate, first event to test"""
    is_bipartite: bool
    time_unit: str
    snapshots: Snapshots | None = None
    key: str | None = None
    """64 hex digits over all that determines the content; None for a digest of the content"""
    source: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    quality: Mapping[str, Any] = field(default_factory=dict)


def write_event_cache(
    folder: Path, events: EventSource, content: EventCacheContent, *, memory_limit: int | None = None
) -> None:
    """Write a cache into an empty folder.

    Args:
        folder: created.
        events: in the order of time.
        content: the rest.
        memory_limit: bytes that this process may hold; None for half of what is free.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writer = FolderWriter(folder)
    arrays = events.arrays
    names = [
        name
        for name in (*EVENT_ARRAYS, NODE_X, *CHANGING_ARRAYS, ORIGINAL_ID, WORD_OFFSETS, WORD_BYTES)
        if name in arrays
    ]
    for group in dict.fromkeys(["events", "nodes", "index", *(name.split("/")[0] for name in names)]):
        writer.group(group)
    lowest, end = events.num_nodes, 0
    with progress.task("writing events", total=sum(arrays[name].nbytes for name in names), unit="B") as task:
        for name in names:
            with writer.growing_array(name, arrays[name].dtype, arrays[name].shape[1:]) as append:
                for rows in events.rows(name):
                    append(rows)
                    task.advance(rows.nbytes)
                    if name == DESTINATION:
                        lowest, end = min(lowest, int(rows.min())), max(end, int(rows.max()) + 1)
    index = write_time_index(writer, events, entry_bytes=min(MOST_ENTRY_BYTES, memory.budget(memory_limit) // 2))
    ranks = content.ranks(index)
    writer.array(RANK_OF, ranks.rank_of_N)
    if content.snapshots is not None:
        writer.group("snapshots")
        writer.array(SNAPSHOT_OFFSETS, content.snapshots.offsets_T)
        writer.array(SNAPSHOT_GROUP, content.snapshots.group_T)
    members, shared = None, dict[str, Any]()
    if content.snapshots is not None and content.snapshots.members is not None:
        members = content.snapshots.members(index)
        writer.array(MEMBER_OF, members.member_of_N)
        shared = {"graphprep_format": SHARED_FORMAT, "ranks_per_group": content.snapshots.ranks_per_group}
    key = content.key or _content_digest(writer)
    writer.group(
        "",
        {
            "graphprep_format": EVENT_FORMAT,
            "graphprep_kind": EVENT_CACHE_KIND,
            "tool_version": __version__,
            "key": key,
            "dataset": content.dataset,
            "source": dict(content.source),
            "num_parts": content.num_parts,
            "num_nodes": events.num_nodes,
            "num_events": events.num_events,
            "num_event_features": _width(arrays, EVENT_X),
            "num_node_features": _width(arrays, NODE_X),
            "num_changing_features": _width(arrays, CHANGING_X),
            "num_states": _num_states(events),
            "split": list(content.split),
            "destinations": [lowest, end],
            "bipartite": content.is_bipartite,
            "time_unit": content.time_unit,
            "window_seconds": None if content.snapshots is None else content.snapshots.window_seconds,
            "num_snapshots": 0 if content.snapshots is None else len(content.snapshots.group_T),
            "options": dict(content.options),
            "quality": {
                "ranks": ranks.quality(),
                **content.quality,
                **({} if members is None else {"members": members.figures()}),
            },
            **shared,
        },
    )
    Manifest(key=key, files=writer.files).write(folder)


def cache_of_arrays(
    folder: Path,
    source: NDArray[Any],
    destination: NDArray[Any],
    time: NDArray[Any],
    *,
    x: NDArray[Any] | None = None,
    y: NDArray[Any] | None = None,
    node_x: NDArray[Any] | None = None,
    changing: ChangingFeatures | None = None,
    num_nodes: int | None = None,
    num_parts: int = 1,
    rank_of: NDArray[Any] | None = None,
    split: Sequence[float] = DEFAULT_SHARES,
    window_seconds: float | None = None,
    group: NDArray[Any] | None = None,
    ranks_per_group: int = 1,
    time_unit: str = "s",
    is_bipartite: bool = False,
    dataset: str = "events",
) -> Path:
    """Make an event cache of arrays in memory; the folder appears when it is whole, and is returned.

    Args:
        folder: of the cache; replaced if it is there.
        source, destination, time, x, y, node_x, changing, num_nodes: as for `EventArrays.of`.
        num_parts: ranks that train.
        rank_of: the rank of each node; None for the number of the node modulo the ranks.
        split: shares of the events to train, to validate and to test.
        window_seconds: of a snapshot; None for no snapshots.
        group: of each snapshot; None for groups of about equal numbers of events.
        ranks_per_group: how many ranks share a group of snapshots, each with nodes by their numbers.
        time_unit: of the times.
        is_bipartite: whether sources and destinations are different kinds of nodes.
        dataset: its name.
    """
    if not 1 <= num_parts <= MOST_PARTS:
        raise PartitionError(f"{num_parts} ranks cannot be numbered in an event cache; give 1 to {MOST_PARTS}")
    events = EventArrays.of(source, destination, time, x=x, y=y, node_x=node_x, changing=changing, num_nodes=num_nodes)
    snapshots, quality = None, {}
    if window_seconds is not None:
        offsets_T = snapshot_offsets(events.arrays[TIME], in_units(window_seconds, time_unit))
        cost_T = np.diff(offsets_T).astype(np.float64)
        num_groups = num_parts // ranks_per_group
        group_T = np.asarray(balanced_groups(cost_T, num_groups) if group is None else group, np.int16)

        def members(index: TimeIndex) -> MemberNodes:
            rows_N = rows_of_nodes(index, offsets_T, entry_bytes=MOST_ENTRY_BYTES)
            member_of_N = np.arange(events.num_nodes) % ranks_per_group
            return assessed_members(events, offsets_T, rows_N, member_of_N, ranks_per_group, "given")

        snapshots = Snapshots(
            window_seconds=window_seconds,
            offsets_T=offsets_T,
            group_T=group_T,
            ranks_per_group=ranks_per_group,
            members=members if ranks_per_group > 1 else None,
        )
        quality = {"snapshots": group_figures(cost_T, group_T, num_groups, (0.0, 1.0, 0.0))}
    rank_of_N = np.asarray(np.arange(events.num_nodes) % num_parts if rank_of is None else rank_of, np.int16)
    content = EventCacheContent(
        dataset=dataset,
        num_parts=num_parts,
        ranks=lambda _: assessed(events, rank_of_N, num_parts, "given"),
        split=split_by_time(events.arrays[TIME], split),
        is_bipartite=is_bipartite,
        time_unit=time_unit,
        snapshots=snapshots,
        quality=quality,
    )
    partial = folder.with_name(PARTIAL_PREFIX + folder.name)
    write_event_cache(partial, events, content)
    publish_folder(partial, folder)
    return folder


def _width(arrays: Mapping[str, NDArray[Any]], name: str) -> int:
    return int(arrays[name].shape[1]) if name in arrays else 0


def _num_states(events: EventSource) -> int:
    if EVENT_Y not in events.arrays:
        return 0
    return max((int(rows.max()) + 1 for rows in events.rows(EVENT_Y)), default=0)


def _content_digest(writer: FolderWriter) -> str:
    files = (f"{path}\0{entry.sha256}\0" for path, entry in sorted(writer.files.items()))
    return hashlib.sha256("".join(files).encode()).hexdigest()
