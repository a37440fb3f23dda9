"""Store -> cache -> the same graph again, edge for edge, row for row, for every kind of graph and number of parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.cache import write
from graphprep.cache.format import payload_path
from graphprep.cache.manifest import Manifest
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr, rebuild_edge_arrays, rebuild_rows
from graphprep.cache.verify import verify_cache
from graphprep.core.csr import weighted_in_degree
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.store.store import GraphStore
from graphprep.system import executor
from graphprep.topology import Topology
from tests.conftest import BoundsChecked
from tests.graphs import edge_counter, labelled_graph, typed_graph, with_edge_arrays
from tests.stores import make_cache, make_store


def check_same_graph(cache: PartitionCache, store: GraphStore) -> None:
    """The cache holds the store's graph, no more and no less."""
    verify_cache(cache)
    matrix = store.csr(HOMOGENEOUS_EDGE)
    rebuilt = rebuild_csr(cache, HOMOGENEOUS_EDGE)
    assert np.array_equal(rebuilt.indptr, matrix.indptr)
    assert np.array_equal(rebuilt.indices, matrix.indices)
    assert edge_counter(rebuilt) == edge_counter(matrix)
    table = store.node_table(HOMOGENEOUS_NODE)
    degree_N = weighted_in_degree(matrix)
    owners = np.concatenate([cache.node_array(part, HOMOGENEOUS_NODE, "global_ids") for part in range(cache.num_parts)])
    assert sorted(owners.tolist()) == list(range(matrix.num_rows))
    for part in range(cache.num_parts):
        ids = cache.node_array(part, HOMOGENEOUS_NODE, "global_ids")
        assert (cache.assignment(HOMOGENEOUS_NODE)[ids] == part).all()
        np.testing.assert_array_equal(cache.node_array(part, HOMOGENEOUS_NODE, "degree"), degree_N[ids])
        for name, array in table.arrays().items():
            found = cache.node_array(part, HOMOGENEOUS_NODE, name)
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array[ids])
        for peer in range(cache.num_parts):
            if peer != part:
                received = cache.node_array(part, HOMOGENEOUS_NODE, f"recv_{peer}")
                halo_degree = cache.node_array(part, HOMOGENEOUS_NODE, f"halo_degree_{peer}")
                np.testing.assert_array_equal(halo_degree, degree_N[received])


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    num_parts=st.integers(1, 9),
    num_nodes=st.integers(9, 60),
    num_edges=st.integers(0, 400),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
    undirected=st.booleans(),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
)
def test_any_graph_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    num_parts: int,
    num_nodes: int,
    num_edges: int,
    seed: int,
    weighted: bool,
    undirected: bool,
    dtype: str,
) -> None:
    """Guards against an edge, a weight, a feature or a label that is lost, doubled or moved."""
    raw = labelled_graph(
        np.random.default_rng(seed), num_nodes, num_edges, weighted=weighted, undirected=undirected, dtype=dtype
    )
    folder = tmp_path_factory.mktemp("round")
    store = make_store(raw, target=folder / "graph.zarr")
    cache = make_cache(store, Topology.flat(num_parts), folder / "cache")
    check_same_graph(cache, store)


@pytest.fixture
def cache(tmp_path: Path) -> PartitionCache:
    store = make_store(labelled_graph(np.random.default_rng(1), 80, 600, weighted=True))
    return make_cache(store, Topology.flat(3), tmp_path / "cache", method="metis")


def test_zarr_reads_the_very_same_arrays(cache: PartitionCache) -> None:
    """Guards against metadata that Zarr does not understand or reads as another dtype."""
    root = zarr.open_group(str(cache.folder), mode="r", zarr_format=3)
    paths = [path.parent.relative_to(cache.folder).as_posix() for path in cache.folder.rglob("zarr.json")]
    arrays = [path for path in paths if path != "." and isinstance(root[path], zarr.Array)]
    assert len(arrays) > 60
    for path in arrays:
        np.testing.assert_array_equal(root[path][...], cache.array(path))  # type: ignore[index]
    assert dict(root.attrs) == cache.attributes


def test_anndata_opens_every_block(cache: PartitionCache) -> None:
    """Guards against block attributes that AnnData refuses."""
    anndata_io = pytest.importorskip("anndata.io")
    root = zarr.open_group(str(cache.folder), mode="r")
    for part in range(3):
        for owner in range(3):
            name = "local" if owner == part else f"from_{owner}"
            block = cache.block(part, HOMOGENEOUS_EDGE, owner)
            path = f"parts/{part}/edges/{HOMOGENEOUS_EDGE.key}/{name}"
            found = anndata_io.sparse_dataset(root[path])[:]  # type: ignore[arg-type]
            assert found.shape == (block.num_rows, block.num_sources)
            assert np.array_equal(found.indices, block.indices)


