"""The whole graph, mini-batches, and these with control variates, by the predicted seconds until one accuracy.

Seconds of an epoch are those of the plan. How many epochs each needs is what pilot runs on this graph have shown: those
until the validation metric of the whole graph's pilot is reached but for 1 % of its best. Without pilots all are
assumed to need as many, which favours the whole graph: batches change the weights more often in an epoch.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphprep.plan.convergence import first_epoch_with, targets_of
from graphprep.plan.search import Budget
from graphprep.plan.training import TrainingPlan

WHOLE, SAMPLED, CONTROLLED = "whole graph", "mini-batches", "mini-batches with control variates"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedOn:
    """One of the ways to train."""

    name: str
    training: TrainingPlan
    batches: Mapping[str, Any]
    """The trainer's options for batches; none for the whole graph."""
    epoch_seconds: float
    """With what an epoch's validation, and an exact pass, take."""
    reason: str


def to_accuracy(
    ways: Sequence[TrainedOn], cache: str, pilots: Mapping[str, Sequence[float]] | None, *, pilot_epochs: int
) -> dict[str, Any]:
    """The ways, the quickest first, as plain JSON values.

    Args:
        ways: the whole graph first.
        cache: for the commands.
        pilots: by name the validation after each epoch, larger being better; None for none.
        pilot_epochs: of each.
    """
    target = None if pilots is None else targets_of(pilots[ways[0].name])[-1]
    rows: list[dict[str, Any]] = []
    for way in ways:
        epochs: int | None = Budget().epochs
        if pilots is not None and target is not None:
            epochs = first_epoch_with(pilots[way.name], target)
        rows.append(
            {
                "trained_on": way.name,
                "epoch_seconds": way.epoch_seconds,
                "epochs": epochs,
                "seconds": None if epochs is None else epochs * way.epoch_seconds,
                "reason": way.reason,
                "command": train_command(cache, {**changed_options(way.training), **way.batches}),
            }
        )
    rows.sort(key=lambda row: float("inf") if row["seconds"] is None else row["seconds"])
    if pilots is None:
        said = (
            f"no pilot was run, so that all are assumed to need the trainer's {Budget().epochs} epochs; "
            "--pilot EPOCHS counts those that each needs on this graph"
        )
    else:
        said = (
            f"epochs are those after which pilots of {pilot_epochs} epochs on this machine had 99 % of the whole "
            f"graph's best validation, {abs(target or 0.0):.4f}"
        )
    return {"epochs_from": said, "target": target, "pilot_epochs": pilot_epochs, "ways": rows}


def changed_options(training: TrainingPlan) -> dict[str, Any]:
    """The options that are not the default."""
    default = TrainingPlan()
    values = {name: getattr(training, name) for name in TrainingPlan.__dataclass_fields__}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def train_command(cache: str, options: Mapping[str, Any]) -> str:
    """The command that trains with these options of the trainer; True is a switch."""
    words = ["graphprep", "train", cache]
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)
