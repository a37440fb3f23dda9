"""A store and a topology become a finished cache.

Work lies in `.partial-KEY` beside the cache: the assignment as soon as it is known, so that a run that is killed later
does not partition again, then the cache itself, which is renamed into place when it is whole.
"""

from __future__ import annotations

import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

from numpy.typing import NDArray

from graphprep.cache.blocks import NodeLayout
from graphprep.cache.features import FeatureOptions
from graphprep.cache.format import CACHE_FORMAT, CACHE_KIND, X_AGGREGATED
from graphprep.cache.read import OF_THE_CACHE, PartitionCache
from graphprep.cache.write import CacheContent, labels_of, width_of, write_cache
from graphprep.errors import CacheError, PartitionError, UsageError
from graphprep.partition.engine import Engine, InMemoryEngine, OutOfCoreEngine, PartitionSource, whole_graph
from graphprep.partition.estimates import estimate, estimate_out_of_core, needs_out_of_core
from graphprep.partition.external_assignment import ASSIGNMENT, ExternalAssignment, read_assignment
from graphprep.partition.out_of_core.driver import METHOD
from graphprep.partition.request import PartitionRequest
from graphprep.partition.saved_assignment import partition_once
from graphprep.partition.search import require_enough_nodes
from graphprep.plan.model_widths import ModelWidths
from graphprep.plan.rates import Rates
from graphprep.plan.rates_file import read_with_digest
from graphprep.store.store import GraphStore, open_store
from graphprep.system import home, memory, progress
from graphprep.system.executor import Executor
from graphprep.system.files.atomic import PARTIAL_PREFIX, publish_folder, sweep
from graphprep.system.files.output_path import checked_target, may_replace
from graphprep.system.packages import installed_version
from graphprep.topology import Topology, resolve
from graphprep.version import __version__
from pipelines.estimate import Estimate, GraphSize
from pipelines.step import ABSENT, Existing, State, key_of, run_step

MEMORY = "memory"
LIBRARIES = ("pymetis", "scipy", "mtkahypar", "kaminpar")
"""Their versions may change an assignment or the order inside parts; some need not be installed."""
BLOCK_BYTES = 4096
SECONDS_PER_FILE = 1e-3
"""Of making, checking in and flushing one file."""
OTHER_OPTIONS = "it was made with other options or is damaged, and is replaced"


