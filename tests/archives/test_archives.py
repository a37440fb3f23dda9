"""Stores and caches that older versions wrote are still read, and still say the same."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import graphprep
from graphprep.cache.rebuild import rebuild_csr, rebuild_edge_arrays, rebuild_rows
from graphprep.cache.verify import verify_cache
from graphprep.core.types import EdgeType

ARCHIVES = Path(__file__).parent
VERSIONS = sorted(path.name for path in ARCHIVES.iterdir() if path.is_dir() and path.name[0].isdigit())
PARTS = {"0.1.0": 2, "0.1.0-format-3": 4}
PERSON = EdgeType("node", "to", "node")

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def edges_of_people(version: str) -> list[tuple[str, str, float, int]]:
    """Source, destination, weight and time of each line of the file that the store was made from, sorted."""
    with (ARCHIVES / version / "people" / "edges.csv").open() as file:
        return sorted(
            (row["source"], row["target"], float(row["weight"]), int(row["time"])) for row in csv.DictReader(file)
        )


def edges_of_papers(version: str, name: str) -> list[tuple[int, int]]:
    """Source and destination of each line of a file that the store was made from, sorted."""
    lines = (ARCHIVES / version / "papers" / name).read_text().splitlines()
    return sorted((int(source), int(destination)) for source, destination in map(str.split, lines))


def sha256(array: NDArray[np.generic]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def test_a_store_of_one_type_holds_the_edges_that_it_was_made_from(version: str) -> None:
    """Guards against a reader that opens an old store and gives other ids, weights or times."""
    store = graphprep.open_store(ARCHIVES / version / "people" / "store.zarr")
    ids = store.original_ids("node")
    assert ids is not None
    words = ids.array().tolist()
    csr = store.csr(PERSON)
    rows = np.repeat(np.arange(12), np.diff(csr.indptr))
    weights, times = store.edge_array(PERSON, "data")[:], store.edge_array(PERSON, "time")[:]
    found = zip(
        (words[i] for i in csr.indices), (words[i] for i in rows), weights.tolist(), times.tolist(), strict=True
    )
    assert sorted(found) == edges_of_people(version)
    x = store.node_array("node", "x")
    assert x is not None
    assert x[:, 0].tolist() == [0.5 * i for i in range(12)]
    store.check()


def test_a_store_of_several_types_holds_the_edges_that_it_was_made_from(version: str) -> None:
    """Guards against a reader that mixes types of an old store, or turns a reverse edge type around."""
    store = graphprep.open_store(ARCHIVES / version / "papers" / "store.zarr")
    assert store.num_nodes == {"author": 5, "paper": 8}
    wrote, cites = edges_of_papers(version, "wrote.txt"), edges_of_papers(version, "cites.txt")
    expected = {
        EdgeType("author", "wrote", "paper"): wrote,
        EdgeType("paper", "written_by", "author"): sorted((paper, author) for author, paper in wrote),
        EdgeType("paper", "cites", "paper"): cites,
    }
    assert set(store.num_edges) == set(expected)
    for edge_type, edges in expected.items():
        csr = store.csr(edge_type)
        rows = np.repeat(np.arange(len(csr.indptr) - 1), np.diff(csr.indptr))
        assert sorted(zip(csr.indices.tolist(), rows.tolist(), strict=True)) == edges
    store.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["people", "papers"])
def test_the_parts_of_a_cache_put_together_are_its_store(version: str, name: str) -> None:
    """Guards against a reader of caches that gives other edges, features or labels for an old cache."""
    store = graphprep.open_store(ARCHIVES / version / name / "store.zarr")
    cache = graphprep.open_cache(ARCHIVES / version / name / "cache")
    verify_cache(cache)
    assert cache.num_parts == PARTS[version]
    assert cache.has_relays == (version == "0.1.0-format-3")
    for edge_type in store.num_edges:
        ours, theirs = rebuild_csr(cache, edge_type), store.csr(edge_type)
        assert ours.indptr.tolist() == theirs.indptr.tolist()
        assert ours.indices.tolist() == theirs.indices.tolist()
        for array, values in rebuild_edge_arrays(cache, edge_type).items():
            assert sha256(values) == sha256(store.edge_array(edge_type, array)[:]), array
    for node_type in store.num_nodes:
        for array in set(store.node_arrays(node_type)) & {"x", "y", "train_mask"}:
            stored = store.node_array(node_type, array)
            assert stored is not None
            assert rebuild_rows(cache, node_type, array).tolist() == stored[:].tolist(), array
