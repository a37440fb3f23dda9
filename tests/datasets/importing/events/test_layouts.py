"""Files of events in every layout become event stores; what is wrong with them is one sentence with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from cli import main
from graphprep.temporal.store import EventStore

JODIE = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Import events by the command."""

    def command(*arguments: str | Path) -> Result:
        return CliRunner().invoke(main, ["import", "--name", "events", *map(str, arguments)])

    return command


def store_of(result: Result) -> EventStore:
    """The store that a command wrote."""
    assert result.exit_code == 0, result.output
    return EventStore(result.stdout.split(": ", 1)[1].strip())


def columns(store: EventStore) -> list[list[Any]]:
    """Sources, destinations and times."""
    events = store.events
    return [events.source.tolist(), events.destination.tolist(), events.time.tolist()]


def test_text_is_sorted_and_keeps_duplicates(run: Run, tmp_path: Path) -> None:
    """Duplicates and events of a node with itself are events too; ids with gaps are numbered and kept."""
    (tmp_path / "e.txt").write_text("7 3 20\n3 7 10\n7 3 20\n5 5 10\n")
    store = store_of(run(tmp_path / "e.txt", "--events", "auto"))
    assert columns(store) == [[0, 1, 2, 2], [2, 1, 0, 0], [10, 10, 20, 20]]
    assert store.original_ids().array().tolist() == [3, 5, 7]  # type: ignore[union-attr]
    assert not store.is_bipartite
    assert store.check() > 0


def test_parquet_with_weights_and_times_that_are_not_whole(run: Run, tmp_path: Path) -> None:
    """Weights are a feature of the events; words are kept as ids."""
    table = pa.table({"src": ["b", "a"], "dst": ["x", "y"], "time": [1.5, 0.25], "weight": [2.0, 3.0]})
    parquet.write_table(table, tmp_path / "e.parquet")
    store = store_of(run(tmp_path / "e.parquet", "--events", "edges", "--weights"))
    assert columns(store) == [[0, 1], [3, 2], [0.25, 1.5]]
    assert store.events.x.tolist() == [[3.0], [2.0]]  # type: ignore[union-attr]
    assert store.original_ids().array().tolist() == ["a", "b", "x", "y"]  # type: ignore[union-attr]
    assert store.is_bipartite


def test_features_of_nodes_and_a_count_of_them(run: Run, tmp_path: Path) -> None:
    """With features ids are row numbers, and nodes without events are nodes."""
    (tmp_path / "e.csv").write_text("source,target,time\n0,1,5\n1,0,6\n")
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    store = store_of(run(tmp_path / "e.csv", "--events", "auto", "--features", tmp_path / "x.npy"))
    assert store.num_nodes == 3
    np.testing.assert_array_equal(store.node_x, np.eye(3))


def test_jodie(run: Run, tmp_path: Path) -> None:
    """Items follow users, features and states are kept, and times may be out of order."""
    (tmp_path / "w.csv").write_text(f"{JODIE}0,0,0.0,0,0.5,1\n1,1,36.5,1,2,3\n0,1,20.0,0,4,5\n")
    store = store_of(run(tmp_path / "w.csv", "--events", "auto"))
    assert columns(store) == [[0, 0, 1], [2, 3, 3], [0.0, 20.0, 36.5]]
    assert store.events.x.tolist() == [[0.5, 1.0], [4.0, 5.0], [2.0, 3.0]]  # type: ignore[union-attr]
    assert store.events.y.tolist() == [0, 0, 1]  # type: ignore[union-attr]
    assert store.attributes["num_states"] == 2
    assert store.attributes["notes"]["kinds"] == {"user": [0, 2], "item": [2, 2]}
    assert store.is_bipartite


def test_tgb_files_of_jodies_shape(run: Run, tmp_path: Path) -> None:
    """tgbl-wiki's edge list has JODIE's columns, whole times and no states but 0."""
    (tmp_path / "tgbl-wiki_edgelist_v2.csv").write_text(f"{JODIE}4,9,1,0.0,1\n6,9,0,0.0,2\n")
    result = run(tmp_path / "tgbl-wiki_edgelist_v2.csv", "--events", "tgb")
    store = store_of(result)
    assert columns(store) == [[1, 0], [2, 2], [0, 1]]
    assert store.original_ids().array().tolist() == [4, 6, 9]  # type: ignore[union-attr]
    assert store.events.y is None
    assert "all states of sources are 0" in result.stderr


def test_tgb_files_that_begin_with_times(run: Run, tmp_path: Path) -> None:
    """tgbl-coin and others: timestamp, source, destination, weight under any names; ids may be words."""
    path = tmp_path / "tgbl-coin_edgelist_v2.csv"
    path.write_text("day,src,dst,weight\n20,0xa,0xb,1.5\n10,0xb,0xa,2.5\n")
    store = store_of(run(path, "--events", "auto", "--ids", "words"))
    assert columns(store) == [[1, 0], [0, 1], [10, 20]]
    assert store.events.x.tolist() == [[2.5], [1.5]]  # type: ignore[union-attr]
    path.write_text("day,src,dst\n20,3,4\n10,4,3\n")
    store = store_of(run(path, "--events", "auto", "--replace"))
    assert columns(store) == [[1, 0], [0, 1], [10, 20]]


