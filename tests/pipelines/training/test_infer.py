"""Inference with a trained model: the same scores on fewer ranks, by the command and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import graphprep as gp
from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.errors import TrainingError, UsageError
from pipelines.training.train import start_trainer
from tests.forks import fork_trainers
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks in place of new interpreters; tests/api has both."""
    fork_trainers(monkeypatch)


def caches_of(name: str) -> dict[int, PartitionCache]:
    """Caches of one, two and three parts of a store."""
    return {
        parts: gp.partition(name, parts=parts, method="random", effort="none", progress=False) for parts in (1, 2, 3)
    }


@pytest.mark.parametrize(
    "options", [{"model": "gatv2", "edge_features": "weights"}, {"model": "sage", "norm": "batch", "seed": 3}]
)
def test_scores_are_those_of_training_on_fewer_ranks(options: dict[str, object], tmp_path: Path) -> None:
    """Guards against other weights, running means or options than those of the run, and against epochs that are run."""
    make_store(labelled_graph(np.random.default_rng(1), 60, 400, weighted=True), name="small")
    caches = caches_of("small")
    run = gp.train(caches[3], epochs=6, hidden=8, output=tmp_path / "run", progress=False, **options)  # type: ignore[arg-type]
    for parts in (1, 2):
        found = gp.infer(caches[parts], run, progress=False)
        np.testing.assert_allclose(found.predictions(), run.predictions(), atol=1e-5)
        assert found.result["ranks"] == parts
        assert found.metrics == pytest.approx(run.metrics)
        assert len(found.history) == 0
        for name, weight in run.state_dict().items():
            assert (weight == found.state_dict()[name]).all()


def test_learnt_rows_of_nodes(tmp_path: Path) -> None:
    """Guards against rows of nodes that are given to other nodes."""
    make_store(typed_graph(np.random.default_rng(1)), name="typed")
    caches = caches_of("typed")
    run = gp.train(caches[2], model="rgcn", epochs=4, hidden=8, output=tmp_path / "run", progress=False)
    found = gp.infer(caches[1], tmp_path / "run", progress=False)
    np.testing.assert_allclose(found.predictions(), run.predictions(), atol=1e-5)
    assert found.node_type == "paper"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against scores without ids, and files that appear before they are whole."""
    monkeypatch.chdir(tmp_path)
    names = [f"node-{number:02d}" for number in range(40)]
    edges = np.random.default_rng(1).integers(0, 40, (2, 200))
    index = ([names[row] for row in edges[0]], [names[row] for row in edges[1]])
    gp.from_arrays(index, ids=names, x=np.eye(40, 4), y=np.arange(40) % 2, name="named")
    caches_of("named")
    assert start_trainer("named/flat-2", ["--epochs=3", "--output=run", "--checkpoint=weights", "--quiet"]) == 0
    Path(".partial-scores.csv-run", "run").mkdir(parents=True)  # of a run that was killed
    for out in ("scores.csv", "scores.parquet"):
        done = CliRunner().invoke(main, ["infer", "named/flat-1", "run", out, "--embeddings", "rows.npy", "--quiet"])
        assert done.exit_code == 0, done.output
        assert f"wrote {out}; test accuracy" in done.output
    done = CliRunner().invoke(main, ["infer", "named/flat-1", "run", "scores.npy", "--json", "--quiet"])
    assert json.loads(done.stdout)["epochs"] == 3
    scores = np.load("scores.npy")
    assert scores.shape == (40, 2)
    assert np.load("rows.npy").shape == (40, 64)
    table = pq.read_table("scores.parquet")
    assert table["id"].to_pylist() == names
    np.testing.assert_allclose(table["score_1"].to_numpy(), scores[:, 1], atol=1e-6)
    made = ["rows.npy", "run", "scores.csv", "scores.npy", "scores.parquet", "weights"]
    assert sorted(path.name for path in tmp_path.iterdir()) == made


def test_what_cannot_be_inferred(tmp_path: Path) -> None:
    """Guards against scores of weights that learnt another graph, and a traceback where there are none."""
    make_store(labelled_graph(np.random.default_rng(1), 60, 400), name="small")
    make_store(labelled_graph(np.random.default_rng(2), 50, 400), name="other")
    caches = caches_of("small")
    run = gp.train(caches[1], epochs=1, output=tmp_path / "run", progress=False)
    other = gp.partition("other", parts=1)
    with pytest.raises(TrainingError, match="are of another graph than"):
        gp.infer(other, run, progress=False)
    with pytest.raises(TrainingError, match="is no finished run"):
        gp.infer(caches[1], tmp_path / "nowhere")
    done = CliRunner().invoke(main, ["infer", "small/flat-1", str(run.folder), "scores.txt"])
    assert done.exit_code == UsageError.exit_status
    assert "OUT scores.txt ends in none of .npy, .csv, .parquet" in done.output
    for file in (run.folder / "checkpoint").glob("*.pt"):
        file.unlink()
    with pytest.raises(TrainingError, match="there is no checkpoint in"):
        gp.infer(caches[1], run)
