"""Inspect and verify: find out whether a person means a store or a cache, then ask the right room."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from graphprep import home
from graphprep.cache.format import CACHE_KIND, MANIFEST, ZARR_JSON
from graphprep.errors import CacheError, UsageError

Kind = Literal["store", "cache"]


def summarise(store_or_cache: str) -> tuple[Kind, dict[str, Any]]:
    """The figures of a store or of a cache.

    Raises:
        DatasetError, CacheError: there is none, or it is damaged or unfinished.
    """
    kind, location = _find(store_or_cache)
    if kind == "cache":
        from graphprep.cache.read import PartitionCache
        from graphprep.inspect.cache_summary import cache_summary

        return kind, cache_summary(PartitionCache(location))
    from graphprep.inspect.store_summary import store_summary
    from graphprep.store import GraphStore

    return kind, store_summary(GraphStore(location))


def report_target(store_or_cache: str, target: Path) -> Path:
    """Where the HTML page goes, asked before any work.

    Raises:
        UsageError: it is about a store, or the place cannot be written to.
    """
    kind, _ = _find(store_or_cache)
    if kind != "cache":
        raise UsageError("--html shows a partition cache; give NAME/LABEL or the cache's folder")
    if not target.name or target.is_dir() or not target.absolute().parent.is_dir():
        raise UsageError(f"--html {str(target)!r} is no file in a folder that exists; give another path")
    return target.absolute()


def write_report(summary: dict[str, Any], target: Path) -> None:
    """Write the HTML page of a cache."""
    from graphprep.inspect.page import cache_page
    from graphprep.publish import published_file

    page = cache_page(summary)
    with published_file(target) as file:
        file.write(page.encode())


def verify(store_or_cache: str) -> dict[str, Any]:
    """Read all of a store or cache and check it.

    Raises:
        DatasetError, CacheError: the first thing that is wrong.
    """
    kind, location = _find(store_or_cache)
    if kind == "cache":
        from graphprep.cache.read import PartitionCache
        from graphprep.cache.verify import verify_cache

        files = verify_cache(PartitionCache(location))
        return {"kind": kind, "location": str(location), "whole": True, "files": files}
    from graphprep.store import GraphStore

    store = GraphStore(location)
    store.check()
    return {"kind": kind, "location": store.location, "whole": True}


def _find(text: str) -> tuple[Kind, Path | str]:
    """A cache's folder or NAME/LABEL, else a store."""
    if home.is_url(text):
        return "store", text
    found = home.find_cache(text)
    name, _, label = text.partition("/")
    if found is None and home.NAME_PATTERN.fullmatch(name) and home.NAME_PATTERN.fullmatch(label):
        raise CacheError(
            f"{text} is neither a folder nor a cache; run `graphprep partition {name} --topology {label}` first"
        )
    if found is not None and _is_cache(found):
        return "cache", found
    return "store", home.find_store(text)


def _is_cache(folder: Path) -> bool:
    """Whether a folder is a cache, or what is left of one."""
    try:
        root = (folder / ZARR_JSON).read_text(errors="replace")
    except OSError:
        root = ""
    return (folder / MANIFEST).exists() or f'"graphprep_kind": "{CACHE_KIND}"' in root
