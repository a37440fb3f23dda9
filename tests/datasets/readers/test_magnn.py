"""Heterogeneous graphs cut out of one matrix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphprep.datasets import readers
from graphprep.errors import DatasetError
from tests.datasets.published import PUBLISHED, ordered, spoiled, treated
from tests.datasets.published_files import Files


@pytest.mark.parametrize("name", ["magnn", "magnn_imdb"])
def test_every_type_is_pyg_s(tmp_path: Path, no_network: None, name: str) -> None:
    """A type whose numbers begin at the wrong place gets the edges of its neighbour in the matrix."""
    raw = readers.read(tmp_path, PUBLISHED[name].write(tmp_path))
    data = PUBLISHED[name].from_pyg(tmp_path / "theirs")[0]
    assert {table.type for table in raw.edges} == set(data.edge_types)
    for table in raw.edges:
        assert np.array_equal(treated(raw, table), ordered(data[table.type].edge_index.t().numpy()))
    assert list(raw.nodes) == data.node_types
    for kind, nodes in raw.nodes.items():
        assert nodes.num_nodes == data[kind].num_nodes
        assert (nodes.x is None) == ("x" not in data[kind])
        if nodes.x is not None:
            assert nodes.x.dtype == np.float32
            assert np.array_equal(nodes.x, data[kind].x.numpy())
        for field in ("y", "train_mask", "val_mask", "test_mask"):
            found = getattr(nodes, field)
            assert (found is None) == (field not in data[kind])
            if found is not None:
                assert np.array_equal(found.ravel(), data[kind][field].numpy())


def change(name: str, **arrays: object) -> Callable[[Files], None]:
    return lambda files: files.update({name: {**files[name], **arrays}})


def replaced(name: str, value: object) -> Callable[[Files], None]:
    return lambda files: files.update({name: value})


def wide(files: Files) -> None:
    files["adjM.npz"] = sp.csr_matrix((34, 34))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (wide, r"edges of the shape \(34, 34\) for 33 nodes"),
        (replaced("node_types.npy", np.zeros(33, int)), "33 nodes of type author, features 10"),
        (replaced("node_types.npy", np.repeat([1, 0, 2, 3], [10, 14, 6, 3])), "type after type"),
        (replaced("node_types.npy", np.full(33, 4)), r"outside 0 .. 3"),
        (replaced("labels.npy", np.arange(9)), "shape"),
        (replaced("labels.npy", np.arange(10) - 2), "row 0 has the class -2"),
        (change("train_val_test_idx.npz", val_idx=np.array([10])), "val_idx names the node 10"),
        (change("train_val_test_idx.npz", val_idx=np.array([-1])), "val_idx names the node -1"),
        (change("train_val_test_idx.npz", val_idx=np.array([1, 1])), "names a node twice"),
        (change("train_val_test_idx.npz", val_idx=np.arange(10)), "share the node"),
        (replaced("features_2.npy", np.full((6, 2), np.nan)), "not finite"),
        (replaced("features_1.npz", b"PK"), "no zip archive"),
        (replaced("features_1.npz", sp.csr_matrix(np.full((14, 2), np.inf))), "not finite"),
        (lambda files: files.pop("features_0.npz"), "no member features_0.npz"),
    ],
)
def test_files_that_contradict(tmp_path: Path, spoil: Callable[[Files], None], words: str) -> None:
    """One sentence with the archive's name."""
    entry = spoiled("magnn", tmp_path / "raw", spoil)
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path / "raw", entry)
    assert "d.zip" in str(caught.value)


def test_the_labelled_type_is_one_of_the_types(tmp_path: Path) -> None:
    """A slip in the registry is named, not a key error."""
    entry = PUBLISHED["magnn"].write(tmp_path)
    entry = entry.model_copy(update={"options": {**entry.options, "labelled": "writer"}})
    with pytest.raises(DatasetError, match="'writer' is none of the node types"):
        readers.read(tmp_path, entry)


def test_no_edges(tmp_path: Path) -> None:
    """An empty matrix is a graph without edge types."""

    def empty(files: Files) -> None:
        files["adjM.npz"] = sp.csr_matrix((33, 33))

    assert readers.read(tmp_path / "raw", spoiled("magnn", tmp_path / "raw", empty)).edges == ()


def test_the_store_has_every_type(tmp_path: Path) -> None:
    """The whole way: counts by type are compared, and types without features or labels stay without."""
    from graphprep.datasets.entry import Expected
    from graphprep.store.convert import graph_to_store
    from graphprep.store.store import GraphStore

    raw = readers.read(tmp_path, PUBLISHED["magnn"].write(tmp_path))
    expected = Expected.model_validate(
        {
            "nodes": {"author": 10, "paper": 14, "term": 6, "conference": 3},
            "edges": {table.type.key: table.num_edges for table in raw.edges},
            "features": {"author": 6, "paper": 6, "term": 6},
            "classes": {"author": 3},
            "train": 4,
        }
    )
    target = tmp_path / "d.zarr"
    graph_to_store(raw, target, name="d", key="0" * 64, source={}, expected=expected)
    store = GraphStore(target)
    assert store.num_nodes == expected.nodes
    assert {kind.key: count for kind, count in store.num_edges.items()} == expected.edges
    assert store.node_arrays("conference") == ()
    assert store.attributes["notes"]["protocol"] == "transductive"
