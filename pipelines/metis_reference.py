"""METIS k-way as it is, parts in its own order, for the graph of a cache: what its parts are compared with.

It takes METIS's time and memory (some 130 bytes an edge), and the whole graph in memory.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from graphprep.cache.as_source import CacheSource
from graphprep.cache.read import PartitionCache
from graphprep.errors import PartitionError
from graphprep.partition.engine import whole_graph
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.topology import Topology
from graphprep.traffic import assess_with_relays


def metis_reference(cache: PartitionCache) -> dict[str, Any]:
    """What METIS's own parts would take on the cache's topology, with the cache's seed, rows, limits and relays.

    Returns:
        method, bottleneck_seconds, sum_seconds, step_seconds, cut_edges, halo_rows, memory_bytes_max, broken_limits of
        METIS's parts, `seconds` that it took, and the cache's over METIS's bottleneck as `ratio` (None where METIS's is
        0).

    Raises:
        CacheError: a file of the cache is missing or has changed.
        PartitionError: METIS does not come through.
    """
    cache.require_unchanged()
    options = cache.attributes["options"]
    request = PartitionRequest(
        method="metis",
        effort="none",
        seed=int(options["seed"]),
        imbalance=float(options["imbalance"]),
        row_bytes=int(options["row_bytes"]),
        balance=options["balance"],
        limits=tuple(options["limits"]),
        row_seconds=options.get("row_seconds"),
    )
    topology = Topology.from_long_form(cache.attributes["topology"])
    graph = whole_graph(CacheSource(cache))
    with tempfile.TemporaryDirectory() as scratch:
        result, _ = partition(graph, topology, request, scratch=Path(scratch))
    tried = {row["method"]: row for row in result.tried}
    if result.method not in ("metis", "one-part"):
        raise PartitionError(f"METIS failed: {tried.get('metis', {}).get('failure', 'it gave no parts')}")
    quality = result.quality
    if options.get("relay") == "auto" and request.balance == "rows":
        assignments = graph.assignments(result.assignment)
        quality = assess_with_relays(
            quality, result.traffic, graph.matrices, assignments, topology, row_bytes=request.row_bytes
        )
    own_seconds = cache.attributes["quality"]["bottleneck_seconds"]
    return {
        **tried[result.method],
        "bottleneck_seconds": quality.bottleneck_seconds,
        "sum_seconds": quality.sum_seconds,
        "step_seconds": quality.step_seconds,
        "is_mapped": False,
        "ratio": own_seconds / quality.bottleneck_seconds if quality.bottleneck_seconds else None,
    }
