"""Streams of events: files become event stores, and stores become event caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Unpack

from graphprep.api.caches import Machine
from graphprep.api.call import library_call
from graphprep.api.graphs import file_request
from graphprep.api.options import EventCacheOptions, EventFileOptions, EventPlanOptions, Place
from graphprep.datasets.importing.event_options import EventOptions
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import CacheError
from graphprep.plan.event_options import EventPlan, require_for_events
from graphprep.system import home, memory
from graphprep.system.options import take_options
from graphprep.temporal.cache import EventCache
from graphprep.temporal.request import EventCacheRequest
from graphprep.temporal.store import EventStore
from graphprep.topology import resolve


@library_call(EventFileOptions, ImportOptions, EventOptions)
def import_events(
    *files: Place,
    name: str,
    layout: Literal["auto", "edges", "jodie", "tgn", "tgb"] = "auto",
    **options: Unpack[EventFileOptions],
) -> EventStore:
    """Convert a user's own files of events to an event store, or find that it is there.

    Args:
        files: of edges with times, or one file of a layout of temporal graphs; none with `schema`.
        name: what to call the dataset.
        layout: of the files; auto goes by the first line.

    Raises:
        DatasetError: a file is not what it should be, or another store lies there.
        UsageError: options do not go together.
    """
    from pipelines.events.store import import_events as run_import

    values: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    request = file_request(files, values)
    events = EventOptions(events=layout, time_unit=values.pop("time_unit", "s"))
    changing = values.pop("changing_features", None)
    return run_import(
        request,
        name=name,
        layout=layout,
        time_unit=events.time_unit,
        changing=None if changing is None else Path(changing),
        memory_limit=_limit(values),
        **values,
    ).store


@library_call(EventCacheOptions, EventCacheRequest)
def partition_events(
    store: EventStore | Place,
    *,
    parts: int,
    purpose: Literal["events", "snapshots"] = "events",
    out: Place | None = None,
    replace: bool = False,
    **options: Unpack[EventCacheOptions],
) -> EventCache:
    """Divide the nodes and snapshots of a stream over ranks, and write the event cache, or find that it is there.

    Args:
        store: an event store, its name or its path.
        parts: the ranks that train.
        purpose: what is trained: the stream (TGN), or snapshots of it (T-GCN and others), which need a `window`.
        out: the cache's folder; by default HOME/caches/NAME/PURPOSE-PARTS.
        replace: make the cache even if it is there, also where other options made it.

    Raises:
        UsageError: an option is wrong or missing.
        DatasetError: there is no such event store.
        CacheError: a cache of other options lies there.
        PartitionError: there are fewer nodes or snapshots than ranks.
    """
    from pipelines.events.cache import plan_event_partition, run_event_partition

    values: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    step = plan_event_partition(
        store if isinstance(store, EventStore) else str(store),
        purpose=purpose,
        parts=parts,
        out=None if out is None else Path(out),
        memory_limit=_limit(values),
        request=take_options(EventCacheRequest, values),
        **values,
    )
    return run_event_partition(step, replace=replace).cache


@library_call(EventPlanOptions, EventPlan)
def plan_events(
    cache: EventCache | Place,
    *,
    parts: int | None = None,
    topology: Machine | None = None,
    **options: Unpack[EventPlanOptions],
) -> dict[str, Any]:
    """Predict what an epoch of TGN on an event cache takes, or the load of ranks that share a stream's snapshots.

    Args:
        cache: an event cache, NAME/LABEL or its path.
        parts: ranks that train; by default those of the cache.
        topology: the machine that they are in; by default equal ranks on one switch.
        options: of the training; a cache of snapshots has `hidden` alone.

    Returns:
        What `graphprep plan --json` prints of such a cache: of events `parallel`, `epoch_seconds`, `stages`, `ranks`
        (memory), `messages` and `link_types`; of snapshots the loads of groups and the rows at their borders.

    Raises:
        UsageError: the ranks do not fit, or an option is wrong or not for such a cache.
        CacheError, TrainingError: there is no such cache, or the trainer refuses it or cannot be started.
    """
    from pipelines.planning.events import plan_events as predict
    from pipelines.planning.events import purpose_of

    opened = open_event_cache(cache)
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    require_for_events(set(values), purpose=purpose_of(opened))
    take_options(EventPlan, dict(values))
    machine = None if topology is None else resolve(topology)
    return predict(opened.folder, values, parts=parts, topology=machine)


def open_events(location: EventStore | Place) -> EventStore:
    """An event store by its name or path; its arrays are mapped when they are used.

    Raises:
        DatasetError, UsageError: there is none, or it is another kind of store.
    """
    from pipelines.events.cache import open_event_store

    return open_event_store(location)


def open_event_cache(location: EventCache | Place) -> EventCache:
    """An event cache: NAME/LABEL, or a path.

    Raises:
        CacheError: there is none, or it is damaged or of another kind.
    """
    if isinstance(location, EventCache):
        return location
    if home.is_url(str(location)):
        raise CacheError(
            f"{location} is a URL, and a cache is mapped into memory; copy its folder to a local disk and open that"
        )
    return EventCache(home.require_cache(str(location)))


def _limit(values: dict[str, Any]) -> int | None:
    """The bytes that a run may hold, for `memory`, which is taken out."""
    amount = values.pop("memory", None)
    return memory.parse(amount) if isinstance(amount, str) else amount
