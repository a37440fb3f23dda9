"""The front door for Python: open a store or a cache by what a person calls it (docs/python.md)."""

from __future__ import annotations

from pathlib import Path

from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import to_float32
from graphprep.errors import CacheError
from graphprep.store.store import GraphStore
from graphprep.system import home

__all__ = ["open_cache", "open_store", "to_float32"]


def open_store(location: str | Path) -> GraphStore:
    """A graph store: a dataset's name, a path, or an fsspec URL. Nothing is read before it is asked for.

    Raises:
        DatasetError: there is none, it is damaged, unfinished or of an unknown format.
    """
    return GraphStore(home.find_store(str(location)))


def open_cache(location: str | Path) -> PartitionCache:
    """A partition cache: NAME/LABEL, or a path. Arrays are mapped when they are asked for.

    Raises:
        CacheError: there is none, it is damaged, unfinished or of an unknown format, or lies at a URL.
    """
    if home.is_url(str(location)):
        raise CacheError(
            f"{location} is a URL, and a cache is mapped into memory; copy its folder to a local disk and open that"
        )
    return PartitionCache(home.require_cache(str(location)))
