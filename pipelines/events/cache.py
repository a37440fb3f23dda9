"""An event store becomes an event cache: ranks of nodes, snapshots with their groups, and a time index.

Work lies in `.partial-KEY` beside the cache until it is whole. That takes seconds for millions of
events, so a run that was cut short starts again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import CacheError, PartitionError, UsageError
from graphprep.system import home, progress
from graphprep.system.files.atomic import PARTIAL_PREFIX, publish_folder, sweep
from graphprep.system.files.output_path import checked_target, kind_of, may_replace
from graphprep.temporal.cache import EventCache
from graphprep.temporal.format import EVENT_CACHE_KIND, EVENT_FORMAT, TIME
from graphprep.temporal.request import EventCacheRequest
from graphprep.temporal.snapshot_costs import active_nodes, snapshot_costs
from graphprep.temporal.snapshot_groups import balanced_groups, group_figures
from graphprep.temporal.snapshot_members import MemberNodes
from graphprep.temporal.splits import split_by_time
from graphprep.temporal.store import EventStore
from graphprep.temporal.stream_partition import NodeRanks, assign_nodes, random_ranks
from graphprep.temporal.time_index import TimeIndex
from graphprep.temporal.windows import in_units, snapshot_offsets, window_seconds
from graphprep.temporal.write_cache import MOST_PARTS, EventCacheContent, Snapshots, write_event_cache
from graphprep.version import __version__
from pipelines.estimate import Estimate
from pipelines.events.snapshot_members import divide_nodes
from pipelines.step import ABSENT, Existing, State, key_of, run_step

METHODS = ("auto", "random")
OTHER_OPTIONS = "it was made with other options or is damaged, and is replaced"
EVENTS_PER_SECOND = 2e6
"""for the time that is announced, nothing else"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCacheOutcome:
    """Where the cache lies, and whether it was there already."""

    cache: EventCache
    reused: bool


