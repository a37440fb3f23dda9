"""A store that is extended, its parts, and inference for the new nodes by the weights that were learnt before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import graphprep as gp
from cli import main
from graphprep.cache.verify import verify_cache
from graphprep.errors import PartitionError, TrainingError, UsageError
from graphprep.store.store import GraphStore
from tests.forks import fork_trainers
from tests.graphs import typed_graph
from tests.stores import make_store

PEOPLE, NEW = 60, 12


def name_of(row: int) -> str:
    return f"p{row:03d}"


def write_people(folder: Path) -> None:
    """People with words for ids, most of whom know their neighbours on a ring; the new ones know old and new people."""
    rng = np.random.default_rng(3)
    x = rng.random((PEOPLE + NEW, 3)).round(3)
    for file, rows in (("people", range(PEOPLE)), ("people-new", range(PEOPLE, PEOPLE + NEW))):
        lines = [",".join(map(str, [name_of(row), *x[row], int(x[row, 0] > 0.5)])) for row in rows]
        (folder / f"{file}.csv").write_text("\n".join(["id,a,b,c,class", *lines]) + "\n")
    knows = [(row, (row + step) % PEOPLE) for row in range(PEOPLE) for step in (1, 2)]
    knows_new = [(row, other) for row in range(PEOPLE, PEOPLE + NEW) for other in (row - PEOPLE, row - 1)]
    for file, pairs in (("knows", knows), ("knows-new", knows_new)):
        (folder / f"{file}.csv").write_text("".join(f"{name_of(one)},{name_of(other)}\n" for one, other in pairs))


READING: dict[str, Any] = {"id_column": "id", "label": "class"}


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks in place of new interpreters; tests/api has both."""
    fork_trainers(monkeypatch)


@pytest.fixture
def people(tmp_path: Path) -> GraphStore:
    write_people(tmp_path)
    return gp.import_graph(
        tmp_path / "knows.csv", name="people", undirected=True, ids="words", features=tmp_path / "people.csv", **READING
    )


@pytest.fixture
def more(tmp_path: Path, people: GraphStore) -> GraphStore:
    return gp.import_graph(
        tmp_path / "knows-new.csv", name="more", extend=people, features=tmp_path / "people-new.csv", **READING
    )


