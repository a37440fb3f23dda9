"""A user's own files together: times, words, ids in tables, the order of streams, memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.importing import spool, user_graph
from graphprep.errors import DatasetError, UsageError
from tests.datasets.user_graphs import edges_of, graph, rows_of, written


def test_times_of_real_messages(test_data: Path) -> None:
    """Guards against rows that are sorted or lost; 924 of the 59,835 messages share their second with another."""
    raw = graph(test_data / "edges" / "CollegeMsg.txt", edge_times=True)
    time = raw.edges[0].attributes["time"]
    table = np.loadtxt(test_data / "edges" / "CollegeMsg.txt", dtype=np.int64)
    assert time.dtype == np.int64
    assert np.array_equal(time, table[:, 2])
    assert len(time) - len(np.unique(time)) == 924
    original = raw.nodes["node"].original_id
    assert original is not None
    assert np.array_equal(original[np.array(edges_of(raw.edges[0]))], table[:, :2])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("e.txt", "0 1 5\n1 2 5\n", [5, 5]),
        ("e.txt", "0 1 5\n1 2 5.5\n", [5, 5.5]),
        ("e.txt", "0 1 -5\n1 2 1e3\n", [-5, 1000]),
        ("e.csv", "time,dst,src\n5,1,0\n4,2,1\n", [5, 4]),
        ("e.csv", "src,dst,weight,timestamp\n0,1,7,5\n1,2,7,4\n", [5, 4]),
        ("e.csv", "a,b,c\n0,1,9\n1,2,8\n", [9, 8]),
    ],
)
def test_times_in_text(tmp_path: Path, name: str, text: str, expected: list[float]) -> None:
    """Guards against a column that is taken for another, and against times that lose their fraction."""
    raw = graph(written(tmp_path / name, text), edge_times=True)
    time = raw.edges[0].attributes["time"]
    assert time.tolist() == expected
    assert (
        time.dtype == (np.int64 if all(isinstance(value, int) for value in expected) else np.float64) or "1e3" in text
    )
    assert edges_of(raw.edges[0]) == [(0, 1), (1, 2)]


def test_weights_and_times(tmp_path: Path) -> None:
    """Guards against a fourth column that is refused, or swapped with the third."""
    path = written(tmp_path / "e.txt", "0 1 0.5 9\n1 2 0.25 8\n")
    assert rows_of(path, weights=True, times=True) == [(0, 1, 0.5, 9), (1, 2, 0.25, 8)]
    for options in ({}, {"weights": True}, {"edge_times": True}):
        with pytest.raises(DatasetError, match="line 1: 4 columns, but an edge list has"):
            graph(path, **options)
    with pytest.raises(
        DatasetError, match="line 1: there is no third and fourth column to take weights and times from"
    ):
        graph(written(tmp_path / "f.txt", "0 1 0.5\n"), weights=True, edge_times=True)


@pytest.mark.parametrize("time", ["x", "nan", "inf", "2004-05-06", ""])
def test_bad_times(tmp_path: Path, time: str) -> None:
    """Guards against a date of which only the year is read."""
    with pytest.raises(DatasetError, match=r"line 2: .* is no finite time; give a number"):
        graph(written(tmp_path / "e.csv", f"0,1,1\n1,2,{time}\n"), edge_times=True)


def test_words(tmp_path: Path) -> None:
    """Guards against words that are accepted unasked, and against an order that depends on the file's."""
    path = written(tmp_path / "e.txt", "# people\nzoe bob\n\u00e4 zoe\n10 9\n")
    with pytest.raises(DatasetError, match=r"line 2: 'zoe' is no node id .*--ids words"):
        graph(path)
    raw = graph(path, ids="words")
    assert raw.nodes["node"].original_id.tolist() == ["10", "9", "bob", "zoe", "\u00e4"]  # type: ignore[union-attr]
    assert edges_of(raw.edges[0]) == [(3, 2), (4, 3), (0, 1)]


