"""A store that is extended by files has the arrays that an import of all files together gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import graphprep as gp
from cli import main
from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.errors import DatasetError, UsageError
from graphprep.store import sort
from graphprep.store.store import GraphStore

OLD, NEW = 30, 9
"""nodes"""


def arrays_of(store: GraphStore) -> dict[str, str]:
    """The checksum of every array, with its dtype and shape."""
    return {path: str(written) for path, written in store.attributes["arrays"].items()}


def write_edges(path: Path, rows: Any, names: Callable[[int], Any], *, columns: int) -> Path:
    """Lines of source and destination, then a weight and a time, both by hash, so that copies of an edge agree."""
    lines = []
    for src, dst in rows:
        low, high = sorted((int(src), int(dst)))
        more = [(low * 31 + high * 17) % 8 + 0.5, low * 100 + high][:columns]
        lines.append(",".join(map(str, [names(src), names(dst), *more])))
    path.write_text("\n".join(lines) + "\n")
    return path


class Files:
    """The files of old nodes, of new ones and of both; edges of the new ones touch old and new nodes."""

    def __init__(self, folder: Path, seed: int, kind: str, columns: int) -> None:
        rng = np.random.default_rng(seed)
        self.folder, self.kind = folder, kind
        ids = rng.permutation(1000)[: OLD + NEW]
        ids = np.concatenate([np.sort(ids[:OLD]), 1000 + np.sort(ids[OLD:])]) if kind == "found" else ids
        named = {"rows": lambda row: row, "words": lambda row: f"n{ids[row]:04d}"}
        self.names: Callable[[int], Any] = named.get(kind, lambda row: int(ids[row]))
        every_node = np.stack([np.arange(OLD + NEW), rng.integers(0, OLD, OLD + NEW)], 1)
        old = np.concatenate([every_node[:OLD], rng.integers(0, OLD, (80, 2))])
        new = np.concatenate([every_node[OLD:], rng.integers(0, OLD + NEW, (20, 2))])
        new = new[(new[:, 0] != new[:, 1]) | (new[:, 0] >= OLD)]  # a loop that was added to an old node is there
        self.x = rng.random((OLD + NEW, 3), np.float32)
        self.y = rng.integers(0, 3, OLD + NEW)
        self.split = rng.choice(["train", "val", "test", ""], OLD + NEW)
        self.edges = {
            "old": write_edges(folder / "old.csv", old, self.names, columns=columns),
            "new": write_edges(folder / "new.csv", new, self.names, columns=columns),
        }

    def nodes(self, which: str) -> dict[str, Any]:
        """The options of the nodes' files."""
        rows = {"old": slice(0, OLD), "new": slice(OLD, None), "all": slice(None)}[which]
        if self.kind == "found":
            return {}
        if self.kind == "rows":
            found: dict[str, Any] = {}
            masks = {part: self.split[rows] == part for part in ("train", "val", "test")}
            for name, array in {"features": self.x[rows], "labels": self.y[rows], **masks}.items():
                found[name] = self.folder / f"{which}-{name}.npy"
                np.save(found[name], array)
            return found
        table = self.folder / f"{which}-nodes.csv"
        lines = ["id,a,b,c,class,part"]
        lines += [
            ",".join(map(str, [self.names(row), *self.x[row], self.y[row], self.split[row]]))
            for row in range(OLD + NEW)[rows]
        ]
        table.write_text("\n".join(lines) + "\n")
        return {"features": table, "id_column": "id", "label": "class", "split_column": "part"}


