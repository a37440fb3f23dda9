"""Numbers that are too large, no numbers, or absurd."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import among_ranks, train_once
from trainer.__main__ import main
from trainer.base.errors import OptionError, TrainingError
from trainer.base.optimiser import Adam
from trainer.config.command_line import parse
from trainer.exchange.saturation import Saturation, in_words
from trainer.exchange.wire import wire
from trainer.training import fit

CPU = torch.device("cpu")
NAME = "directed, weighted, uneven"
FLOATS = ("lr", "momentum", "clip-norm", "weight-decay", "dropout", "input-dropout", "timeout", "checkpoint-minutes")
WHOLE = ("layers", "hidden", "heads", "bases", "epochs", "patience", "eval-every", "seed", "split", "warmup", "settle")
ABSURD = ("nan", "inf", "-inf", "-1", "1e38", "1e308", "1e-320", "9" * 400, "", "x")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cache(tmp_path_factory.mktemp("numbers") / "cache", random_graph(seed=3), np.zeros(60, int), 1)


@pytest.mark.parametrize("flag", [*FLOATS, *WHOLE])
def test_absurd_numbers_are_a_sentence(flag: str) -> None:
    """--lr 1e38 was a traceback from the optimiser, --timeout 1e30 one from a library, --layers 2147483647 a
    MemoryError: each has to be refused where it is read, in words of a bearable length."""
    for text in ABSURD:
        if text == "1e-320" and flag in ("momentum", "dropout", "input-dropout"):
            continue  # a share like any other
        with pytest.raises(OptionError, match=rf"--{flag}: expected .* not '") as caught:
            parse(["c", f"--{flag}={text}"])
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "option",
    [
        "--layers=2147483647",
        "--heads=2147483647",
        "--bases=2147483647",
        "--schedule=step:1:1e300",
        "--class-weights=1e39,1,1",
        "--class-weights=1e-40,1e-40,1",
        "--timeout=1e-9",
    ],
)
def test_what_is_finite_and_absurd_is_a_sentence_too(option: str) -> None:
    """Numbers that a parser takes and fp32, a list of layers or a library does not."""
    with pytest.raises(OptionError, match="expected"):
        parse(["c", "--model", "gat", option])


@pytest.mark.parametrize("lr", ["1e30", "1e29"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_largest_step_size_ends_in_a_sentence(
    cache: Path, capsys: pytest.CaptureFixture[str], lr: str, epochs: int
) -> None:
    """What is allowed has to come to an end without a traceback as well."""
    assert main([str(cache), "--lr", lr, "--epochs", str(epochs), "-q"]) in (0, 7)
    assert len(capsys.readouterr().err.splitlines()) <= 1


@pytest.mark.parametrize("changes", [{}, {"eval_every": 50}])
def test_weights_that_are_no_numbers_after_the_last_step_end_the_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """The loss of the last epoch is that before its step: a run whose last weights were NaN ended with status 0."""

    def step(self: Adam, gradient_W: torch.Tensor, lr: float) -> None:
        if self.steps == 3:
            self.weights_W[0] = torch.nan

    monkeypatch.setattr(Adam, "_step", step)
    with pytest.raises(TrainingError, match="weights after the step are not finite in epoch 3") as caught:
        among_ranks(1, [partial(train_once, cache=str(cache), epochs=3, **changes)])
    assert caught.value.shared


@pytest.mark.parametrize("every", [0, 2])
def test_weights_that_are_no_numbers_are_never_saved(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """They are looked at with the next epoch's loss: the sentence would name that epoch, and a checkpoint have them."""

    def step(self: Adam, gradient_W: torch.Tensor, lr: float) -> None:
        if self.steps == 2:
            self.weights_W[0] = torch.nan

    monkeypatch.setattr(Adam, "_step", step)
    with pytest.raises(TrainingError, match="weights after the step are not finite in epoch 2"):
        among_ranks(
            1,
            [partial(train_once, cache=str(cache), epochs=6, checkpoint=str(tmp_path / "c"), checkpoint_every=every)],
        )
    assert not list((tmp_path / "c").glob("*.pt"))


