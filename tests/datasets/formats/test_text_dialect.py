"""How a text table is written: each rule of `text_dialect` with the smallest file that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphprep.datasets.formats import text_file
from graphprep.datasets.formats.text_dialect import SAMPLE_BYTES, given_delimiter, look
from graphprep.datasets.importing.edges.edge_columns import RequestedColumns
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import open_edges
from graphprep.datasets.importing.tables import load_features, load_labels, load_mask
from graphprep.errors import DatasetError, UsageError
from tests.datasets.user_graphs import Edges, edges_of, graph, rows_of, written


def read(path: Path, **wanted: Any) -> Edges:
    """The edges from front to back; quotes cannot be read by sections."""
    found: Edges = []
    for run in open_edges(path, "auto", EdgeOptions(**wanted)).rows():
        columns = [array.tolist() for array in run if isinstance(array, np.ndarray)]
        found += zip(*columns, strict=True)
    return found


@pytest.mark.parametrize(
    ("name", "text", "edges"),
    [
        ("e.tsv", "source\ttarget\nNew York\tBoston\n", [("New York", "Boston")]),
        ("e.txt", "Smith, J.\tDoe, J.\nDoe, J.\tRoe, M.\n", [("Smith, J.", "Doe, J."), ("Doe, J.", "Roe, M.")]),
        ("e.txt", "(0, 1) (1, 2)\n(1, 2)  (2, 3)\n", [("(0, 1)", "(1, 2)"), ("(1, 2)", "(2, 3)")]),
        ("e.txt", "(0, 1),(1, 2)\n(1, 2),x\n", [("(0, 1)", "(1, 2)"), ("(1, 2)", "x")]),
        ("e.txt", "a b {'weight': 3}\nb c {}\n", [("a", "b"), ("b", "c")]),
        ("e.txt", '"a b" "c"\n"d ""e""" "c"\n', [("a b", "c"), ('d "e"', "c")]),
        ("e.csv", '"a,1";"b"\n"a,1";"c"\n', [("a,1", "b"), ("a,1", "c")]),
        ("e.csv", '"src","dst"\n"Smith\nJohn","Doe"\n"Doe","Roe"\n', [("Smith\nJohn", "Doe"), ("Doe", "Roe")]),
        ("e.txt", "a #b\n#b c\n%d a\n", [("a", "#b"), ("#b", "c"), ("%d", "a")]),
        ("e.csv", "# made by x\nsrc,dst\nx,#1\n#1,#2\n", [("x", "#1"), ("#1", "#2")]),
        ("e.csv", "user,item\nann,book\n", [("ann", "book")]),
        ("e.csv", "one,other,weight\nann,bob,3\nbob,cy,4\n", [("ann", "bob"), ("bob", "cy")]),
        ("e.csv", ",source,target\n0,a,b\n1,b,a\n", [("a", "b"), ("b", "a")]),
    ],
)
def test_edges_between_words(tmp_path: Path, name: str, text: str, edges: list[tuple[str, str]]) -> None:
    """Guards against names that are cut at their blanks and commas, and against rows that are dropped as comments."""
    assert rows_of(written(tmp_path / name, text), ids="words") == edges


