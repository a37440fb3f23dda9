"""The quality figures: the same numbers by name and in tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.topology import Topology, resolve
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def cache(tmp_path: Path) -> PartitionCache:
    store = make_store(labelled_graph(np.random.default_rng(1), 60, 300))
    return make_cache(store, resolve("2x2"), tmp_path / "cache")


def test_tables_hold_what_the_json_holds(cache: PartitionCache) -> None:
    """Guards against a table that drops rows or renames columns."""
    quality = cache.quality
    assert json.loads(json.dumps(quality)) == cache.attributes["quality"]
    for name in ("links", "link_types", "ranks", "limits"):
        assert getattr(quality, name).to_dict("records") == quality[name]
    assert quality.ranks["nodes"].sum() == 60


def test_pairs_count_what_crosses(cache: PartitionCache) -> None:
    """Guards against rows and columns of the matrices that are taken for each other."""
    pairs = cache.quality.pairs
    assert len(pairs) == 4 * 3
    for row in pairs.itertuples():
        assert row.rows == len(cache.node_array(row.source, "node", f"send_{row.destination}"))
    assert pairs["edges"].sum() == cache.quality["cut_edges"]


def test_one_part_has_no_pairs(tmp_path: Path) -> None:
    """Guards against a table without columns."""
    store = make_store(labelled_graph(np.random.default_rng(1), 10, 30))
    pairs = make_cache(store, Topology.flat(1), tmp_path / "cache").quality.pairs
    assert list(pairs.columns) == ["source", "destination", "rows", "edges"]
    assert len(pairs) == 0


def test_without_pandas(cache: PartitionCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an ImportError where a word of advice is due, and against figures that need pandas."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert cache.quality["cut_edges"] > 0
    with pytest.raises(UsageError, match="tables of quality need pandas"):
        _ = cache.quality.links
