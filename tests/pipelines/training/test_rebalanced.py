"""Caches whose parts suit measured speeds, and runs that go on with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr, rebuild_rows
from graphprep.cache.verify import verify_cache
from graphprep.errors import TrainingError
from graphprep.report.summary.cache_summary import quality_of
from graphprep.topology import Topology
from pipelines.repartition.rebalance import speeds_of_run
from pipelines.training import rebalanced as loop
from pipelines.training.rebalanced import LINES, decide
from pipelines.training.train import start_trainer
from tests.forks import fork_trainers
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store

SLOW_RANK_1 = """
import os, time, torch
fast = torch.mm
def slow(*arguments, **options):
    if os.environ.get("LOCAL_RANK") == "1":
        time.sleep(1e-4 * max(arguments[0].shape))
    return fast(*arguments, **options)
torch.mm = slow
"""
"""What Python imports first: dense products of rank 1 take longer, by their rows."""


@pytest.fixture
def cache(tmp_path: Path) -> PartitionCache:
    store = make_store(labelled_graph(np.random.default_rng(1), 400, 3000, undirected=True))
    return make_cache(store, Topology.flat(2), tmp_path / "cache", method="metis")


def line(epoch: int, seconds: tuple[float, ...]) -> dict[str, Any]:
    """What a history has of one epoch, as far as it matters here."""
    return {"epoch": epoch, "ranks": [{"compute_seconds": each} for each in seconds]}


def write_history(folder: Path, lines: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))


@pytest.mark.slow
def test_nodes_move_to_the_faster_rank(cache: PartitionCache, tmp_path: Path) -> None:
    """Guards against parts by other speeds, against another graph, and against most nodes in other places."""
    ranks = quality_of(cache)["ranks"]
    work = [rank["edges"] + 10 * rank["nodes"] for rank in ranks]
    seconds = (work[0] * 1e-6, work[1] * 2e-6)  # rank 1 has half the speed
    write_history(tmp_path / "run", [line(epoch, seconds) for epoch in range(1, 8)])
    words = ["cache", "rebalance", str(cache.folder), str(tmp_path / "run"), "--out", str(tmp_path / "new"), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["rebalance"]
    assert found["speeds"] == [1, 0.5]
    other = PartitionCache(tmp_path / "new")
    verify_cache(other)
    shares = [rank["edges"] + 10 * rank["nodes"] for rank in quality_of(other)["ranks"]]
    assert shares[0] / sum(shares) == pytest.approx(2 / 3, abs=0.04)
    assert found["moved_nodes"] == int(
        (np.array(cache.array("assignment")) != np.array(other.array("assignment"))).sum()
    )
    assert found["moved_nodes"] < 0.3 * 400
    assert found["expected_seconds"] == pytest.approx(max(shares[0] * 1e-6, shares[1] * 2e-6), rel=1e-3)
    [kind] = cache.edge_types
    np.testing.assert_array_equal(rebuild_csr(cache, kind).indices, rebuild_csr(other, kind).indices)
    np.testing.assert_array_equal(rebuild_rows(cache, "node", "x"), rebuild_rows(other, "node", "x"))


def test_parts_that_suit_are_kept(cache: PartitionCache, tmp_path: Path) -> None:
    """Guards against a cache that gains nothing, and against speeds of nothing."""
    work = [rank["edges"] + 10 * rank["nodes"] for rank in quality_of(cache)["ranks"]]
    for lines, words in (
        ([line(epoch, (work[0] * 1e-6, work[1] * 1e-6)) for epoch in (1, 2)], "other parts are made from 1.15 on"),
        ([line(1, (1.0, 1.0, 1.0))], "the run has no seconds of 2 ranks"),
        ([], "the run has no seconds of 2 ranks"),
        ([{"epoch": 1, "ranks": [{"compute_seconds": None}] * 2}], "GPUs spend their seconds on is not measured"),
    ):
        write_history(tmp_path / "run", lines)
        done = CliRunner().invoke(main, ["cache", "rebalance", str(cache.folder), str(tmp_path / "run")])
        assert done.exit_code in (2, 7)
        assert words in " ".join(done.stderr.split())


def test_a_line_may_stand_for_several_epochs(cache: PartitionCache) -> None:
    """Guards against seconds of ten epochs that are taken for those of one."""
    few = speeds_of_run(cache, [line(10, (10.0, 20.0)), line(20, (10.0, 20.0))])
    many = speeds_of_run(cache, [line(1, (1.0, 2.0)), line(2, (1.0, 2.0))])
    np.testing.assert_allclose(few.seconds_P, many.seconds_P)
    with pytest.raises(TrainingError):
        speeds_of_run(cache, [])


def test_a_run_is_stopped_only_where_that_pays(cache: PartitionCache) -> None:
    """Guards against a new cache for the last few epochs, and against a decision from the first ones."""
    slow = [line(epoch, (1.0, 3.0)) for epoch in range(1, LINES + 2)]
    assert decide(cache, slow[:LINES], last_epoch=200, cost_seconds=10) is None
    early = decide(cache, slow, last_epoch=200, cost_seconds=10)
    assert early is not None
    assert early.is_worth_it
    late = decide(cache, slow, last_epoch=10, cost_seconds=10)
    assert late is not None
    assert not late.is_worth_it


@pytest.mark.slow
def test_a_rank_that_becomes_slow_loses_nodes(
    cache: PartitionCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards against a run that ends, starts again or learns something else when its nodes move."""
    monkeypatch.setattr(loop, "START_SECONDS", 1e-3)
    monkeypatch.setattr(loop, "WORTH_MOVING", 3.0)  # which the slow rank passes, and others on a busy machine do not
    output = tmp_path / "run"
    words = ["--epochs", "100", "--patience", "0", "--dropout", "0", "--quiet"]
    (tmp_path / "sitecustomize.py").write_text(SLOW_RANK_1)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}")
    status = loop.train_rebalanced(str(cache.folder), [*words, "--output", str(output)])
    said = capfd.readouterr().err
    assert status == 0, said
    first = output / "caches" / "1"
    assert f"training goes on with {first}, made from {cache.folder}" in said
    assert f"2 rank(s) on {cache.folder} give way to 2 on {first}" in said
    history = [json.loads(text) for text in (output / "history.jsonl").read_text().splitlines()]
    assert [each["epoch"] for each in history] == list(range(1, 101))
    [last] = (output / "caches").iterdir()  # nodes may have moved again, and then the first cache is gone
    nodes = [rank["nodes"] for rank in quality_of(PartitionCache(last))["ranks"]]
    assert nodes[1] < 0.45 * 400
    alone = tmp_path / "alone"
    monkeypatch.delenv("PYTHONPATH")
    fork_trainers(monkeypatch)
    assert start_trainer(str(cache.folder), [*words, "--output", str(alone)]) == 0
    expected = [json.loads(text)["loss"] for text in (alone / "history.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([each["loss"] for each in history], expected, rtol=1e-2)