@dataclass(frozen=True, kw_only=True)
class EventPartitionStep:
    """One run, decided but not started."""

    store: EventStore
    purpose: str
    num_parts: int
    request: EventCacheRequest
    target: Path
    method: str = "auto"
    imbalance: float = 1.05
    seed: int = 0
    memory_limit: int | None = None

    @cached_property
    def determinants(self) -> dict[str, Any]:
        """All that determines the content, by the name that an error can use."""
        return {
            **{"store": self.store.key, "for": self.purpose, "parts": self.num_parts, "method": self.method},
            **{"imbalance": self.imbalance, "seed": self.seed if self._is_seeded else 0},
            **{name: value for name, value in asdict(self.request).items() if (name, value) != ("ranks_per_group", 1)},
            **{"event cache format": EVENT_FORMAT, "graphprep version": __version__},
        }

    @property
    def _is_seeded(self) -> bool:
        """Whether random numbers are drawn: ranks, or by METIS."""
        return self.method == "random" or self.request.ranks_per_group > 1

    @cached_property
    def key(self) -> str:
        """64 hex digits over the determinants."""
        return key_of(self.determinants)

    @property
    def work(self) -> Path:
        """Where the work on the cache lies until it is whole."""
        return self.target.with_name(PARTIAL_PREFIX + self.key)

    @property
    def locks(self) -> Sequence[tuple[Path, str]]:
        return ((self.target, f"the cache {self.target}"), (self.work, f"a cache of the same key as {self.target}"))

    def expectations(self) -> dict[str, Any]:
        """The estimate of memory, disk and time, with the counts that it is made from."""
        nodes, events = self.store.num_nodes, self.store.num_events
        of_arrays = sum(array.nbytes for array in self.store.arrays.values())
        return {
            "nodes": nodes,
            "events": events,
            "parts": self.num_parts,
            "memory_bytes": 300_000_000 + nodes * (4 * self.num_parts + 40),
            "disk_bytes": of_arrays + events * 32 + nodes * 10,
            "seconds": round(2 + events / EVENTS_PER_SECOND, 1),
        }

    @property
    def estimate(self) -> Estimate:
        needs = self.expectations()
        return Estimate(memory_bytes=needs["memory_bytes"], disk_bytes=needs["disk_bytes"], seconds=needs["seconds"])

    def announce(self) -> None:
        """Say what the run will need before it starts."""
        needs = self.expectations()
        progress.say(
            f"partitioning {self.store.name} ({needs['nodes']:,} nodes, {needs['events']:,} events) for {self.purpose} "
            f"on {self.num_parts} ranks: expect about {progress.format_bytes(needs['memory_bytes'])} of memory, "
            f"{progress.format_bytes(needs['disk_bytes'])} of disk and {needs['seconds']:.0f} s"
        )

    def find(self) -> Existing[EventCache]:
        target = self.target
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            if self.work.exists():
                return Existing(State.PARTIAL, reason="an earlier run was cut short")
            return Existing(State.MISSING, reason=ABSENT)
        try:
            cache = EventCache(target)
            cache.manifest.check_sizes(target)
        except CacheError as error:
            if may_replace(target, EVENT_CACHE_KIND):
                return Existing(State.OTHER, reason=OTHER_OPTIONS, refusal=error)
            refusal = f"{error}; it is left as it is: remove it, or give another --out"
            return Existing(State.FOREIGN, refusal=CacheError(refusal))
        return Existing(State.OTHER, result=cache)

    def compare(self, result: EventCache) -> Existing[EventCache]:
        if result.key == self.key:
            return Existing(State.SAME, result=result)
        before = result.attributes["options"]
        names = [name for name in {**self.determinants, **before} if before.get(name) != self.determinants.get(name)]
        differences = ", ".join(
            "another store"
            if name == "store"
            else f"{name.replace('_', '-')} {before.get(name)} there, {self.determinants.get(name)} now"
            for name in names
        )
        refusal = (
            f"{self.target} was made with other options ({differences}); give --replace to replace it or --out for "
            "another folder"
        )
        return Existing(State.OTHER, reason=OTHER_OPTIONS, refusal=CacheError(refusal))

    def sweep(self) -> None:
        sweep(self.target, self.work)

    def run(self, earlier: EventCache | None) -> EventCache:  # noqa: ARG002
        """Make the cache.

        Raises:
            UsageError: the split leaves a part without events, or there are very many windows.
            PartitionError: there are fewer snapshots than ranks, or memory does not suffice.
            DatasetError: the store has changed since it was written.
        """
        self.announce()
        self.store.check()
        split = split_by_time(self.store.arrays[TIME], self.request.shares)
        snapshots, quality = self._snapshots()
        shutil.rmtree(self.work, ignore_errors=True)
        content = EventCacheContent(
            dataset=self.store.name,
            num_parts=self.num_parts,
            ranks=self._ranks,
            split=split,
            is_bipartite=self.store.is_bipartite,
            time_unit=self.store.time_unit,
            snapshots=snapshots,
            key=self.key,
            source=self.store.attributes["source"],
            options=self.determinants,
            quality=quality,
        )
        write_event_cache(self.work, self.store, content, memory_limit=self.memory_limit)
        with progress.task("flushing to disk"):
            publish_folder(self.work, self.target)
        self.sweep()
        return EventCache(self.target)

    def _ranks(self, index: TimeIndex) -> NodeRanks:
        return self._divided(index, self.num_parts)

    def _members(self, index: TimeIndex, offsets_T: NDArray[np.int64]) -> MemberNodes:
        return divide_nodes(
            self.store,
            index,
            offsets_T,
            self.request.ranks_per_group,
            by_stream=partial(self._divided, index),
            tries_metis=self.method != "random",
            seed=self.seed,
            scratch=self.work,
            memory_limit=self.memory_limit,
        )

    def _divided(self, index: TimeIndex, number: int) -> NodeRanks:
        if self.method == "random":
            return random_ranks(self.store, number, self.seed)
        half_life = self.request.half_life
        return assign_nodes(
            self.store,
            index,
            number,
            imbalance=self.imbalance,
            half_life=None if half_life is None else in_units(window_seconds(half_life, "--half-life"), self.unit),
            memory_limit=self.memory_limit,
        )

    @property
    def unit(self) -> str:
        """Of the times."""
        return self.store.time_unit

    def _snapshots(self) -> tuple[Snapshots | None, Mapping[str, Any]]:
        """The windows with their groups, and the figures of these."""
        if self.request.window is None:
            return None, {}
        seconds = window_seconds(self.request.window)
        offsets_T = snapshot_offsets(self.store.arrays[TIME], in_units(seconds, self.unit))
        events_T, nodes_T = np.diff(offsets_T), active_nodes(self.store, offsets_T)
        cost_T = snapshot_costs(events_T, nodes_T, self.request.costs)
        number = self.request.ranks_per_group
        num_groups = self.num_parts // number
        group_T = balanced_groups(cost_T, num_groups)
        figures = group_figures(cost_T, group_T, num_groups, self.request.costs)
        progress.say(
            f"{len(cost_T):,} snapshots of {self.request.window} in {num_groups} groups: the largest costs "
            f"{figures['imbalance']:.3f} of their mean"
        )
        heaviest, share = figures["heaviest"], figures["heaviest_share"]
        if share > 1:
            progress.warn(
                f"snapshot {heaviest} with {events_T[heaviest]:,} events alone costs {share:.2f} of the mean of a "
                "group, so that groups cannot be balanced; give a shorter --window, fewer --parts, or more "
                "--ranks-per-group"
            )
        snapshots = Snapshots(
            window_seconds=seconds,
            offsets_T=offsets_T,
            group_T=group_T,
            ranks_per_group=number,
            members=partial(self._members, offsets_T=offsets_T) if number > 1 else None,
        )
        return snapshots, {"snapshots": figures}


