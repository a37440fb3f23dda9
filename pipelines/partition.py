"""A store and a topology become a finished cache.

Work lies in `.partial-KEY` beside the cache: the assignment as soon as it is known, so that a run that is killed later
does not partition again, then the cache itself, which is renamed into place when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep import __version__, csr, home, progress
from graphprep.cache.blocks import Layout
from graphprep.cache.format import CACHE_FORMAT, MANIFEST
from graphprep.cache.manifest import Manifest
from graphprep.cache.read import PartitionCache
from graphprep.cache.write import CacheContent, write_cache
from graphprep.errors import CacheError, PartitionError, UsageError
from graphprep.graph import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.partition.choose import judge, partition
from graphprep.partition.metis import expected_bytes
from graphprep.partition.order import locality_order
from graphprep.partition.request import PartitionRequest, PartitionResult
from graphprep.publish import PARTIAL_PREFIX, locked, publish_folder, published_file
from graphprep.store import GraphStore
from graphprep.topology import Topology, resolve

ASSIGNMENT_FILE = "assignment.npz"
LIBRARIES = ("pymetis", "scipy")
"""Their versions may change an assignment or the order inside parts."""
METIS_EDGES_PER_SECOND = 1.0e6
"""Directed edges that one METIS run gets through on one core; for the time that is announced, nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partitioning run, decided but not started."""

    store: GraphStore
    topology: Topology
    request: PartitionRequest
    target: Path

    @property
    def determinants(self) -> dict[str, Any]:
        """All that determines the cache's content, by the name that an error can use."""
        return {
            "store": self.store.key,
            "topology": self.topology.to_long_form(),
            **asdict(self.request),
            "cache format": CACHE_FORMAT,
            "graphprep version": __version__,
            **{f"{library} version": version(library) for library in LIBRARIES},
        }

    @property
    def key(self) -> str:
        """64 hex digits over the determinants."""
        return hashlib.sha256(json.dumps(self.determinants, sort_keys=True).encode()).hexdigest()

    def expectations(self) -> dict[str, Any]:
        """Memory, disk and time that the run will take, estimated."""
        nodes = self.store.num_nodes[HOMOGENEOUS_NODE]
        edges = self.store.num_edges[HOMOGENEOUS_EDGE]
        both_ways = edges * (2 if self.store.directed else 1)
        metis_bytes = 0 if self.request.method in ("ldg", "random") else expected_bytes(nodes, both_ways)
        graph_bytes = edges * 8 + both_ways * 16 + nodes * 64
        table = [self.store.node_array(HOMOGENEOUS_NODE, name) for name in self.store.node_arrays(HOMOGENEOUS_NODE)]
        runs = 2 if self.request.method == "auto" else int(metis_bytes > 0)
        return {
            "nodes": nodes,
            "edges": edges,
            "parts": self.topology.num_ranks,
            "method": self.request.method,
            "memory_bytes": graph_bytes + metis_bytes,
            "disk_bytes": edges * 8 + nodes * 40 + sum(array.nbytes for array in table if array is not None),
            "seconds": round(2 + both_ways * (runs / METIS_EDGES_PER_SECOND + 2e-7), 1),
        }


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
) -> PartitionPlan:
    """Decide what a run will do.

    Args:
        name_or_store: a fetched dataset's name, a store's path or URL.
        parts: K for a flat topology of K equal ranks; exactly one of `parts` and `topology` is given.
        topology: a preset's name or a file.
        request: the partitioner's options.
        out: the cache folder itself; by default HOME/caches/NAME/LABEL.

    Raises:
        UsageError: both or neither of `parts` and `topology`, or `parts` below 1.
        DatasetError: there is no such store.
        TopologyError: the topology is wrong.
        PartitionError: the store has several node or edge types.
    """
    if (parts is None) == (topology is None):
        raise UsageError("give either --parts K or --topology FILE_OR_PRESET")
    if parts is not None and parts < 1:
        raise UsageError(f"--parts {parts} must be at least 1")
    store = GraphStore(home.find_store(name_or_store))
    if list(store.num_nodes) != [HOMOGENEOUS_NODE] or list(store.num_edges) != [HOMOGENEOUS_EDGE]:
        raise PartitionError(
            f"{store.location} has node types {', '.join(store.num_nodes)}; "
            "this release partitions graphs of one node type and one edge type"
        )
    chosen = Topology.flat(parts) if parts is not None else resolve(topology or "")
    target = out or home.cache_path(store.name, chosen.name)
    return PartitionPlan(store=store, topology=chosen, request=request, target=target.absolute())