@pytest.mark.slow
def test_a_gradient_that_is_no_number_ends_the_run(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finite loss may have a gradient that is not; the weights it would make are saved as if they were some."""
    taken = Adam.flatten_gradients
    monkeypatch.setattr(Adam, "flatten_gradients", lambda self: taken(self) * torch.inf)
    with pytest.raises(TrainingError, match="gradient is not finite in epoch 1"):
        among_ranks(1, [partial(train_once, cache=str(cache), epochs=1)])


def test_scores_that_are_no_numbers_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A NaN in rows that are not trained on leaves loss and gradient finite; the test counted its class as 0."""
    graph = random_graph(seed=3)
    graph.x[59], keep = np.nan, (graph.src != 59) & (graph.dst != 59)
    graph.src, graph.dst, graph.train[59] = graph.src[keep], graph.dst[keep], False
    cache = make_cache(tmp_path / "c", graph, np.zeros(60, int), 1)
    assert main([str(cache), "--epochs", "2", "--inductive", "-q"]) == 0
    assert "the scores of 1 of 60 nodes are not finite" in capsys.readouterr().err


@pytest.mark.slow
def test_an_error_that_is_no_number_is_not_written(cache: Path) -> None:
    """NaN is no JSON: the line of such an epoch was a traceback."""
    from trainer.data.objective import Objective
    from trainer.training.metrics import _metric_of

    objective = Objective(task="regression", metric="mse", num_outputs=1)
    assert _metric_of(torch.tensor([torch.nan, 1.0, 2.0]), objective) is None
    assert _metric_of(torch.tensor([3.0, 1.0, 2.0]), objective) == 1.5


def test_fp16_rows_are_clamped_and_its_gradients_infinite() -> None:
    """Clamped gradients hide from the loss scale that it is too large, and the step goes another way."""
    rows = torch.tensor([[70_000.0, -1e30, 3.0, torch.nan]])
    clamped, kept = (
        form.decode(form.encode(rows))
        for form in (wire("fp16", torch.float32, CPU, seed=0, clamps=clamps) for clamps in (True, False))
    )
    torch.testing.assert_close(clamped, torch.tensor([[65504.0, -65504.0, 3.0, torch.nan]]), equal_nan=True)
    torch.testing.assert_close(kept, torch.tensor([[torch.inf, -torch.inf, 3.0, torch.nan]]), equal_nan=True)


def test_saturation_counts_values_and_keeps_the_largest() -> None:
    """A NaN is no large number; the largest may come in any call, and an infinity has to stay one in JSON's range."""
    found = Saturation(rank=0, world=1, device=CPU)
    found.note(1, "forward", torch.tensor([[1.0, torch.nan]]), 65504.0)
    found.note(2, "forward", torch.tensor([[70_000.0, 65504.0, torch.nan], [-80_000.0, 1.0, 0.0]]), 65504.0)
    found.note(2, "forward", torch.tensor([[66_000.0]]), 65504.0)
    found.note(2, "forward", torch.empty(0, 3), 65504.0)
    assert found.count() == 3
    rows = found.table(lambda values: values)
    assert rows == [{"layer": 2, "direction": "forward", "values": 3, "largest": 80_000.0}]
    assert "3 values beyond 65,504" in in_words(rows)
    assert "8e+04 in layer 2 forward" in in_words(rows)


@pytest.mark.slow
def test_a_saturated_wire_is_in_the_result(tmp_path: Path) -> None:
    """--wire fp16 sent 65,504 in place of what was larger, and nobody knew."""
    graph = random_graph(seed=3)
    graph.x *= 1e6
    folder = make_cache(tmp_path / "c", graph, np.arange(60) % 2, 2)
    model = {"lr": 1e-6, "epochs": 2, "hidden": 2, "model": "sage"}
    tasks = [partial(train_once, cache=str(folder), **model | {"wire": wire}) for wire in ("fp32", "fp16")]
    exact, fp16 = among_ranks(2, tasks)
    assert exact.result["saturated"] == []
    forward = [row for row in fp16.result["saturated"] if row["direction"] == "forward"]
    assert forward[0]["layer"] == 2
    assert forward[0]["values"] > 0
    assert forward[0]["largest"] > 65504


@pytest.mark.slow
def test_kept_gradients_are_sent_anew_after_the_scale_was_halved(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept partial sum is of the scale of its epoch: twice as large as the others when the scale has been halved."""
    passes = []
    scores = fit.ModelView.scores
    monkeypatch.setattr(fit.ModelView, "scores", lambda self, step: passes.append(step) or scores(self, step))
    taken, calls = Adam.flatten_gradients, []

    def overflowing(self: Adam) -> torch.Tensor:
        calls.append(1)
        return taken(self) * (torch.inf if len(calls) == 3 else 1.0)

    monkeypatch.setattr(Adam, "flatten_gradients", overflowing)
    among_ranks(1, [partial(train_once, cache=str(cache), wire="fp16", staleness_grad="fixed:4", epochs=6)])
    assert [step.may_skip for step in passes if step.training] == [True, True, True, False, True, True]
