"""The front door: stores and caches by what people call them, and a quick import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphprep
from graphprep.core.types import EdgeType
from graphprep.errors import CacheError, DatasetError, UsageError
from graphprep.store.convert import graph_to_store
from graphprep.system.home import cache_path
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store


def test_import_takes_nothing_along() -> None:
    """Guards against an `import graphprep` that takes seconds."""
    script = "import sys, graphprep; print([m for m in ('numpy', 'torch', 'zarr', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"open_store", "open_cache", "__version__"} <= set(dir(graphprep))
    with pytest.raises(AttributeError, match="no attribute 'open_sesame'"):
        _ = graphprep.open_sesame  # type: ignore[attr-defined]


def test_names_paths_and_urls() -> None:
    """Guards against a store or cache that opens by one of its names only."""
    raw = labelled_graph(np.random.default_rng(1), 30, 100)
    store = make_store(raw, name="small")
    cache = make_cache(store, Topology.flat(2), cache_path("small", "flat-2"))
    graph_to_store(raw, "memory://api/small", name="small", key="0" * 64, source={"reader": "test"}, expected=None)
    for location in ("small", store.location, Path(store.location), "memory://api/small"):
        assert (graphprep.open_store(location).to_scipy() != store.to_scipy()).nnz == 0
    for location in ("small/flat-2", str(cache.folder), cache.folder):
        assert graphprep.open_cache(location).key == cache.key


def test_what_is_not_there() -> None:
    """Guards against tracebacks of Zarr's or fsspec's."""
    with pytest.raises(DatasetError, match="graphprep fetch nowhere"):
        graphprep.open_store("nowhere")
    with pytest.raises(DatasetError, match="is not a graph store"):
        graphprep.open_store("memory://api/nowhere")
    with pytest.raises(CacheError, match="graphprep partition"):
        graphprep.open_cache("nowhere/flat-2")
    with pytest.raises(CacheError, match="copy its folder to a local disk"):
        graphprep.open_cache("s3://bucket/caches/small/flat-2")


def test_edge_types_by_any_name() -> None:
    """Guards against a relation that is taken for another because nobody said which."""
    store = make_store(typed_graph(np.random.default_rng(1)))
    cites = EdgeType("paper", "cites", "paper")
    for name in (cites, cites.key, ("paper", "cites", "paper"), ["paper", "cites", "paper"]):
        assert store.to_scipy(name).shape == (50, 50)
    with pytest.raises(UsageError, match="several edge types; give edge_type, one of author__writes__paper"):
        store.to_scipy()
    with pytest.raises(UsageError, match="no edge type 'cites'"):
        store.to_scipy("cites")