def test_tgn_files_with_arrays(run: Run, tmp_path: Path) -> None:
    """Nodes count from 1, row 0 of the arrays is padding, and idx names the row of an event's features."""
    (tmp_path / "ml_w.csv").write_text(",u,i,ts,label,idx\n0,1,3,5.0,0.0,1\n1,2,3,4.0,1.0,2\n")
    np.save(tmp_path / "ml_w.npy", np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]))
    np.save(tmp_path / "ml_w_node.npy", np.arange(10.0).reshape(5, 2))
    store = store_of(run(tmp_path / "ml_w.csv", "--events", "auto"))
    assert columns(store) == [[1, 0], [2, 2], [4.0, 5.0]]
    assert store.events.x.tolist() == [[3.0, 4.0], [1.0, 2.0]]  # type: ignore[union-attr]
    assert store.events.y.tolist() == [1, 0]  # type: ignore[union-attr]
    np.testing.assert_array_equal(store.node_x, np.arange(2.0, 10.0).reshape(4, 2))


def test_what_a_schema_says_of_nodes_is_kept_or_refused(run: Run, tmp_path: Path) -> None:
    """Features of both kinds of nodes are kept, one after the other; labels and splits are not ignored but refused."""
    (tmp_path / "e.csv").write_text("a,b,t\nu1,v1,2\nu2,v1,1\n")
    (tmp_path / "u.csv").write_text("id,age,kind\nu1,1,x\nu2,2,y\n")
    (tmp_path / "v.csv").write_text("id,size\nv1,7\n")
    edge = {"source": "u", "relation": "to", "destination": "v", "file": "e.csv"}
    edge |= {"source_column": "a", "target_column": "b", "time_column": "t"}
    users = {"file": "u.csv", "id_column": "id", "features": ["age"]}
    items = {"file": "v.csv", "id_column": "id", "features": ["size"]}

    def imported(nodes: dict[str, Any], **more: Any) -> Result:
        (tmp_path / "s.yaml").write_text(json.dumps({"nodes": nodes, "edges": [edge | more]}))
        return run("--schema", tmp_path / "s.yaml", "--events", "edges", "--replace")

    store = store_of(imported({"u": users, "v": items}))
    assert store.node_x.tolist() == [[1.0], [2.0], [7.0]]  # type: ignore[union-attr]
    assert columns(store) == [[1, 0], [2, 2], [1, 2]]
    for nodes, more, sentence in (
        ({"u": users | {"label": "kind"}, "v": items}, {}, "nodes u have labels"),
        ({"u": users, "v": {}}, {}, "nodes u and v have features of different widths"),
        ({"u": users, "v": items}, {"reverse": "from"}, "`reverse` of edges cannot be given beside --events"),
    ):
        result = imported(nodes, **more)
        assert result.exit_code == 2, result.stderr
        assert sentence in result.stderr


