"""Files of events, or a generator's parameters, become an event store.

Work lies beside the store: events that are being sorted in `.partial-NAME.zarr-edges`, the store itself in
`.partial-NAME.zarr` until it is whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprep.core.event_rows import ChangingFeatures, EventReader, NodesOfEvents
from graphprep.errors import DatasetError, UsageError
from graphprep.store.convert import scratch_of
from graphprep.store.location import store_place
from graphprep.system import home, memory, progress
from graphprep.system.files.atomic import PARTIAL_PREFIX, publish_folder, sweep
from graphprep.system.files.output_path import kind_of
from graphprep.temporal.format import EVENT_FORMAT, EVENT_STORE_KIND, SECONDS
from graphprep.temporal.store import EventStore
from graphprep.temporal.write_store import write_event_store, write_root
from graphprep.version import __version__
from pipelines.estimate import Estimate
from pipelines.step import ABSENT, Existing, State, key_of, run_step

if TYPE_CHECKING:
    from graphprep.datasets.generators.events import EventsRequest
    from graphprep.datasets.importing.import_request import ImportRequest
    from graphprep.datasets.importing.input_digests import InputDigests

OTHER_INPUT = "it was made from other files or options, and is replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStoreOutcome:
    """The store, and whether it was there already."""

    store: EventStore
    reused: bool


@dataclass(frozen=True, kw_only=True)
class EventStoreStep(ABC):
    """Events become a store."""

    name: str
    time_unit: str = "s"
    out: Path | str | None = None
    """path of the store; None for HOME/stores/NAME.zarr"""
    memory_limit: int | None = None
    """bytes that the process may use; None for half of what is free"""

    def __post_init__(self) -> None:
        if self.time_unit not in SECONDS:
            raise UsageError(f"--time-unit {self.time_unit} is unknown; use one of {', '.join(SECONDS)}")

    @cached_property
    def target(self) -> Path:
        place = store_place(self.out, self.name)
        if not isinstance(place, Path):
            raise UsageError(f"--out {self.out} is a URL; events are mapped into memory and lie on a local disk")
        return place

    @property
    def locks(self) -> Sequence[tuple[Path, str]]:
        return ((self.target, f"the dataset {self.name}"),)

    @property
    @abstractmethod
    def determinants(self) -> dict[str, Any]:
        """All that determines the content, beside the unit and the versions of this program and its format."""

    @cached_property
    def key(self) -> str:
        """The key that the store will have."""
        return self._key_of(self.determinants)

    def _key_of(self, determinants: Mapping[str, Any]) -> str:
        versions = {"event store format": EVENT_FORMAT, "graphprep version": __version__}
        return key_of({**versions, "time unit": self.time_unit, **determinants})

    @property
    def estimate(self) -> Estimate | None:
        return None

    @property
    def _scratch(self) -> Path:
        return scratch_of(self.target)[0]

    @property
    def _partial(self) -> Path:
        return self.target.with_name(PARTIAL_PREFIX + self.target.name)

    def find(self) -> Existing[EventStore]:
        if not self.target.exists() or not any(self.target.iterdir()):
            if self._scratch.exists() or self._partial.exists():
                return Existing(State.PARTIAL, reason="an earlier run was cut short")
            return Existing(State.MISSING, reason=ABSENT)
        kind = kind_of(self.target)
        if kind != EVENT_STORE_KIND:
            found = "a graph store" if kind == "store" else "no event store"
            refusal = f"{self.target} is {found}; it is left as it is: remove it, or give another --name or --out"
            return Existing(State.FOREIGN, refusal=DatasetError(refusal))
        try:
            return Existing(State.OTHER, result=EventStore(self.target))
        except DatasetError as error:
            return Existing(State.OTHER, reason=OTHER_INPUT, refusal=error)

    def compare(self, result: EventStore) -> Existing[EventStore]:
        if result.key == self.key:
            return Existing(State.SAME, result=result)
        refusal = f"{self.target} was made from other files or options; give --replace to replace it or another --name"
        return Existing(State.OTHER, reason=OTHER_INPUT, refusal=DatasetError(refusal))

    def sweep(self) -> None:
        sweep(self.target, *(folder for folder in (self._scratch, self._partial) if folder.exists()))

    @abstractmethod
    def reader(self) -> EventReader:
        """The events.

        Raises:
            DatasetError, UsageError: a file is not what it should be, or options do not go together.
        """

    @property
    def changing_features(self) -> Callable[[NodesOfEvents], ChangingFeatures] | None:
        """Gives the features of nodes that change; None where none do."""
        return None

    def digests(self) -> AbstractContextManager[InputDigests | None]:
        """What computes the checksums of files while they are read; None where there are none."""
        return nullcontext(None)

    @property
    @abstractmethod
    def source(self) -> dict[str, Any]:
        """Where the events come from, without checksums."""

    def determined_by(self, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        """The determinants, where the checksums of the files are known already."""
        return self.determinants

    def run(self, earlier: EventStore | None) -> EventStore:  # noqa: ARG002
        with memory.limited(self.memory_limit), self.digests() as digests:
            writer, attributes = write_event_store(
                self._partial,
                self.reader(),
                scratch=self._scratch,
                name=self.name,
                time_unit=self.time_unit,
                memory_limit=self.memory_limit,
                changing=self.changing_features,
            )
            files = [] if digests is None else digests.result()
        for line in attributes["notes"]["read_as"]:
            progress.say(f"  {line}")
        first, last = attributes["time_range"]
        span = f"{(last - first) * SECONDS[self.time_unit] / SECONDS['d']:,.3g} days"
        order = "" if attributes["was_sorted"] else ", sorted by time here"
        progress.say(f"  {attributes['num_events']:,} events in {span}, times in {self.time_unit}{order}")
        key = self._key_of(self.determined_by(files))
        write_root(writer, attributes, key=key, source={**self.source, "files": files})
        with progress.task("flushing to disk"):
            publish_folder(self._partial, self.target)
        self.sweep()
        return EventStore(self.target)

    def outcome(self, *, replace: bool) -> EventStoreOutcome:
        """Run the step."""
        store, reused = run_step(self, replace=replace)
        return EventStoreOutcome(store=store, reused=reused)


@dataclass(frozen=True, kw_only=True)
class ImportEventsStep(EventStoreStep):
    """A user's own files."""

    request: ImportRequest
    layout: str = "auto"
    changing: Path | None = None
    """a table of features of nodes that change"""

    @cached_property
    def determinants(self) -> dict[str, Any]:
        with self.digests() as digests:
            return self.determined_by(digests.result())

    def digests(self) -> InputDigests:
        from graphprep.datasets.importing.events.layouts import event_files
        from graphprep.datasets.importing.input_digests import InputDigests

        more = [] if self.changing is None else [("changing features", self.changing)]
        return InputDigests([*event_files(self.request, self.layout), *more])

    def determined_by(self, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {"name": self.name, **self.source["options"], "files": [file["sha256"] for file in files]}

    @cached_property
    def _layout(self) -> str:
        from graphprep.datasets.importing.events.layouts import layout_of

        [part, *_] = self.request.edges
        return layout_of(part.paths[0]) if self.layout == "auto" and part.table is None else self.layout

    @property
    def source(self) -> dict[str, Any]:
        more = {} if self.changing is None else {"changing_features": "".join(self.changing.suffixes[-2:])}
        return {"reader": "events", "options": {**self.request.to_json(), "layout": self._layout, **more}}

    @property
    def changing_features(self) -> Callable[[NodesOfEvents], ChangingFeatures] | None:
        from graphprep.datasets.importing.events.changing_features import read_changing_features

        return None if self.changing is None else partial(read_changing_features, self.changing)

    def reader(self) -> EventReader:
        from graphprep.datasets.importing.events.layouts import open_events

        return open_events(self.request, self.layout)


@dataclass(frozen=True, kw_only=True)
class GenerateEventsStep(EventStoreStep):
    """A seeded stream."""

    request: EventsRequest

    @property
    def determinants(self) -> dict[str, Any]:
        return {"name": self.name, "generator": "events", **asdict(self.request)}

    @property
    def source(self) -> dict[str, Any]:
        return {"reader": "generator events", "options": asdict(self.request)}

    def reader(self) -> EventReader:
        from graphprep.datasets.generators.event_stream import GeneratedEvents

        return GeneratedEvents(self.request)


def import_events(
    request: ImportRequest, *, name: str, layout: str = "auto", replace: bool = False, **options: Any
) -> EventStoreOutcome:
    """Convert a user's own files of events to a store.

    Args:
        request: the files, and how to read them where they are edges.
        name: what to call the dataset.
        layout: of the files; see `graphprep.datasets.importing.events.layouts`.
        replace: convert again even if the store is there, also where it was made from something else.
        options: `changing`, `time_unit`, `out` and `memory_limit` of `EventStoreStep`.

    Raises:
        DatasetError: a file is not what it should be, or another store lies at the target.
        UsageError: options do not go together.
    """
    from graphprep.datasets.importing.events.layouts import require_for_events

    home.checked_name(name, "--name")
    require_for_events(request)
    return ImportEventsStep(name=name, request=request, layout=layout, **options).outcome(replace=replace)


def generate_events(request: EventsRequest, *, name: str, replace: bool = False, **options: Any) -> EventStoreOutcome:
    """Generate a stream of events; arguments as for `import_events`."""
    home.checked_name(name, "--name")
    return GenerateEventsStep(name=name, request=request, **options).outcome(replace=replace)
