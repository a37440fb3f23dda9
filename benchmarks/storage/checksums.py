"""What it costs to compare a store and a cache with their checksums, beside the work that the checks protect.

An R-MAT graph is generated and cut at random. Timed are the comparison of the store's edges before partitioning, the
comparison of the whole cache before an export, the first look at columns and row offsets, and, for scale, reading the
edges of the store, walking the cache's edges (union-find) and the export itself.

Prints a table, and writes JSON with --out. One run each; files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.datasets.generators.requests import RmatRequest
from graphprep.partition.request import PartitionRequest
from graphprep.report.summary.components import count_components
from graphprep.store.store import GraphStore
from graphprep.system import progress
from graphprep.topology import Topology
from pipelines.export import export_cache
from pipelines.generate import generate_graph
from pipelines.partition import PartitionPlan, run_partition


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return round(time.perf_counter() - started, 3)


def every_block(cache: PartitionCache) -> None:
    """Open all blocks of edges; the first time each is looked through."""
    for part in range(cache.num_parts):
        for kind in cache.edge_types:
            for owner in range(cache.num_parts):
                cache.block(part, kind, owner)


def measured(folder: Path, scale: int, edges: int, features: int, parts: int) -> dict[str, Any]:
    """All figures, in seconds and bytes."""
    os.environ["GRAPHPREP_HOME"] = str(folder)
    request = RmatRequest(scale=scale, edges=edges, features=features)
    generate_graph(request, name="graph", out=None, replace=False, memory_limit=None)
    location = folder / "stores/graph.zarr"
    plan = PartitionPlan(
        store=GraphStore(location),
        topology=Topology.flat(parts),
        request=PartitionRequest(method="random", effort="none"),
        target=folder / "cache",
    )
    partition_s = seconds(lambda: run_partition(plan))
    store, cache = GraphStore(location), PartitionCache(folder / "cache")
    kind = next(iter(store.num_edges))
    return {
        "edges": store.num_edges[kind],
        "cache_bytes": sum(entry.size for entry in cache.manifest.files.values()),
        "read_edges_of_store_s": seconds(lambda: store.csr_rows(kind, 0, store.num_nodes["node"])),
        "compare_edges_of_store_s": seconds(lambda: store.require_unchanged("edges/")),
        "partition_at_random_s": partition_s,
        "first_look_at_columns_s": seconds(lambda: every_block(cache)),
        "walk_edges_s": seconds(lambda: count_components(cache)),
        "compare_cache_s": seconds(cache.require_unchanged),
        "export_npz_s": seconds(lambda: export_cache(str(cache.folder), folder / "export", format_name="npz")),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=20, help="2^SCALE nodes")
    parser.add_argument("--edges", type=int, default=8_000_000, help="undirected; twice as many are stored")
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--out", type=Path, help="write JSON here")
    options = parser.parse_args()
    progress.configure(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), options.scale, options.edges, options.features, options.parts)
    for name, value in found.items():
        sys.stdout.write(f"{name:28} {value:>16,}\n")
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
