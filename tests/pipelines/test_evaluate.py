"""Predictions scored against a cache: by OGB's evaluator, by scikit-learn's figures, and by the trainer's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from sklearn.metrics import f1_score, mean_squared_error, roc_auc_score

from cli import main
from graphprep.core import metrics
from graphprep.errors import DatasetError, UsageError
from graphprep.store.convert import graph_to_store
from graphprep.store.store import GraphStore
from graphprep.system.home import cache_path, store_path
from graphprep.topology import Topology
from pipelines.evaluate import evaluate
from tests.graphs import labelled_graph
from tests.stores import make_cache


def cached(name: str, *, y: Any = None, reader: str = "test", num_nodes: int = 90) -> str:
    """NAME/LABEL of a small cache whose labels may be replaced."""
    raw = labelled_graph(np.random.default_rng(1), num_nodes, 300)
    if y is not None:
        [table] = raw.nodes.values()
        object.__setattr__(table, "y", y)
    graph_to_store(raw, store_path(name), name=name, key="0" * 64, source={"reader": reader}, expected=None)
    make_cache(GraphStore(store_path(name)), Topology.flat(3), cache_path(name, "flat-3"))
    return f"{name}/flat-3"


def predictions(folder: Path, rows: np.ndarray[Any, Any], name: str = "p.npy") -> Path:
    np.save(folder / name, rows)
    return folder / name


def masks() -> Any:
    """The node table of that graph: labels and masks in the dataset's order."""
    [table] = labelled_graph(np.random.default_rng(1), 90, 300).nodes.values()
    return table


def test_classes(tmp_path: Path) -> None:
    """Rows in the parts' order, or unlabelled nodes that count as wrong, give another accuracy."""
    cache, table = cached("small"), masks()
    classes = int(table.y.max()) + 1
    rows = np.random.default_rng(2).normal(size=(90, classes)).astype(np.float32)
    rows[np.arange(90), table.y] += 1.0
    path = predictions(tmp_path, rows)
    found = evaluate(cache, path)
    guess = rows.argmax(1)
    assert (found["metric"], found["evaluator"]) == ("accuracy", "graphprep")
    for group, mask in (("train", table.train_mask), ("val", table.val_mask), ("test", table.test_mask)):
        chosen = mask.reshape(90, -1)[:, 0] & (table.y >= 0)
        assert found[group] == pytest.approx(float((guess == table.y)[chosen].mean()))
        macro = evaluate(cache, path, metric="f1-macro")[group]
        assert macro == pytest.approx(f1_score(table.y[chosen], guess[chosen], average="macro"))
    only_classes = predictions(tmp_path, guess.astype(np.int64), "classes.npy")
    assert evaluate(cache, only_classes) == found
    with pytest.raises(UsageError, match="needs scores"):
        evaluate(cache, only_classes, metric="roc-auc")


@pytest.fixture
def matrix() -> np.ndarray[Any, Any]:
    y = np.random.default_rng(3).integers(0, 2, (90, 4)).astype(np.float32)
    y[np.random.default_rng(4).random(y.shape) < 0.2] = np.nan
    return y


def test_several_labels_and_numbers(tmp_path: Path, matrix: np.ndarray[Any, Any]) -> None:
    """An unknown label that counts as 0 flatters a model that says no."""
    cache, table = cached("several", y=matrix), masks()
    rows = np.random.default_rng(5).normal(size=(90, 4)).astype(np.float32)
    path = predictions(tmp_path, rows)
    chosen = table.test_mask.reshape(90, -1)[:, 0]
    known = [chosen & ~np.isnan(matrix[:, c]) for c in range(4)]
    areas = [roc_auc_score(matrix[known[c], c], rows[known[c], c]) for c in range(4)]
    assert evaluate(cache, path)["test"] == pytest.approx(np.mean(areas))
    flat = [np.concatenate([m[known[c], c] for c in range(4)]) for m in (matrix, rows > 0, rows)]
    assert evaluate(cache, path, metric="f1-micro")["test"] == pytest.approx(f1_score(flat[0], flat[1]))
    numbers = evaluate(cache, path, task="regression")
    assert (numbers["metric"], numbers["test"]) == ("mse", pytest.approx(mean_squared_error(flat[0], flat[2])))
    with pytest.raises(UsageError, match="is none of several"):
        evaluate(cache, path, task="classes")