def test_payloads_are_raw_little_endian_files(cache: PartitionCache) -> None:
    """Guards against compression, padding or sharding, with which no file could be mapped."""
    path = "parts/0/nodes/node/x"
    metadata = json.loads((cache.folder / path / "zarr.json").read_text())
    raw = np.fromfile(cache.folder / payload_path(path, 2), dtype="<f4").reshape(metadata["shape"])
    np.testing.assert_array_equal(raw, cache.array(path))


def test_all_zero_arrays_have_a_file_and_empty_ones_none(tmp_path: Path) -> None:
    """Guards against Zarr's habit of leaving zeros out, and against files of no bytes."""
    store = make_store(labelled_graph(np.random.default_rng(1), 12, 0))
    cache = make_cache(store, Topology.flat(2), tmp_path / "cache")
    assert (cache.folder / payload_path("traffic_rows", 2)).stat().st_size == 32
    assert (cache.folder / payload_path("parts/0/nodes/node/degree", 1)).exists()
    assert not (cache.folder / "parts/0/nodes/node/send_1/c").exists()
    assert cache.array("parts/0/nodes/node/send_1").shape == (0,)


def test_traffic_counts_what_is_sent(cache: PartitionCache) -> None:
    """Guards against a cost model that prices other rows than those that travel."""
    rows_PP = cache.array("traffic_rows")
    for part in range(3):
        for peer in range(3):
            if part != peer:
                assert rows_PP[part, peer] == len(cache.node_array(part, HOMOGENEOUS_NODE, f"send_{peer}"))
    assert cache.quality["halo_rows"] == rows_PP.sum()
    assert cache.quality["cut_edges"] == cache.array("cross_edges").sum()


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range writes while parts are cut."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.cache.blocks import NodeLayout, halo, split_edges\n"
        "from tests.graphs import csr_of, random_edges\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e, parts in ((1, 0, 1), (9, 0, 3), (200, 3000, 1), (200, 3000, 7)):\n"
        "    for weighted in (False, True):\n"
        "        matrix = csr_of(random_edges(rng, n, e, weighted=weighted), n)\n"
        "        assignment = rng.integers(0, parts, n).astype(np.int32)\n"
        "        nodes = [np.flatnonzero(assignment == part) for part in range(parts)]\n"
        "        layout = NodeLayout.from_order(assignment, nodes)\n"
        "        for part in range(parts):\n"
        "            halos = halo([matrix], [nodes[part]], layout, part)\n"
        "            split_edges(matrix, nodes[part], layout, halos, part)\n"
        "            split_edges(matrix, nodes[part][::-1].copy(), layout, halos, part, with_places=True)\n"
    )


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(num_parts=st.integers(1, 9), seed=st.integers(0, 2**32 - 1), num_edges=st.integers(0, 300))
def test_any_graph_of_several_types_comes_back(
    tmp_path_factory: pytest.TempPathFactory, num_parts: int, seed: int, num_edges: int
) -> None:
    """Guards against edges of the wrong type, and edge features that stay where their edge was before; parallel edges
    keep their order."""
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("typed")
    raw = with_edge_arrays(rng, typed_graph(rng, authors=12, papers=20, num_edges=num_edges))
    store = make_store(raw, target=folder / "graph.zarr")
    assert any(store.edge_arrays(kind) for kind in store.num_edges)
    cache = make_cache(store, Topology.flat(num_parts), folder / "cache")
    verify_cache(cache)
    for kind in store.num_edges:
        matrix, rebuilt = store.csr(kind), rebuild_csr(cache, kind)
        assert np.array_equal(rebuilt.indptr, matrix.indptr)
        assert np.array_equal(rebuilt.indices, matrix.indices)
        found = rebuild_edge_arrays(cache, kind)
        assert set(found) == set(store.edge_arrays(kind))
        if matrix.data is not None:
            assert np.array_equal(np.asarray(rebuilt.data), matrix.data)
        for name, array in found.items():
            np.testing.assert_array_equal(array, store.edge_array(kind, name)[:])
    for node_type in store.num_nodes:
        for name in store.node_arrays(node_type):
            stored = store.node_array(node_type, name)
            assert stored is not None
            np.testing.assert_array_equal(rebuild_rows(cache, node_type, name), stored[:])


@pytest.mark.slow
def test_memory_decides_pieces_and_workers_but_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a cache that depends on how large the pieces are through which it was written."""
    rng = np.random.default_rng(7)
    store = make_store(with_edge_arrays(rng, typed_graph(rng, num_edges=3000)))
    whole = make_cache(store, Topology.flat(4), tmp_path / "whole")
    monkeypatch.setattr(write, "MOST_PIECE_BYTES", 500)
    monkeypatch.setattr(write, "LEAST_PIECE_BYTES", 500)
    monkeypatch.setattr(executor, "workers_for", lambda *_: 1)
    pieces = make_cache(store, Topology.flat(4), tmp_path / "pieces")
    one, other = (dict(Manifest.read(cache.folder).files) for cache in (whole, pieces))
    del one["zarr.json"], other["zarr.json"]  # they tell how long it took
    assert one == other
    assert len(one) > 300
