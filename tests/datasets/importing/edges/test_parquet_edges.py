"""Edges in Parquet: columns by name, words, and tables that hold no edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphprep.datasets.importing.edges import parquet_edges
from graphprep.errors import DatasetError, UsageError
from tests.datasets.user_graphs import edges_of, graph, rows_of, written


def table(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_columns_by_name(tmp_path: Path) -> None:
    """Guards against a table whose columns stand in another order."""
    columns = {"time": [7, 6], "weight": [0.5, 2], "dst": [1, 2], "label": ["x", "y"], "src": [0, 1]}
    path = table(tmp_path / "e.parquet", columns)
    assert rows_of(path) == [(0, 1), (1, 2)]
    assert rows_of(path, weights=True, times=True) == [(0, 1, 0.5, 7), (1, 2, 2, 6)]
    assert graph(path).notes["ignored"] == {"e.parquet": ["column 'time'", "column 'weight'", "column 'label'"]}


def test_first_columns_otherwise(tmp_path: Path) -> None:
    """Guards against names that nobody has foreseen."""
    path = table(tmp_path / "e.parquet", {"a": [0, 1], "b": [1, 2], "c": [3.0, 4.0]})
    assert rows_of(path, weights=True) == [(0, 1, 3), (1, 2, 4)]


def test_row_groups_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against rows lost where batches meet."""
    monkeypatch.setattr(parquet_edges, "BATCH_ROWS", 7)
    pairs = np.random.default_rng(0).integers(0, 40, (100, 2)).astype(np.uint32)
    path = table(tmp_path / "e.pq", {"src": pairs[:, 0], "dst": pairs[:, 1]}, row_group_size=23)
    assert rows_of(path) == [tuple(pair) for pair in pairs.tolist()]


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_words(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against words that get other rows in each batch; rows follow the ascending order of the words."""
    monkeypatch.setattr(parquet_edges, "BATCH_ROWS", 2)
    src = pa.array(["zoe", "bob", "zoe", "\u00e4", "bob"])
    dst = pa.array(["bob", "eve", "eve", "zoe", "\u00e4"])
    if kind == "dictionary":
        src, dst = src.dictionary_encode(), dst.dictionary_encode()
    else:
        src, dst = (array.cast(getattr(pa, kind)()) for array in (src, dst))
    raw = graph(table(tmp_path / "e.parquet", {"src": src, "dst": dst}))
    assert raw.nodes["node"].original_id.tolist() == ["bob", "eve", "zoe", "\u00e4"]  # type: ignore[union-attr]
    assert edges_of(raw.edges[0]) == [(2, 0), (0, 1), (2, 1), (3, 2), (0, 3)]
    with pytest.raises(DatasetError, match="holds words, but ids were said to be numbers"):
        graph(tmp_path / "e.parquet", ids="numbers")


def test_times(tmp_path: Path) -> None:
    """Guards against dates that are refused, and against integers that become floats."""
    stamps = pa.array([3, 1], pa.timestamp("ms"))
    path = table(tmp_path / "e.parquet", {"src": [0, 1], "dst": [1, 2], "timestamp": stamps})
    time = graph(path, edge_times=True).edges[0].attributes["time"]
    assert time.dtype == np.int64
    assert time.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"src": [0]}, {}, "its columns are src, among which two columns of ids cannot be told"),
        ({"x": [0.5], "src": [0], "y": [1]}, {}, "cannot be told"),
        ({"src": [0], "dst": [1]}, {"weights": True}, "two columns of ids, weights cannot be told"),
        ({"src": [0.5], "dst": [1]}, {}, "column 'src' is of double, but node ids are integers or words"),
        ({"src": [0], "dst": ["a"]}, {}, "words where others are numbers"),
        ({"src": [0, None], "dst": [1, 2]}, {}, "row 1 has no value in the column 'src'"),
        ({"src": [0, 1], "dst": [1, -2]}, {}, "the node id -2 is negative"),
        ({"src": ["a", ""], "dst": ["b", "c"]}, {}, "empty node id"),
        ({"src": ["a"], "dst": ["b" * 501]}, {}, "more than 500 letters"),
        ({"src": [0], "dst": [1], "weight": ["x"]}, {"weights": True}, "of string, which cannot be weights"),
        ({"src": [0], "dst": [1], "weight": [np.nan]}, {"weights": True}, "edge 0 has the weight nan"),
        ({"src": pa.array([2**64 - 1], pa.uint64()), "dst": [1]}, {}, "beyond 64 bits"),
        ({"src": [0], "dst": [1]}, {"ids": "words"}, "but node ids are words"),
    ],
)
def test_tables_that_hold_no_edges(tmp_path: Path, columns: Any, options: Any, words: str) -> None:
    """Guards against rows that are guessed at."""
    with pytest.raises(DatasetError, match=words) as caught:
        graph(table(tmp_path / "e.parquet", columns), **options)
    assert str(caught.value).startswith(str(tmp_path / "e.parquet")) or "500 letters" in words


def test_words_where_there_are_rows(tmp_path: Path) -> None:
    """Guards against features that are given to nodes in an order that nobody has stated."""
    path = table(tmp_path / "e.parquet", {"src": ["a"], "dst": ["b"]})
    with pytest.raises(DatasetError, match=r"its ids are words, but nodes are rows 0 \.\. 1; name the column"):
        graph(path, num_nodes=2)
    with pytest.raises(UsageError, match="ids are numbers in the format npy"):
        graph(written(tmp_path / "e.npy", ""), ids="words")


def test_no_rows(tmp_path: Path) -> None:
    """Guards against a table without rows that fails where the number of nodes is known."""
    path = table(tmp_path / "e.parquet", {"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())})
    assert edges_of(graph(path, num_nodes=3).edges[0]) == []
    with pytest.raises(DatasetError, match="no nodes"):
        graph(path)
