"""Inspect and verify: find out whether a person means a store or a cache, then ask the right room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from graphprep.cache.format import CACHE_KIND, MANIFEST, ZARR_JSON
from graphprep.errors import CacheError, UsageError
from graphprep.system import home, progress
from graphprep.system.executor import Executor
from graphprep.system.regular_file import regular_file
from graphprep.system.retry_replaced import read_again_if_replaced

Kind = Literal["store", "cache", "node"]


def summarise(
    store_or_cache: str,
    *,
    topology: str | None = None,
    row_bytes: int | None = None,
    compare_metis: bool = False,
    node: str | None = None,
    executor: Executor | None = None,
) -> tuple[Kind, dict[str, Any]]:
    """The figures of a store, of a cache, or of one node of a cache; what is replaced meanwhile is read again.

    Args:
        store_or_cache: a path, a URL, a dataset's name or NAME/LABEL.
        topology, row_bytes: judge a cache's parts for these too.
        compare_metis: partition a cache's graph by METIS and set that beside.
        node: a node of a cache, by row number or original id; see `one_node.node_summary`.
        executor: looks at the edges of a store; threads do without one.

    Raises:
        DatasetError, CacheError: there is none, or it is damaged or unfinished.
        UsageError: what is only known of caches is asked of a store, or there is no such node or topology.
    """

    def read() -> tuple[Kind, dict[str, Any]]:
        return _summarised(
            store_or_cache,
            topology=topology,
            row_bytes=row_bytes,
            compare_metis=compare_metis,
            node=node,
            executor=executor,
        )

    return read_again_if_replaced(lambda: likely_folder(store_or_cache), read)


def _summarised(
    store_or_cache: str,
    *,
    topology: str | None,
    row_bytes: int | None,
    compare_metis: bool,
    node: str | None,
    executor: Executor | None,
) -> tuple[Kind, dict[str, Any]]:
    kind, location = find(store_or_cache)
    if kind == "cache":
        from graphprep.cache.read import PartitionCache
        from graphprep.report.summary.cache_summary import cache_summary
        from graphprep.report.summary.one_node import node_summary
        from graphprep.topology import resolve

        cache = PartitionCache(location)
        if node is not None:
            return "node", node_summary(cache, node)
        chosen = None if topology is None else resolve(topology)
        summary = cache_summary(cache, topology=chosen, row_bytes=row_bytes)
        if compare_metis:
            from pipelines.metis_reference import metis_reference

            progress.say("partitioning by METIS for comparison; that takes its time and about 130 bytes an edge")
            summary["metis"] = metis_reference(cache)
        return kind, summary
    of_caches = {"--topology": topology, "--row-bytes": row_bytes, "--node": node, "--compare-metis": compare_metis}
    for option, value in of_caches.items():
        if value not in (None, False):
            raise UsageError(f"{option} is about a partition cache; give NAME/LABEL or the cache's folder")
    from graphprep.report.summary.store_summary import store_summary
    from graphprep.store.store import GraphStore

    return kind, store_summary(GraphStore(location), executor=executor)


def require_store(store_or_cache: str, options: Sequence[str]) -> None:
    """Refuse options that are about reading a store's edges where a cache is meant.

    Args:
        options: those that were given.

    Raises:
        UsageError: there are some, and it is a cache.
        DatasetError, CacheError: it is neither.
    """
    if options and find(store_or_cache)[0] == "cache":
        raise UsageError(f"{options[0]} is about the edges of a store, and {store_or_cache} is a cache; leave it away")


def report_target(target: Path) -> Path:
    """Where an HTML page goes, asked before any work.

    Raises:
        UsageError: the place cannot be written to.
    """
    if not target.name or target.is_dir() or not target.absolute().parent.is_dir():
        raise UsageError(f"--html {str(target)!r} is no file in a folder that exists; give another path")
    return target.absolute()


def write_report(kind: Kind, summary: dict[str, Any], target: Path) -> None:
    """Write the HTML page of a store or a cache."""
    from graphprep.report.cache_page import cache_page
    from graphprep.report.store_page import store_page

    write_page(cache_page(summary) if kind == "cache" else store_page(summary), target)


def write_page(page: str, target: Path) -> None:
    """Write a page; it appears whole or not at all."""
    from graphprep.system.atomic import published_file

    with published_file(target) as file:
        file.write(page.encode())


def verify(store_or_cache: str) -> dict[str, Any]:
    """Read all of a store or cache and check it; one that is replaced meanwhile is read again.

    Returns:
        `kind`, `location`, `whole` (true); for a cache the number of `files`, for a store what is `unchecked`, a
        sentence each.

    Raises:
        DatasetError, CacheError: the first thing that is wrong.
    """
    return read_again_if_replaced(lambda: likely_folder(store_or_cache), lambda: _verified(store_or_cache))


def likely_folder(text: str) -> Path | None:
    """The folder on a local disk that a person means, be it there or not; None for what cannot be one."""
    if home.is_url(text):
        return None
    given = Path(text).expanduser()
    name, _, label = text.rstrip("/").partition("/")
    if given.is_dir() or not home.NAME_PATTERN.fullmatch(name):
        return given
    if not label:
        return home.store_path(name)
    return home.cache_path(name, label) if home.NAME_PATTERN.fullmatch(label) else given


def _verified(store_or_cache: str) -> dict[str, Any]:
    kind, location = find(store_or_cache)
    if kind == "cache":
        from graphprep.cache.read import PartitionCache
        from graphprep.cache.verify import verify_cache

        files = verify_cache(PartitionCache(location))
        return {"kind": kind, "location": str(location), "whole": True, "files": files}
    from graphprep.store.store import GraphStore

    store = GraphStore(location)
    unchecked = store.check()
    for sentence in unchecked:
        progress.warn(f"{store.location}: not checked: {sentence}")
    return {"kind": kind, "location": store.location, "whole": True, "unchecked": list(unchecked)}


def find(text: str) -> tuple[Literal["store", "cache"], Path | str]:
    """What a person means: a store by its name, else a cache by NAME/LABEL or its folder, else a store's folder."""
    if home.is_url(text):
        return "store", text
    if home.named_store(text):
        return "store", home.find_store(text)
    found = home.find_cache(text)
    name, _, label = text.partition("/")
    if found is None and home.NAME_PATTERN.fullmatch(name) and home.NAME_PATTERN.fullmatch(label):
        raise CacheError(
            f"{text} is neither a folder nor a cache{home.nearest_cache(text)}; "
            f"run `graphprep partition {name} --topology {label}` first"
        )
    if found is not None and _is_cache(found):
        return "cache", found
    return "store", home.find_store(text)


def _is_cache(folder: Path) -> bool:
    """Whether a folder is a cache, or what is left of one."""
    try:
        root = regular_file(folder / ZARR_JSON).read_text(errors="replace")
    except OSError:
        root = ""
    return (folder / MANIFEST).exists() or f'"graphprep_kind": "{CACHE_KIND}"' in root
