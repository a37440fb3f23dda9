"""Several partitions of one dataset beside each other, on the machines that they are for or all on one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import UsageError
from graphprep.report.summary.cache_summary import bottleneck_of, quality_of, what_if
from graphprep.report.summary.verdict import beside_metis, compared_verdict
from graphprep.system.files.retry_replaced import read_again_if_replaced
from graphprep.topology import Topology, resolve
from pipelines.look import likely_folder


def compare(
    caches: Sequence[str], *, topology: str | Topology | None = None, row_bytes: int | None = None
) -> dict[str, Any]:
    """The figures in which partitions differ, as plain JSON values.

    Args:
        caches: at least two, each a path or NAME/LABEL.
        topology, row_bytes: judge all of them for these; where one is None, each cache's own holds.

    Returns:
        `dataset`, `row_bytes` (None if they differ), `verdict` (sentences) and `caches`, one row each in the order
        given, the best bottleneck marked by `is_best`, and `ratio` to it; `metis` has the figures of METIS that a cache
        keeps, where it is judged on its own machine.

    Raises:
        CacheError: one of them is not there or not whole.
        UsageError: there are fewer than two, they are of different graphs, or the topology does not suit one of them.
    """
    if len(caches) < 2:
        raise UsageError("give at least two caches to compare; `graphprep inspect` shows one")
    opened = [_opened(name) for name in caches]
    _require_one_graph(caches, opened)
    chosen = None if topology is None else resolve(topology)
    rows = []
    for name, cache in zip(caches, opened, strict=True):
        options = cache.attributes["options"]
        if chosen is None and row_bytes is None:
            quality = {**quality_of(cache), "row_bytes": options["row_bytes"]}
            quality["topology"] = cache.attributes["topology"]
        else:
            quality = what_if(cache, chosen, row_bytes)
        is_own = chosen is None and row_bytes is None
        metis = beside_metis(cache, quality)["metis"] if is_own else None
        rows.append(_row(name, cache, quality) | {"metis": metis})
    best = min(row["bottleneck_seconds"] for row in rows)
    for row in rows:
        row["is_best"] = row["bottleneck_seconds"] == best
        row["ratio"] = row["bottleneck_seconds"] / best if best else None
    sizes = {row["row_bytes"] for row in rows}
    return {
        "dataset": opened[0].attributes["dataset"],
        "num_nodes": sum(opened[0].node_types.values()),
        "num_edges": sum(opened[0].attributes["edge_types"].values()),
        "row_bytes": sizes.pop() if len(sizes) == 1 else None,
        "topologies": sorted({row["topology"] for row in rows}),
        "verdict": compared_verdict(rows),
        "caches": rows,
    }


def _opened(name: str) -> PartitionCache:
    """A cache whose files are there in full length."""

    def read() -> PartitionCache:
        cache = open_cache(name)
        cache.check_sizes()
        for shared in ("traffic_rows", "cross_edges"):
            cache.array(shared)
        return cache

    return read_again_if_replaced(lambda: likely_folder(name), read)


def _require_one_graph(names: Sequence[str], caches: Sequence[PartitionCache]) -> None:
    first = caches[0].attributes
    for name, cache in zip(names, caches, strict=True):
        for what in ("node_types", "edge_types"):
            if cache.attributes[what] != first[what]:
                raise UsageError(
                    f"{name} is of another graph than {names[0]} ({cache.attributes['dataset']} and "
                    f"{first['dataset']}, with other {what.replace('_', ' ')}); compare caches of one store"
                )


def _row(name: str, cache: PartitionCache, quality: dict[str, Any]) -> dict[str, Any]:
    options, ranks = cache.attributes["options"], quality["ranks"]
    slowest = bottleneck_of(quality)
    return {
        "cache": name,
        "topology": quality["topology"]["name"],
        "num_parts": cache.num_parts,
        "method": options["method_chosen"],
        "fallback": cache.attributes.get("fallback"),
        "effort": options["effort"],
        "seed": options["seed"],
        "row_bytes": quality["row_bytes"],
        "bottleneck_seconds": quality["bottleneck_seconds"],
        "bottleneck_link": slowest["name"] if slowest else None,
        "bottleneck_type": slowest["type"] if slowest else None,
        "sum_seconds": quality["sum_seconds"],
        "cut_edges": quality["cut_edges"],
        "halo_rows": quality["halo_rows"],
        "step_seconds": quality["step_seconds"],
        "work_share_max": max(row["work_share"] for row in ranks),
        "memory_bytes_max": max(row["memory_bytes"] for row in ranks),
        "broken_limits": [limit["what"] for limit in quality["limits"] if not limit["met"]],
        "link_types": quality["link_types"],
    }
