"""A part as one graph: the same edges, each with its number in the store; the halo, with the rows of its owners."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.cache.part_graph import first_edges, load_part, part_edges, part_nodes
from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.errors import UsageError
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store


def check_parts(cache: PartitionCache, store: GraphStore) -> None:
    """All parts together hold each edge of the store once, under its number, between the right nodes."""
    for kind in cache.edge_types:
        matrix = store.csr(kind)
        destination_E = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
        first_edge_N = first_edges(cache, kind)
        assert np.array_equal(first_edge_N, matrix.indptr)
        numbers = []
        for part in range(cache.num_parts):
            sources = part_nodes(cache, part, kind.source)
            found = part_edges(cache, part, kind, sources, first_edge_N)
            own = cache.node_array(part, kind.destination, "global_ids")
            rows = np.repeat(np.arange(found.csr.num_rows), np.diff(found.csr.indptr))
            assert found.csr.num_sources == len(sources.ids)
            assert np.array_equal(own[rows], destination_E[found.number_E])
            assert np.array_equal(sources.ids[found.csr.indices], matrix.indices[found.number_E])
            if matrix.data is not None:
                assert found.csr.data is not None
                assert np.array_equal(found.csr.data, matrix.data[found.number_E])
            numbers.append(found.number_E)
        assert np.array_equal(np.sort(np.concatenate(numbers)), np.arange(matrix.num_edges))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    num_parts=st.integers(1, 5),
    num_nodes=st.integers(5, 40),
    num_edges=st.integers(0, 300),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
)
def test_every_edge_has_its_number_in_the_store(
    tmp_path_factory: pytest.TempPathFactory, num_parts: int, num_nodes: int, num_edges: int, seed: int, weighted: bool
) -> None:
    """Guards against edges that are lost or doubled, and against parallel edges that swap their weights."""
    folder = tmp_path_factory.mktemp("parts")
    raw = labelled_graph(np.random.default_rng(seed), num_nodes, num_edges, weighted=weighted)
    store = make_store(raw, target=folder / "graph.zarr")
    check_parts(make_cache(store, Topology.flat(num_parts), folder / "cache"), store)


def test_several_types(tmp_path: Path) -> None:
    """Guards against columns of one node type that are looked up in another."""
    store = make_store(typed_graph(np.random.default_rng(2)))
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    verify_cache(cache)
    check_parts(cache, store)
    assert cache.node_arrays(0, "author") == ()
    assert cache.node_arrays(0, "paper") == ("test_mask", "train_mask", "val_mask", "x", "y")


def test_the_halo_has_its_owners_rows_and_no_split(tmp_path: Path) -> None:
    """Guards against features of another node on a halo row, and against a training node that counts twice."""
    raw = labelled_graph(np.random.default_rng(3), 60, 500)
    table = raw.nodes[HOMOGENEOUS_NODE]
    cache = make_cache(make_store(raw), Topology.flat(3), tmp_path / "cache")
    assert table.x is not None
    assert table.y is not None
    assert table.train_mask is not None
    trained = 0
    for part in range(3):
        graph = load_part(cache, part)
        arrays = graph.nodes[HOMOGENEOUS_NODE]
        own = len(cache.node_array(part, HOMOGENEOUS_NODE, "global_ids"))
        assert arrays["own_mask"].tolist() == [True] * own + [False] * (graph.num_nodes[HOMOGENEOUS_NODE] - own)
        assert np.array_equal(arrays["x"], table.x[arrays["n_id"]])
        assert np.array_equal(arrays["y"], table.y[arrays["n_id"]])
        assert not arrays["train_mask"][own:].any()
        trained += int(arrays["train_mask"].sum())
        found = part_nodes(cache, part, HOMOGENEOUS_NODE)
        assert np.array_equal(cache.assignment(HOMOGENEOUS_NODE)[found.halo_H], found.halo_part_H)
        for owner, row, node in zip(found.halo_part_H, found.halo_row_H, found.halo_H, strict=True):
            assert cache.node_array(int(owner), HOMOGENEOUS_NODE, "global_ids")[row] == node
    assert trained == table.train_mask.sum()
    assert np.array_equal(
        load_part(cache, 0).edge_arrays[HOMOGENEOUS_EDGE]["e_id"],
        load_part(cache, 0, {HOMOGENEOUS_EDGE.key: first_edges(cache, HOMOGENEOUS_EDGE)}).edge_arrays[HOMOGENEOUS_EDGE][
            "e_id"
        ],
    )


@pytest.mark.parametrize("part", [-1, 2])
def test_no_such_part(tmp_path: Path, part: int) -> None:
    """Guards against part -1 that is taken for the last one."""
    cache = make_cache(make_store(labelled_graph(np.random.default_rng(1), 9, 20)), Topology.flat(2), tmp_path / "c")
    with pytest.raises(UsageError, match=r"parts are 0 \.\. 1"):
        load_part(cache, part)
