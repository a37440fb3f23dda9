"""Opens an event cache: reads its root, and maps and checks its arrays.

The format is that of docs/temporal.md: every array is one raw little-endian file next to a small `zarr.json`, and all
ranks map the same files. Only JSON is read before `tensors` is called, so that a wrong path is refused before torch has
been imported.

Letters: M events, N nodes, T snapshots, F features, P ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.base.errors import CacheError
from trainer.data.cache import StoredArray, stored_array
from trainer.data.manifest import Manifest, read_unlisted_json

if TYPE_CHECKING:
    from trainer.data.event_tensors import EventTensors

EVENT_KIND = "events"
EVENT_FORMATS = (1, 2)
"""2 has groups of snapshots that several ranks share"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCache:
    """A finished event cache."""

    folder: Path
    manifest: Manifest
    dataset: str
    num_parts: int
    """P, the ranks that nodes and snapshots are divided over"""
    num_nodes: int
    num_events: int
    num_event_features: int
    """0 where events have none"""
    num_node_features: int
    """0 where nodes have none"""
    num_changing_features: int
    """of nodes, with a value for each time; 0 where none change"""
    num_states: int
    """classes of the states that events say of their sources; 0 where they say none"""
    split: tuple[int, int]
    """first event to validate, first event to test"""
    destinations: tuple[int, int]
    """the lowest node that is a destination, and the highest and one: negatives are drawn from this range"""
    is_bipartite: bool
    """whether sources and destinations are different kinds of nodes"""
    time_unit: str
    """of the times: ns, us, ms, s, min, h, d or w"""
    window_seconds: float | None
    """of a snapshot; None where the cache has none"""
    num_snapshots: int
    ranks_per_group: int
    """S, how many ranks share a group of snapshots"""
    source: Mapping[str, Any]
    """Where the events came from, with checksums."""

    @property
    def has_snapshots(self) -> bool:
        """Whether the events are divided into windows."""
        return self.window_seconds is not None

    def has(self, name: str) -> bool:
        """Whether the cache has array `name`, such as `events/x`."""
        return f"{name}/zarr.json" in self.manifest

    def array(self, name: str, *, data_types: tuple[str, ...], dimensions: int) -> StoredArray:
        """Locate array `name` and check that it is what the format says.

        Raises:
            CacheError: it is absent, of another type or layout, or its payload has another size.
        """
        return stored_array(self.manifest, name, data_types=data_types, dimensions=dimensions)

    def tensors(self) -> EventTensors:
        """All arrays, mapped, after they were looked through once.

        Raises:
            CacheError: one is damaged or does not fit the others.
        """
        from trainer.data.event_tensors import read_tensors

        return read_tensors(self)


def is_event_cache(location: str) -> bool:
    """Whether a local folder says that it is an event cache; false for whatever cannot be read."""
    try:
        root = read_unlisted_json(Path(location), "zarr.json").get("attributes")
    except CacheError:
        return False
    return isinstance(root, dict) and root.get("graphprep_kind") == EVENT_KIND


def open_event_cache(location: str) -> EventCache:
    """Open the finished event cache in the local folder `location`.

    Raises:
        CacheError: there is none, or it is unfinished, damaged, of another kind or format.
    """
    folder = Path(location)
    if not is_event_cache(location):
        raise CacheError(f"{folder} is not an event cache; graphprep partition NAME --for events makes one")
    manifest = Manifest.load(folder)
    root = manifest.json("zarr.json")["attributes"]
    if root.get("graphprep_format") not in EVENT_FORMATS:
        raise CacheError(
            f"{folder} has event cache format {root.get('graphprep_format')!r} and this trainer reads format "
            f"{' and '.join(map(str, EVENT_FORMATS))}; train with the release that wrote it"
        )
    try:
        cache = EventCache(
            folder=folder,
            manifest=manifest,
            dataset=str(root["dataset"]),
            num_parts=int(root["num_parts"]),
            num_nodes=int(root["num_nodes"]),
            num_events=int(root["num_events"]),
            num_event_features=int(root["num_event_features"]),
            num_node_features=int(root["num_node_features"]),
            num_changing_features=int(root.get("num_changing_features", 0)),  # caches before them say nothing
            num_states=int(root["num_states"]),
            split=_pair(root["split"]),
            destinations=_pair(root["destinations"]),
            is_bipartite=bool(root["bipartite"]),
            time_unit=str(root["time_unit"]),
            window_seconds=None if root["window_seconds"] is None else float(root["window_seconds"]),
            num_snapshots=int(root["num_snapshots"]),
            ranks_per_group=int(root["ranks_per_group"]) if root["graphprep_format"] > 1 else 1,
            source=dict(root["source"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise manifest.damaged("zarr.json", f"lacks an attribute or has one of the wrong form ({error!r})") from error
    validation, test = cache.split
    if not 0 <= validation <= test <= cache.num_events:
        raise manifest.damaged("zarr.json", f"splits {cache.num_events} events at {validation} and {test}")
    if not 0 <= cache.destinations[0] < cache.destinations[1] <= cache.num_nodes:
        raise manifest.damaged("zarr.json", f"gives {list(cache.destinations)} as the range of {cache.num_nodes} nodes")
    if cache.ranks_per_group < 1 or cache.num_parts % cache.ranks_per_group:
        raise manifest.damaged(
            "zarr.json", f"lets groups of {cache.ranks_per_group} share snapshots among {cache.num_parts} ranks"
        )
    return cache


def _pair(numbers: Any) -> tuple[int, int]:
    first, second = numbers
    return int(first), int(second)
