"""Every dtype that NumPy can write, wherever an import takes an array: it is read, or refused by one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import cli
from graphprep.core.types import HOMOGENEOUS_EDGE, EdgeChunk, EdgeTable, NodeTable, RawGraph
from graphprep.core.validate import check_dtypes
from graphprep.errors import DatasetError
from graphprep.store.store import GraphStore
from graphprep.system import home

NUMBERS = ["i1", "<i2", ">i4", "<u8", "?", "<f2", ">f8", "longdouble", ">f4"]
OTHERS = ["complex64", "M8[D]", "m8[s]", "S3", "U3", "V4", [("a", "i4"), ("b", "f8")], "object"]


def array(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """0 and 1 in this dtype."""
    kind = np.dtype(dtype)
    values = np.arange(int(np.prod(shape))).reshape(shape) % 2
    return np.zeros(shape, kind) if kind.kind in "VMm" or kind.names else values.astype(kind)


def imported(tmp_path: Path, *words: str) -> tuple[int, str]:
    (tmp_path / "e.txt").write_text("0 1\n1 2\n2 3\n3 0\n")
    arguments = ["import", str(tmp_path / "e.txt"), "--name", "mine", "--replace", *words]
    done = CliRunner().invoke(cli.main, arguments)
    return done.exit_code, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("role", ["--features", "--labels", "--node-times", "--train"])
@pytest.mark.parametrize("shape", [(4,), (4, 2), ()])
def test_every_dtype_and_shape(tmp_path: Path, role: str, shape: tuple[int, ...]) -> None:
    """Guards against an internal error for long doubles, dates, complex numbers, words, records and Python objects."""
    np.save(tmp_path / "y.npy", np.array([0, 1, 0, 1]))
    labels = ["--labels", str(tmp_path / "y.npy")] if role == "--train" else []
    for dtype in (*NUMBERS, *OTHERS):
        np.save(tmp_path / "a.npy", array(dtype, shape), allow_pickle=True)
        status, said = imported(tmp_path, role, str(tmp_path / "a.npy"), *labels)
        assert status in (0, 3), (dtype, said)
        assert "internal error" not in said
        if dtype in OTHERS:
            assert status == 3, dtype
            assert "a.npy" in said


def test_long_doubles_are_rounded_and_it_is_said(tmp_path: Path) -> None:
    """Guards against an internal error for float128, and against rounding without a word."""
    x = np.array([[0.1], [0.2], [0.3], [1 / np.longdouble(3)]], np.longdouble)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x)
    status, said = imported(tmp_path, "--features", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy"))
    assert status == 0
    assert said.count("is rounded to float64") == 2
    table = GraphStore(home.store_path("mine")).node_table("node")
    for found in (table.x, table.y):
        assert found is not None
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, x.astype(np.float64))


def test_readers_cannot_give_what_a_store_cannot_hold() -> None:
    """Guards against a reader of a registry's dataset that lets such an array through."""

    def graph(**arrays: Any) -> RawGraph:
        nodes = {"node": NodeTable(num_nodes=2, **arrays.get("nodes", {}))}
        chunk = EdgeChunk(np.array([0]), np.array([1]))
        table = EdgeTable(type=HOMOGENEOUS_EDGE, chunks=lambda: iter([chunk]), attributes=arrays.get("edges", {}))
        return RawGraph(nodes=nodes, edges=(table,))

    check_dtypes(graph(nodes={"x": np.zeros((2, 1), np.float16)}, edges={"time": np.zeros(1)}))
    with pytest.raises(DatasetError, match="nodes node: x is of"):
        check_dtypes(graph(nodes={"x": np.zeros((2, 1), np.longdouble)}))
    with pytest.raises(DatasetError, match="edges node__to__node: time is of datetime64"):
        check_dtypes(graph(edges={"time": np.zeros(1, "M8[s]")}))