@pytest.mark.parametrize(
    ("name", "text", "wanted", "edges"),
    [
        ("e.csv", ",user,item\n0,5,7\n1,7,9\n", {}, [(5, 7), (7, 9)]),
        ("e.csv", '"","from_id","to_id"\n"1",5,7\n"2",7,9\n', {}, [(5, 7), (7, 9)]),
        ("e.csv", '"src","dst","weight"\n"1",5,7,0.5\n"2",7,9,2\n', {"weights": True}, [(5, 7, 0.5), (7, 9, 2)]),
        ("e.txt", '"src" "dst"\n"1" 5 7\n"2" 7 9\n', {}, [(5, 7), (7, 9)]),
        ("e.csv", "timestamp,user,item\n4,5,7\n", {}, [(5, 7)]),
        ("e.csv", "label,weight,a,b\n1,0.5,5,7\n", {"weights": True}, [(5, 7, 0.5)]),
        ("e.csv", ",a,b\n5,7,9\n7,8,9\n", {}, [(5, 7), (7, 8)]),
        ("e.txt", "0\t1\tred, blue\n1\t2\tgreen\n", {}, [(0, 1), (1, 2)]),
        ("e.txt", "0 1 {'weight': 3, 'a': 2}\n1 2 {}\n", {}, [(0, 1), (1, 2)]),
        ("e.csv", "1;2;0,5\n2;3;0,25\n", {}, [(1, 2), (2, 3)]),
        ("e.csv", "0,1\n2,3\n", {}, [(0, 1), (2, 3)]),
        ("e.csv", "0,1\n1,9\n", {}, [(0, 1), (1, 9)]),
        ("e.csv", "0,1\n5,7\n", {"header": True}, [(5, 7)]),
        ("e.csv", "0,1\n5,7\n", {"header": False}, [(0, 1), (5, 7)]),
        ("e.txt", "1|2\n2|3\n", {"delimiter": "|"}, [(1, 2), (2, 3)]),
        ("e.txt", "9 1 2 3\n8 2 3 4\n", {"columns": RequestedColumns(source="2", target="4")}, [(1, 3), (2, 4)]),
        ("e.csv", "a,b,c\n9,1,2\n", {"columns": RequestedColumns(source="C", target="b", weight="a")}, [(2, 1, 9)]),
        ("out.k", "% asym weighted\n% 2 3 3\n1 2 1 11\n2 3 -1 12\n", {"weights": True}, [(1, 2, 1), (2, 3, -1)]),
        ("out.k", "% asym weighted\n1 2 1 11\n2 3 -1 12\n", {"times": True}, [(1, 2, 11), (2, 3, 12)]),
        ("out.b", "% bip unweighted\n% 3 2 2\n1 1\n2 2\n", {}, [(1, 3), (2, 4)]),
        ("out.b", "% bip unweighted\n1 1\n3 2\n", {}, [(1, 4), (3, 5)]),
        ("out.b", "% bip unweighted\n1 1\n3 2\n", {"one_type": False}, [(1, 1), (3, 2)]),
    ],
)
def test_edges_between_numbers(
    tmp_path: Path, name: str, text: str, wanted: dict[str, Any], edges: list[tuple[float, ...]]
) -> None:
    """Guards against row numbers, weights and times that are taken for ends, and shifted or swapped columns."""
    path = written(tmp_path / name, text)
    assert read(path, **wanted) == edges


@pytest.mark.parametrize(
    ("name", "text", "wanted", "words"),
    [
        ("e.csv", "0,1\n5,7\n7,9\n", {}, "line 1: this line may be an edge, or the names .*--no-header or --header"),
        ("e.txt", "ann likes bob\nbob knows cy\n", {"ids": "words"}, "--source 1 --target 3"),
        ("e.adjlist", "0 1 2\n1 2 3\n", {}, "adjacency list"),
        ("e.csv", "a;b,c;d\ne;f,g;h\n", {"ids": "words"}, "commas or at semicolons; say which with --delimiter"),
        ("e.csv", '0,"1\n1,2\n', {}, "line 1: "),
        ("out.b", "% bip unweighted\n% 2 1 2\n1 1\n5 2\n", {}, "has the source 5, but its comments say"),
    ],
)
def test_what_cannot_be_known(tmp_path: Path, name: str, text: str, wanted: dict[str, Any], words: str) -> None:
    """Guards against a guess where two readings give two graphs: one sentence names the option that settles it."""
    with pytest.raises(DatasetError, match=words):
        rows_of(written(tmp_path / name, text), **wanted)


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    """Guards against a mistyped column that is replaced by a guess."""
    path = written(tmp_path / "e.csv", "a,b\n1,2\n")
    with pytest.raises(UsageError, match=r"no column 'z' among the 2; there are a, b"):
        rows_of(path, columns=RequestedColumns(source="z"))
    with pytest.raises(UsageError, match="one column is given for two things"):
        rows_of(path, columns=RequestedColumns(source="a", target="1"))
    with pytest.raises(UsageError, match="has no columns or delimiters"):
        rows_of(tmp_path / "e.npy", delimiter=",")
    with pytest.raises(ValueError, match="is no delimiter"):
        given_delimiter("tabs!")


