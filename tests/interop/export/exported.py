"""Caches to export, and the way they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from pipelines.export import export_cache
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store

KINDS = ("plain", "weighted", "one part", "no edges", "typed", "two authors")


def exported(kind: str, format_name: str, folder: Path) -> tuple[GraphStore, PartitionCache, Path]:
    """A random graph of a kind, its cache, and the export of that."""
    rng = np.random.default_rng(KINDS.index(kind))
    if kind in ("typed", "two authors"):  # of whom one part has none
        store = make_store(typed_graph(rng, authors=2 if kind == "two authors" else 30))
        cache = make_cache(store, Topology.flat(3), folder / "cache")
    else:
        edges = 0 if kind == "no edges" else 500
        store = make_store(labelled_graph(rng, 60, edges, weighted=kind == "weighted"))
        cache = make_cache(store, Topology.flat(1 if kind == "one part" else 3), folder / "cache")
    outcome = export_cache(str(cache.folder), folder / "out", format_name=format_name)
    assert not outcome.reused
    return store, cache, outcome.folder


each_kind = pytest.mark.parametrize("kind", KINDS)
