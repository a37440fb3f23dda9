"""Inspect and verify a store or a cache, whichever a name or a path means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from graphprep.cache.format import CACHE_KIND, MANIFEST, ZARR_JSON
from graphprep.errors import CacheError, UsageError
from graphprep.system import home, progress
from graphprep.system.executor import Executor
from graphprep.system.files.output_path import kind_of
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.retry_replaced import read_again_if_replaced

Kind = Literal["store", "cache", "node", "event-store", "events"]


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
        topology, row_bytes: assess a cache's parts for these too.
        compare_metis: partition a cache's graph by METIS too.
        node: a node of a cache, by row number or original id; see `one_node.node_summary`.
        executor: reads the edges of a store; threads do without one.

    Raises:
        DatasetError, CacheError: there is none, or it is damaged or unfinished.
        UsageError: an option is for caches and this is a store, or there is no such node or topology.
    """

    def read() -> tuple[Kind, dict[str, Any]]:
        kind, location = find(store_or_cache)
        for_caches = {"--topology": topology, "--row-bytes": row_bytes, "--node": node}
        of_caches = [option for option, value in for_caches.items() if value is not None]
        of_caches += ["--compare-metis"] if compare_metis else []
        if kind in ("event-store", "events"):
            if of_caches:
                raise UsageError(f"{of_caches[0]} is about a partition cache of a graph, and {location} has events")
            return kind, _event_summary(kind, Path(location))
        if kind == "store":
            from graphprep.report.summary.store_summary import store_summary
            from graphprep.store.store import GraphStore

            if of_caches:
                raise UsageError(f"{of_caches[0]} is about a partition cache; give NAME/LABEL or the cache's folder")
            return kind, store_summary(GraphStore(location), executor=executor)
        from graphprep.cache.read import PartitionCache
        from graphprep.report.summary.cache_summary import cache_summary
        from graphprep.report.summary.one_node import node_summary
        from graphprep.topology import resolve

        cache = PartitionCache(location)
        if node is not None:
            return "node", node_summary(cache, node)
        other = None if topology is None else resolve(topology)
        summary = cache_summary(cache, topology=other, row_bytes=row_bytes)
        if compare_metis:
            from graphprep.report.summary.verdict import beside_metis
            from pipelines.metis_reference import metis_reference

            progress.say("partitioning by METIS for comparison; that needs about 130 bytes an edge")
            summary["metis"] = metis_reference(cache)
            summary["beside_metis"] = beside_metis(cache, summary["quality"], summary["metis"])
        return kind, summary

    return read_again_if_replaced(lambda: likely_folder(store_or_cache), read)


def require_store(store_or_cache: str, options: Sequence[str]) -> None:
    """Refuse options that are for reading a store's edges where a cache is meant.

    Args:
        options: the options on the command line.

    Raises:
        UsageError: there are some, and it is a cache.
        DatasetError, CacheError: it is neither.
    """
    kind = find(store_or_cache)[0] if options else "store"
    if kind != "store":
        what = {"cache": "a cache", "event-store": "an event store", "events": "an event cache"}[kind]
        raise UsageError(f"{options[0]} is about the edges of a store, and {store_or_cache} is {what}; leave it out")


def write_report(kind: Kind, summary: dict[str, Any], target: Path) -> None:
    """Write the HTML page of a store or a cache."""
    from graphprep.report.pages import cache_page, event_page, store_page

    pages = {"cache": cache_page, "store": store_page, "event-store": event_page, "events": event_page}
    write_page(pages[kind](summary), target)


def _event_summary(kind: Kind, location: Path) -> dict[str, Any]:
    from graphprep.report.summary.event_summary import event_cache_summary, event_store_summary
    from graphprep.temporal.cache import EventCache
    from graphprep.temporal.store import EventStore

    return (
        event_store_summary(EventStore(location))
        if kind == "event-store"
        else event_cache_summary(EventCache(location))
    )


def write_page(page: str, target: Path) -> None:
    """Write a page; it appears whole or not at all."""
    from graphprep.system.files.atomic import published_file

    with published_file(target) as file:
        file.write(page.encode())


def verify(store_or_cache: str) -> dict[str, Any]:
    """Read all of a store or cache and check it; one that is replaced meanwhile is read again.

    Returns:
        `kind`, `location`, `whole` (true); for a cache the number of `files`, for a store `unchecked`, a sentence for
        each thing that was not checked.

    Raises:
        DatasetError, CacheError: the first thing that is wrong.
    """
    return read_again_if_replaced(lambda: likely_folder(store_or_cache), lambda: _verified(store_or_cache))


def likely_folder(text: str) -> Path | None:
    """The folder on a local disk that `text` means, whether it exists or not; None for a URL."""
    if home.is_url(text):
        return None
    path = Path(text).expanduser()
    name, _, label = text.rstrip("/").partition("/")
    if path.is_dir() or not home.NAME_PATTERN.fullmatch(name):
        return path
    if not label:
        return home.store_path(name)
    return home.cache_path(name, label) if home.NAME_PATTERN.fullmatch(label) else path


def _verified(store_or_cache: str) -> dict[str, Any]:
    kind, location = find(store_or_cache)
    if kind in ("event-store", "events"):
        from graphprep.temporal.cache import EventCache
        from graphprep.temporal.store import EventStore

        files = EventStore(location).check() if kind == "event-store" else EventCache(location).check()
        return {"kind": kind, "location": str(location), "whole": True, "files": files}
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


def find(text: str) -> tuple[Kind, Path | str]:
    """A store by its name or URL, else a cache by NAME/LABEL or its folder, else a store's folder; also of events."""
    kind, location = _find(text)
    own = kind_of(location) if isinstance(location, Path) else None
    return ("event-store" if own == "event-store" else "events" if own == "events" else kind), location


def _find(text: str) -> tuple[Literal["store", "cache"], Path | str]:
    if home.is_url(text):
        return "store", text
    if home.named_store(text):
        return "store", home.find_store(text)
    folder = home.find_cache(text)
    name, _, label = text.partition("/")
    if folder is None and home.NAME_PATTERN.fullmatch(name) and home.NAME_PATTERN.fullmatch(label):
        raise CacheError(
            f"{text} is neither a folder nor a cache{home.nearest_cache(text)}; "
            f"run `graphprep partition {name} --topology {label}` first"
        )
    if folder is not None and _is_cache(folder):
        return "cache", folder
    return "store", home.find_store(text)


def _is_cache(folder: Path) -> bool:
    """Whether a folder is a cache, complete or damaged."""
    try:
        root = regular_file(folder / ZARR_JSON).read_text(errors="replace")
    except OSError:
        root = ""
    return (folder / MANIFEST).exists() or f'"graphprep_kind": "{CACHE_KIND}"' in root
