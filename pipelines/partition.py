"""A store and a topology become a finished cache.

Work lies in `.partial-KEY` beside the cache: the assignment as soon as it is known, so that a run that is killed later
does not partition again, then the cache itself, which is renamed into place when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import zipfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.blocks import Layout
from graphprep.cache.features import FeatureOptions
from graphprep.cache.format import CACHE_FORMAT, CACHE_KIND, X_AGGREGATED
from graphprep.cache.read import OF_THE_CACHE, PartitionCache
from graphprep.cache.write import CacheContent, write_cache
from graphprep.core.fallback import Fallback
from graphprep.core.source import GraphSource
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import CacheError, UsageError
from graphprep.partition.estimates import expected, expected_past_memory, is_past_memory
from graphprep.partition.evaluation import judge
from graphprep.partition.external_assignment import ASSIGNMENT, GivenAssignment, read_assignment
from graphprep.partition.ordering.order import locality_order
from graphprep.partition.out_of_core.driver import METHOD, order_past_memory, partition_past_memory
from graphprep.partition.out_of_core.mapped_graph import MappedGraph
from graphprep.partition.out_of_core.passes import Passes
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import PartitionResult
from graphprep.partition.search import partition, require_enough_nodes
from graphprep.partition.typed_graph import WholeGraph
from graphprep.store.store import GraphStore
from graphprep.system import home, memory, progress
from graphprep.system.atomic import PARTIAL_PREFIX, locked, publish_folder, published_file, sweep
from graphprep.system.executor import Executor, Threads
from graphprep.system.output_path import checked_target, may_replace
from graphprep.topology import Topology, resolve
from graphprep.traffic import Assignments, Count, Matrices, Traffic, count_in_order
from graphprep.traffic.counts_by_ranges import count_by_ranges
from graphprep.version import __version__
from pipelines.estimate import GraphSize

ASSIGNMENT_FILE = "assignment.npz"
MEMORY = "memory"
LIBRARIES = ("pymetis", "scipy", "mtkahypar", "kaminpar")
"""Their versions may change an assignment or the order inside parts; some need not be installed."""
BLOCK_BYTES = 4096
SECONDS_PER_FILE = 1e-3
"""Of making, checking in and flushing one file."""


class PartitionSource(GraphSource, Protocol):
    """A graph that can be partitioned: a store, or a cache put together again."""

    def require_unchanged(self, prefix: str) -> None:
        """Compare the arrays whose paths begin so with their checksums; others are compared while they are copied."""

    @property
    def key(self) -> str:
        """Over all that determined the graph."""

    def csr(self, edge_type: EdgeType) -> Csr:
        """All in-edges of one type in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """What is asked of a partitioning run, apart from the graph, which need not be there yet."""

    topology: Topology
    request: PartitionRequest
    given: GivenAssignment | None = None
    memory_limit: int | None = None
    features: FeatureOptions = field(default_factory=FeatureOptions)

    def determinants(self, store_key: str, *, by_passes: bool) -> dict[str, Any]:
        """All that determines the cache's content, by the name that an error can use.

        Args:
            store_key: of the graph's store.
            by_passes: whether the graph is partitioned by passes over files. What `--memory` says then decides on how
                many levels there are. Without it that is the free memory, which no two runs have alike, so that a cache
                which is there is taken.
        """
        found = {
            "store": store_key,
            "topology": self.topology.to_long_form(),
            **asdict(self.request),
            **asdict(self.features),
            **({} if self.given is None else {ASSIGNMENT: self.given.sha256}),
            **({MEMORY: self.memory_limit} if by_passes and self.memory_limit is not None else {}),
            "cache format": CACHE_FORMAT,
            "graphprep version": __version__,
            **{f"{library} version": _version(library) for library in LIBRARIES},
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    def is_past_memory(self, size: GraphSize) -> bool:
        """Whether a graph of this size is partitioned by passes over files."""
        return self.given is None and is_past_memory(self.request, memory_limit=self.memory_limit, **self._counts(size))

    def _counts(self, size: GraphSize) -> dict[str, Any]:
        return {
            "num_nodes": size.nodes,
            "num_edges": size.edges,
            "directed": size.directed,
            "topology": self.topology,
        }

    def expectations(self, size: GraphSize) -> dict[str, Any]:
        """Memory, disk and time that a run on a graph of this size will take, estimated."""
        passes = self.is_past_memory(size)
        if passes:
            asked = expected_past_memory(self.request, **self._counts(size))
        else:
            asked = expected(
                self.request, memory_limit=self.memory_limit, is_given=self.given is not None, **self._counts(size)
            )
        parts = self.topology.num_ranks
        files = 20 + parts * (40 + 18 * (parts - 1))
        disk_bytes = size.edges * 8 + size.nodes * 40 + files * BLOCK_BYTES + size.node_bytes + asked.scratch_bytes
        return {
            "nodes": size.nodes,
            "edges": size.edges,
            "parts": self.topology.num_ranks,
            "method": ASSIGNMENT if self.given is not None else METHOD if passes else self.request.method,
            "memory_bytes": asked.memory_bytes,
            "disk_bytes": disk_bytes,
            "files": files,
            "seconds": round(2 + asked.seconds + files * SECONDS_PER_FILE, 1),
        }


def key_of(determinants: dict[str, Any]) -> str:
    """64 hex digits over the determinants of a cache."""
    return hashlib.sha256(json.dumps(determinants, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partitioning run, decided but not started."""

    store: PartitionSource
    topology: Topology
    request: PartitionRequest
    target: Path
    given: GivenAssignment | None = None
    """the only start, if an assignment was made elsewhere"""
    memory_limit: int | None = None
    """bytes that the run may hold; None for what is free"""
    features: FeatureOptions = field(default_factory=FeatureOptions)
    """what is done to the nodes' features"""

    @property
    def wish(self) -> PartitionSpec:
        """What is asked for, apart from the graph."""
        return PartitionSpec(
            topology=self.topology,
            request=self.request,
            given=self.given,
            memory_limit=self.memory_limit,
            features=self.features,
        )

    @property
    def determinants(self) -> dict[str, Any]:
        """All that determines the cache's content, by the name that an error can use."""
        return self.wish.determinants(self.store.key, by_passes=self.is_past_memory)

    @property
    def key(self) -> str:
        """64 hex digits over the determinants."""
        return key_of(self.determinants)

    @property
    def is_past_memory(self) -> bool:
        """Whether the graph is partitioned by passes over files."""
        return self.wish.is_past_memory(self.size)

    @property
    def size(self) -> GraphSize:
        """What the graph has."""
        return GraphSize(
            nodes=sum(self.store.num_nodes.values()),
            edges=sum(self.store.num_edges.values()),
            directed=self.store.directed,
            node_bytes=self._bytes_of_nodes(),
        )

    def expectations(self) -> dict[str, Any]:
        """Memory, disk and time that the run will take, estimated."""
        return self.wish.expectations(self.size)

    def _bytes_of_nodes(self) -> int:
        """Of the nodes' arrays, and of what is needed beside them for a time."""
        features, total = self.features, 0
        for node_type in self.store.num_nodes:
            names = self.store.node_arrays(node_type)
            for name in names:
                array = self.store.node_array(node_type, name)
                assert array is not None
                numbers = math.prod(array.shape)
                is_left_out = name == "x" and features.features == "none" and features.aggregate_features == "none"
                if not is_left_out:
                    total += numbers * (features.dtype(array.dtype) if name == "x" else array.dtype).itemsize
                if name == "x" and features.aggregate_features != "none" and X_AGGREGATED not in names:
                    total += numbers * features.dtype_of_sums.itemsize
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutcome:
    """Where the cache lies, and whether it was there already."""

    cache: PartitionCache
    reused: bool


def plan_partition(
    name_or_store: str,
    *,
    parts: int | None,
    topology: str | None,
    request: PartitionRequest,
    out: Path | None,
    assignment: Path | None = None,
    memory_limit: int | None = None,
    features: FeatureOptions | None = None,
) -> PartitionPlan:
    """Decide what a run will do.

    Args:
        name_or_store: a fetched dataset's name, a store's path or URL.
        parts: K for a flat topology of K equal ranks; exactly one of `parts` and `topology` is given.
        topology: a preset's name or a file.
        request: the partitioner's options.
        out: the cache folder itself; by default HOME/caches/NAME/LABEL.
        memory_limit: bytes that the run may hold; None for what is free.
        features: what is done to the nodes' features; None for nothing.
        assignment: a file with one part number a node, made elsewhere; see `graphprep.partition.external_assignment`.

    Raises:
        UsageError: both or neither of `parts` and `topology`, `parts` below 1, an assignment and a method, or features
            that cannot be summed.
        DatasetError: there is no such store.
        TopologyError: the topology is wrong.
        PartitionError: there are more parts than nodes, or the assignment is none of its nodes.
    """
    if assignment is not None and request.method != "auto":
        raise UsageError(f"give either --assignment or --method {request.method}; an assignment is the only start")
    chosen = chosen_topology(parts, topology)
    store = GraphStore(home.find_store(name_or_store))
    features = features or FeatureOptions()
    check_source(store, features)
    if parts is not None:
        require_enough_nodes(parts, sum(store.num_nodes.values()))
    target = target_of(out, store.name, chosen)
    given = None
    if assignment is not None:
        given = read_assignment(assignment, num_nodes=sum(store.num_nodes.values()), num_parts=chosen.num_ranks)
    if memory_limit is not None:
        memory.room(memory_limit)
    return PartitionPlan(
        store=store,
        topology=chosen,
        request=request,
        target=target,
        given=given,
        memory_limit=memory_limit,
        features=features,
    )


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


def chosen_topology(parts: int | None, topology: str | None) -> Topology:
    """The topology that a person means.

    Raises:
        UsageError: both or neither of `parts` and `topology`, or `parts` below 1.
        TopologyError: the topology is wrong.
    """
    if (parts is None) == (topology is None):
        raise UsageError("give either --parts K or --topology FILE_OR_PRESET")
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


def run_partition(
    plan: PartitionPlan, *, replace_other: bool = False, executor: Executor | None = None
) -> PartitionOutcome:
    """Make the cache of a plan, or find that it is there.

    A cache that a fallback made, since no method that was asked for came through, is made again if they may come
    through now; if they do not, it is kept.

    Args:
        replace_other: make the cache, whatever lies there: one of the same options, of others, or a damaged one.
        executor: of the passes over ranges of rows and of the parts; None for threads. The cache does not depend on
            it.

    Raises:
        CacheError: another cache, or something that is no cache, lies at the target.
        PartitionError: there are more parts than nodes.
    """
    by_passes = plan.is_past_memory  # asked once, since it depends on what this process holds
    determinants = plan.wish.determinants(plan.store.key, by_passes=by_passes)
    key = key_of(determinants)
    there: PartitionCache | None = None
    with ExitStack() as stack:
        stack.enter_context(locked(plan.target, f"the cache {plan.target}"))
        work = partial_folder(plan.target, key)
        stack.enter_context(locked(work, f"a cache of the same key as {plan.target}"))
        if plan.target.exists() and not must_replace(plan.target, determinants, replace_other=replace_other):
            there = PartitionCache(plan.target)
            if not is_tried_again(there, plan.memory_limit):
                sweep(plan.target, work)
                say_up_to_date(there)
                return PartitionOutcome(cache=there, reused=True)
            progress.say(f"{plan.target} was made by a fallback, and what was asked for is tried again")
        announce(plan)
        if plan.memory_limit is not None:
            memory.return_freed_blocks()
        work.mkdir(parents=True, exist_ok=True)
        plan.store.require_unchanged("edges/")
        way = OutOfCoreEngine.of(plan, work, executor) if by_passes else InMemoryEngine(whole_graph(plan.store))
        result, nodes_P = _assignment(plan, way, work)
        if there is not None and result.fallback is not None:
            progress.warn(f"{result.fallback.sentence} once more; {plan.target}, which a fallback made, is kept")
            shutil.rmtree(work)
            return PartitionOutcome(cache=there, reused=True)
        layouts = _layouts(way.graph, result.assignment, nodes_P)
        del way, nodes_P
        for limit in result.quality.limits:
            if not limit.met:
                progress.warn(
                    f"the parts do not keep the limit on {limit.what}: {limit.value:.3f} for {limit.limit:.3f}"
                )
        write_cache(
            work / "cache",
            plan.store,
            CacheContent(
                key=key,
                layouts=layouts,
                traffic=result.traffic,
                quality=result.quality,
                topology=plan.topology,
                features=plan.features,
                fallback=None if result.fallback is None else result.fallback.to_json(),
                options={
                    **asdict(plan.request),
                    **asdict(plan.features),
                    "method_chosen": result.method,
                    "tried": list(result.tried),
                    "determinants": determinants,
                },
            ),
            scratch=work,
            memory_limit=plan.memory_limit,
            executor=executor,
        )
        with progress.task("flushing to disk"):
            publish_folder(work / "cache", plan.target)
        shutil.rmtree(work)
    return PartitionOutcome(cache=PartitionCache(plan.target), reused=False)


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def announce(plan: PartitionPlan) -> None:
    """Say what the run will need before it starts."""
    needs = plan.expectations()
    progress.say(
        f"partitioning {plan.store.name} ({needs['nodes']:,} nodes, {needs['edges']:,} directed edges) into "
        f"{needs['parts']} parts for {plan.topology.name} by {needs['method']}: expect about "
        f"{progress.format_bytes(needs['memory_bytes'])} of memory, {progress.format_bytes(needs['disk_bytes'])} "
        f"of disk in {needs['files']:,} files, and {needs['seconds']:.0f} s"
    )


def partial_folder(target: Path, key: str) -> Path:
    """Where the work on a cache lies until it is whole."""
    return target.with_name(PARTIAL_PREFIX + key)


def must_replace(target: Path, determinants: dict[str, Any], *, replace_other: bool) -> bool:
    """Whether what lies at the target has to go; always, where the user says so.

    Args:
        target: a folder that is there.
        determinants: of the cache that is wanted.
        replace_other: that the user says so.

    Raises:
        CacheError: it has to, and only the user may say so, or it is no cache.
    """
    try:
        found = PartitionCache(target)
        found.check_sizes()
    except CacheError as error:
        if not may_replace(target, CACHE_KIND):
            raise CacheError(f"{error}; it is left as it is: remove it, or give another --out") from error
        if not replace_other and any(target.iterdir()):
            raise
        return True
    if replace_other:
        return True
    if found.key == key_of(determinants):
        return False
    before = found.attributes["options"].get("determinants", {})
    now = determinants
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    differences = ", ".join(_difference(name, before.get(name), now.get(name)) for name in names)
    raise CacheError(
        f"{target} was made with other options ({differences or 'unknown ones'}); "
        "give --replace to replace it or --out for another folder"
    )


def is_tried_again(cache: PartitionCache, memory_limit: int | None) -> bool:
    """Whether a fallback made a cache, and the methods that were asked for may come through now."""
    fallback = cache.fallback
    if fallback is None:
        return False
    return fallback.memory_bytes is None or fallback.memory_bytes <= memory.free(memory_limit)


def say_up_to_date(cache: PartitionCache) -> None:
    """Say that a cache is what was asked for, or by how much it falls short."""
    options = cache.attributes["options"]
    if cache.fallback is not None:
        progress.warn(f"{cache.folder} is there, but a fallback made it: {cache.fallback.sentence}")
        return
    progress.say(f"{cache.folder} is up to date")
    if options["method_chosen"] == METHOD and options["method"] == "auto":
        progress.say("it was made by passes over its edges, as memory was small; --replace makes it again")
    absent = [f"{row['method']} ({row['failure']})" for row in options["tried"] if row.get("failure")]
    if absent:
        progress.say(f"it was made without {', '.join(absent)}; --replace tries again")


def _difference(name: str, before: Any, now: Any) -> str:
    if isinstance(now, dict) or name in ("store", ASSIGNMENT):
        return f"another {name}"
    return f"{name} {before} there, {now} now"


def whole_graph(store: PartitionSource) -> WholeGraph:
    """What is partitioned of a source, in memory."""
    return WholeGraph.of(
        {kind: store.csr(kind) for kind in store.num_edges},
        store.num_nodes,
        training_masks={
            node_type: np.asarray(stored[:])[:, 0]
            for node_type in store.num_nodes
            if (stored := store.node_array(node_type, "train_mask")) is not None
        },
    )


def _layouts(graph: WholeGraph, assignment_N: NDArray[np.int32], nodes_P: list[NDArray[np.int64]]) -> dict[str, Layout]:
    """Where the nodes of each type lie."""
    orders = graph.orders(nodes_P)
    return {
        node_type: Layout.from_order(part_N, orders[node_type])
        for node_type, part_N in graph.assignments(assignment_N).items()
    }


class Engine(Protocol):
    """How a graph is partitioned."""

    @property
    def graph(self) -> WholeGraph: ...

    def judged(self, plan: PartitionPlan, assignment_N: NDArray[np.int32]) -> PartitionResult: ...

    def partitioned(self, plan: PartitionPlan, work: Path) -> tuple[PartitionResult, list[NDArray[np.int64]]]:
        """The assignment, and each part's nodes in order."""


@dataclass(frozen=True, slots=True)
class InMemoryEngine:
    """With all edges in memory."""

    graph: WholeGraph

    def judged(self, plan: PartitionPlan, assignment_N: NDArray[np.int32]) -> PartitionResult:
        return judge(assignment_N, self.graph, plan.topology, plan.request)

    def partitioned(self, plan: PartitionPlan, work: Path) -> tuple[PartitionResult, list[NDArray[np.int64]]]:
        given = None if plan.given is None else plan.given.assignment_N
        result, clean = partition(
            self.graph, plan.topology, plan.request, scratch=work, given=given, memory_limit=plan.memory_limit
        )
        with progress.task("ordering nodes inside parts"):
            return result, locality_order(clean, result.assignment, plan.topology.num_ranks)


@dataclass(frozen=True, slots=True)
class OutOfCoreEngine:
    """With the edges in files."""

    mapped: MappedGraph
    count: Count
    passes: Passes

    @classmethod
    def of(cls, plan: PartitionPlan, work: Path, executor: Executor | None) -> OutOfCoreEngine:
        progress.say("the graph is partitioned by passes over its edges, which do not fit in memory with all they need")
        executor = executor or Threads(memory_limit=plan.memory_limit)
        passes = Passes.of(executor, work)
        mapped = MappedGraph.of(plan.store, work, memory_limit=plan.memory_limit, passes=passes)
        if not executor.is_elsewhere:
            return cls(mapped, count_in_order, passes)

        def count(_: Matrices, assignments: Assignments, num_parts: int) -> Traffic:
            return count_by_ranges(plan.store, assignments, num_parts, executor)

        return cls(mapped, count, passes)

    @property
    def graph(self) -> WholeGraph:
        return self.mapped.whole

    def judged(self, plan: PartitionPlan, assignment_N: NDArray[np.int32]) -> PartitionResult:
        return judge(assignment_N, self.graph, plan.topology, plan.request, count=self.count)

    def partitioned(self, plan: PartitionPlan, work: Path) -> tuple[PartitionResult, list[NDArray[np.int64]]]:
        result = partition_past_memory(
            self.mapped,
            plan.topology,
            plan.request,
            scratch=work,
            memory_limit=plan.memory_limit,
            count=self.count,
            passes=self.passes,
        )
        return result, order_past_memory(
            self.mapped,
            result.assignment,
            plan.topology.num_ranks,
            scratch=work,
            memory_limit=plan.memory_limit,
            executor=self.passes.executor,
        )


def _assignment(plan: PartitionPlan, way: Engine, work: Path) -> tuple[PartitionResult, list[NDArray[np.int64]]]:
    """The assignment, and each part's nodes in order: from an earlier run of the same key, else made now and kept."""
    saved, num_parts = work / ASSIGNMENT_FILE, plan.topology.num_ranks
    if saved.exists():
        kept = _kept_assignment(saved, way.graph.matrix.num_rows, num_parts)
        if kept is not None:
            progress.say("going on with the assignment that an earlier run had finished")
            assignment, nodes, told = kept
            result = way.judged(plan, assignment)
            ends = np.cumsum(np.bincount(assignment, minlength=num_parts))
            parts = np.split(nodes, ends[:-1])
            fallback = Fallback.from_json(told.get("fallback"))
            return replace(result, method=told["method"], tried=tuple(told["tried"]), fallback=fallback), parts
        saved.unlink(missing_ok=True)
    result, nodes_P = way.partitioned(plan, work)
    fallback = result.fallback
    if fallback is not None and fallback.memory_bytes is None:
        return result, nodes_P  # a run that goes on later tries again
    facts = json.dumps(
        {
            "method": result.method,
            "tried": result.tried,
            "fallback": None if fallback is None else fallback.to_json(),
        }
    )
    with published_file(saved) as file:
        np.savez(file, assignment=result.assignment, nodes=np.concatenate(nodes_P), facts=np.array(facts))
    return result, nodes_P


def _kept_assignment(
    saved: Path, num_nodes: int, num_parts: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], dict[str, Any]] | None:
    """What an earlier run kept (parts, nodes in order, facts), None if it is damaged."""
    try:
        with np.load(saved, allow_pickle=False) as arrays:
            assignment, nodes = arrays["assignment"], arrays["nodes"]
            facts = json.loads(str(arrays["facts"]))
        right = assignment.shape == (num_nodes,) and assignment.dtype == np.int32 and {"method", "tried"} <= set(facts)
        right = right and nodes.dtype == np.int64 and np.array_equal(np.sort(nodes), np.arange(num_nodes))
        in_range = right and assignment.min(initial=0) >= 0 and assignment.max(initial=0) < num_parts
        if in_range and (np.diff(assignment[nodes]) >= 0).all():
            return assignment, nodes, facts
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        pass
    progress.warn(f"{saved} is damaged; the graph is partitioned again")
    return None
