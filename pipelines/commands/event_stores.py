"""Event stores and caches on the command line: what `import`, `generate` and `partition` do for them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graphprep.errors import UsageError
from pipelines.commands.common import print_json, show, show_store

if TYPE_CHECKING:
    from graphprep.datasets.importing.event_options import EventOptions
    from graphprep.datasets.importing.import_request import ImportRequest
    from graphprep.temporal.request import EventCacheRequest
    from pipelines.events.cache import EventPartitionStep
    from pipelines.events.store import EventStoreOutcome


def make_event_store(
    request: ImportRequest, events: EventOptions, extend: str | None, *, json_output: bool, **options: Any
) -> None:
    """Import files of events, and print which store there is now.

    Raises:
        UsageError: an option is not for events.
    """
    from pipelines.events.store import import_events

    if extend is not None:
        raise UsageError("--extend cannot be given beside --events; import all files of events as one dataset")
    for_events = without_work_options(options)
    for_events |= {"time_unit": events.time_unit, "changing": events.changing_features}
    outcome = import_events(request, layout=events.events or "auto", **for_events)
    show_event_store(outcome, json_output)


def without_work_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that event stores do not have.

    Raises:
        UsageError: one of these is given.
    """
    if options.pop("dask", None) is not None:
        raise UsageError("--dask is not for events, which one process reads in the order of the file; leave it out")
    if options.pop("anyway", False):
        raise UsageError("--anyway is not for events, of which each has to be right; leave it out")
    return options


def show_event_store(outcome: EventStoreOutcome, json_output: bool) -> None:
    """Print which event store there is now."""
    show_store(outcome, json_output, events=outcome.store.num_events)


OF_EVENT_CACHES = ("method", "imbalance", "seed")
"""options of a graph's partition that event caches have too"""


def partition_events(
    name_or_store: str, purpose: str, request: EventCacheRequest, given: dict[str, Any], *, memory_limit: int | None
) -> EventPartitionStep:
    """Decide what a run will do.

    Args:
        given: the other options on the command line.

    Raises:
        UsageError: one of these is not for event caches.
    """
    from pipelines.events.cache import plan_event_partition

    own = {*OF_EVENT_CACHES, *asdict(request), "parts", "out"}
    if others := [name for name in given if name not in own]:
        raise UsageError(f"--{others[0].replace('_', '-')} is not for --for {purpose}; leave it out")
    return plan_event_partition(
        name_or_store,
        purpose=purpose,
        parts=given.get("parts"),
        request=request,
        out=given.get("out"),
        memory_limit=memory_limit,
        **{name: given[name] for name in OF_EVENT_CACHES if name in given},
    )


def run_or_announce(step: EventPartitionStep, *, replace: bool, dry_run: bool, json_output: bool) -> None:
    """Make an event cache and print which there is now, or only say what that would take."""
    from pipelines.events.cache import run_event_partition

    if dry_run:
        if json_output:
            print_json({"cache": str(step.target), "key": step.key, **step.expectations()})
        else:
            step.announce()
        return
    outcome = run_event_partition(step, replace=replace)
    cache = outcome.cache
    document = {
        "cache": str(cache.folder),
        "reused": outcome.reused,
        "key": cache.key,
        "num_parts": cache.num_parts,
        "split": list(cache.split),
        "num_snapshots": cache.attributes["num_snapshots"],
        "quality": cache.quality,
    }
    ranks = cache.quality["ranks"]
    text = (
        f"{'up to date' if outcome.reused else 'wrote'}: {cache.folder} ({cache.num_parts} ranks, "
        f"{ranks['crossing_share']:.1%} of the events cross ranks, load of a rank over time "
        f"{ranks['imbalance_over_time']:.2f} of the mean)"
    )
    show(document, text, json_output)
