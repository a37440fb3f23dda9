"""Each thing that is wrong with a table is one sentence with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphprep.datasets.importing.columns.table_source import EDGE_ROWS
from graphprep.datasets.importing.schema import load_schema, schema_of
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import written

PEOPLE = """id,kind,part,age,city,vector,since,mixed
a,x,train,1,Rome,[1 2],2020-01-01,1
b,y,val,2,Oslo,[3 4],2020-01-02,2
c,x,test,3,Rome,[5 6],2020-01-03,x
d,,,4,,[7 8],2020-01-04,3
"""
MOVED = """payer,payee,amount,when
a,b,1,10
b,c,2,20
c,d,3,30
"""
NODES = {"id_column": "id", "label": "kind", "split_column": "part", "features": ["age"]}
EDGES = {
    **{"source": "p", "relation": "to", "destination": "p", "source_column": "payer", "target_column": "payee"},
    **{"weight_column": "amount", "time_column": "when"},
}


def read(folder: Path, people: str = PEOPLE, moved: str = MOVED, nodes: Any = (), edges: Any = ()) -> Any:
    files = {"people.csv": people, "moved.csv": moved}
    for name, text in files.items():
        written(folder / name, text)
    node = {**NODES, "file": str(folder / "people.csv"), **dict(nodes)}
    edge = {**EDGES, "file": str(folder / "moved.csv"), **dict(edges)}
    return read_files(schema_of({"nodes": {"p": node}, "edges": [edge]}))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("\nb,y", "\n,y", r"people.csv, line 3, column 'id': there is no id"),
        ("\nc,x", "\na,x", r"line 4, column 'id': the id a is there already, in .*people.csv, line 2"),
        ("val", "vall", r"line 3, column 'part': 'vall' is no part of the split \(did you mean 'val'\?\)"),
        ("train,1", "train,", r"line 2, column 'age': there is no number; give `fill: 0`, `fill: mean`"),
        ("test,3", "test,three", r"line 4, column 'age': 'three' is no number"),
        ("test,3", "test,inf", r"line 4, column 'age': the value is infinite"),
        ("a,x,", "a,,", r"trains on the node 0, which has no label"),
        ("c,x,test,3,Rome,[5 6],2020-01-03,x\n", "c,x\n", r"people.csv cannot be used: line 4 has 2 columns"),
    ],
)
def test_faults_of_nodes(tmp_path: Path, old: str, new: str, words: str) -> None:
    """Guards against bad rows that are taken, and against errors that do not say where."""
    assert old in PEOPLE
    with pytest.raises(DatasetError, match=words):
        read(tmp_path, people=PEOPLE.replace(old, new))


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ({"label": "kin"}, r"people.csv has no column 'kin' for the label \(did you mean 'kind'\?\)"),
        ({"features": ["aeg"]}, r"no column 'aeg' for the features \(did you mean 'age'\?\)"),
        ({"features": ["mixed"]}, r"line 4, column 'mixed': 'x' is no number; `as: one-hot` reads words"),
        ({"features": [{"column": "city", "as": "number"}]}, r"line 2, column 'city': 'Rome' is no number"),
        ({"features": ["since"]}, None),
        ({"time_column": "city"}, r"line 5, column 'city': there is no time"),
        ({"time_column": "mixed"}, r"line 4, column 'mixed': 'x' is no time: neither a number nor a date"),
        ({"task": "regression"}, r"line 2, column 'kind': 'x' is no number"),
        ({"label": "part", "split_column": "kind"}, r"line 2, column 'kind': 'x' is no part of the split"),
        ({"split_values": {"train": "train", "val": "val"}}, r"'test' is no part of the split; it has train, val or"),
    ],
)
def test_faults_of_roles(tmp_path: Path, nodes: dict[str, Any], words: str | None) -> None:
    """Guards against a role that a column cannot have."""
    if words is None:  # dates in text are words, and so classes
        assert read(tmp_path, nodes=nodes).nodes["p"].x.shape == (4, 4)
        return
    with pytest.raises(DatasetError, match=words):
        read(tmp_path, nodes=nodes)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("b,c", "b,", r"moved.csv, line 3, column 'payee': there is no id, so the row is no edge"),
        ("b,c", "zz,c", r"moved.csv, line 3, column 'payer': the node 'zz' has no row in .*people.csv"),
        ("c,2", "c,two", r"line 3, column 'amount': 'two' is no number"),
        ("c,2", "c,", r"line 3, column 'amount': there is no weight"),
        ("c,2", "c,1e60", r"column 'amount': edge 1 has the weight 1e\+60, which is not finite"),
        (",20", ",", r"line 3, column 'when': there is no time"),
        (",20", ",2020-01-01", r"line 3, column 'when'.*|times are written in several ways"),
    ],
)
def test_faults_of_edges(tmp_path: Path, old: str, new: str, words: str) -> None:
    """Guards against edges that are lost or join other nodes than the table says."""
    assert old in MOVED
    with pytest.raises(DatasetError, match=words):
        read(tmp_path, moved=MOVED.replace(old, new))


@pytest.mark.slow
def test_places_are_kept_over_batches(tmp_path: Path) -> None:
    """Guards against row numbers that begin again in each batch or file."""
    pandas = pytest.importorskip("pandas")
    rows = EDGE_ROWS + 7
    people = pandas.DataFrame({"id": range(rows), "age": 1.0})
    people.to_parquet(tmp_path / "people.parquet")
    targets = list(range(rows))
    targets[-2] = rows
    pandas.DataFrame({"source": range(rows), "target": targets}).to_parquet(tmp_path / "e.parquet")
    schema = {
        "nodes": {"p": {"file": str(tmp_path / "people.parquet"), "id_column": "id", "features": ["age"]}},
        "edges": [{"source": "p", "relation": "to", "destination": "p", "file": str(tmp_path / "e.parquet")}],
    }
    with pytest.raises(
        DatasetError, match=rf"e.parquet, row {rows - 2:,}, column 'target': the node {rows} has no row"
    ):
        read_files(schema_of(schema))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "nodes: {p: {file: p.csv, features: x.npy}}\nedges: []",
            "line 1: nodes.p.features: of a table, `features` is",
        ),
        ("nodes: {p: {features: [age]}}\nedges: []", "`features` is a list of columns of a `file` or `database`"),
        ("nodes: {p: {file: p.csv, labels: y.npy}}", "'labels' cannot be given beside a table"),
        ("nodes: {p: {file: p.csv, database: d.db}}", "a table lies in a `file` or in a `database`, not in both"),
        ("nodes: {p: {database: d.db}}", "of a database, give either `table` or `query`"),
        ("nodes: {p: {file: p.csv, table: t}}", "'table' is of a `database`"),
        ("nodes: {p: {split_values: {train: a}}}", "'split_values' is about a `file` or `database`"),
        ("nodes: {p: {file: p.csv, split_values: {train: a, val: a}}}", "and none of them twice"),
        ("nodes: {p: {file: p.csv, features: [{colum: a}]}}", r"unknown key 'colum' in .*did you mean 'column'"),
        ("nodes: {p: {file: p.csv, features: [{column: a, as: number, width: 3}]}}", "width is for `as: hash`"),
        ("nodes: {p: {file: p.csv, features: [{column: a, as: codes, fill: 0}]}}", "fill is for numbers"),
        ("nodes: {p: {file: p.csv, features: [{column: a, as: hash, normalise: minmax}]}}", "normalise is for numbers"),
        (
            "nodes: {p: }\nedges:\n  - {source: p, relation: r, destination: p, files: [e.csv], features: [a]}",
            "line 3: edges.0..features: 'features' cannot be given here; give a table",
        ),
        (
            "nodes: {p: }\nedges:\n  - {source: p, relation: r, destination: p, file: e.csv, weights: true}",
            "'weights' cannot be given here; name the column",
        ),
        ("nodes: {p: }\nedges:\n  - {source: p, relation: r, destination: p}", "name either `files` of edges, or one"),
    ],
)
def test_mistakes_of_a_schema(tmp_path: Path, text: str, words: str) -> None:
    """Guards against keys that are ignored, and against a schema that is refused without a word why."""
    with pytest.raises(DatasetError, match=words.replace("edges.0.", r"edges\[0\]").replace("[age]", r"\[age\]")):
        load_schema(written(tmp_path / "graph.yaml", text))