def test_ogb_scores_its_own(tmp_path: Path) -> None:
    """OGB's evaluator is the word that leaderboards take; importing its package would ask the network for news."""
    cache, table = cached("ogbn-arxiv", reader="ogb"), masks()
    rows = np.random.default_rng(2).normal(size=(90, int(table.y.max()) + 1))
    path = predictions(tmp_path, rows)
    before = "ogb" in sys.modules
    found = evaluate(cache, path)
    assert ("ogb" in sys.modules) == before
    assert (found["metric"], found["evaluator"]) == ("acc", "ogb")
    assert found["test"] == pytest.approx(evaluate(cache, path, metric="accuracy")["test"])
    # A graph of that name from elsewhere has other splits and is not OGB's.
    assert evaluate(cached("ogbn-products"), path)["evaluator"] == "graphprep"


def test_ogb_scores_several_labels(matrix: np.ndarray[Any, Any]) -> None:
    """Both ways of the mean over labels agree, or one of them leaves out other labels than OGB."""
    y = np.tile(matrix, (1, 28))
    rows = np.random.default_rng(5).normal(size=y.shape)
    assert metrics.ogb_metric("ogbn-proteins") == "rocauc"
    assert metrics.ogb_metric("ogbn-papers100m") == "acc"
    assert metrics.ogb_metric("cora") is None
    by_ogb = metrics.score(y, rows, task="multilabel", metric="ogb", dataset="ogbn-proteins")
    assert by_ogb == pytest.approx(metrics.score(y, rows, task="multilabel", metric="roc-auc"))


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    """A pickle is code; rows of another graph have no meaning here."""
    cache = cached("small")
    good = torch.zeros(90, int(masks().y.max()) + 1)
    torch.save(good, tmp_path / "p.pt")
    assert evaluate(cache, tmp_path / "p.pt")["test"] is not None
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    torch.save({"a": good}, tmp_path / "dict.pt")
    torch.save(tmp_path, tmp_path / "path.pt")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "p.pt").read_bytes()[:300])
    (tmp_path / "p.csv").write_text("1,2\n")
    np.save(tmp_path / "cube.npy", np.zeros((90, 2, 2)))
    for name in (
        "objects.npy",
        "dict.pt",
        "path.pt",
        "cut.npy",
        "cut.pt",
        "p.csv",
        "cube.npy",
        "absent.npy",
        "absent.pt",
    ):
        with pytest.raises(DatasetError) as caught:
            evaluate(cache, tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="give predictions of this graph"):
        evaluate(cache, predictions(tmp_path, np.zeros((89, good.shape[1]))))
    for wrong in ({"metric": "mse"}, {"metric": "ogb"}, {"split": 7}):
        with pytest.raises(UsageError):
            evaluate(cache, tmp_path / "p.pt", **wrong)  # type: ignore[arg-type]


def test_the_command(tmp_path: Path) -> None:
    """With --json there is one document and nothing else; a wrong file is one sentence with its status."""
    cache = cached("small")
    path = predictions(tmp_path, np.zeros((90, int(masks().y.max()) + 1)))
    done = CliRunner().invoke(main, ["evaluate", cache, str(path), "--json"])
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)) == {"dataset", "task", "metric", "evaluator", "split", "train", "val", "test"}
    shown = CliRunner().invoke(main, ["evaluate", cache, str(path)])
    assert "small: accuracy by graphprep" in shown.stdout
    wrong = CliRunner().invoke(main, ["evaluate", cache, str(tmp_path / "absent.npy")])
    assert wrong.exit_code == 3
    assert len(wrong.stderr.strip().splitlines()) == 1