@pytest.mark.slow
def test_old_nodes_keep_their_parts(more: GraphStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against nodes that move, against a cache for another machine, and against growth that is not said."""
    before = gp.partition(
        "people", topology="2x2", hidden=32, features="float16", method="metis", effort="none", limits=("nodes",)
    )
    capsys.readouterr()
    cache = gp.partition(more, extend=before)
    verify_cache(cache)
    assert "12 new nodes: halo rows" in capsys.readouterr().err
    np.testing.assert_array_equal(cache.assignment("node")[:PEOPLE], before.assignment("node"))
    assert cache.attributes["topology"] == before.attributes["topology"]
    for name in ("row_bytes", "model_widths", "features", "limits"):
        assert cache.attributes["options"][name] == before.attributes["options"][name]
    part = cache.assignment("node")
    assert all(part[row] in (part[row - PEOPLE], part[row - 1]) for row in range(PEOPLE, PEOPLE + NEW))
    done = CliRunner().invoke(main, ["partition", "more", "--extend", "people/2x2", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["reused"]
    growth = document["extension"]
    assert growth["new_nodes"] == NEW
    assert growth["halo_rows"] >= growth["halo_rows_before"] > 0
    assert growth["edges"] - growth["edges_before"] == 4 * NEW
    out = tmp_path / "other"
    done = CliRunner().invoke(
        main,
        ["partition", "more", "--extend", "people/2x2", "--out", str(out), "--features", "stored", "--row-bytes", "64"],
    )
    assert done.exit_code == 0, done.output
    options = gp.open_cache(out).attributes["options"]
    assert (options["features"], options["row_bytes"], options["model_widths"]) == ("stored", 64, None)


def test_what_cannot_be_extended_is_one_sentence(more: GraphStore) -> None:
    """Guards against parts of another graph, and against options that would move nodes."""
    before = gp.partition("people", parts=2, effort="none", method="random")
    after = gp.partition(more, extend=before)
    for store, cache, words in (
        ("people", before, "does not extend the graph people of .* was not made by `graphprep import extend`"),
        (more, after, "does not extend the graph more of .*: it extends people; give a cache"),
    ):
        with pytest.raises(PartitionError, match=words):
            gp.partition(store, extend=cache)
    for options, words in (
        ({"parts": 2}, "extend takes topology and parts from the cache; leave parts away"),
        ({"topology": "2x2"}, "leave topology away"),
        ({"assignment": [0] * (PEOPLE + NEW)}, "leave assignment away"),
        ({"effort": "fast"}, "effort fast would move nodes"),
        ({"method": "metis"}, "method metis would move nodes"),
    ):
        with pytest.raises(UsageError, match=words):
            gp.partition(more, extend=before, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_partitioning_anew_is_advised(people: GraphStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against parts that a hub of new nodes has made useless, which nobody is told of."""
    ids = [f"q{number}" for number in range(200)]
    (tmp_path / "hub.csv").write_text("".join(f"{one},{name_of(0)}\n" for one in ids))
    (tmp_path / "hubs.csv").write_text("id,a,b,c\n" + "".join(f"{one},1,2,3\n" for one in ids))
    before = gp.partition(people, parts=3, method="metis", effort="none")
    store = gp.import_graph(
        tmp_path / "hub.csv", name="hub", extend=people, features=tmp_path / "hubs.csv", id_column="id"
    )
    gp.partition(store, extend=before)
    said = capsys.readouterr().err
    assert "do not keep the limits on nodes" in said
    assert "partitioning anew is advisable" in said


@pytest.mark.slow
def test_new_nodes_are_inferred_by_weights_that_were_learnt_before(more: GraphStore, tmp_path: Path) -> None:
    """Guards against weights that are refused or trained again, and against scores of other nodes than the new ones."""
    before = gp.partition("people", parts=2, effort="none", method="random")
    run = gp.train(before, epochs=4, hidden=8, layers=2, output=tmp_path / "run", progress=False)
    for row in (1, 2):
        (tmp_path / f"more-{row}.csv").write_text(f"{name_of(PEOPLE + NEW + row)},{name_of(row)}\n")
        (tmp_path / f"people-{row}.csv").write_text(f"id,a,b,c\n{name_of(PEOPLE + NEW + row)},1,2,3\n")
    twice = gp.import_graph(
        tmp_path / "more-1.csv", name="twice", extend=more, features=tmp_path / "people-1.csv", id_column="id"
    )
    cache = gp.partition(twice, extend=before)
    out = tmp_path / "scores.csv"
    done = CliRunner().invoke(main, ["infer", str(cache.folder), str(run.folder), str(out), "-q"])
    assert done.exit_code == 0, done.output
    ids = [line.split(",")[0].strip('"') for line in out.read_text().splitlines()[1:]]
    assert ids == [name_of(row) for row in [*range(PEOPLE + NEW), PEOPLE + NEW + 1]]
    found = gp.infer(cache, run, progress=False)
    whole = gp.infer(gp.partition(twice, parts=1), run, progress=False)
    np.testing.assert_allclose(found.predictions(), whole.predictions(), atol=1e-5)
    for name, weight in run.state_dict().items():
        assert (weight == found.state_dict()[name]).all()
    # Person 40 and all within two steps know no new person.
    np.testing.assert_allclose(found.predictions()[40], run.predictions()[40], atol=1e-5)
    assert not np.allclose(found.predictions()[1], run.predictions()[1], atol=1e-5)


@pytest.mark.slow
def test_learnt_rows_of_nodes_are_refused(tmp_path: Path) -> None:
    """Guards against rows of new nodes that nobody has learnt."""
    make_store(typed_graph(np.random.default_rng(1)), name="typed")
    store = gp.open_store("typed")
    before = gp.partition(store, parts=1, method="random", effort="none")
    (tmp_path / "writes.csv").write_text("30,0\n")
    (tmp_path / "schema.yaml").write_text(
        "nodes: {author: {count: 31}, paper: {}}\n"
        "edges: [{source: author, relation: writes, destination: paper, files: [writes.csv]}]\n"
    )
    more = gp.import_graph(name="more", extend=store, schema=tmp_path / "schema.yaml")
    run = gp.train(before, model="rgcn", epochs=1, hidden=4, output=tmp_path / "run", progress=False)
    with pytest.raises(TrainingError, match=r"have learnt rows for each node .* and the new nodes .* have none"):
        gp.infer(gp.partition(more, extend=before), run, progress=False)