PLAIN: dict[str, Any] = {}
TIMES: dict[str, Any] = {"weights": True, "edge_times": True, "duplicates": "drop"}
UNDIRECTED: dict[str, Any] = {"weights": True, "undirected": True, "duplicates": "max", "self_loops": "add"}
SUMS: dict[str, Any] = {"weights": True, "duplicates": "sum", "self_loops": "drop"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "treatment"),
    [
        ("rows", UNDIRECTED),
        ("numbers", TIMES),
        ("words", SUMS),
        ("found", PLAIN),
        ("words", UNDIRECTED),
        ("rows", TIMES),
    ],
)
def test_the_arrays_are_those_of_all_files_together(
    kind: str, treatment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against rows, weights, times or splits of other nodes and edges than those that have them."""
    columns = 2 if "edge_times" in treatment else 1 if "weights" in treatment else 0
    files = Files(tmp_path, 3 + len(kind), kind, columns)
    reading = {**treatment, "ids": "words"} if kind == "words" else treatment
    for_new = {name: value for name, value in treatment.items() if name in ("weights", "edge_times")}
    old = gp.import_graph(files.edges["old"], name="old", progress=False, **reading, **files.nodes("old"))
    whole = gp.import_graph(*files.edges.values(), name="whole", progress=False, **reading, **files.nodes("all"))
    before = arrays_of(old)
    found = gp.import_graph(files.edges["new"], name="new", extend=old, progress=False, **for_new, **files.nodes("new"))
    assert arrays_of(found) == arrays_of(whole)
    found.check()
    assert found.directed == whole.directed
    assert arrays_of(gp.open_store("old")) == before
    with monkeypatch.context() as patch:  # by way of the disk
        patch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
        by_disk = gp.import_graph(
            files.edges["new"], name="disk", extend="old", progress=False, **for_new, **files.nodes("new")
        )
    assert arrays_of(by_disk) == arrays_of(whole)


@pytest.fixture
def old(tmp_path: Path) -> GraphStore:
    """A store with ids, features, labels and a split, whose files lie in `tmp_path`."""
    files = Files(tmp_path, 1, "numbers", 1)
    return gp.import_graph(files.edges["old"], name="old", progress=False, weights=True, **files.nodes("old"))


NODES = "id,a,b,c,class,part\n2001,1,2,3,0,train\n2002,1,2,3,-1,\n"
EDGES = "2001,2002,1\n"
READING = {"id_column": "id", "label": ("class",), "split_column": "part"}


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "sentence"),
    [
        (NODES.replace(",3,", ",3,9,").replace("c,", "c,d,"), EDGES, {}, r"has x of float32 \[N, 4\] .* columns"),
        (NODES, "2001,5000,1\n", {}, r"the node 5000 has no row in .*nodes.csv and is not in old"),
        (NODES, "2001,2002\n", {"weights": False}, "have weights, and the new ones have none; give them with weights"),
        (NODES, EDGES, {"undirected": True}, r"are treated as those of old were \(directed, duplicates keep"),
        (NODES, "a,b,1\n", {"ids": "words"}, "its ids are words, but those of .* are numbers"),
        (None, EDGES, {}, "have x, and no file gives it of the 2 new ones; give it with features"),
        (NODES.replace("2002", "2001"), EDGES, {}, "2001"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    old: GraphStore, tmp_path: Path, nodes: str | None, edges: str, options: dict[str, Any], sentence: str
) -> None:
    """Guards against a store of two widths, against nodes that are there twice, and against edges to nobody."""
    (tmp_path / "edges.csv").write_text(edges)
    reading: dict[str, Any] = {"weights": True}
    if nodes is not None:
        (tmp_path / "nodes.csv").write_text(nodes)
        reading |= {"features": tmp_path / "nodes.csv", **READING}
    with pytest.raises((DatasetError, UsageError), match=sentence):
        gp.import_graph(tmp_path / "edges.csv", name="new", extend=old, progress=False, **{**reading, **options})
    with pytest.raises(DatasetError):
        gp.open_store("new")


def test_new_nodes_without_labels_and_splits(old: GraphStore, tmp_path: Path) -> None:
    """Guards against a split that is drawn anew, and against labels that nobody gave."""
    (tmp_path / "edges.csv").write_text("2001,2002,1\n")
    (tmp_path / "nodes.csv").write_text("id,a,b,c\n2001,1,2,3\n2002,4,5,6\n")
    new = gp.import_graph(
        tmp_path / "edges.csv",
        name="new",
        extend="old",
        weights=True,
        features=tmp_path / "nodes.csv",
        id_column="id",
        progress=False,
    )
    table, before = new.node_table("node"), old.node_table("node")
    assert table.y is not None
    assert table.y[OLD:].tolist() == [-1, -1]
    for name in ("train_mask", "val_mask", "test_mask"):
        np.testing.assert_array_equal(getattr(table, name)[:OLD], getattr(before, name))
        assert not getattr(table, name)[OLD:].any()
    assert new.original_ids("node").array()[OLD:].tolist() == [2001, 2002]  # type: ignore[union-attr]
    lines = new.attributes["notes"]["read_as"]
    assert any("new ones have no labels" in line for line in lines)
    assert any("new ones are in no split" in line for line in lines)


def test_a_node_that_is_there_is_not_listed_again(old: GraphStore, tmp_path: Path) -> None:
    """Guards against a second row of one node."""
    known = int(old.original_ids("node")[0])  # type: ignore[index,arg-type]
    (tmp_path / "edges.csv").write_text(f"{known},2001,1\n")
    (tmp_path / "nodes.csv").write_text(NODES.replace("2002", str(known)))
    with pytest.raises(DatasetError, match=f"lists the node {known}, which old has already"):
        gp.import_graph(
            tmp_path / "edges.csv",
            name="new",
            extend=old,
            weights=True,
            features=tmp_path / "nodes.csv",
            progress=False,
            **READING,  # type: ignore[arg-type]
        )


@pytest.mark.slow
def test_merged_edges_and_the_store_itself(tmp_path: Path) -> None:
    """Guards against sums of sums that count edges twice, and against a store that replaces what it is made from."""
    (tmp_path / "e.csv").write_text("0,1,1\n1,2,3\n")
    for name, treatment in (("sums", {"duplicates": "sum", "undirected": True}), ("means", {"duplicates": "mean"})):
        gp.import_graph(tmp_path / "e.csv", name=name, weights=True, progress=False, **treatment)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"were merged .*import all files together"):
            gp.import_graph(tmp_path / "e.csv", name="new", extend=name, weights=True, progress=False)
    with pytest.raises(UsageError, match="would be replaced by the result; give another name or out"):
        gp.import_graph(tmp_path / "e.csv", name="sums", extend="sums", progress=False, replace=True)


def test_the_command_and_a_second_extension(tmp_path: Path) -> None:
    """Guards against a store that is made again though nothing changed, and against origins that are lost."""
    (tmp_path / "a.csv").write_text("0,1\n1,2\n")
    (tmp_path / "b.csv").write_text("2,3\n")
    (tmp_path / "c.csv").write_text("9,3\n")
    run = CliRunner().invoke
    assert run(main, ["import", str(tmp_path / "a.csv"), "--name", "a", "-q"]).exit_code == 0
    for old, new, state in (("a", "b", "wrote"), ("a", "b", "up to date"), ("b", "c", "wrote")):
        done = run(main, ["import", "--extend", old, str(tmp_path / f"{new}.csv"), "--name", new])
        assert done.exit_code == 0, done.output
        assert f"{state}: " in done.stdout
    store = gp.open_store("c")
    assert store.original_ids("node").array().tolist() == [0, 1, 2, 3, 9]  # type: ignore[union-attr]
    assert gp.open_store("b").original_ids("node") is None
    matrix = store.csr(HOMOGENEOUS_EDGE)
    assert matrix.indptr.tolist() == [0, 0, 1, 2, 4, 4]
    assert matrix.indices.tolist() == [0, 1, 2, 4]
    origin = store.attributes["source"]["extends"]
    assert origin["dataset"] == "b"
    assert origin["source"]["extends"]["node_types"] == {"node": 3}
    done = run(main, ["import", "--extend", "nobody", str(tmp_path / "c.csv"), "--name", "d"])
    assert done.exit_code == DatasetError.exit_status
    assert len(done.stderr.strip().splitlines()) == 1


ROLES = """
nodes:
  account:
    file: {0}.csv
    id_column: account
    label: kind
    features: [{{column: income, normalise: standard}}, city, {{column: level, as: codes}}]
edges:
  - {{source: account, relation: pays, destination: account, file: {0}-pays.csv, source_column: payer,
      target_column: payee, label: ok, features: [channel]}}
"""


def accounts(folder: Path, name: str, rows: str, pays: str) -> Path:
    """A schema of a table of accounts and one of transfers."""
    (folder / f"{name}.csv").write_text(f"account,kind,income,city,level\n{rows}")
    (folder / f"{name}-pays.csv").write_text(f"payer,payee,ok,channel\n{pays}")
    (folder / f"{name}.yaml").write_text(ROLES.format(name))
    return folder / f"{name}.yaml"


def test_classes_and_scales_are_those_of_the_store(tmp_path: Path) -> None:
    """Guards against words that have other numbers, and means that are those of the new rows alone."""
    rows = "a1,shop,10,Rome,low\na2,person,20,Oslo,high\na3,bank,60,Bonn,mid\n"
    schema = accounts(tmp_path, "accounts", rows, "a1,a2,yes,web\na2,a3,no,cash\na3,a1,yes,app\n")
    old = gp.import_graph(name="accounts", schema=schema, progress=False)
    rows = "b1,shop,30,Oslo,mid\nb2,person,20,Bonn,low\n"
    schema = accounts(tmp_path, "more", rows, "b1,a1,no,web\na2,b2,yes,app\n")
    new = gp.import_graph(name="more", schema=schema, extend=old, progress=False)
    before, table = old.node_table("account"), new.node_table("account")
    assert before.x is not None
    assert table.x is not None
    assert table.y is not None
    np.testing.assert_array_equal(table.x[:3], before.x)
    income = np.array([10, 20, 60])
    np.testing.assert_allclose(table.x[3:, 0], (np.array([30, 20]) - income.mean()) / income.std(), rtol=1e-5)
    cities, levels = ["Bonn", "Oslo", "Rome"], ["high", "low", "mid"]
    assert table.x[3:, 1:4].argmax(1).tolist() == [cities.index("Oslo"), cities.index("Bonn")]
    assert table.x[3:, 4].tolist() == [levels.index("mid"), levels.index("low")]
    assert table.y.tolist() == [2, 1, 0, 2, 1]
    kind = next(iter(new.num_edges))
    channels = new.edge_array(kind, "features")[:]
    pairs = list(zip(*new.to_scipy().nonzero(), strict=True))
    found = {(int(row), int(column)): int(channels[place].argmax()) for place, (row, column) in enumerate(pairs)}
    assert found == {(1, 0): 2, (2, 1): 1, (0, 2): 0, (0, 3): 2, (4, 1): 0}
    assert new.attributes["notes"]["classes"] == old.attributes["notes"]["classes"]
    for change, words in (
        ("b1,club,30,Oslo,mid\n", "its label 'club' occurs nowhere in accounts"),
        ("b1,shop,30,Paris,mid\n", "its value in the column 'city' 'Paris' occurs nowhere in accounts"),
    ):
        schema = accounts(tmp_path, "other", change, "b1,a1,no,web\n")
        with pytest.raises(DatasetError, match=words):
            gp.import_graph(name="other", schema=schema, extend=old, progress=False)
