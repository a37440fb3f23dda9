"""Epochs, early stopping, and what a run prints, on one rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import Run, train_once
from trainer.__main__ import main
from trainer.base.precision import LossScale
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.training import fit


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cache(tmp_path_factory.mktemp("fit") / "cache", random_graph(seed=3), np.zeros(60, int), 1)


def fitted(cache: Path, **changes: Any) -> Run:
    cpu = torch.device("cpu")
    with Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu)) as communicator:
        return train_once(communicator, cache=str(cache), **changes)


def test_patience_counts_from_the_best_epoch(cache: Path) -> None:
    """Steps too small to change a class leave epoch 1 the best; patience counted from 0 is off by one."""
    run = fitted(cache, lr=1e-30, epochs=50, patience=4)
    assert (run.result["best_epoch"], run.result["epochs"]) == (1, 5)


def test_zero_patience_never_stops(cache: Path) -> None:
    """0 means no early stopping, not stopping at once."""
    assert fitted(cache, lr=1e-30, epochs=12, patience=0).result["epochs"] == 12


def test_the_last_exact_epochs_are_run_after_early_stopping(cache: Path) -> None:
    """A run that stops early has had no exact epochs at its end, unless they are run then; and only once."""
    run = fitted(cache, lr=1e-30, epochs=50, patience=4, settle=3)
    assert (run.result["best_epoch"], run.result["epochs"]) == (1, 8)
    assert fitted(cache, lr=1e-30, epochs=6, patience=4, settle=3).result["epochs"] == 6


def test_a_step_that_overflows_is_left_out(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam that is fed an infinity never recovers; a scale that does not shrink leaves out every step."""

    class TooLarge(LossScale):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.factor = 2.0**25

    monkeypatch.setattr(fit, "LossScale", TooLarge)
    losses = fitted(cache, precision="fp16", epochs=30).losses
    assert losses[0] == losses[1]
    assert losses[-1] < losses[0]


def test_the_best_weights_are_tested(cache: Path) -> None:
    """Testing with the last weights reports an accuracy that belongs to no validated epoch."""
    run = fitted(cache, lr=0.05, epochs=40)
    accuracies = [line["val_accuracy"] for line in run.epochs]
    assert run.result["val_accuracy"] == max(accuracies)
    assert run.result["best_epoch"] == 1 + accuracies.index(max(accuracies))
    assert accuracies[-1] < max(accuracies), "the case is too easy to tell the best from the last"


def test_only_some_epochs_are_validated(cache: Path) -> None:
    """The last epoch has to be validated, or its weights cannot be chosen."""
    assert [line["epoch"] for line in fitted(cache, epochs=8, eval_every=3).epochs] == [3, 6, 8]


def test_dropout_is_decided_by_the_seed(cache: Path) -> None:
    """A run that cannot be repeated cannot be debugged; one that ignores the seed gives no error bars."""
    first, again = (fitted(cache, dropout=0.5, epochs=3, seed=1) for _ in range(2))
    other = fitted(cache, dropout=0.5, epochs=3, seed=2)
    assert first.losses == again.losses
    assert first.losses != other.losses


def test_input_dropout_is_drawn_anew_in_every_epoch(cache: Path) -> None:
    """One mask for all epochs is a smaller data set, not dropout: the losses then fall without noise."""
    losses = fitted(cache, input_dropout=0.5, lr=1e-30, epochs=4).losses
    assert len(set(losses)) == 4


def test_a_loss_that_is_no_number_ends_the_run(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hours of NaN are worse than a sentence."""
    assert main([str(cache), "--lr", "1e30", "--epochs", "20", "-q"]) == 7
    assert "try a smaller --lr" in capsys.readouterr().err


def test_json_lines_are_all_there_is_on_standard_output(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One word for people among the lines breaks the program that reads them."""
    assert main([str(cache), "--json", "--epochs", "3"]) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line.get("epoch") for line in lines] == [1, 2, 3, None]
    assert lines[-1]["epochs"] == 3
    assert all(line.startswith("rank 0: ") for line in said.err.splitlines())


def test_people_get_a_result_and_quiet_leaves_it(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-q is about progress; a run that says nothing at all has to be run again."""
    assert main([str(cache), "--epochs", "3", "-q"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("test accuracy ")
    assert "layer 2 backward" in said.out
