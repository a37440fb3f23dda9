"""The page and the tables of a training run: every number is that of the JSON, and older runs are readable."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import graphprep as gp
from cli import main
from graphprep.errors import TrainingError
from graphprep.interop.training_run import TrainingRun
from graphprep.report.pages import run_page
from graphprep.report.summary.run_summary import GROUPS, POINTS, run_summary
from graphprep.report.summary.run_verdict import run_advice, run_verdict
from graphprep.topology import resolve
from tests.graphs import labelled_graph
from tests.report.pages import Page, at, number_in
from tests.stores import make_cache, make_store
from tests.trainer.rank_group import among_ranks, train_once

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("run report")]
EPOCHS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four ranks on two machines."""
    root = tmp_path_factory.mktemp("run")
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, undirected=True), target=root / "graph.zarr")
    cache = make_cache(store, resolve("2x2"), root / "cache")
    task = partial(train_once, cache=str(cache.folder), output=str(root / "run"), epochs=EPOCHS, eval_every=1)
    among_ranks(4, [task])
    return root / "run"


@pytest.fixture
def summary(folder: Path) -> dict[str, Any]:
    return run_summary(TrainingRun(folder))


def test_every_number_is_that_of_the_json(summary: dict[str, Any]) -> None:
    """Guards against a page that computes its own numbers, rounds them wrongly, or shows what the JSON has not."""
    document = json.loads(json.dumps(summary, allow_nan=False))
    text = run_page(summary)
    page = Page(text)
    assert len(page.figures) >= 100
    for path, value, shown in page.figures:
        assert value == at(document, path), path
        assert number_in(shown) == pytest.approx(value, rel=0.06, abs=6e-4), (path, shown)
    assert [words for words in page.words if re.search(r"\d", words)] == []
    assert len(page.images) == 3
    for image in page.images:
        assert f'<title id="{image["aria-labelledby"]}">' in text
    assert not re.search(r'(?:src|href)="(?!#|data:,")', text)
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_the_figures_are_those_of_the_run(folder: Path, summary: dict[str, Any]) -> None:
    """Guards against ranges of epochs that overlap or leave one out, and against sums of other ranks."""
    run = TrainingRun(folder)
    groups = summary["groups"]
    assert 1 < len(groups) <= GROUPS
    assert (groups[0]["first_epoch"], groups[-1]["last_epoch"]) == (1, EPOCHS)
    for before, after in pairwise(groups):
        assert after["first_epoch"] == before["last_epoch"] + 1
    epochs = [group["last_epoch"] - group["first_epoch"] + 1 for group in groups]
    seconds = sum(number * group["epoch_seconds"] for number, group in zip(epochs, groups, strict=True))
    assert seconds == pytest.approx(run.history["seconds"].sum())
    timeline = run.timeline
    assert len(timeline["epoch"]) == EPOCHS * 4
    for row in summary["by_rank"]:
        mine = timeline["rank"] == row["rank"]
        assert row["compute_seconds"] == pytest.approx(timeline["compute_seconds"][mine].sum())
        over_network = timeline["exchange_seconds_network"][mine].sum()
        assert row["exchange_seconds_by_link_type"]["network"] == pytest.approx(over_network)
    assert run.traffic["bytes_sent"].sum() == run.history["row_bytes_sent"].sum()
    assert sum(row["bytes_sent"] for row in summary["by_link"]) == run.result["row_bytes_sent"]
    for row in summary["by_link"]:
        assert sum(row["link_types"].values()) == row["bytes_sent"]
    of_bytes = [row for row in summary["predicted"] if row["what"].startswith("bytes of an exchange")]
    assert len(of_bytes) == 3
    assert [row["ratio"] for row in of_bytes] == pytest.approx([1.0] * 3)
    assert all(row["measured"] > 0 for row in summary["predicted"])


