"""Where tables lie: delimiters, lines without names, folders, databases, and ids of several kinds."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from graphprep.datasets.importing.columns.table_source import TableSource
from graphprep.datasets.importing.schema import schema_of
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import DatasetError, UsageError
from tests.datasets.user_graphs import edges_of, written


def rows(source: TableSource, *columns: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in source.batches(columns):
        found += zip(*(batch.columns[name].to_pylist() for name in columns), strict=True)
    return found


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "name,n\nJo Ann,1\n", [("Jo Ann", "1")]),
        ("a.csv", "# made by hand\nname;n\nJo;1\n", [("Jo", "1")]),
        ("a.csv", 'name,n\n"Jo, ""the"" first\nof two",1\nAl,2\n', [('Jo, "the" first\nof two', "1"), ("Al", "2")]),
        ("a.csv", "name|n\nJo|1\n", [("Jo", "1")]),
        ("a.tsv", "name\tn\nJo Ann\t1\r\n", [("Jo Ann", "1")]),
        ("a.csv", "name,n\n,\n", [("", "")]),
    ],
)
def test_text(tmp_path: Path, name: str, text: str, expected: list[tuple[str, str]]) -> None:
    """Guards against fields that are cut at blanks, and quotes that are kept."""
    assert rows(TableSource(path=written(tmp_path / name, text)), "name", "n") == expected


def test_text_without_names(tmp_path: Path) -> None:
    """Guards against a first row that is taken for names."""
    source = TableSource(path=written(tmp_path / "a.csv", "Jo,1\nAl,2\n"), header=False)
    assert rows(source, source.column("2", "id")) == [("1",), ("2",)]
    one_column = TableSource(path=written(tmp_path / "b.csv", "name\nJo Ann\n"))
    assert rows(one_column, "name") == [("Jo Ann",)]


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against files in the order of the disk, files that are skipped in silence, and columns that differ."""
    for name, text in (("b.csv", "n,m\n3,4\n"), ("a.csv", "m,n\n2,1\n"), ("notes.md", "hello"), (".hidden.csv", "x\n")):
        written(tmp_path / name, text)
    assert rows(TableSource(path=tmp_path), "n", "m") == [("1", "2"), ("3", "4")]
    assert "2 files are read; left out: .hidden.csv, notes.md" in capsys.readouterr().err
    written(tmp_path / "c.csv", "k,m\n1,2\n")
    with pytest.raises(DatasetError, match=r"c.csv has no column 'n', which other files of"):
        TableSource(path=tmp_path).column("n", "id")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DatasetError, match=r"the folder .*empty has no table"):
        TableSource(path=empty).names()


def test_arrow_streams_and_dictionaries(tmp_path: Path) -> None:
    """Guards against a stream that is refused, and categories that are read as their numbers."""
    table = pa.table({"word": pa.array(["x", None, "x"]).dictionary_encode()})
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as stream:
        stream.write_table(table)
    assert rows(TableSource(path=tmp_path / "a.arrow"), "word") == [("x",), (None,), ("x",)]
    written(tmp_path / "b.arrow", "no arrow")
    with pytest.raises(DatasetError, match=r"b.arrow is damaged, or is not what its name says"):
        TableSource(path=tmp_path / "b.arrow").names()


def test_sqlite(tmp_path: Path) -> None:
    """Guards against a database that is written to, quoted names, values of several types, and wrong names."""
    path = tmp_path / "a b?.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE "my ""table""" ("the id", value)')
        connection.executemany('INSERT INTO "my ""table""" VALUES (?, ?)', [(1, "x"), (2.5, 7), (None, None)])
        connection.commit()
    before = path.read_bytes()
    source = TableSource(path=path, is_database=True, table='my "table"')
    assert rows(source, "the id", "value") == [(1.0, "x"), (2.5, "7"), (None, None)]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with pytest.raises(DatasetError, match=r"has no table 'my_table' \(did you mean 'my \"table\"'\?\)"):
        TableSource(path=path, is_database=True, table="my_table").names()
    for query in ("SELECT nothing", "DROP TABLE x", "SELECT 1; SELECT 2"):
        with pytest.raises(DatasetError, match="the query cannot be read"):
            TableSource(path=path, is_database=True, query=query).names()
    written(tmp_path / "c.db", "no database at all")
    with pytest.raises(DatasetError, match="is neither a SQLite nor a DuckDB file"):
        TableSource(path=tmp_path / "c.db", is_database=True, table="t").names()


