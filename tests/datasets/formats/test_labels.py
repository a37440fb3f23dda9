"""What an array of labels is taken for, and that it is said where it is a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.datasets.formats.labels import checked_labels
from graphprep.datasets.importing.schema import load_schema
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import graph, written

WHOLE = np.array([[3.0], [12.0], [np.nan], [7.0]], np.float32)


def test_whole_numbers_can_be_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against prices and counts that become classes, or are refused as too many, since they are whole."""
    for y in (WHOLE, WHOLE.astype(np.float64), WHOLE.astype(">f4")):
        found = checked_labels(y, origin="y.npy")
        np.testing.assert_array_equal(found, WHOLE)
        assert found.dtype == y.dtype.newbyteorder("=")
        assert "y.npy: a column of whole numbers as floats is taken for numbers to predict" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["i1", "i8", "u2", ">i4", "f8", "b1", "f2"])
@pytest.mark.parametrize("shape", [(4,), (4, 1), (2, 2)])
def test_regression_takes_any_numbers(dtype: str, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a task that is asked for and overruled by the dtype or the shape."""
    y = np.array([0, 1, 1, 0] if dtype == "b1" else [3, 12, 0, 7]).astype(dtype).reshape(shape)
    found = checked_labels(y, task="regression")
    assert found.dtype.kind == "f"
    assert found.shape == (shape[0], shape[1] if len(shape) == 2 else 1)
    np.testing.assert_array_equal(found.ravel(), y.ravel())
    assert not capsys.readouterr().err


def test_whole_numbers_beyond_float32_are_kept() -> None:
    """Guards against targets that are rounded as they are read."""
    assert checked_labels(np.array([2**24 + 1, 0]), task="regression").tolist() == [[2**24 + 1], [0]]


def test_classification_takes_whole_floats() -> None:
    """Guards against a task that is asked for and overruled by the shape, and fractions that are cut off."""
    y = np.array([[2.0], [np.nan], [0.0], [-1.0]])
    assert checked_labels(y, task="classification").tolist() == [2, -1, 0, -1]
    with pytest.raises(DatasetError, match=r"row 0 is 0\.5, not the number of a class; if .* --task regression"):
        checked_labels(np.array([[0.5], [1.0]]), task="classification")
    with pytest.raises(DatasetError, match=r"not 0 or 1 .*--task regression"):
        checked_labels(np.array([[0.5, 1], [1, 2]]), task="classification")


def test_what_a_column_of_floats_is_taken_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a guess that is not said: pandas makes floats of classes, and 0 and 1 are classes to everybody."""
    assert checked_labels(np.array([[1.0], [0.0], [-1.0], [np.nan]]), origin="a").tolist() == [1, 0, -1, -1]
    assert "a: a column of whole numbers as floats is taken for classes; --task regression" in capsys.readouterr().err
    assert checked_labels(np.array([[2.0], [0.0], [np.nan]]), origin="b", is_table=True).tolist() == [2, 0, -1]
    assert "b: a column of whole numbers as floats is taken for classes" in capsys.readouterr().err
    assert checked_labels(np.array([[0.5], [2.0]])).shape == (2, 1)
    assert checked_labels(np.array([[2], [0], [1]])).tolist() == [2, 0, 1]
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "y",
    [
        np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
        np.array([1, 2], "m8[s]"),
        np.array([1j, 0]),
        np.array([(1, 2.0), (3, 4.0)], [("a", int), ("b", float)]),
        np.array(["a", "b"]),
        np.array([b"a", b"b"]),
        np.zeros((2, 2, 2)),
        np.array([[np.inf], [0]]),
    ],
)
def test_what_is_no_label(y: Any) -> None:
    """Guards against an internal error for an array of dates, words, records or complex numbers."""
    for task in ("auto", "classification", "regression"):
        with pytest.raises(DatasetError):
            checked_labels(y, task=task)  # type: ignore[arg-type]


def test_the_task_reaches_every_way_of_importing(tmp_path: Path) -> None:
    """Guards against an option that does nothing for arrays that come with the edges, or in a schema."""
    ids = np.arange(4)
    np.savez(tmp_path / "g.npz", src=ids, dst=ids[::-1], y=np.array([3, 1, 0, 2]))
    y = graph(tmp_path / "g.npz", task="regression").nodes["node"].y
    assert y is not None
    assert y.shape == (4, 1)
    np.save(tmp_path / "y.npy", WHOLE)
    text = (
        "nodes: {n: {labels: y.npy, task: classification}}\n"
        "edges: [{source: n, relation: r, destination: n, files: [e]}]"
    )
    schema = load_schema(written(tmp_path / "s.yaml", text))
    assert schema.nodes["n"].task == "classification"
    one, other = (schema.to_json(), load_schema(written(tmp_path / "s.yaml", text.replace("classification", "auto"))))
    assert one != other.to_json()