def test_quotes_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a record that is cut where a block of the file ends, inside its quotes."""
    expected = [(f"a\n{number}", f'b,"{number}') for number in range(300)]
    text = "src,dst\n" + "".join(f'"{one}","{other.replace(chr(34), chr(34) * 2)}"\n' for one, other in expected)
    path = written(tmp_path / "e.csv", text)
    for size in (7, 64, 1000):
        monkeypatch.setattr(text_file, "BLOCK_BYTES", size)
        assert rows_of(path, ids="words") == expected


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('"0.1","0.2"\n"0.4","0.5"\n', [[0.1, 0.2], [0.4, 0.5]]),
        ("\ufeff0.5\n0.25\n", [[0.5], [0.25]]),
        ("0,1\n0.1,0.2\n0.4,0.5\n", [[0.1, 0.2], [0.4, 0.5]]),
        (",a,b\n0,0.1,0.2\n1,0.4,0.5\n", [[0.1, 0.2], [0.4, 0.5]]),
        ("Unnamed: 0,a\n1,0.1\n0,0.4\n", [[0.4], [0.1]]),
        ("node_id,a\n0,0.1\n1,0.4\n", [[0.1], [0.4]]),
        ("# made by x\na;b\n1;2\n3;4.5\n", [[1, 2], [3, 4.5]]),
    ],
)
def test_features(tmp_path: Path, text: str, rows: list[list[float]]) -> None:
    """Guards against a first row that is lost as names, and against row numbers that become a feature."""
    path = written(tmp_path / "x.csv", text)
    assert np.allclose(load_features(path), rows)


def test_types_that_change_between_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a column that is refused because its first block holds whole numbers alone."""
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 32)
    text = "1,2\n" * 50 + "0.5,2\n" + "3,4\n" * 50
    found = load_features(written(tmp_path / "x.csv", text))
    assert found.shape == (101, 2)
    assert found[50].tolist() == [0.5, 2]
    with pytest.raises(DatasetError, match="line 102 has 1 columns where the lines before have 2"):
        load_features(written(tmp_path / "y.csv", text + "7\n"))
    with pytest.raises(DatasetError, match="line 102 has '0x10'"):
        load_features(written(tmp_path / "z.csv", text + "1,0x10\n"))


@pytest.mark.slow
def test_rows_longer_than_the_sample(tmp_path: Path) -> None:
    """Guards against a table whose rows are longer than what is looked at, and which so seems to have fewer columns."""
    row = ",".join(["0.25"] * 15_000) + "\n"
    assert len(row) > SAMPLE_BYTES
    assert load_features(written(tmp_path / "x.csv", row * 3)).shape == (3, 15_000)
    assert load_features(written(tmp_path / "y.csv", row * 20)).shape == (20, 15_000)


