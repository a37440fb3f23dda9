"""Weights & Biases and MLflow: what their packages are given, and that they cost a run nothing."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from trainer.__main__ import main
from trainer.reporting import trackers
from trainer.reporting.trackers import wandb_mode

RECORDER = """
import json, os, time
CALLS = os.environ["TRACKER_CALLS"]

def record(name, *args, **options):
    with open(CALLS, "a") as file:
        file.write(json.dumps([name, list(args), options]) + "\\n")
    failing = os.environ.get("TRACKER_FAILS", "").split(":")
    if failing[0] == name:
        raise {"SystemExit": SystemExit, "ValueError": ValueError}[failing[1]]("no server")
    if os.environ.get("TRACKER_HANGS") == name:
        time.sleep(60)
"""
WANDB = """
def init(entity=None, project=None, dir=None, id=None, name=None, *, config=None, mode=None, settings=None):
    record("init", project=project, config=config, mode=mode)
def log(data, step=None, commit=None):
    record("log", data, step=step)
def finish(exit_code=None, quiet=None):
    record("finish", exit_code=exit_code)
"""
MLFLOW = """
def set_experiment(experiment_name=None, experiment_id=None):
    record("set_experiment", experiment_name)
def start_run(run_id=None, experiment_id=None, run_name=None):
    record("start_run")
def log_params(params, synchronous=None, run_id=None):
    record("log_params", params)
def log_metrics(metrics, step=None, synchronous=None, run_id=None):
    assert all(isinstance(value, float) for value in metrics.values()), metrics
    record("log_metrics", metrics, step=step)
def end_run(status="FINISHED"):
    record("end_run", status=status)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_cache(tmp_path_factory.mktemp("trackers") / "cache", random_graph(seed=3), np.zeros(60, int), 1))


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of packages that stand in for the two, which have the same signatures."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name, functions in (("wandb", WANDB), ("mlflow", MLFLOW)):
        (folder / f"{name}.py").write_text(textwrap.dedent(RECORDER) + functions)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("TRACKER_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "WANDB_SILENT",
        "WANDB_INIT_TIMEOUT",
        "MLFLOW_HTTP_REQUEST_TIMEOUT",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES",
    ):
        monkeypatch.setenv(name, "1")
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "calls"
    for name in ("wandb", "mlflow"):
        sys.modules.pop(name, None)


def recorded(calls: Path) -> list[list[Any]]:
    return [json.loads(line) for line in calls.read_text().splitlines()]


def test_both_get_options_epochs_and_result(cache: str, calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against epochs under another step, options that are lost, and runs that never end."""
    words = [cache, "--epochs", "3", "--json", "--seed", "5", "--wandb", "mine", "--mlflow", "other"]
    assert main(words) == 0
    said = capsys.readouterr()
    *lines, result = [json.loads(line) for line in said.out.splitlines()]
    assert "`wandb sync` uploads it" in said.err
    made = recorded(calls)
    wandb, mlflow = made[0][2], [call for call in made if call[0] in ("set_experiment", "start_run", "log_params")]
    assert (wandb["project"], wandb["mode"], wandb["config"]["seed"]) == ("mine", "offline", 5)
    assert "target" not in wandb["config"]
    assert [call[0] for call in mlflow] == ["set_experiment", "start_run", "log_params"]
    assert mlflow[0][1] == ["other"]
    assert mlflow[2][1][0] == wandb["config"]
    for name in ("log", "log_metrics"):
        *epochs, last = [call for call in made if call[0] == name]
        assert [call[2]["step"] for call in epochs] == [1, 2, 3]
        for line, (_, [numbers], _) in zip(lines, epochs, strict=True):
            assert numbers["loss"] == line["loss"]
            assert numbers["val_accuracy"] == line["val_accuracy"]
            assert numbers["memory_bytes_max"] == line["memory_bytes_max"]
            assert not numbers.keys() & {"epoch", "ranks", "links"}
        assert last[1][0]["best_test_accuracy"] == result["test_accuracy"]
        assert last[1][0]["best_epoch"] == result["best_epoch"]
        assert last[2]["step"] == 3
    assert [call for call in made if call[0] in ("finish", "end_run")] == [
        ["finish", [], {"exit_code": 0}],
        ["end_run", [], {"status": "FINISHED"}],
    ]


@pytest.mark.parametrize("where", ["init:ValueError", "init:SystemExit", "log:ValueError", "finish:ValueError"])
def test_an_error_of_theirs_is_said_once(
    cache: str, calls: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Guards against a run that ends with the network, and against a line an epoch about it."""
    monkeypatch.setenv("TRACKER_FAILS", where)
    assert main([cache, "--epochs", "3", "-q", "--wandb", "mine"]) == 0
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    assert "--wandb gets no more of this run, and training goes on" in line
    assert "no server" in line
    assert said.out.startswith("test accuracy")
    names = [name for name, *_ in recorded(calls)]
    assert names.count("init") == 1
    assert names.count("log") == {"init": 0, "log": 1, "finish": 4}[where.partition(":")[0]]


def test_one_that_hangs_at_the_end_is_given_up(
    cache: str, calls: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against ranks that never end since something cannot be uploaded."""
    monkeypatch.setattr(trackers, "SECONDS", 0.1)
    monkeypatch.setenv("TRACKER_HANGS", "end_run")
    started = time.monotonic()
    assert main([cache, "--epochs", "1", "-q", "--mlflow", "mine"]) == 0
    assert time.monotonic() - started < 50
    assert "could not end the run (TimeoutError" in capsys.readouterr().err
    assert recorded(calls)[-1][0] == "end_run"


def test_a_run_that_fails_is_failed_there(cache: str, calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a run that looks finished, or still running, after an error."""
    assert main([cache, "--lr", "1e30", "--epochs", "20", "-q", "--wandb", "a", "--mlflow", "b"]) == 7
    assert "try a smaller --lr" in capsys.readouterr().err
    ends = [call[2] for call in recorded(calls) if call[0] in ("finish", "end_run")]
    assert ends == [{"exit_code": 1}, {"status": "FAILED"}]


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_package_that_is_not_there_is_one_sentence(
    cache: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Guards against a traceback, and against a package that others need too."""
    monkeypatch.setitem(sys.modules, name, None)
    assert main([cache, "--epochs", "1", "-q"]) == 0
    capsys.readouterr()
    assert main([cache, "--epochs", "1", "-q", f"--{name}", "mine"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--{name} needs the package {name}" in line
    assert f"pip install {name}" in line


def test_wandb_never_asks_for_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a prompt that nobody answers, and against runs that are kept offline in spite of a key."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variables, mode in (
        ({}, "offline"),
        ({"WANDB_API_KEY": "x"}, "online"),
        ({"WANDB_API_KEY": "x", "WANDB_MODE": "offline"}, "offline"),
        ({"WANDB_API_KEY": "x", "WANDB_MODE": "dryrun"}, "offline"),
        ({"WANDB_MODE": "online"}, "offline"),
        ({"WANDB_MODE": "disabled"}, "disabled"),
    ):
        assert wandb_mode(variables) == mode, variables
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password x\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert wandb_mode({}) == "online"
    assert wandb_mode({"WANDB_BASE_URL": "https://other.example"}) == "offline"
    assert wandb_mode({"NETRC": str(tmp_path / "none")}) == "offline"