def test_tables_of_a_schema(run: Run, tmp_path: Path) -> None:
    """A table's features and label are those of its events; two node types are two kinds of nodes."""
    (tmp_path / "buys.csv").write_text("who,what,when,price,returned\nann,tea,2,5,1\nbob,tea,1,3,0\n")
    schema = {
        "nodes": {"person": {}, "thing": {}},
        "edges": [
            {
                **{"source": "person", "relation": "buys", "destination": "thing", "file": "buys.csv"},
                **{"source_column": "who", "target_column": "what", "time_column": "when"},
                **{"features": ["price"], "label": "returned"},
            }
        ],
    }
    (tmp_path / "s.yaml").write_text(json.dumps(schema))
    store = store_of(run("--schema", tmp_path / "s.yaml", "--events", "edges"))
    assert columns(store) == [[1, 0], [2, 2], [1, 2]]
    assert store.events.y.tolist() == [0, 1]  # type: ignore[union-attr]
    assert store.attributes["num_event_features"] == 1
    assert store.attributes["notes"]["kinds"] == {"person": [0, 2], "thing": [2, 1]}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("e.txt", "1 2\n3 4\n", "there is no third column to take times from"),
        ("e.txt", "1 2 3\n3 4 soon\n", "line 2"),
        ("e.txt", "1 2 nan\n3 4 2.5\n", "line 1"),
        ("e.txt", "1 -2 3\n3 4 5\n", "-2' is negative"),
        ("e.txt", "1 2 3\n3 4\n", "line 2"),
        ("w.csv", JODIE, "no row after its first line"),
        ("w.csv", f"{JODIE}0,0,0\n", "has 3 fields a row"),
        ("w.csv", f"{JODIE}0,0,0,0\n0,0,1,0,7\n", "line 3: there are 5 fields and the first row has 4"),
        ("w.csv", f"{JODIE}0,0,0,0\n0,0,nan,0\n", "line 3, column 3: 'nan' is not a finite number, as times are"),
        ("w.csv", f"{JODIE}0,0,0,0\n0,0,,0\n", "line 3, column 3: '' is not a finite number, as times are"),
        ("w.csv", f"{JODIE}0,0,0,0\n0,0,2020-01-01,0\n", "line 3, column 3: '2020-01-01' is not a finite number"),
        ("w.csv", f"{JODIE}0,0,0,0\n-1,0,1,0\n", "line 3, column 1: '-1' is not a whole number from 0 on"),
        ("w.csv", f"{JODIE}0,0,0,0\n0,x,1,0\n", "line 3, column 2: 'x' is not a whole number from 0 on"),
        ("w.csv", f"{JODIE}0,0,0,0.5\n", "line 2, column 4: '0.5' is not a whole number, as states are"),
        ("w.csv", f"{JODIE}0,0,0,0,inf\n", "line 2, column 5: 'inf' is not a finite number, as features are"),
        ("t_edgelist.csv", "3,1,2,1\n4,1,2,1\n", "line 1: 3 is no name of a column"),
        ("t_edgelist.csv", "day,src,dst,w\n4,1,2\n", "line 2: there are 3 fields and the first line names 4"),
        ("t_edgelist.csv", "day,src,dst,w\n4,1,2,1\n5,1,2\n", "line 3"),
        ("w.csv", f"{JODIE}0,0,0,1e30\n", "line 2, column 4: '1e30' is not a whole number"),
        ("ml_w.csv", ",u,i,ts,label,idx\n0,0,3,5.0,0.0,1\n", "has the node 0 in column u"),
        ("ml_w.csv", ",u,i,ts,label,idx\n0,1,3,5.0,0.0\n", "line 2: there are 5 fields and the first line names 6"),
    ],
)
def test_broken_files_are_one_sentence(run: Run, tmp_path: Path, name: str, content: str, sentence: str) -> None:
    """With the file and the line; nothing is left behind."""
    (tmp_path / name).write_text(content)
    result = run(tmp_path / name, "--events", "auto", "-q")
    assert result.exit_code == 3, result.output
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert run(tmp_path / name, "--events", "auto", "-q").exit_code == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--undirected"], "--undirected cannot be given beside --events"),
        (["--duplicates", "drop"], "--duplicates cannot be given beside --events"),
        (["--labels", "y.npy"], "--labels cannot be given beside --events"),
        (["--dask", "local:2"], "--dask is not for events"),
        (["--anyway"], "--anyway is not for events"),
        (["--extend", "other"], "--extend cannot be given beside --events"),
        (["--out", "memory://bucket/name"], "is a URL"),
        (["--events", "jodie2"], "--events 'jodie2' is unknown"),
        (["--time-unit", "days"], "--time-unit 'days' is unknown"),
    ],
)
def test_options_that_are_not_for_events_are_refused(
    run: Run, tmp_path: Path, options: list[str], sentence: str
) -> None:
    """In one sentence, with the status of wrong use."""
    (tmp_path / "e.txt").write_text("1 2 3\n")
    result = run(tmp_path / "e.txt", "--events", "auto", *options)
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr


def test_unit_without_events_is_refused(run: Run, tmp_path: Path) -> None:
    """An option that would be ignored is an error."""
    (tmp_path / "e.txt").write_text("1 2 3\n")
    result = run(tmp_path / "e.txt", "--time-unit", "ms")
    assert result.exit_code == 2
    assert "--time-unit is for events" in result.stderr


def test_arrays_that_do_not_fit_are_named(run: Run, tmp_path: Path) -> None:
    """An array that ends too early, or has a value that is not finite."""
    (tmp_path / "ml_w.csv").write_text(",u,i,ts,label,idx\n0,1,3,5.0,0.0,1\n1,2,3,4.0,1.0,2\n")
    np.save(tmp_path / "ml_w.npy", np.zeros((2, 2)))
    assert "has the event 2, but ml_w.npy ends at 1" in run(tmp_path / "ml_w.csv", "--events", "tgn").stderr
    np.save(tmp_path / "ml_w.npy", np.array([[0.0], [np.nan], [1.0]]))
    assert "row 1 has a value that is not finite" in run(tmp_path / "ml_w.csv", "--events", "tgn").stderr
    np.save(tmp_path / "ml_w.npy", np.zeros((3, 1)))
    np.save(tmp_path / "ml_w_node.npy", np.zeros((2, 1)))
    assert "has the node 3, but ml_w_node.npy ends at 1" in run(tmp_path / "ml_w.csv", "--events", "tgn").stderr


def test_a_second_import_finds_the_first(run: Run, tmp_path: Path) -> None:
    """The same files are up to date; others are refused, and replaced on request."""
    path = tmp_path / "e.txt"
    path.write_text("1 2 3\n")
    assert run(path, "--events", "auto").stdout.startswith("wrote")
    assert run(path, "--events", "edges").stdout.startswith("up to date")
    path.write_text("1 2 4\n")
    refused = run(path, "--events", "edges")
    assert refused.exit_code == 3
    assert "was made from other files or options" in refused.stderr
    assert run(path, "--events", "edges", "--replace").stdout.startswith("wrote")
    refused = run(path, "--edge-times")
    assert refused.exit_code == 3
    assert "is an event store; it is left as it is" in refused.stderr
