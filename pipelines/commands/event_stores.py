"""Event stores on the command line: made by `import --events` and `generate events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphprep.errors import UsageError
from pipelines.commands.common import show

if TYPE_CHECKING:
    from graphprep.datasets.importing.event_options import EventOptions
    from graphprep.datasets.importing.import_request import ImportRequest
    from pipelines.event_store import EventStoreOutcome


def make_event_store(
    request: ImportRequest, events: EventOptions, extend: str | None, *, json_output: bool, **options: Any
) -> None:
    """Import files of events, and print which store there is now.

    Raises:
        UsageError: an option is not for events.
    """
    from pipelines.event_store import import_events

    if extend is not None:
        raise UsageError("--extend cannot be given beside --events; import all files of events as one dataset")
    for_events = without_work_options(options)
    outcome = import_events(request, layout=events.events or "auto", time_unit=events.time_unit, **for_events)
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
    store = outcome.store
    document = {
        "dataset": store.name,
        "location": store.location,
        "reused": outcome.reused,
        "key": store.key,
        "nodes": store.num_nodes,
        "events": store.num_events,
    }
    show(document, f"{'up to date' if outcome.reused else 'wrote'}: {store.location}", json_output)
