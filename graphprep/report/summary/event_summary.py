"""The figures of event stores and event caches: activity over time, events of nodes, load by rank and by snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.temporal.cache import EventCache
from graphprep.temporal.folder import ArrayFolder
from graphprep.temporal.format import DESTINATION, SECONDS, SOURCE, TIME
from graphprep.temporal.snapshot_memory import HIDDEN, LAYERS, memory_by_rank
from graphprep.temporal.store import EventStore

STRETCHES = 60
"""of equal time, in which events are counted"""
MOST_PIECES = 96
"""of a drawing of snapshots; where there are more snapshots, several are one piece"""


def event_store_summary(store: EventStore) -> dict[str, Any]:
    """The figures of an event store as plain JSON values."""
    summary = _common(store)
    sources, destinations = (_counts(store, name) for name in (SOURCE, DESTINATION))
    ends = sources + destinations
    busiest = np.argsort(-ends, kind="stable")[:10]
    summary |= {
        "num_event_features": store.attributes["num_event_features"],
        "num_node_features": store.attributes["num_node_features"],
        "num_states": store.attributes["num_states"],
        "nodes": {
            "sources": int((sources > 0).sum()),
            "destinations": int((destinations > 0).sum()),
            "without_events": int((ends == 0).sum()),
            **{f"p{share}": float(np.percentile(ends, share)) if len(ends) else 0.0 for share in (50, 90, 99)},
            "max": int(ends.max(initial=0)),
        },
        "busiest": [{"node": int(node), "events": int(ends[node])} for node in busiest if ends[node]],
        "source": store.attributes["source"],
        "notes": dict(store.attributes["notes"]),
    }
    return summary | {"warnings": _warnings(summary)}


def event_cache_summary(cache: EventCache) -> dict[str, Any]:
    """The figures of an event cache as plain JSON values."""
    summary, quality = _common(cache), cache.quality
    validation, test = cache.split
    times = cache.arrays[TIME]
    borders = {"train": (0, validation), "val": (validation, test), "test": (test, cache.num_events)}
    ranks = quality["ranks"]
    load_BP = np.asarray(ranks["event_ends_by_time"])
    summary |= {
        "num_parts": cache.num_parts,
        "split": {
            name: {"events": stop - start, "first_time": times[start].item(), "last_time": times[stop - 1].item()}
            for name, (start, stop) in borders.items()
        },
        "options": cache.attributes["options"],
        "ranks": [
            {
                "rank": rank,
                "nodes": ranks["nodes"][rank],
                "event_ends": ranks["event_ends"][rank],
                "load": float(load_BP[:, rank].sum() / max(1.0, load_BP.sum() / cache.num_parts)),
                "worst_load": float(np.max(load_BP[:, rank] / np.maximum(load_BP.mean(axis=1), 1e-9))),
            }
            for rank in range(cache.num_parts)
        ],
        "quality": quality,
        "snapshots": _snapshots(cache),
    }
    return summary | {"warnings": _cache_warnings(quality)}


def _common(folder: ArrayFolder) -> dict[str, Any]:
    folder.check_events()
    attributes, times = folder.attributes, folder.arrays[TIME]
    first, last = times[0].item(), times[-1].item()
    return {
        "graphprep_format": attributes["graphprep_format"],
        "graphprep_kind": attributes["graphprep_kind"],
        "dataset": folder.name,
        "location": folder.location,
        "key": folder.key,
        "tool_version": attributes["tool_version"],
        "bipartite": folder.is_bipartite,
        "num_nodes": folder.num_nodes,
        "num_events": folder.num_events,
        "bytes": sum(int(array.nbytes) for array in folder.arrays.values()),
        "time": {
            "unit": folder.time_unit,
            "first": first,
            "last": last,
            "days": (last - first) * SECONDS[folder.time_unit] / SECONDS["d"],
        },
        "activity": _activity(times, folder.time_unit),
    }


def _activity(times: NDArray[Any], unit: str) -> list[dict[str, Any]]:
    """Events in each stretch of equal time, by binary search in the sorted times."""
    span = float(times[-1]) - float(times[0])
    count = STRETCHES if span > 0 else 1
    borders = float(times[0]) + span * np.arange(count + 1) / count
    places = np.searchsorted(times, borders[1:-1], side="left")
    counts = np.diff(np.concatenate([[0], places, [len(times)]]))
    days = span * SECONDS[unit] / SECONDS["d"] / count
    return [{"from_day": number * days, "events": int(events)} for number, events in enumerate(counts)]


def _counts(folder: ArrayFolder, name: str) -> NDArray[np.int64]:
    counts = np.zeros(folder.num_nodes, np.int64)
    for ids in folder.rows(name):
        counts += np.bincount(ids, minlength=folder.num_nodes)
    return counts


def _snapshots(cache: EventCache) -> dict[str, Any] | None:
    """Groups, and events of each snapshot in order, several of them together where there are many."""
    offsets_T, group_T = cache.snapshot_offsets, cache.snapshot_group
    if offsets_T is None or group_T is None:
        return None
    events_T, of_groups = np.diff(offsets_T), cache.quality["snapshots"]
    at_once = -(-len(events_T) // MOST_PIECES)
    number, memory = cache.ranks_per_group, memory_by_rank(cache) or {}
    starts = np.unique(np.concatenate([np.arange(0, len(events_T), at_once), np.flatnonzero(np.diff(group_T)) + 1]))
    stops = [*starts[1:].tolist(), len(events_T)]
    return {
        "count": len(events_T),
        "window_seconds": cache.attributes["window_seconds"],
        "empty": int((events_T == 0).sum()),
        "largest_events": int(events_T.max()),
        "imbalance": of_groups["imbalance"],
        "ranks_per_group": number,
        "members": cache.quality.get("members"),
        "groups": [
            {
                "rank": group * number,
                "snapshots": of_groups["count"][group],
                "events": int(events_T[group_T == group].sum()),
                "cost": of_groups["cost"][group],
                "load": of_groups["cost"][group] / max(1e-30, float(np.mean(of_groups["cost"]))),
            }
            for group in range(cache.num_parts // number)
        ],
        "memory": {
            "hidden": HIDDEN,
            "layers": LAYERS,
            "by_rank": [
                {"rank": rank, **{model: of_ranks[rank] for model, of_ranks in memory.items()}}
                for rank in range(cache.num_parts)
            ],
        },
        "pieces": [
            {
                "first": int(start),
                "snapshots": int(stop - start),
                "events": int(events_T[start:stop].sum()),
                "rank": int(group_T[start]) * number,
            }
            for start, stop in zip(starts.tolist(), stops, strict=True)
        ],
    }


def _warnings(summary: dict[str, Any]) -> list[str]:
    found = []
    if summary["time"]["days"] == 0:
        found.append("all events have one time, so they cannot be split by time")
    most = max(row["events"] for row in summary["activity"])
    if most > summary["num_events"] / 2 and summary["time"]["days"] > 0:
        found.append(
            f"{most:,} of {summary['num_events']:,} events are in one of {STRETCHES} equal stretches of time; a few "
            "wrong times may stretch the rest, so compare the first and last time with what is expected"
        )
    return found


def _cache_warnings(quality: dict[str, Any]) -> list[str]:
    snapshots = quality.get("snapshots")
    if snapshots is None or snapshots["heaviest_share"] <= 1:
        return []
    return [
        f"snapshot {snapshots['heaviest']} alone costs {snapshots['heaviest_share']:.2f} of the mean of a group, so "
        "that groups cannot be balanced; give a shorter --window, fewer --parts, or more --ranks-per-group"
    ]
