"""The figures of a partition cache, as plain JSON values under the names of its format.

In addition to the cache's own attributes there are

    num_nodes, num_edges, cut_share     of the whole graph
    bottleneck                          the slowest link direction; None where nothing is exchanged
    bounds                              lower bounds for any assignment, or for this traffic
    what_if                             the same parts on another topology or with other rows; None without the option
    beside_metis                        the figures that decide, METIS' beside them, verdict and advice (`verdict`)
    metis                               METIS k-way in its own order on the same ranks; None without the option

Letters: P parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphprep.cache.format import RELAY_MESSAGES, RELAY_ROWS
from graphprep.cache.manifest import Manifest
from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.report.summary.components import count_components
from graphprep.report.summary.verdict import beside_metis
from graphprep.topology import Topology
from graphprep.traffic import RelayedRows, Traffic, assess_again

MAX_ROW_BYTES = 2**31


def cache_summary(
    cache: PartitionCache, *, topology: Topology | None = None, row_bytes: int | None = None
) -> dict[str, Any]:
    """The figures of a cache; the sizes of its files are checked.

    Args:
        cache: the cache.
        topology, row_bytes: assess the parts for these too; None for the cache's own.

    Raises:
        CacheError: a file is missing or has another size.
        UsageError: the topology has not one rank a part, or `row_bytes` is out of range.
    """
    manifest = Manifest.read(cache.folder)
    manifest.check_sizes(cache.folder)
    num_edges = sum(cache.attributes["edge_types"].values())
    quality = quality_of(cache)
    again = topology is not None or row_bytes is not None
    return {
        "folder": str(cache.folder),
        **cache.attributes,
        "quality": {"relay": None, "batches": None, **quality},
        "beside_metis": beside_metis(cache, quality),
        "num_nodes": sum(cache.node_types.values()),
        "num_edges": num_edges,
        "cut_share": quality["cut_edges"] / num_edges if num_edges else 0.0,
        "bottleneck": bottleneck_of(quality),
        "bounds": _bounds(cache),
        "traffic_rows": cache.array("traffic_rows").tolist(),
        "cross_edges": cache.array("cross_edges").tolist(),
        "files": len(manifest.files),
        "bytes": sum(entry.size for entry in manifest.files.values()),
        "what_if": what_if(cache, topology, row_bytes) if again else None,
        "metis": None,
    }


def quality_of(cache: PartitionCache) -> dict[str, Any]:
    """A cache's figures; the step is computed from its counts where an earlier version made the cache."""
    quality: dict[str, Any] = cache.attributes["quality"]
    if "step_seconds" in quality:
        return quality
    again = what_if(cache, None, None)
    ranks = [{**now, **before} for now, before in zip(again["ranks"], quality["ranks"], strict=True)]
    return {**quality, "step_seconds": again["step_seconds"], "ranks": ranks}


def bottleneck_of(quality: dict[str, Any]) -> dict[str, Any] | None:
    """The row of the slowest link direction, the first among equals; None where no link carries anything."""
    slowest = max(quality["links"], key=lambda row: row["seconds"], default=None)
    return slowest if slowest is not None and slowest["seconds"] > 0 else None


def traffic_of(cache: PartitionCache) -> Traffic:
    """The traffic of one exchange, as counted when the cache was made."""
    rows_PP, edges_PP = np.array(cache.array("traffic_rows")), np.array(cache.array("cross_edges"))
    in_edges_P = np.array([row["edges"] for row in cache.attributes["quality"]["ranks"]], np.int64)
    relayed = None
    if cache.has_relays:
        relayed = RelayedRows(
            rows_SPP=np.array(cache.array(RELAY_ROWS)), messages_SPP=np.array(cache.array(RELAY_MESSAGES))
        )
    local_edges_P = in_edges_P - edges_PP.sum(axis=0)
    return Traffic(rows_PP=rows_PP, edges_PP=edges_PP, local_edges_P=local_edges_P, relayed=relayed)


def what_if(cache: PartitionCache, topology: Topology | None, row_bytes: int | None) -> dict[str, Any]:
    """The quality of the same parts, part p on rank p, for another topology or other rows.

    Raises:
        UsageError: the topology has not one rank a part, or `row_bytes` is out of range.
    """
    options = cache.attributes["options"]
    other = topology or Topology.from_long_form(cache.attributes["topology"])
    rows = int(options["row_bytes"]) if row_bytes is None else row_bytes
    if other.num_ranks != cache.num_parts:
        command = "split" if other.num_ranks > cache.num_parts else "merge"
        raise UsageError(
            f"{other.name} has {other.num_ranks} ranks and {cache.folder} has {cache.num_parts} parts; give a "
            f"topology of as many ranks, or make another cache with `graphprep cache {command}`"
        )
    if not 1 <= rows <= MAX_ROW_BYTES:
        raise UsageError(f"--row-bytes {rows} must be from 1 to {MAX_ROW_BYTES}")
    ranks = cache.attributes["quality"]["ranks"]
    quality = assess_again(
        traffic_of(cache),
        other,
        nodes_P=np.array([row["nodes"] for row in ranks], np.int64),
        training_nodes_P=np.array([row["training_nodes"] for row in ranks], np.int64),
        row_bytes=rows,
        balance=options["balance"],
    ).to_json()
    before = cache.attributes["quality"]["bottleneck_seconds"]
    return {
        "topology": other.to_long_form(),
        "row_bytes": rows,
        "bottleneck": bottleneck_of(quality),
        "ratio": quality["bottleneck_seconds"] / before if before else 1.0,
        **quality,
    }


def _bounds(cache: PartitionCache) -> list[dict[str, Any]]:
    """Lower bounds for any parts, and for parts with this traffic; one row a bound."""
    quality = cache.attributes["quality"]
    filled = sum(row["nodes"] > 0 for row in quality["ranks"])
    at_least = max(0, filled - count_components(cache)) * (1 if cache.attributes["directed"] else 2)
    bounds = [
        {"of": "cut_edges", "found": quality["cut_edges"], "at_least": at_least, "holds_for": "any parts"},
        {"of": "halo_rows", "found": quality["halo_rows"], "at_least": at_least, "holds_for": "any parts"},
    ]
    return bounds + [
        {
            "of": f"slowest {row['type']} link",
            "found": row["seconds_max"],
            "at_least": row["seconds_mean"],
            "holds_for": "this traffic, if it were even",
        }
        for row in quality["link_types"]
        if row["seconds_mean"] > 0
    ]