def test_labels_and_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against tables of 0 and 1, quoted labels and truth values in text that are refused."""
    assert load_labels(written(tmp_path / "a.csv", "0,1\n1,1\n0,0\n")).tolist() == [
        [False, True],
        [True] * 2,
        [False] * 2,
    ]
    assert load_labels(written(tmp_path / "b.csv", '"0"\n"1"\n')).tolist() == [0, 1]
    assert load_mask(written(tmp_path / "c.csv", "m\nTrue\nFalse\nTrue\n"), 3).ravel().tolist() == [True, False, True]
    capsys.readouterr()
    assert load_labels(written(tmp_path / "d.csv", "0\n1\n1\n")).tolist() == [0, 1, 1]
    assert "its first line, '0', is read as a row and not as the names of columns" in capsys.readouterr().err
    assert load_mask(written(tmp_path / "e.csv", "0\n1\n0\n1\n"), 3).ravel().tolist() == [True, False, True]


def test_parquet(tmp_path: Path) -> None:
    """Guards against the index of pandas that becomes a feature, and lists of numbers that are refused."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.1, 0.4, 0.7]}, index=[2, 0, 1])
    frame.to_parquet(tmp_path / "a.parquet")
    assert load_features(tmp_path / "a.parquet").ravel().tolist() == [0.4, 0.7, 0.1]
    frame.set_axis([5, 6, 9]).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match="--id-column"):
        load_features(tmp_path / "b.parquet")
    pq.write_table(pa.table({"f": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "c.parquet")
    assert load_features(tmp_path / "c.parquet").tolist() == [[1, 2], [3, 4]]
    pq.write_table(pa.table({"f": [[1.0, 2.0], [3.0]]}), tmp_path / "d.parquet")
    with pytest.raises(DatasetError, match="lists of 2 numbers, but row 1 has one of 1"):
        load_features(tmp_path / "d.parquet")
    pandas.DataFrame({"a": [5, 7], "b": [7, 9]}, index=[9, 8]).to_parquet(tmp_path / "e.parquet")
    assert rows_of(tmp_path / "e.parquet") == [(5, 7), (7, 9)]


def test_columns_of_one_table(tmp_path: Path) -> None:
    """Guards against labels and a split that are read as features, and against options that do nothing."""
    edges = written(tmp_path / "e.txt", "0 1\n1 2\n2 0\n")
    table = written(tmp_path / "x.csv", "a,b,kind,part\n0.1,5,1,train\n0.2,6,0,val\n0.3,7,1,test\n")
    nodes = graph(edges, features=table, label=("kind",), split_column="part").nodes["node"]
    assert nodes.x is not None
    assert nodes.y is not None
    assert nodes.train_mask is not None
    assert np.allclose(nodes.x, [[0.1, 5], [0.2, 6], [0.3, 7]])
    assert nodes.y.tolist() == [1, 0, 1]
    assert nodes.train_mask.ravel().tolist() == [True, False, False]
    nodes = graph(edges, features=table, feature=("a",), label=("3",), split_column="4").nodes["node"]
    assert nodes.x is not None
    assert nodes.x.shape == (3, 1)
    with pytest.raises(DatasetError, match=r"row 0 of its column 'a' has '0\.1'"):
        graph(edges, features=table, feature=("b",), label=("kind",), split_column="a")
    with pytest.raises(UsageError, match="need a table"):
        graph(edges, label=("kind",))


def test_what_was_taken_as_what(tmp_path: Path) -> None:
    """Guards against a guess that nobody is told of: columns, names, delimiter, ids, what is left out, the split."""
    path = written(tmp_path / "e.csv", "# made by x\nsrc;dst;km;note\n5;7;1;a\n7;9;2;b\n")
    raw = graph(path, weights=True)
    edges, nodes = raw.notes["read_as"]  # type: ignore[misc]
    assert edges == (
        "e.csv: text cut at semicolons, line 2 names the columns, sources from column 1 'src', destinations from "
        "column 2 'dst', weights from column 3 'km', 1 lines before the first row that begin with # or % are comments; "
        "left out: column 4 'note'"
    )
    assert nodes == "nodes node: 3, ids of numbers numbered anew in ascending order, no x or y, no masks"
    assert edges_of(raw.edges[0]) == [(0, 1, 1), (1, 2, 2)]


def test_columns_without_names_and_a_drawn_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against names of columns that are not the file's own, and a random split that is said twice."""
    edges = written(tmp_path / "e.csv", "src,dst\n7,9\n9,8\n")
    table = written(tmp_path / "n.csv", "7,0.5,1\n8,0.25,0\n9,0.75,1\n")
    raw = graph(edges, features=table, id_column="1", label=("3",))
    _, features, labels, nodes = raw.notes["read_as"]  # type: ignore[misc]
    assert "ids from column '1', columns '2' taken" in features
    assert "columns '3' taken, columns '2' left out" in labels
    assert nodes == (
        "nodes node: 3, ids of numbers numbered anew in the order of n.csv, x, y, labels without masks, so a random "
        "split was drawn, 20 nodes of each class to train and 30 to validate, the rest to test (seed 0)"
    )
    assert "split" not in capsys.readouterr().err


def test_words_take_as_much_as_they_are_long(tmp_path: Path) -> None:
    """Guards against one id of 490 letters that makes every other one as large: 784 MB for 400,000 of them."""
    rows = "".join(f"a{number} b{number}\n" for number in range(50_000))
    original = graph(written(tmp_path / "e.txt", rows + "x" * 490 + " a1\n"), ids="words").nodes["node"].original_id
    assert original is not None
    assert original.nbytes < 100_001 * 40


def test_look_at_a_file_of_comments(tmp_path: Path) -> None:
    """Guards against a file without rows whose last comment is taken for one."""
    found, comments = look(written(tmp_path / "e.txt", "# a\n\n% b\n"), words=True, edges=True)
    assert found is None
    assert comments == (b"# a", b"% b")
