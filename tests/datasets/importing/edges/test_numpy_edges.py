"""Edges in .npy and .npz: both orientations, sparse matrices of SciPy's, and arrays that are none of it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from graphprep.datasets.importing.edges import edge_arrays
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import edges_of, graph, rows_of, written

PAIRS = np.array([[0, 1], [2, 3], [3, 0]])


def saved(path: Path, array: Any = None, **arrays: Any) -> Path:
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("dtype", ["i4", "u2", "i8", ">i4", "u8"])
def test_both_orientations(tmp_path: Path, dtype: str) -> None:
    """Guards against a graph that is read sideways, and against bytes of another machine's order."""
    for array in (PAIRS, PAIRS.T, np.asfortranarray(PAIRS)):
        assert rows_of(saved(tmp_path / "e.npy", array.astype(dtype))) == [(0, 1), (2, 3), (3, 0)]


def test_chunks_of_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against edges lost where chunks meet."""
    monkeypatch.setattr(edge_arrays, "CHUNK_EDGES", 7)
    pairs = np.random.default_rng(0).integers(0, 50, (100, 2))
    assert rows_of(saved(tmp_path / "e.npy", pairs)) == [tuple(pair) for pair in pairs.tolist()]


def test_gaps_are_closed(tmp_path: Path) -> None:
    """Guards against a map that is streamed with its own ids after they were numbered anew."""
    raw = graph(saved(tmp_path / "e.npy", PAIRS * 10 + 5))
    assert edges_of(raw.edges[0]) == [(0, 1), (2, 3), (3, 0)]
    assert raw.nodes["node"].original_id.tolist() == [5, 15, 25, 35]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 2), np.int64), "may be read either way"),
        (np.zeros((5, 3), np.int64), r"shape \(5, 3\)"),
        (np.zeros((5, 2)), "dtype float64"),
        (np.array([["a", "b"], ["c", "d"], ["e", "f"]]), "dtype <U1"),
        (np.zeros(6, np.int64), r"shape \(6,\)"),
        (np.zeros((2, 3, 2), np.int64), "shape"),
        (np.array([[0, -1], [1, 2], [2, 3]]), "the node id -1 is negative"),
        (np.array([[0, 2**64 - 1], [1, 2], [2, 3]], np.uint64), "edge 0 has the node id 18446744073709551615"),
        (np.array([[None, 1]] * 3, dtype=object), "Python objects"),
    ],
)
def test_arrays_that_are_no_edges(tmp_path: Path, array: Any, words: str) -> None:
    """Guards against any table of numbers being taken for edges."""
    with pytest.raises(DatasetError, match=words) as caught:
        graph(saved(tmp_path / "e.npy", array))
    assert str(caught.value).startswith(str(tmp_path / "e.npy"))


def test_ids_beyond_the_nodes(tmp_path: Path) -> None:
    """Guards against an id without a row of features."""
    with pytest.raises(DatasetError, match="the node id 3 does not fit 3 nodes"):
        graph(saved(tmp_path / "e.npy", PAIRS), num_nodes=3)


def test_archives(tmp_path: Path) -> None:
    """Guards against arrays of an archive that are mistaken for each other."""
    path = saved(tmp_path / "e.npz", edge_index=PAIRS.T, weight=np.array([1.0, 2, 3]), time=[5, 4, 5], other=[1])
    assert rows_of(path) == [(0, 1), (2, 3), (3, 0)]
    assert rows_of(path, weights=True, times=True) == [(0, 1, 1, 5), (2, 3, 2, 4), (3, 0, 3, 5)]
    raw = graph(path, weights=True)
    assert raw.notes["ignored"] == {"e.npz": ["other", "time"]}
    path = saved(tmp_path / "f.npz", src=PAIRS[:, 0], dst=PAIRS[:, 1], num_nodes=9)
    assert graph(path).nodes["node"].num_nodes == 9


def test_arrays_of_nodes(tmp_path: Path) -> None:
    """Guards against features and masks of the archive that are dropped without a word."""
    path = saved(
        tmp_path / "e.npz",
        edge_index=PAIRS.T,
        x=np.ones((4, 2), np.float16),
        y=[0, 1, 0, -1],
        train_mask=np.array([[True, False], [False, True], [False, False], [False, False]]),
    )
    nodes = graph(path).nodes["node"]
    assert nodes.x.dtype == np.float16  # type: ignore[union-attr]
    assert nodes.y.tolist() == [0, 1, 0, -1]  # type: ignore[union-attr]
    assert nodes.train_mask.shape == (4, 2)  # type: ignore[union-attr]
    np.save(tmp_path / "x.npy", np.zeros((4, 1)))
    with pytest.raises(DatasetError, match="has x, which another file gives too"):
        graph(path, features=tmp_path / "x.npy")


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_sparse_matrices(tmp_path: Path, layout: str) -> None:
    """Guards against a transposed matrix, and against weights in another order than the edges."""
    dense = np.array([[0, 2, 0, 0], [0, 0, 0, 3], [4, 0, 5, 0], [0, 0, 0, 0]])
    sp.save_npz(tmp_path / "m.npz", sp.coo_matrix(dense).asformat(layout))
    edges = rows_of(tmp_path / "m.npz", weights=True)
    assert sorted(edges) == [(0, 1, 2), (1, 3, 3), (2, 0, 4), (2, 2, 5)]
    assert graph(tmp_path / "m.npz").nodes["node"].num_nodes == 4


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": [1]}, "neither edge_index, nor src and dst"),
        ({"src": [0, 1], "dst": [1]}, "2 sources but 1 destinations"),
        ({"src": [0.0], "dst": [1]}, "dtype float64"),
        ({"src": [0], "dst": [1], "num_nodes": 0}, "num_nodes is 0"),
        ({"src": [0], "dst": [1], "num_nodes": 1}, "the node id 1 does not fit 1 nodes"),
        ({"src": [0], "dst": [1], "num_nodes": 2, "x": np.zeros((3, 1))}, "must agree"),
        ({"src": [0], "dst": [1], "x": [[np.nan], [0]]}, "array 'x': row 0"),
        ({"src": [0], "dst": [1], "y": [0, 5]}, "array 'y': row 1 has the class 5"),
        ({"src": [0], "dst": [1], "y": [0, 1], "train_mask": [True]}, "array 'train_mask'"),
        ({"shape": [3, 3], "format": "csr", "indptr": [0, 1, 1, 1], "indices": [3], "data": [1]}, "index 3"),
        ({"shape": [3, 3], "format": "csr", "indptr": [0, 1], "indices": [1], "data": [1]}, "row pointers"),
        ({"shape": [3, 3], "format": "csr", "indptr": [0, 2, 1, 1], "indices": [1], "data": [1]}, "row pointers"),
        ({"shape": [3, 3], "format": "dia", "indptr": [0], "indices": [1], "data": [1]}, "format 'dia'"),
        ({"shape": [2, 3], "format": "coo", "row": [0], "col": [1], "data": [1]}, "2 x 3"),
    ],
)
def test_broken_archives(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    """Guards against arrays that do not fit together, which kernels would trust."""
    with pytest.raises(DatasetError, match=words) as caught:
        graph(saved(tmp_path / "e.npz", **{name: np.asarray(array) for name, array in arrays.items()}))
    assert str(caught.value).startswith(str(tmp_path / "e.npz"))


def test_values_that_are_no_weights(tmp_path: Path) -> None:
    """Guards against one infinite weight, which makes every loss NaN."""
    for values, words in (
        ([1, np.inf, 1], "edge 1 has the weight inf"),
        ([1, 1e300, 1], "edge 1"),
        ([1, 2], "3 sources"),
    ):
        path = saved(tmp_path / "e.npz", edge_index=PAIRS.T, weight=np.array(values), time=np.array([1.0, 2, np.nan]))
        with pytest.raises(DatasetError, match=words):
            graph(path, weights=True)
    with pytest.raises(DatasetError, match="edge 2 has the time nan"):
        graph(path, edge_times=True)
    with pytest.raises(DatasetError, match="has none of the arrays edge_weight, weight"):
        graph(saved(tmp_path / "f.npz", edge_index=PAIRS.T), weights=True)


class Evil:
    def __reduce__(self) -> Any:
        return (open, ("evil-was-here", "w"))


def test_pickles_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against code in a file of data: an array of objects is a pickle, and so is a .npy that is none."""
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "a.npy", np.array([[Evil(), 1], [2, 3], [4, 5]], dtype=object))
    saved(tmp_path / "a.npz", edge_index=np.array([Evil()], dtype=object))
    written(tmp_path / "b.npy", pickle.dumps(Evil()))
    written(tmp_path / "b.npz", pickle.dumps(Evil()))
    for name in ("a.npy", "a.npz", "b.npy", "b.npz"):
        with pytest.raises(DatasetError, match=name):
            graph(tmp_path / name)
    assert not (tmp_path / "evil-was-here").exists()