def test_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a DuckDB file that needs a package without a word which, and a table that is read whole."""
    path = written(tmp_path / "a.duckdb", b"\0" * 8 + b"DUCK" + b"\0" * 20)
    source = TableSource(path=path, is_database=True, table="t")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match=r"is a DuckDB file, which needs the package duckdb"):
        source.names()

    class Connection:
        columns = ("n",)

        def execute(self, statement: str) -> Any:
            assert "information_schema" in statement
            return SimpleNamespace(fetchall=lambda: [("t",)])

        def sql(self, statement: str) -> Connection:
            return self

        def to_arrow_reader(self, rows: int) -> Any:
            return [pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]

        def close(self) -> None: ...

    def connect(file: str, read_only: bool) -> Connection:
        assert (file, read_only) == (str(path), True)
        return Connection()

    monkeypatch.setitem(sys.modules, "duckdb", SimpleNamespace(connect=connect, Error=RuntimeError))
    assert rows(TableSource(path=path, is_database=True, table="t"), "n") == [(1,), (2,), (3,)]


def graph(folder: Path, nodes: Any, edges: str, **schema: Any) -> Any:
    entry = {"source": "p", "relation": "to", "destination": "p", "file": str(written(folder / "e.csv", edges))}
    return read_files(schema_of({"nodes": {"p": nodes}, "edges": [entry], **schema}))


def test_kinds_of_ids(tmp_path: Path) -> None:
    """Guards against ids that lose their zeros, and words and numbers that do not meet."""
    people = written(tmp_path / "p.csv", "id\n007\n8\n")
    raw = graph(tmp_path, {"file": str(people), "id_column": "id"}, "source,target\n007,8\n")
    assert raw.nodes["p"].original_id.tolist() == ["007", "8"]
    people = written(tmp_path / "p.csv", "id\n30\n20\n")
    raw = graph(tmp_path, {"file": str(people), "id_column": "id"}, "source,target\n20,30\n")
    assert raw.nodes["p"].original_id.tolist() == [30, 20]
    assert edges_of(raw.edges[0]) == [(1, 0)]
    words = graph(tmp_path, {"file": str(people), "id_column": "id"}, "source,target\n20,30\n", ids="words")
    assert words.nodes["p"].original_id.tolist() == ["30", "20"]
    found = graph(tmp_path, None, "source,target\nx,y\n7,x\n")
    assert found.nodes["p"].original_id.tolist() == ["7", "x", "y"]
    rows_are_ids = graph(tmp_path, {"file": str(people)}, "source,target\n0,1\n")
    assert rows_are_ids.nodes["p"].original_id is None
    with pytest.raises(DatasetError, match=r"e.csv, line 2, column 'target': the node id 2 does not fit 2 nodes"):
        graph(tmp_path, {"file": str(people)}, "source,target\n0,2\n")
    with pytest.raises(DatasetError, match=r"e.csv, line 2, column 'source': 'x' is no id, as ids of the nodes p are"):
        graph(tmp_path, {"file": str(people), "id_column": "id"}, "source,target\nx,20\n")


def test_ends_that_are_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against ends that are taken in silence, or from columns that are something else."""
    graph(tmp_path, None, "weight,to,from\n1,b,a\n")
    assert "edges run from column 'from' to column 'to', by their names or places" in capsys.readouterr().err
    entry = {
        "source": "p",
        "relation": "to",
        "destination": "p",
        "file": str(tmp_path / "e.csv"),
        "source_column": "to",
    }
    with pytest.raises(DatasetError, match="name both ends of an edge by `source_column` and `target_column`"):
        read_files(schema_of({"nodes": {"p": None}, "edges": [entry]}))


def test_one_kind_of_ids_for_all_edges_of_a_type(tmp_path: Path) -> None:
    """Guards against a type whose ids are words in one table of edges and numbers in the next."""
    files = [
        written(tmp_path / name, text)
        for name, text in (("a.csv", "source,target\nx,7\n"), ("b.csv", "source,target\n7,8\n"))
    ]
    edges = [
        {"source": "p", "relation": f"r{number}", "destination": "p", "file": str(file)}
        for number, file in enumerate(files)
    ]
    raw = read_files(schema_of({"nodes": {"p": None}, "edges": edges}))
    assert raw.nodes["p"].original_id.tolist() == ["7", "8", "x"]  # type: ignore[union-attr]
