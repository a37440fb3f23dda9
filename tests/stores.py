"""Stores and caches made in one line, for tests that are about something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphprep import home
from graphprep.cache.blocks import Layout
from graphprep.cache.read import PartitionCache
from graphprep.cache.write import CacheContent, write_cache
from graphprep.graph import RawGraph
from graphprep.partition.request import PartitionRequest
from graphprep.store import GraphStore
from graphprep.topology import Topology
from graphprep.traffic import assess, count_traffic
from pipelines.ingest import graph_to_store
from pipelines.partition import PartitionPlan, run_partition


def make_store(raw: RawGraph, name: str = "graph", target: Path | str | None = None) -> GraphStore:
    """A store of `raw` in the test's GRAPHPREP_HOME, or at `target`."""
    return graph_to_store(
        raw, target or home.store_path(name), name=name, key="0" * 64, source={"reader": "test"}, expected=None
    )


def make_cache(store: GraphStore, topology: Topology, target: Path, *, method: str = "random") -> PartitionCache:
    """A cache of `store`; random assignments are quick and cut everything."""
    request = PartitionRequest(method=method)
    plan = PartitionPlan(store=store, topology=topology, request=request, target=target)
    return run_partition(plan).cache


def make_typed_cache(store: GraphStore, num_parts: int, target: Path, seed: int = 0) -> PartitionCache:
    """A cache of a store of any node and edge types, each node in a random part."""
    topology = Topology.flat(num_parts)
    rng = np.random.default_rng(seed)
    assignments = {
        name: rng.permutation(np.arange(count) % num_parts).astype(np.int32) for name, count in store.num_nodes.items()
    }
    matrices = {kind: store.csr(kind) for kind in store.num_edges}
    content = CacheContent(
        key="1" * 64,
        layouts={
            name: Layout.from_order(
                assignment, [rng.permutation(np.flatnonzero(assignment == part)) for part in range(num_parts)]
            )
            for name, assignment in assignments.items()
        },
        traffic=count_traffic(matrices, assignments, num_parts),
        quality=assess(matrices, assignments, topology, row_bytes=1024),
        topology=topology,
        options={},
    )
    write_cache(target, store, content, scratch=target.with_name(f"{target.name}-scratch"))
    return PartitionCache(target)