def test_words_in_tables(tmp_path: Path) -> None:
    """Guards against quotes that become part of a word, and a heading that becomes an edge."""
    path = written(tmp_path / "e.csv", 'from,to,weight\n"Doe, J.", ann ,2\nann,"Doe, J.",3\n')
    raw = graph(path, ids="words", weights=True)
    assert raw.nodes["node"].original_id.tolist() == ["Doe, J.", "ann"]  # type: ignore[union-attr]
    assert edges_of(raw.edges[0]) == [(0, 1, 2), (1, 0, 3)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a b\nc\n", "line 2: 1 columns"),
        (b"a b\nc \xff\n", "line 2: .* is no UTF-8"),
        (b"a b\nc d\0\n", "line 2: there is a NUL byte"),
        (b"a,b\nc,\n", "line 2: a field is empty"),
        (b"a b\nc " + b"d" * 501 + b"\n", "more than 500 letters"),
    ],
)
def test_bad_words(tmp_path: Path, data: bytes, words: str) -> None:
    """Guards against damage that passes for a name."""
    with pytest.raises(DatasetError, match=words):
        graph(written(tmp_path / "e.txt", data), ids="words")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.lists(
        st.tuples(*[st.text("abz\u00e4\U0001f600019", min_size=1, max_size=3)] * 2), min_size=1, max_size=30
    ),
    kept=st.sampled_from([0, 40, 10**6]),
)
def test_any_words_survive(tmp_path: Path, pairs: list[tuple[str, str]], kept: int) -> None:
    """Guards against two words on one row, kept in memory or on the disk."""
    path = written(tmp_path / "e.txt", "".join(f"{one} {other}\n" for one, other in pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_graph, "KEPT_BYTES", kept)
        raw = graph(path, ids="words")
        original: Any = raw.nodes["node"].original_id
        assert original.tolist() == sorted({word for pair in pairs for word in pair})
        assert [(original[one], original[other]) for one, other in edges_of(raw.edges[0])] == pairs


def test_edges_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graphprep_home: Path) -> None:
    """Guards against edges that change on their way over the disk, and against files that are left there."""
    rng = np.random.default_rng(1)
    rows = [
        (*pair, weight, time)
        for pair, weight, time in zip(
            rng.integers(0, 10**12, (5000, 2)).tolist(),
            rng.random(5000).astype(np.float32).tolist(),
            range(5000),
            strict=True,
        )
    ]
    path = written(tmp_path / "e.txt", "".join(f"{a} {b} {w!r} {t}\n" for a, b, w, t in rows))
    expected = graph(path, weights=True, edge_times=True)
    monkeypatch.setattr(user_graph, "KEPT_BYTES", 50)
    monkeypatch.setattr(spool, "INT32_LIMIT", 10**11)
    raw = graph(path, weights=True, edge_times=True)
    assert edges_of(raw.edges[0]) == edges_of(expected.edges[0])
    assert raw.edges[0].attributes["time"].tolist() == list(range(5000))
    assert list(graphprep_home.iterdir()) == []


def test_the_text_is_parsed_once(tmp_path: Path) -> None:
    """Guards against a second parse of a large file: once it is read, it is not needed any more."""
    path = written(tmp_path / "e.txt", "0 1\n1 2\n")
    raw = graph(path)
    path.unlink()
    assert edges_of(raw.edges[0]) == [(0, 1), (1, 2)]


def test_formats_can_be_mixed(tmp_path: Path) -> None:
    """Guards against pieces of a graph that are numbered apart."""
    np.save(tmp_path / "a.npy", np.array([[10, 20], [20, 30], [30, 10]]))
    pq.write_table(pa.table({"src": [5], "dst": [10]}), tmp_path / "b.parquet")
    raw = graph(tmp_path / "a.npy", tmp_path / "b.parquet", written(tmp_path / "c.txt", "20 5\n"))
    assert raw.nodes["node"].original_id.tolist() == [5, 10, 20, 30]  # type: ignore[union-attr]
    assert edges_of(raw.edges[0]) == [(1, 2), (2, 3), (3, 1), (0, 1), (2, 0)]
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "d.parquet")
    with pytest.raises(DatasetError, match="words where others are numbers"):
        graph(tmp_path / "a.npy", tmp_path / "d.parquet")


def test_ids_in_tables(tmp_path: Path) -> None:
    """Guards against features that are given to other nodes: rows are found by id, and labels in another order too."""
    edges = written(tmp_path / "e.txt", "30 10\n20 30\n")
    features = written(tmp_path / "x.csv", "f,id,g\n1,20,2\n3,30,4\n5,10,6\n7,99,8\n")
    pq.write_table(pa.table({"id": [99, 10, 20, 30], "label": [3, 0, 1, 2]}), tmp_path / "y.parquet")
    train = written(tmp_path / "train.csv", "id\n30\n99\n")
    np.save(tmp_path / "test.npy", [20, 10])
    raw = graph(
        edges, features=features, labels=tmp_path / "y.parquet", id_column="id", train=train, test=tmp_path / "test.npy"
    )
    nodes: Any = raw.nodes["node"]
    assert nodes.original_id.tolist() == [20, 30, 10, 99]
    assert nodes.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert nodes.y.tolist() == [1, 2, 0, 3]
    assert nodes.train_mask.tolist() == [[False], [True], [False], [True]]
    assert nodes.test_mask.tolist() == [[True], [False], [True], [False]]
    assert edges_of(raw.edges[0]) == [(1, 2), (0, 1)]


def test_words_in_tables_of_nodes(tmp_path: Path) -> None:
    """Guards against words that are matched to rows by their order."""
    edges = written(tmp_path / "e.txt", "zoe ann\n")
    labels = written(tmp_path / "y.csv", "name,class\nzoe,1\nbob,0\nann,0\n")
    raw = graph(edges, labels=labels, id_column="name", ids="words")
    assert raw.nodes["node"].original_id.tolist() == ["zoe", "bob", "ann"]  # type: ignore[union-attr]
    assert edges_of(raw.edges[0]) == [(0, 2)]