def run_partition(plan: PartitionPlan, *, replace_other: bool = False) -> PartitionOutcome:
    """Make the cache of a plan, or find that it is there.

    Args:
        replace_other: replace a cache that other options made, and make a damaged one again.

    Raises:
        CacheError: another cache, or something that is no cache, lies at the target.
        PartitionError: there are more parts than nodes.
    """
    with locked(plan.target, f"the cache {plan.target}"):
        if plan.target.exists() and not _must_replace(plan, replace_other):
            progress.say(f"{plan.target} is up to date")
            return PartitionOutcome(cache=PartitionCache(plan.target), reused=True)
        announce(plan)
        work = plan.target.with_name(PARTIAL_PREFIX + plan.key)
        work.mkdir(parents=True, exist_ok=True)
        matrix = plan.store.csr(HOMOGENEOUS_EDGE)
        result, clean = _assignment(plan, matrix, work)
        with progress.task("ordering nodes inside parts"):
            nodes_P = locality_order(clean, result.assignment, plan.topology.num_ranks)
        del clean
        for limit in result.quality.limits:
            if not limit.met:
                progress.warn(
                    f"the parts do not keep the limit on {limit.what}: {limit.value:.3f} for {limit.limit:.3f}"
                )
        write_cache(
            work / "cache",
            plan.store,
            CacheContent(
                key=plan.key,
                matrices={HOMOGENEOUS_EDGE: matrix},
                layouts={HOMOGENEOUS_NODE: Layout.from_order(result.assignment, nodes_P)},
                traffic=result.traffic,
                quality=result.quality,
                topology=plan.topology,
                options={
                    **asdict(plan.request),
                    "method_chosen": result.method,
                    "tried": list(result.tried),
                    "determinants": plan.determinants,
                },
            ),
        )
        with progress.task("flushing to disk"):
            publish_folder(work / "cache", plan.target)
        shutil.rmtree(work)
    return PartitionOutcome(cache=PartitionCache(plan.target), reused=False)


def announce(plan: PartitionPlan) -> None:
    """Say what the run will need before it starts."""
    expected = plan.expectations()
    progress.say(
        f"partitioning {plan.store.name} ({expected['nodes']:,} nodes, {expected['edges']:,} directed edges) into "
        f"{expected['parts']} parts for {plan.topology.name} by {expected['method']}: expect about "
        f"{progress.format_bytes(expected['memory_bytes'])} of memory, {progress.format_bytes(expected['disk_bytes'])} "
        f"of disk and {expected['seconds']:.0f} s"
    )


def _must_replace(plan: PartitionPlan, replace_other: bool) -> bool:
    """Whether what lies at the target has to go; raises where only the user may say so."""
    try:
        found = PartitionCache(plan.target)
        manifest = Manifest.read(plan.target)
        manifest.check_sizes(plan.target)
    except CacheError as error:
        if not replace_other:
            raise
        if any(plan.target.iterdir()) and not (plan.target / MANIFEST).exists():
            raise CacheError(
                f"{plan.target} is no partition cache and not empty; remove it or give another --out"
            ) from error
        return True
    if found.key == plan.key:
        return False
    if replace_other:
        return True
    before = found.attributes["options"].get("determinants", {})
    names = [name for name, value in plan.determinants.items() if before.get(name) != value]
    differences = ", ".join(_difference(name, before.get(name), plan.determinants[name]) for name in names)
    raise CacheError(
        f"{plan.target} was made with other options ({differences or 'unknown ones'}); "
        "give --replace to replace it or --out for another folder"
    )


def _difference(name: str, before: Any, now: Any) -> str:
    if isinstance(now, dict) or name == "store":
        return f"another {name}"
    return f"{name} {before} there, {now} now"


def _assignment(plan: PartitionPlan, matrix: Csr, work: Path) -> tuple[PartitionResult, Csr]:
    """The assignment: from an earlier run of the same key that was killed after it, else made now and kept."""
    train_mask = _train_mask(plan.store)
    saved = work / ASSIGNMENT_FILE
    if saved.exists():
        progress.say("going on with the assignment that an earlier run had finished")
        with np.load(saved, allow_pickle=False) as arrays:
            facts = json.loads(str(arrays["facts"]))
            result = judge(arrays["assignment"], matrix, plan.topology, plan.request, train_mask)
        clean = csr.undirected_simple(matrix)
        return replace(result, method=facts["method"], tried=tuple(facts["tried"])), clean
    result, clean = partition(matrix, plan.topology, plan.request, train_mask=train_mask, scratch=work)
    facts = json.dumps({"method": result.method, "tried": result.tried})
    with published_file(saved) as file:
        np.savez(file, assignment=result.assignment, facts=np.array(facts))
    return result, clean


def _train_mask(store: GraphStore) -> NDArray[np.bool_] | None:
    """bool [N]: nodes that the first split trains on."""
    stored = store.node_array(HOMOGENEOUS_NODE, "train_mask")
    return None if stored is None else np.asarray(stored[:, 0])
