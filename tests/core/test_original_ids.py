"""The ids that nodes had in their source, found again from Python, in inspect, in predictions and in other caches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv

import cli
import graphprep
from graphprep.core.original_ids import OriginalIds
from graphprep.errors import CacheError, UsageError
from graphprep.report.summary.one_node import node_summary

WORDS = ["ann", "bob", "e:1", "id=7", "ok=3", "zoë", "日本"]
NUMBERS = [0, 1, 2, 4, 5, 90, 2**40]


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(word) for word in words])


def made(tmp_path: Path, ids: list[str] | list[int], name: str) -> None:
    """A ring of nodes with these ids and a label each, as a store and a cache of two parts."""
    ring = "".join(f"{one} {other}\n" for one, other in zip(ids, ids[1:] + ids[:1], strict=True))
    (tmp_path / "e.txt").write_text(ring)
    rows = "".join(f"{one},{place % 2}\n" for place, one in reversed(list(enumerate(ids))))
    (tmp_path / "y.csv").write_text(f"id,class\n{rows}")
    kind = ["--ids", "words"] if isinstance(ids[0], str) else []
    labels = ["--labels", tmp_path / "y.csv", "--id-column", "id"]
    for words in (
        ["import", tmp_path / "e.txt", "--name", name, *kind, *labels],
        ["partition", name, "--parts", "2", "--method", "random", "--effort", "none", "--limits", ""],
    ):
        done = run(*words)
        assert done.exit_code == 0, done.stderr


@pytest.fixture(params=[WORDS, NUMBERS], ids=["words", "numbers"])
def ids(request: pytest.FixtureRequest, tmp_path: Path) -> list[str] | list[int]:
    """Ids of the nodes, of which there are a store `mine` and a cache; rows are in the reverse order."""
    made(tmp_path, request.param, "mine")
    return list(reversed(request.param))


def test_ids_from_python(ids: list[str] | list[int]) -> None:
    """Guards against ids that are words being lost: original_id was None for them, in stores and in caches."""
    store, cache = graphprep.open_store("mine"), graphprep.open_cache("mine/flat-2")
    table = store.node_table("node")
    assert table.original_id is not None
    assert table.original_id.tolist() == ids
    for found in (store.original_ids("node"), cache.original_ids("node")):
        assert found is not None
        assert len(found) == len(ids)
        assert found.array().tolist() == ids
        assert [found[row] for row in range(len(ids))] == ids
        assert [found.row_of(one) for one in ids] == list(range(len(ids)))
        assert [found.row_of(str(one)) for one in ids] == list(range(len(ids)))
        assert found.row_of("nobody") is None
        assert found.row_of(3) is None
        assert found.row_of(2**70) is None


def test_ids_stay_with_caches_of_caches(ids: list[str] | list[int]) -> None:
    """Guards against ids that `cache merge` and `cache split` leave behind, and arrays that verify does not know."""
    assert run("cache", "merge", "mine/flat-2", "--parts", "1").exit_code == 0
    cache = graphprep.open_cache("mine/flat-1")
    found = cache.original_ids("node")
    assert found is not None
    assert found.array().tolist() == ids
    for label in ("flat-2", "flat-1"):
        done = run("verify", f"mine/{label}")
        assert done.exit_code == 0, done.stderr


def test_inspect_takes_ids(ids: list[str] | list[int]) -> None:
    """Guards against ids that inspect refuses, so that a person cannot ask for a node that he knows."""
    cache = graphprep.open_cache("mine/flat-2")
    for row, one in enumerate(ids):
        for asked in (f"id={one}", f"row={row}", f"node:id={one}", f"node:row={row}"):
            found = node_summary(cache, asked)
            assert (found["node"], found["original_id"]) == (row, one)
    done = run("inspect", "mine/flat-2", "--node", f"id={ids[0]}", "--json")
    assert json.loads(done.stdout)["original_id"] == ids[0]
    assert f"original id: {ids[0]}" in run("inspect", "mine/flat-2", "--node", "row=0").stdout
    for wrong in ("nobody", "id=nobody", "row=7", "row=-1", "7", "node:7", "paper:1x", "row="):
        with pytest.raises(UsageError, match=r"--node .*(is no node: give a number from 0 to 6, or|no node type)"):
            node_summary(cache, wrong)


def test_words_need_no_prefix(tmp_path: Path) -> None:
    """Guards against words with ':' or '=' in them that are taken for types or ways of asking."""
    made(tmp_path, WORDS, "mine")
    cache = graphprep.open_cache("mine/flat-2")
    for word in ("ann", "e:1", "ok=3", "zoë", "日本"):
        assert node_summary(cache, word)["original_id"] == word
    assert node_summary(cache, "id=id=7")["original_id"] == "id=7"
    assert node_summary(cache, "6")["original_id"] == "ann"


def test_a_number_that_may_be_two_nodes(tmp_path: Path) -> None:
    """Guards against a number that is taken for a row where it is meant as an id, or the other way round."""
    made(tmp_path, NUMBERS, "mine")
    cache = graphprep.open_cache("mine/flat-2")
    with pytest.raises(UsageError, match=r"--node 4 may be row 4 .* calls 4, which is row 3; give row=4 or id=4"):
        node_summary(cache, "4")
    assert node_summary(cache, "id=4")["node"] == 3
    assert node_summary(cache, "row=4")["node"] == 4
    assert node_summary(cache, "3")["node"] == 3  # no node is called so
    assert node_summary(cache, "90")["node"] == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_beside_ids(tmp_path: Path, ids: list[str] | list[int], ending: str) -> None:
    """Guards against predictions that nobody can join with his own tables."""
    scores = np.random.default_rng(0).random((len(ids), 2)).astype(np.float32)
    np.save(tmp_path / "scores.npy", scores)
    target = tmp_path / f"out.{ending}"
    done = run("evaluate", "mine/flat-2", tmp_path / "scores.npy", "--table", target, "--json")
    assert done.exit_code == 0, done.stderr
    assert f"wrote {target}" in done.stderr
    columns = (csv.read_csv(target) if ending == "csv" else pq.read_table(target)).to_pydict()
    assert columns["id"] == ids
    assert columns["prediction"] == scores.argmax(axis=1).tolist()
    assert np.array_equal(np.array(columns["score_1"], np.float32), scores[:, 1])


def test_a_table_that_cannot_be_written(tmp_path: Path) -> None:
    """Guards against a mistake in the name that is found after the work."""
    made(tmp_path, NUMBERS, "mine")
    np.save(tmp_path / "scores.npy", np.zeros((7, 2), np.float32))
    for target, words in (
        (tmp_path / "out.xls", "ends in none of"),
        (tmp_path / "no" / "out.csv", "no file in a folder"),
    ):
        done = run("evaluate", "mine/flat-2", tmp_path / "scores.npy", "--table", target)
        assert done.exit_code == 2
        assert words in done.stderr


def test_offsets_that_do_not_fit() -> None:
    """Guards against damaged ids that are read past their end."""
    text = np.frombuffer(b"abc", np.uint8)
    for offsets in ([0, 2], [1, 3], [0, 3, 2, 3], []):
        with pytest.raises(CacheError, match="here: the offsets of the nodes' ids"):
            OriginalIds.of_words(np.array(offsets, np.int64), text, "here", CacheError)
