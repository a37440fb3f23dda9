"""Stores and caches made in one line, for tests that are about something else."""

from __future__ import annotations

from pathlib import Path

from graphprep.cache.read import PartitionCache
from graphprep.core.types import RawGraph
from graphprep.partition.request import PartitionRequest
from graphprep.store.convert import graph_to_store
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.executor import Executor
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition


def make_store(
    raw: RawGraph, name: str = "graph", target: Path | str | None = None, executor: Executor | None = None
) -> GraphStore:
    """A store of `raw` in the test's GRAPHPREP_HOME, or at `target`."""
    return graph_to_store(
        raw,
        target or home.store_path(name),
        name=name,
        key="0" * 64,
        source={"reader": "test"},
        expected=None,
        executor=executor,
    )


def make_cache(store: GraphStore, topology: Topology, target: Path, *, method: str = "random") -> PartitionCache:
    """A cache of `store`; random assignments are quick and cut everything."""
    request = PartitionRequest(method=method)
    plan = PartitionPlan(store=store, topology=topology, request=request, target=target)
    return run_partition(plan).cache
