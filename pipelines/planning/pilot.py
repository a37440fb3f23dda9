"""Short runs of the trainer on a cache, which show how many epochs an approximate exchange needs on this graph."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphprep.errors import TrainingError
from graphprep.interop.training_run import TrainingRun
from graphprep.plan.bit_budgets import BitBudget, BudgetPilot, sent_shares
from graphprep.plan.convergence import Convergence, Pilot, fit_convergence, pilot_trainings
from graphprep.plan.time_to_accuracy import TrainedOn
from graphprep.plan.training import TrainingPlan
from graphprep.system import progress
from pipelines.training.train import train_to_folder

ERRORS = ("mse", "mae")
"""Metrics of which less is better."""


def run_pilots(
    cache: Path,
    exact: TrainingPlan,
    approximate: Sequence[TrainingPlan],
    *,
    epochs: int,
    options: Mapping[str, Any] | None = None,
) -> Convergence:
    """Train for some epochs with an exact exchange and with approximations.

    Args:
        cache: its folder; all ranks run on this machine.
        exact: the options without any approximation.
        approximate: those that are to be compared with it.
        epochs: of each run.
        options: further options of the trainer, by name.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence, or there are no validation nodes.
    """
    trainings = pilot_trainings(exact, approximate)
    runs = f"{len(trainings)} pilot run{'' if len(trainings) == 1 else 's'}"
    progress.say(f"{runs} of {epochs} epochs on this machine for the epochs that exchanges of halo rows need here")
    with tempfile.TemporaryDirectory() as folder:
        pilots = [
            Pilot(training=each, values=_validations(cache, Path(folder) / str(number), each, epochs, options or {}))
            for number, each in enumerate(trainings)
        ]
    return fit_convergence(pilots[0], pilots[1:])


def run_batch_pilots(
    cache: Path, ways: Sequence[TrainedOn], *, epochs: int, options: Mapping[str, Any] | None = None
) -> dict[str, list[float]]:
    """Train in some ways for some epochs.

    Args:
        cache: its folder; all ranks run on this machine.
        ways: the whole graph, and batches.
        epochs: of each run.
        options: further options of the trainer, by name.

    Returns:
        by the ways' names the validation after each epoch; larger is better.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence, or there are no validation nodes.
    """
    progress.say(f"{len(ways)} pilot runs of {epochs} epochs on this machine count the epochs that each needs")
    others = options or {}
    with tempfile.TemporaryDirectory() as folder:
        return {
            way.name: _validations(
                cache, Path(folder) / str(number), way.training, epochs, {**others, **way.batches}, way.name
            )
            for number, way in enumerate(ways)
        }


def run_budget_pilots(
    cache: Path,
    training: TrainingPlan,
    budgets: Sequence[BitBudget],
    *,
    epochs: int,
    options: Mapping[str, Any] | None = None,
) -> list[BudgetPilot]:
    """Train for some epochs with bits and age of rows that the run chooses, once for each budget.

    Args:
        cache: its folder; all ranks run on this machine.
        training: the options, with an exact exchange in fp32.
        budgets: of error or bytes.
        epochs: of each run.
        options: further options of the trainer, by name.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence, or there are no validation nodes.
    """
    progress.say(f"{len(budgets)} pilot runs of {epochs} epochs let the run choose bits and age of rows")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, budget in enumerate(budgets):
            settings = {**(options or {}), **budget.options}
            run = _run(cache, Path(folder) / str(number), training, epochs, settings, budget.name)
            found.append(
                BudgetPilot(budget=budget, values=_values(run), shares=sent_shares(run.result["exchanges"], epochs))
            )
    return found


def _validations(
    cache: Path, output: Path, training: TrainingPlan, epochs: int, options: Mapping[str, Any], name: str = "exact"
) -> list[float]:
    """The validation after each epoch; larger is better."""
    return _values(_run(cache, output, training, epochs, options, name))


def _run(
    cache: Path, output: Path, training: TrainingPlan, epochs: int, options: Mapping[str, Any], name: str
) -> TrainingRun:
    settings = {**options, **asdict(training), "epochs": epochs, "patience": 0, "eval_every": 1}
    with progress.task(f"pilot: {' '.join(_approximations(training)) or name}"):
        return train_to_folder(cache, output, settings, quiet=True)


def _values(run: TrainingRun) -> list[float]:
    """The validation after each epoch; larger is better."""
    metric = run.result["metric"]
    values = run.history[f"val_{metric}"].tolist()
    if not all(math.isfinite(value) for value in values):
        raise TrainingError("the cache has no validation nodes, so that pilot runs show nothing; leave --pilot out")
    return [-value for value in values] if metric in ERRORS else values


def _approximations(training: TrainingPlan) -> list[str]:
    chosen = {"wire": training.wire, "staleness": training.staleness, "staleness-grad": training.staleness_grad}
    return [f"--{name} {value}" for name, value in chosen.items() if value not in ("fp32", "none")]
