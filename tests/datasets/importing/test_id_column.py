"""Nodes that a table lists by ids: what rows without ids mean, and who is in a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphprep.core.types import NodeTable
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import graph, written

FEATURES = "id,a\n30,0.3\n10,0.1\n20,0.2\n"
LABELS = "id,class\n30,0\n10,1\n20,0\n"
SORTED_LABELS = "id,class\n10,1\n20,0\n30,0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "e.txt", "10 20\n20 30\n")
    written(tmp_path / "x.csv", FEATURES)
    written(tmp_path / "y.csv", LABELS)
    written(tmp_path / "sorted.csv", SORTED_LABELS)
    return tmp_path


def nodes(folder: Path, *, labels: str = "y.csv", **files: Any) -> NodeTable:
    paths = {part: value if part == "id_column" else folder / value for part, value in files.items()}
    return graph(folder / "e.txt", **{"id_column": "id", "labels": folder / labels, **paths}).nodes["node"]


def in_train(found: NodeTable) -> list[int]:
    """The ids of the training nodes."""
    assert found.train_mask is not None
    assert found.original_id is not None
    return sorted(found.original_id[found.train_mask[:, 0]].tolist())


def test_rows_without_ids_have_the_order_of_the_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against an order that is not said: the mask's first row is the table's first node, which is 30."""
    np.save(folder / "m.npy", np.array([True, False, False]))
    np.save(folder / "t.npy", np.array([3, 1, 2]))
    found = nodes(folder, features="x.csv", train="m.npy", node_times="t.npy")
    assert in_train(found) == [30]
    assert found.more["time"].tolist() == [3, 1, 2]
    said = capsys.readouterr().err
    for name in ("m.npy", "t.npy"):
        assert f"{folder / name}: it has no ids, so its rows are taken in the order of {folder / 'x.csv'}" in said


@pytest.mark.parametrize("role", ["node_times", "train"])
def test_rows_without_ids_beside_tables_of_two_orders(folder: Path, role: str) -> None:
    """Guards against masks that are permuted without a word, since one of the tables has another order."""
    np.save(folder / "m.npy", np.array([True, False, False]) if role == "train" else np.arange(3))
    with pytest.raises(
        DatasetError, match=r"m\.npy has rows without ids, and .*x\.csv and .*sorted\.csv .* two orders"
    ):
        nodes(folder, features="x.csv", labels="sorted.csv", **{role: "m.npy"})
    found = nodes(folder, features="x.csv", labels="sorted.csv")
    assert found.y is not None
    assert found.y.tolist() == [0, 1, 0]


def test_lists_name_nodes_by_their_ids(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against ids in a list that are taken for row numbers of a table, and so for other nodes."""
    np.save(folder / "l.npy", np.array([10, 30]))
    written(folder / "l.txt", "10\n30\n")
    for name in ("l.npy", "l.txt"):
        assert in_train(nodes(folder, train=name)) == [10, 30]
        assert f"{folder / name}: its numbers are taken for ids of the column 'id'" in capsys.readouterr().err
    np.save(folder / "l.npy", np.array([10, 11]))
    with pytest.raises(DatasetError, match=r"l\.npy cannot be used: the node 11 has no row in .*y\.csv"):
        nodes(folder, train="l.npy")
    np.save(folder / "l.npy", np.array([10, 10]))
    with pytest.raises(DatasetError, match="names a node twice"):
        nodes(folder, train="l.npy")


def test_numbers_cannot_name_words(tmp_path: Path) -> None:
    """Guards against row numbers of nobody knows which order where ids are words."""
    written(tmp_path / "e.txt", "ann bob\n")
    written(tmp_path / "y.csv", "id,class\nbob,1\nann,0\n")
    np.save(tmp_path / "l.npy", np.array([1]))
    options = {"ids": "words", "id_column": "id", "labels": tmp_path / "y.csv", "train": tmp_path / "l.npy"}
    with pytest.raises(DatasetError, match=r"lists nodes by numbers, but their ids in .* are words"):
        graph(tmp_path / "e.txt", **options)


def test_tables_say_who_is_in_a_split(folder: Path) -> None:
    """Guards against a table whose 0 and 1 are not heeded, so that every node that it lists trains."""
    written(folder / "t.csv", "id,train\n10,0\n20,1\n30,0\n")
    assert in_train(nodes(folder, train="t.csv")) == [20]
    written(folder / "t.csv", "id,train\n10,false\n20,true\n")
    assert in_train(nodes(folder, train="t.csv")) == [20]
    written(folder / "t.csv", "id\n10\n30\n")
    assert in_train(nodes(folder, train="t.csv")) == [10, 30]
    pq.write_table(pa.table({"id": [20, 10], "first": [1, 0], "second": [True, True]}), folder / "t.parquet")
    found = nodes(folder, train="t.parquet")
    assert found.train_mask is not None
    assert found.train_mask.tolist() == [[False, False], [False, True], [True, True]]
    written(folder / "t.csv", "id,train\n10,0\n20,0.5\n")
    with pytest.raises(DatasetError, match=r"t\.csv cannot be used: the node 20 has the value 0\.5 beside its id"):
        nodes(folder, train="t.csv")


def test_arrays_that_come_with_edges(folder: Path) -> None:
    """Guards against rows of an .npz, which have no ids, that are taken for those of a table."""
    np.savez(folder / "e.npz", src=np.array([10, 20]), dst=np.array([20, 30]), x=np.zeros((3, 1)))
    with pytest.raises(DatasetError, match=r"e\.npz has arrays of nodes \(x\) without ids, and .*y\.csv lists"):
        graph(folder / "e.npz", id_column="id", labels=folder / "y.csv")