def plan_event_partition(
    name_or_store: str | EventStore,
    *,
    purpose: str,
    parts: int | None,
    request: EventCacheRequest,
    out: Path | None = None,
    **options: Any,
) -> EventPartitionStep:
    """Decide what a run will do.

    Args:
        name_or_store: an event store, its name or its path.
        purpose: `events` or `snapshots`.
        parts: the ranks that train.
        request: the options of event caches.
        out: the cache folder itself; by default HOME/caches/NAME/PURPOSE-PARTS.
        options: `method`, `imbalance`, `seed` and `memory_limit` of the step.

    Raises:
        UsageError: an option is missing or wrong.
        DatasetError: there is no such event store.
    """
    if purpose == "snapshots" and request.window is None:
        raise UsageError("--for snapshots needs the length of a snapshot; give e.g. --window 1d")
    if parts is None:
        raise UsageError(f"--for {purpose} needs the number of ranks that train; give e.g. --parts 4")
    if not 1 <= parts <= MOST_PARTS:
        raise UsageError(f"--parts {parts} must be from 1 to {MOST_PARTS:,}")
    number = request.ranks_per_group
    if number > 1 and purpose != "snapshots":
        raise UsageError(f"--ranks-per-group does nothing with --for {purpose}; leave it out, or give --for snapshots")
    if parts % number:
        raise UsageError(f"--ranks-per-group {number} does not divide --parts {parts}; give a divisor of it")
    if options.get("method", "auto") not in METHODS:
        raise UsageError(f"--method {options['method']} is for graphs; give {' or '.join(METHODS)}, or leave it out")
    store = open_event_store(name_or_store)
    if parts > store.num_nodes:
        raise PartitionError(f"{parts} parts are more than the {store.num_nodes} nodes of {store.name}; give fewer")
    for flag, length in (("--window", request.window), ("--half-life", request.half_life)):
        if length is not None:
            window_seconds(length, flag)
    if out is not None and home.is_url(str(out).replace(":/", "://", 1)):
        raise UsageError(f"--out {out} is a URL; a cache is mapped into memory and has to lie on a local disk")
    target = home.cache_path(store.name, f"{purpose}-{parts}").absolute() if out is None else checked_target(out)
    return EventPartitionStep(store=store, purpose=purpose, num_parts=parts, request=request, target=target, **options)


def run_event_partition(step: EventPartitionStep, *, replace: bool = False) -> EventCacheOutcome:
    """Make the cache, or find that it is there.

    Raises:
        CacheError: another cache, or something that is no event cache, lies at the target.
    """
    cache, reused = run_step(step, replace=replace)
    return EventCacheOutcome(cache=cache, reused=reused)


def open_event_store(name_or_store: str | Path | EventStore) -> EventStore:
    """An event store by its name or path; an open one is given back.

    Raises:
        DatasetError: there is none, or it is another kind of store.
    """
    if isinstance(name_or_store, EventStore):
        return name_or_store
    location = home.find_store(str(name_or_store))
    if not isinstance(location, Path):
        raise UsageError(f"{location} is a URL; events are mapped into memory and have to lie on a local disk")
    if kind_of(location) == "store":
        raise UsageError(
            f"{location} is a graph store and no stream of events; import its edges with --events, or leave out --for"
        )
    return EventStore(location)