def test_the_command_writes_the_page(folder: Path, tmp_path: Path) -> None:
    """Guards against another page than the JSON's, and one that goes where nobody asked."""
    done = CliRunner().invoke(main, ["report", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(json.dumps(run_summary(TrainingRun(folder))))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    shown = CliRunner().invoke(main, ["report", str(folder), "--output", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").exists()
    for words in ("The test accuracy is", "Seconds of all epochs, by rank", "over network", "Predicted and measured"):
        assert words.lower() in shown.stdout.lower()
    assert gp.report(folder, output=tmp_path / "again.html").read_bytes() == (folder / "report.html").read_bytes()
    refused = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert refused.exit_code == TrainingError.exit_status
    assert "is no finished run" in refused.stderr


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (target / path.name).write_bytes(path.read_bytes())
    return target


def test_runs_of_earlier_releases(folder: Path, tmp_path: Path) -> None:
    """Guards against a page that needs what older runs have not kept."""
    without = copied(folder, tmp_path / "without")
    (without / "history.jsonl").unlink()
    result = json.loads((without / "result.json").read_text())
    for name in ("memory_bytes_by_rank", "memory_estimate_by_rank", "environment"):
        del result[name]
    (without / "result.json").write_text(json.dumps(result))
    summary = run_summary(TrainingRun(without))
    assert summary["groups"] == []
    assert "There is no history" in run_page(summary)
    assert len(TrainingRun(without).history) == 0
    plain = copied(folder, tmp_path / "plain")
    lines = [json.loads(line) for line in (plain / "history.jsonl").read_text().splitlines()]
    names = ("epoch", "loss", "val_accuracy", "seconds", "bytes_sent", "row_bytes_sent")
    old = [json.dumps({name: line[name] for name in names}) + "\n" for line in lines]
    (plain / "history.jsonl").write_text("".join(old))
    summary = run_summary(TrainingRun(plain))
    assert summary["groups"][-1]["compute_seconds"] is None
    page = run_page(summary)
    assert "Loss and metric" in page
    assert "are not measured by kind" in page
    assert len(TrainingRun(plain).timeline) == 0
    (plain / "history.jsonl").write_text("{")
    with pytest.raises(TrainingError, match="is damaged"):
        run_summary(TrainingRun(plain))


def test_a_run_that_resumed_on_other_ranks(folder: Path, tmp_path: Path) -> None:
    """Guards against a rank of an earlier start that is taken for one of this."""
    resumed = copied(folder, tmp_path / "resumed")
    lines = [json.loads(line) for line in (resumed / "history.jsonl").read_text().splitlines()]
    of_two = [line | {"ranks": line["ranks"][:2]} for line in lines[:10]]
    (resumed / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [*of_two, *lines[10:]]))
    summary = run_summary(TrainingRun(resumed))
    seconds = sum(line["ranks"][0]["compute_seconds"] for line in lines[10:])
    assert summary["by_rank"][0]["compute_seconds"] == pytest.approx(seconds)
    assert [len(group["ranks"]) for group in summary["groups"]] == [0] * 5 + [4] * 10
    assert "timeline" in run_page(summary)
    assert len(TrainingRun(resumed).timeline["rank"]) == 2 * 10 + 4 * 20


def test_a_result_of_an_early_release(folder: Path, tmp_path: Path) -> None:
    """Guards against a traceback about a key that nobody knows."""
    early = copied(folder, tmp_path / "early")
    result = json.loads((early / "result.json").read_text())
    del result["sent_for"]
    (early / "result.json").write_text(json.dumps(result))
    with pytest.raises(TrainingError, match="is a run of an early release, whose result has no sent_for; train again"):
        run_summary(TrainingRun(early))


def test_a_cache_that_is_gone(folder: Path, tmp_path: Path) -> None:
    """Guards against a page that needs the cache, and predictions of another one."""
    moved = copied(folder, tmp_path / "moved")
    config = (moved / "config.toml").read_text()
    (moved / "config.toml").write_text(re.sub(r'(?m)^cache = ".*"$', 'cache = "/nowhere/cache"', config))
    summary = run_summary(TrainingRun(moved))
    assert summary["predicted"] == []
    assert "/nowhere/cache" in summary["without_predictions"]
    assert "There are no predictions" in run_page(summary)


def test_many_epochs_are_ranges(folder: Path, tmp_path: Path) -> None:
    """Guards against a page of a long run that no browser opens, and against a last epoch that is not on it."""
    long = copied(folder, tmp_path / "long")
    lines = [json.loads(line) for line in (long / "history.jsonl").read_text().splitlines()]
    many = [lines[number % EPOCHS] | {"epoch": 5 * (number + 1)} for number in range(1001)]
    (long / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in many))
    summary = run_summary(TrainingRun(long))
    assert len(summary["groups"]) <= GROUPS
    assert (summary["groups"][0]["first_epoch"], summary["groups"][-1]["last_epoch"]) == (1, 5005)
    assert len(summary["curves"]["epoch"]) <= POINTS
    assert summary["curves"]["epoch"][-1] == 5005
    assert len(run_page(summary)) < 1_000_000


def test_verdict_and_advice(summary: dict[str, Any]) -> None:
    """Guards against advice that does not follow from the figures."""
    seconds = [(4.0, 0.5, 0.5), (2.0, 1.5, 1.5)]
    names = ("compute_seconds", "exchange_seconds", "waiting_seconds")
    types = {"exchange_seconds_by_link_type": {"network": 1.0, "nvlink": 0.25}}
    by_rank = [{"rank": rank, **dict(zip(names, row, strict=True)), **types} for rank, row in enumerate(seconds)]
    uneven = summary | {"by_rank": by_rank}
    verdict = run_verdict(uneven)
    assert "ranks compute 60 % of it, wait 20 % of it for rows of other ranks (80 % of that over network)" in verdict[1]
    assert verdict[2] == "Rank 0 computes longest, 1.33 times the mean."
    assert "rank 0 computes 1.33 times the mean" in run_advice(uneven)[0]
    assert any("--wire bf16" in sentence for sentence in run_advice(uneven))
    even = summary | {"by_rank": [row | dict(zip(names, (9.0, 0.1, 0.1), strict=True)) for row in by_rank]}
    assert not any("--wire" in sentence or "--imbalance" in sentence for sentence in run_advice(even))
    last = even | {"result": summary["result"] | {"best_epoch": EPOCHS}}
    assert any("--epochs" in sentence for sentence in run_advice(last))
