"""The graph store: what is written is what is read, in ranges, by others, and never half."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.errors import DatasetError
from graphprep.store import write as store_room
from graphprep.store.convert import graph_to_store
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from tests.graphs import csr_of, edge_counter, labelled_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_written_is_read(rng: np.random.Generator, weighted: bool, dtype: str) -> None:
    """Guards against lost edges, changed weights, and features that lose their dtype."""
    raw = labelled_graph(rng, 60, 400, weighted=weighted, dtype=dtype)
    store = make_store(raw)
    chunk = next(raw.edges[0].chunks())
    assert edge_counter(store.csr(HOMOGENEOUS_EDGE)) == edge_counter(csr_of(chunk, 60))
    table = store.node_table(HOMOGENEOUS_NODE)
    for name, array in raw.nodes[HOMOGENEOUS_NODE].arrays().items():
        found = getattr(table, name)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    assert store.is_weighted(HOMOGENEOUS_EDGE) == weighted
    store.check()


def test_row_ranges_across_chunks_and_shards(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against off-by-one errors where a range begins in one shard and ends in another."""
    monkeypatch.setattr(store_room, "CHUNK_BYTES", 64)
    raw = labelled_graph(rng, 300, 2000)
    store = make_store(raw)
    whole = store.csr(HOMOGENEOUS_EDGE)
    for start, stop in ((0, 300), (0, 1), (17, 203), (299, 300), (120, 120)):
        piece = store.csr_rows(HOMOGENEOUS_EDGE, start, stop)
        low, high = whole.indptr[start], whole.indptr[stop]
        assert np.array_equal(piece.indptr, whole.indptr[start : stop + 1] - low)
        assert np.array_equal(piece.indices, whole.indices[low:high])
    pieces = [rows for _, rows in store.rows(HOMOGENEOUS_NODE, "x", 37)]
    np.testing.assert_array_equal(np.concatenate(pieces), raw.nodes[HOMOGENEOUS_NODE].x)
    assert zarr.open_array(store.location, path="nodes/node/x", mode="r").shards is not None


def test_features_of_no_column_are_read(rng: np.random.Generator, tmp_path: Path) -> None:
    """Guards against a store that is written and then said to lack the chunk that an empty array never has."""
    raw = labelled_graph(rng, 20, 60)
    table = dataclasses.replace(raw.nodes[HOMOGENEOUS_NODE], x=np.zeros((20, 0), np.float32))
    store = make_store(dataclasses.replace(raw, nodes={HOMOGENEOUS_NODE: table}))
    assert store.node_table(HOMOGENEOUS_NODE).x.shape == (20, 0)  # type: ignore[union-attr]
    store.check()
    cache = make_cache(store, Topology.flat(2), tmp_path / "cache")
    assert sum(cache.node_array(part, HOMOGENEOUS_NODE, "x").shape[0] for part in range(2)) == 20


def test_unweighted_edges_store_no_weights(rng: np.random.Generator) -> None:
    """Guards against four bytes an edge that say 1."""
    store = make_store(labelled_graph(rng, 60, 400))
    folder = Path(store.location) / "edges" / HOMOGENEOUS_EDGE.key / "data"
    assert [path.name for path in folder.iterdir()] == ["zarr.json"]
    data = zarr.open_array(str(folder), mode="r")
    assert np.array_equal(data[:], np.ones(400, np.float32))


def test_anndata_opens_the_edges(rng: np.random.Generator) -> None:
    """Guards against encoding attributes that AnnData refuses."""
    anndata_io = pytest.importorskip("anndata.io")
    store = make_store(labelled_graph(rng, 60, 400, weighted=True))
    sparse = anndata_io.sparse_dataset(zarr.open_group(store.location, mode="r")[f"edges/{HOMOGENEOUS_EDGE.key}"])
    matrix = store.csr(HOMOGENEOUS_EDGE)
    found = sparse[:]
    assert np.array_equal(found.indptr, matrix.indptr)
    assert np.array_equal(found.indices, matrix.indices)
    assert np.array_equal(found.data, matrix.data)


def test_a_url_works_where_a_path_does(rng: np.random.Generator) -> None:
    """Guards against code that takes every location for a local path."""
    raw = labelled_graph(rng, 60, 400)
    store = graph_to_store(
        raw, "memory://graphs/one", name="one", key="0" * 64, source={"reader": "test"}, expected=None
    )
    chunk = next(raw.edges[0].chunks())
    assert edge_counter(GraphStore("memory://graphs/one").csr(HOMOGENEOUS_EDGE)) == edge_counter(csr_of(chunk, 60))
    store.check()


@pytest.mark.parametrize("num_edges", [0, 3])
def test_graphs_of_almost_nothing(rng: np.random.Generator, num_edges: int) -> None:
    """Guards against arrays of length 0, which have no chunk."""
    store = make_store(labelled_graph(rng, 1, num_edges))
    assert store.csr(HOMOGENEOUS_EDGE).num_edges == num_edges
    store.check()


def test_a_flipped_bit_is_an_error(rng: np.random.Generator) -> None:
    """Guards against a damaged chunk that decompresses to another graph."""
    store = make_store(labelled_graph(rng, 200, 3000))
    chunk = Path(store.location) / "edges" / HOMOGENEOUS_EDGE.key / "indices" / "c" / "0"
    payload = bytearray(chunk.read_bytes())
    payload[len(payload) // 2] ^= 4
    chunk.write_bytes(payload)
    with pytest.raises(DatasetError, match="indices is damaged"):
        GraphStore(store.location).check()


def test_a_missing_chunk_is_an_error(rng: np.random.Generator) -> None:
    """Guards against Zarr's rule that an absent chunk means zeros: a lost file would be a silent graph of node 0."""
    store = make_store(labelled_graph(rng, 200, 3000))
    (Path(store.location) / "edges" / HOMOGENEOUS_EDGE.key / "indices" / "c" / "0").unlink()
    with pytest.raises(DatasetError):
        GraphStore(store.location).check()


def test_other_formats_are_refused_with_advice(rng: np.random.Generator) -> None:
    """Guards against a reader that guesses at what a later release wrote."""
    store = make_store(labelled_graph(rng, 10, 20))
    root = Path(store.location) / "zarr.json"
    document = json.loads(root.read_text())
    document["attributes"]["graphprep_format"] = 99
    root.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match=r"store format 99, this release reads format 1"):
        GraphStore(store.location)
    del document["attributes"]["graphprep_kind"]
    root.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match="not a finished graph store"):
        GraphStore(store.location)
    root.write_text('{"zarr_format": 3, "node_')
    with pytest.raises(DatasetError, match="damaged"):
        GraphStore(store.location)


def test_no_store_at_all(tmp_path: Path) -> None:
    """Guards against a traceback from Zarr."""
    with pytest.raises(DatasetError, match="is not a graph store"):
        GraphStore(tmp_path)