@dataclass(frozen=True, kw_only=True)
class PartitionStep(ABC):
    """A graph becomes a cache. Subclasses say where the graph comes from."""

    topology: Topology
    request: PartitionRequest
    target: Path
    rates: tuple[Rates, str] | None = None
    """measured on the machine that trains, with the digest of their file; None for those of the topology's devices"""
    external: ExternalAssignment | None = None
    """the only start, if an assignment was made elsewhere"""
    memory_limit: int | None = None
    """bytes that the run may hold; None for what is free"""
    features: FeatureOptions = field(default_factory=FeatureOptions)
    """what is done to the nodes' features"""
    widths: ModelWidths | None = None
    """of the model that decides `row_bytes` of the request; None where that was given"""
    executor: Executor | None = None
    """of the passes over ranges of rows and of the parts, on which the cache does not depend; None for threads"""

    @property
    @abstractmethod
    def graph_key(self) -> str:
        """The key of the graph's store; known before the store is there."""

    @property
    @abstractmethod
    def size(self) -> GraphSize | None:
        """What the graph has; None where that is not known before the store is there."""

    @abstractmethod
    def open(self) -> PartitionSource:
        """The graph.

        Raises:
            GraphprepError: it is not there, or cannot be partitioned so.
        """

    @property
    def locks(self) -> Sequence[tuple[Path, str]]:
        return (
            (self.target, f"the cache {self.target}"),
            (self.work, f"a cache of the same key as {self.target}"),
        )

    @property
    def work(self) -> Path:
        """Where the work on the cache lies until it is whole."""
        return self.target.with_name(PARTIAL_PREFIX + self.key)

    @cached_property
    def is_out_of_core(self) -> bool:
        """Whether the graph is partitioned by passes over files. It depends on what this process holds, and is decided
        once."""
        return (
            self.external is None
            and self.size is not None
            and needs_out_of_core(self.request, memory_limit=self.memory_limit, **self._counts(self.size))
        )

    @property
    def relay_row_bytes(self) -> int | None:
        """Bytes of a row by which relays are chosen; None for no relays."""
        request = self.request
        is_relayed = request.relay == "auto" and request.balance == "rows" and request.purpose == "full-graph"
        return request.row_bytes if is_relayed else None

    @cached_property
    def determinants(self) -> dict[str, Any]:
        """All that determines the cache's content, by the name that an error can use.

        Where the graph is partitioned by passes over files, what `--memory` says decides on how many levels there are.
        Without it that is the free memory, which no two runs have alike, so that a cache which is there is taken.
        """
        values = {
            "store": self.graph_key,
            "topology": self.topology.to_long_form(),
            **self._options(),
            **asdict(self.features),
            **({} if self.external is None else {ASSIGNMENT: self.external.sha256}),
            **({} if self.rates is None else {"rates": self.rates[1]}),
            **({MEMORY: self.memory_limit} if self.is_out_of_core and self.memory_limit is not None else {}),
            "cache format": CACHE_FORMAT,
            "graphprep version": __version__,
            **{f"{library} version": installed_version(library) for library in LIBRARIES},
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @cached_property
    def key(self) -> str:
        """64 hex digits over the determinants."""
        return key_of(self.determinants)

    def _options(self) -> dict[str, Any]:
        """The request's options; those of the model in place of the bytes that follow from them and the graph."""
        options = asdict(self.request)
        del options["row_seconds"]  # which follow from the rates
        if self.request.purpose == "full-graph":
            for name in ("purpose", "fanouts", "batch_size"):
                del options[name]
        if self.widths is not None:
            del options["row_bytes"]
            options |= asdict(self.widths)
        return options

    def _request(self, source: PartitionSource) -> PartitionRequest:
        """The request with the bytes of a row, which are said, and what is measured of them."""
        row_bytes = self._row_bytes(source)
        row_seconds = self.request.row_seconds if self.rates is None else self.rates[0].of_row(row_bytes)
        return replace(self.request, row_bytes=row_bytes, row_seconds=row_seconds)

    def _row_bytes(self, source: PartitionSource) -> int:
        if self.widths is None:
            progress.say(f"links are loaded with rows of {self.request.row_bytes} bytes, as given")
            return self.request.row_bytes
        if self.request.purpose == "sampling":
            return self._feature_bytes(source)
        is_typed = len(source.num_nodes) > 1 or len(source.num_edges) > 1
        node_type = next(iter(source.num_nodes))
        classes = 0 if is_typed else labels_of(source, node_type)[1]
        exchanged = self.widths.exchanged(width_of(source, node_type, "x"), classes, is_typed=is_typed)
        progress.say(self.widths.sentence(exchanged))
        return self.widths.row_bytes(exchanged)

    def _feature_bytes(self, source: PartitionSource) -> int:
        """Bytes of the widest features of a node, which mini-batches fetch."""
        widths = [0]
        for node_type in source.num_nodes:
            stored = source.node_array(node_type, "x")
            if stored is not None:
                widths.append(int(stored.shape[1]) * self.features.dtype(stored.dtype).itemsize)
        row_bytes = max(widths) or self.request.row_bytes
        progress.say(
            f"links are loaded with rows of {row_bytes} bytes, as wide as features are; --row-bytes says otherwise"
        )
        return row_bytes

    def _counts(self, size: GraphSize) -> dict[str, Any]:
        return {
            "num_nodes": size.nodes,
            "num_edges": size.edges,
            "directed": size.directed,
            "topology": self.topology,
        }

    def expectations(self) -> dict[str, Any]:
        """The estimate of memory, disk and time, with the counts that it is made from.

        Raises:
            UsageError: `--memory` leaves too little to work with.
        """
        size, parts = self.size, self.topology.num_ranks
        assert size is not None
        if self.is_out_of_core:
            needs = estimate_out_of_core(self.request, **self._counts(size))
        else:
            is_given = self.external is not None
            needs = estimate(self.request, memory_limit=self.memory_limit, is_given=is_given, **self._counts(size))
        files = 20 + parts * (40 + 18 * (parts - 1))
        disk_bytes = size.edges * 8 + size.nodes * 40 + files * BLOCK_BYTES + size.node_bytes + needs.scratch_bytes
        method = METHOD if self.is_out_of_core else self.request.method
        return {
            "nodes": size.nodes,
            "edges": size.edges,
            "parts": parts,
            "method": method if self.external is None else ASSIGNMENT,
            "memory_bytes": needs.memory_bytes,
            "disk_bytes": disk_bytes,
            "files": files,
            "seconds": round(2 + needs.seconds + files * SECONDS_PER_FILE, 1),
        }

    @property
    def estimate(self) -> Estimate | None:
        if self.size is None:
            return None
        needs = self.expectations()
        return Estimate(memory_bytes=needs["memory_bytes"], disk_bytes=needs["disk_bytes"], seconds=needs["seconds"])

    def find(self) -> Existing[PartitionCache]:
        target = self.target
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            if self.work.exists():
                return Existing(State.PARTIAL, reason="an earlier run was cut short; what it has finished is kept")
            return Existing(State.MISSING, reason=ABSENT)
        try:
            cache = PartitionCache(target)
            cache.check_sizes()
        except CacheError as error:
            if may_replace(target, CACHE_KIND):
                return Existing(State.OTHER, reason=OTHER_OPTIONS, refusal=error)
            refusal = f"{error}; it is left as it is: remove it, or give another --out"
            return Existing(State.FOREIGN, refusal=CacheError(refusal))
        return Existing(State.OTHER, result=cache)

    def compare(self, result: PartitionCache) -> Existing[PartitionCache]:
        if result.key != self.key:
            refusal = (
                f"{self.target} was made with other options ({self._differences(result) or 'unknown ones'}); "
                "give --replace to replace it or --out for another folder"
            )
            return Existing(State.OTHER, reason=OTHER_OPTIONS, refusal=CacheError(refusal))
        fallback, options = result.fallback, result.attributes["options"]
        if fallback is not None:
            if fallback.memory_bytes is None or fallback.memory_bytes <= memory.full_budget(self.memory_limit):
                return Existing(
                    State.FALLBACK,
                    result=result,
                    reason="a fallback made it, and what was asked for is tried again",
                    notes=(f"{self.target} was made by a fallback, and what was asked for is tried again",),
                )
            warning = f"{self.target} is there, but a fallback made it: {fallback.sentence}"
            return Existing(State.FALLBACK, result=result, warnings=(warning,))
        notes = []
        if options["method_chosen"] == METHOD and options["method"] == "auto":
            notes.append("it was made by passes over its edges, as memory was small; --replace makes it again")
        absent = [f"{row['method']} ({row['failure']})" for row in options["tried"] if row.get("failure")]
        if absent:
            notes.append(f"it was made without {', '.join(absent)}; --replace tries again")
        return Existing(State.SAME, result=result, notes=tuple(notes))

    def _differences(self, cache: PartitionCache) -> str:
        """What a cache was made from, and what it is to be made from now, where they differ."""
        before, now = cache.attributes["options"].get("determinants", {}), self.determinants
        names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
        return ", ".join(
            f"another {name}"
            if isinstance(now.get(name), dict) or name in ("store", ASSIGNMENT)
            else f"{name} {before.get(name)} there, {now.get(name)} now"
            for name in names
        )

    def sweep(self) -> None:
        sweep(self.target, self.work)

    def run(self, earlier: PartitionCache | None) -> PartitionCache:
        """Make the cache.

        Args:
            earlier: a cache that a fallback made; kept if what was asked for does not come through once more.

        Raises:
            PartitionError: there are more parts than nodes.
        """
        source, work = self.open(), self.work
        announce(self, source.name)
        if self.memory_limit is not None:
            memory.return_freed_blocks()
        work.mkdir(parents=True, exist_ok=True)
        source.require_unchanged("edges/")
        request = self._request(source)
        engine = self._engine(source, request)
        result, nodes_P = partition_once(engine, work, self.topology.num_ranks)
        if earlier is not None and result.fallback is not None:
            progress.warn(f"{result.fallback.sentence} once more; {self.target}, which a fallback made, is kept")
            shutil.rmtree(work)
            return earlier
        orders = engine.graph.orders(nodes_P)
        layouts = {
            node_type: NodeLayout.from_order(part_N, orders[node_type])
            for node_type, part_N in engine.graph.assignments(result.assignment).items()
        }
        del engine, nodes_P, orders
        for limit in result.quality.limits:
            if not limit.met:
                progress.warn(
                    f"the parts do not keep the limit on {limit.what}: {limit.value:.3f} for {limit.limit:.3f}"
                )
        write_cache(
            work / "cache",
            source,
            CacheContent(
                key=self.key,
                layouts=layouts,
                traffic=result.traffic,
                quality=result.quality,
                topology=self.topology,
                features=self.features,
                relay_row_bytes=self.relay_row_bytes,
                reference=result.reference(is_mapped=self.request.effort != "none"),
                fallback=None if result.fallback is None else result.fallback.to_json(),
                options={
                    **asdict(request),
                    **asdict(self.features),
                    "model_widths": None if self.widths is None else asdict(self.widths),
                    "method_chosen": result.method,
                    "tried": list(result.tried),
                    "determinants": self.determinants,
                },
            ),
            scratch=work,
            memory_limit=self.memory_limit,
            executor=self.executor,
        )
        with progress.task("flushing to disk"):
            publish_folder(work / "cache", self.target)
        shutil.rmtree(work)
        return PartitionCache(self.target)

    def _engine(self, source: PartitionSource, request: PartitionRequest) -> Engine:
        options = (self.topology, request, self.memory_limit)
        if self.is_out_of_core:
            if request.purpose == "sampling":
                raise PartitionError(
                    "--for sampling needs all edges in memory, which is too small for them; give more --memory, or "
                    "leave --for out"
                )
            return OutOfCoreEngine.of(source, *options, scratch=self.work, executor=self.executor)
        return InMemoryEngine(
            whole_graph(source), *options, None if self.external is None else self.external.assignment_N
        )


@dataclass(frozen=True, kw_only=True)
class PartitionPlan(PartitionStep):
    """One partitioning run of a graph that is there, decided but not started."""

    store: PartitionSource

    @property
    def graph_key(self) -> str:
        return self.store.key

    @cached_property
    def size(self) -> GraphSize:
        return graph_size(self.store, self.features)

    def open(self) -> PartitionSource:
        return self.store


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutcome:
    """Where the cache lies, and whether it was there already."""

    cache: PartitionCache
    reused: bool


def plan_partition(
    name_or_store: str | GraphStore,
    *,
    parts: int | None,
    topology: str | Topology | None,
    request: PartitionRequest,
    out: Path | None,
    assignment: Path | NDArray[Any] | None = None,
    memory_limit: int | None = None,
    features: FeatureOptions | None = None,
    widths: ModelWidths | None = None,
    rates: Path | None = None,
) -> PartitionPlan:
    """Decide what a run will do.

    Args:
        name_or_store: a fetched dataset's name, a store's path or URL, or the store.
        parts: K for a flat topology of K equal ranks; exactly one of `parts` and `topology` is given.
        topology: a preset's name, a file, or the topology.
        request: the partitioner's options.
        out: the cache folder itself; by default HOME/caches/NAME/LABEL.
        memory_limit: bytes that the run may hold; None for what is free.
        features: what is done to the nodes' features; None for nothing.
        widths: of the model that will be trained; None where the request's `row_bytes` holds.
        rates: a file of `graphprep doctor --rates`; None for the rates of the topology's devices.
        assignment: a file with one part number a node, made elsewhere, or the numbers [N]; see
            `graphprep.partition.external_assignment`.

    Raises:
        UsageError: both or neither of `parts` and `topology`, `parts` below 1, an assignment and a method, features
            that cannot be summed, or a file of other rates.
        DatasetError: there is no such store.
        TopologyError: the topology is wrong.
        PartitionError: there are more parts than nodes, or the assignment is none of its nodes.
    """
    if assignment is not None and request.method != "auto":
        raise UsageError(f"give either --assignment or --method {request.method}; an assignment is the only start")
    chosen = chosen_topology(parts, topology)
    store = open_store(name_or_store)
    features = features or FeatureOptions()
    check_source(store, features)
    if parts is not None:
        require_enough_nodes(parts, sum(store.num_nodes.values()))
    target = target_of(out, store.name, chosen)
    external = None
    if assignment is not None:
        external = read_assignment(assignment, num_nodes=sum(store.num_nodes.values()), num_parts=chosen.num_ranks)
    if memory_limit is not None:
        memory.budget(memory_limit)
    return PartitionPlan(
        store=store,
        topology=chosen,
        request=request,
        target=target,
        external=external,
        memory_limit=memory_limit,
        features=features,
        widths=widths,
        rates=None if rates is None else read_with_digest(rates),
    )


def run_partition(
    plan: PartitionPlan, *, replace_other: bool = False, executor: Executor | None = None
) -> PartitionOutcome:
    """Make the cache of a plan, or find that it is there.

    A cache that a fallback made, since no method that was asked for came through, is made again if they may come
    through now; if they do not, it is kept.

    Args:
        replace_other: make the cache, whatever lies there: one of the same options, of others, or a damaged one.
        executor: as for `PartitionStep`.

    Raises:
        CacheError: another cache, or something that is no cache, lies at the target.
        PartitionError: there are more parts than nodes.
    """
    cache, reused = run_step(replace(plan, executor=executor), replace=replace_other)
    return PartitionOutcome(cache=cache, reused=reused)


def check_source(store: GraphStore, features: FeatureOptions) -> None:
    """Refuse features that cannot be summed, and arrays that would get a name which the cache needs for its own.

    Raises:
        UsageError: there are some.
    """
    features.require_aggregatable(store)
    for node_type in store.num_nodes:
        for name in filter(OF_THE_CACHE.fullmatch, store.node_arrays(node_type)):
            raise UsageError(
                f"{store.name} has an array {name} of {node_type} nodes, which is a name of the cache's own; "
                "import it under another name"
            )


def chosen_topology(parts: int | None, topology: str | Topology | None) -> Topology:
    """The topology that a person means.

    Raises:
        UsageError: both or neither of `parts` and `topology`, or `parts` below 1.
        TopologyError: the topology is wrong.
    """
    if (parts is None) == (topology is None):
        raise UsageError("give either --parts K or --topology FILE_OR_PRESET")
    if parts is not None and not isinstance(parts, SupportsIndex):
        raise UsageError(f"--parts {parts!r} is no whole number; give how many parts to make")
    if parts is not None and parts < 1:
        raise UsageError(f"--parts {parts} must be at least 1")
    return Topology.flat(parts) if parts is not None else resolve(topology or "")


def target_of(out: Path | None, name: str, topology: Topology) -> Path:
    """The cache folder itself: `out`, or by default HOME/caches/NAME/LABEL.

    Raises:
        UsageError: nothing may be written there.
    """
    if out is None:
        return home.cache_path(name, topology.name).absolute()
    if home.is_url(str(out).replace(":/", "://", 1)):
        raise UsageError(f"--out {out} is a URL; a cache is mapped into memory and has to lie on a local disk")
    return checked_target(out)


def announce(step: PartitionStep, name: str) -> None:
    """Say what the run on the graph called `name` will need before it starts."""
    needs = step.expectations()
    progress.say(
        f"partitioning {name} ({needs['nodes']:,} nodes, {needs['edges']:,} directed edges) into "
        f"{needs['parts']} parts for {step.topology.name} by {needs['method']}: expect about "
        f"{progress.format_bytes(needs['memory_bytes'])} of memory, {progress.format_bytes(needs['disk_bytes'])} "
        f"of disk in {needs['files']:,} files, and {needs['seconds']:.0f} s"
    )


def graph_size(source: PartitionSource, features: FeatureOptions) -> GraphSize:
    """What a graph has; its bytes are those of the nodes' arrays in a cache, and of what is needed beside them."""
    total = 0
    for node_type in source.num_nodes:
        names = source.node_arrays(node_type)
        for name in names:
            array = source.node_array(node_type, name)
            assert array is not None
            numbers = math.prod(array.shape)
            is_left_out = name == "x" and features.features == "none" and features.aggregate_features == "none"
            if not is_left_out:
                total += numbers * (features.dtype(array.dtype) if name == "x" else array.dtype).itemsize
            if name == "x" and features.aggregate_features != "none" and X_AGGREGATED not in names:
                total += numbers * features.dtype_of_sums.itemsize
    return GraphSize(
        nodes=sum(source.num_nodes.values()),
        edges=sum(source.num_edges.values()),
        directed=source.directed,
        node_bytes=total,
    )