@pytest.mark.parametrize(
    ("edges", "features", "labels", "words"),
    [
        ("1 4\n", "id,x\n1,0\n2,0\n", None, r"e\.txt cannot be used: the node 4 has no row in .*x\.csv"),
        ("1 2\n", "id,x\n1,0\n2,0\n", "id,y\n1,0\n", r"y\.csv cannot be used: it has no row for the node 2"),
        ("1 2\n", "id,x\n1,0\n2,0\n", "id,y\n1,0\n2,0\n3,1\n", r"y\.csv cannot be used: the node 3 has no row in"),
        ("1 2\n", "id,x\n1,0\n1,0\n", None, r"x\.csv cannot be used: row 1 has the id 1 of row 0 again"),
        ("1 2\n", "id,x\n1,0\n-2,0\n", None, "row 1 has the id -2"),
        ("1 2\n", "id,x\n1,0\n2.5,0\n", None, "row 1 of column 'id' has the number '2.5', but node ids are integers"),
        ("1 2\n", "id,x\na,0\nb,0\n", None, "its ids are numbers, but those of .*x.csv are words"),
        ("1 2\n", "id,x\n1,0\n2,inf\n", None, "row 1 holds a value that is not finite"),
        ("1 2\n", "id,x\n1,0\n2,ten\n", None, "column 'x' is not of numbers: row 1 has 'ten'"),
        ("1 2\n", "key,x\n1,0\n2,0\n", None, "no column 'id' of ids; there are key, x"),
    ],
)
def test_tables_that_do_not_match(tmp_path: Path, edges: str, features: str, labels: str | None, words: str) -> None:
    """Guards against nodes without features and features without nodes: unknown and missing ids are named."""
    options: dict[str, Any] = {"features": written(tmp_path / "x.csv", features), "id_column": "id"}
    if labels:
        options["labels"] = written(tmp_path / "y.csv", labels)
    with pytest.raises(DatasetError, match=words):
        graph(written(tmp_path / "e.txt", edges), **options)


def test_an_id_column_of_nothing(tmp_path: Path) -> None:
    """Guards against an option that is silently without effect."""
    edges = written(tmp_path / "e.txt", "0 1\n")
    with pytest.raises(UsageError, match="needs a table"):
        graph(edges, id_column="id")
    np.save(tmp_path / "x.npy", np.zeros((2, 1)))
    with pytest.raises(UsageError, match="needs a table"):
        graph(edges, features=tmp_path / "x.npy", id_column="id")


def test_splits_of_every_kind(tmp_path: Path) -> None:
    """Guards against N x S masks that are flattened, and against lists of nodes in text."""
    edges = written(tmp_path / "e.txt", "0 1\n2 3\n")
    labels = written(tmp_path / "y.txt", "0\n1\n0\n1\n")
    table = np.array([[1, 0], [0, 1], [0, 0], [0, 0]])
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "b.npz", m=table[::-1].astype(bool))
    nodes: Any = graph(edges, labels=labels, train=tmp_path / "a.npy", test=tmp_path / "b.npz").nodes["node"]
    assert nodes.train_mask.tolist() == table.astype(bool).tolist()
    assert nodes.test_mask.tolist() == table[::-1].astype(bool).tolist()
    pq.write_table(pa.table({"n": [3]}), tmp_path / "c.parquet")
    nodes = graph(
        edges, labels=labels, train=written(tmp_path / "d.csv", "node\n0\n2\n"), val=tmp_path / "c.parquet"
    ).nodes["node"]
    assert nodes.train_mask.tolist() == [[True], [False], [True], [False]]
    assert nodes.val_mask.tolist() == [[False], [False], [False], [True]]
    with pytest.raises(DatasetError, match=r"z\.txt cannot be used: line 2 is 'x', not the number of a node"):
        graph(edges, labels=labels, train=written(tmp_path / "z.txt", "0\nx\n"))


@pytest.mark.slow
def test_large_features_are_not_loaded(tmp_path: Path) -> None:
    """Guards against 200 MB of features in memory: the import runs with room for a fraction of them."""
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float16, (1_600_000, 64))
    del x
    written(tmp_path / "e.txt", "0 1\n")
    script = f"""
import resource
from pathlib import Path
import numpy, pyarrow
from graphprep.datasets.importing.ids import DistinctIds
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.user_files import read_files
DistinctIds().add(numpy.zeros(1, numpy.int64))  # loads the compiler
lines = Path("/proc/self/status").read_text().splitlines()
held = next(int(line.split()[1]) for line in lines if line.startswith("VmData"))
limit = held * 1024 + 110_000_000
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
folder = Path({str(tmp_path)!r})
raw = read_files(ImportRequest.of_one_type((folder / "e.txt",), features=folder / "x.npy"))
assert raw.nodes["node"].x.shape == (1_600_000, 64)
assert raw.nodes["node"].x.dtype == "float16"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
