"""How many more epochs an approximate exchange needs, from short pilot runs of the same graph.

The number of epochs until a share of the best validation of the exact run is reached is compared with that of the exact
run. The logarithm of the ratio is taken to be a sum: a part for int8 rows, a part for each epoch that kept rows are old
on average, and a part likewise for kept gradients. Non-negative least squares over all pilots give the parts (Lawson
and Hanson 1974), so that combinations that no pilot had are estimated too. A target that a pilot did not reach counts
as reached in the epoch after its last. An approximation that did not reach the last target is refused, and so is any
that is at least as coarse in everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from graphprep.plan.training import TrainingPlan, age_of

TARGETS = (0.9, 0.95, 0.98, 0.99)
"""Shares of the exact run's best validation; the last is the accuracy that a plan counts epochs to."""


def first_epoch_with(values: Sequence[float], value: float) -> int | None:
    """The first epoch, from 1, with at least this validation; None if there is none."""
    return next((epoch for epoch, of_epoch in enumerate(values, 1) if of_epoch >= value), None)


def targets_of(exact: Sequence[float]) -> list[float]:
    """The validations of the exact run that others are compared at, one for each of TARGETS."""
    best = max(exact)
    # A share of a metric that is negative, as of an error, is taken of its way up from the first epoch.
    return [exact[0] + share * (best - exact[0]) if best <= 0 else share * best for share in TARGETS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A short run."""

    training: TrainingPlan
    values: Sequence[float]
    """The validation metric after each epoch; larger is better."""

    def epochs_to(self, value: float) -> int | None:
        """The first epoch, from 1, with at least this validation; None if there is none."""
        return first_epoch_with(self.values, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """What pilots say of one graph and model."""

    exact: TrainingPlan
    epochs: int
    """Of the exact run until the last target."""
    best: float
    """The best validation of the exact run."""
    target: float
    """The validation that `epochs` lead to."""
    parts: tuple[float, float, float]
    """Of the logarithm of the factor: int8, and each epoch of mean age of rows and of gradients."""
    failed: tuple[TrainingPlan, ...]
    """Approximations that did not reach the last target."""

    def factor(self, training: TrainingPlan) -> float | None:
        """How many times as many epochs as an exact exchange it needs; None if it is not known to arrive."""
        coarseness = _coarser(training, self.exact)
        for failed in self.failed:
            if all(mine >= other for mine, other in zip(coarseness, _coarser(failed, self.exact), strict=True)):
                return None
        return math.exp(sum(part * amount for part, amount in zip(self.parts, coarseness, strict=True)))


def _coarser(training: TrainingPlan, exact: TrainingPlan) -> tuple[float, float, float]:
    """Whether rows are sent in int8, and how many epochs older rows and gradients are on average, where the exact run
    differs."""
    mine, its = (
        (float(each.wire == "int8"), age_of(each.staleness) / 2, age_of(each.staleness_grad) / 2)
        for each in (training, exact)
    )
    return mine[0] - its[0], mine[1] - its[1], mine[2] - its[2]


def pilot_trainings(exact: TrainingPlan, approximate: Sequence[TrainingPlan]) -> list[TrainingPlan]:
    """The pilots that say enough of some approximations: the exact one first, each kind alone at its coarsest, and all
    together."""
    coarsest = {
        name: max((getattr(each, name) for each in approximate), key=age_of, default="none")
        for name in ("staleness", "staleness_grad")
    }
    kinds = {name: policy for name, policy in coarsest.items() if age_of(policy)}
    if any(each.wire == "int8" for each in approximate):
        kinds["wire"] = "int8"
    alone = [exact.with_options(**{name: value}) for name, value in kinds.items()]
    return [exact, *alone, *([exact.with_options(**kinds)] if len(kinds) > 1 else [])]


def fit_convergence(exact: Pilot, others: Sequence[Pilot]) -> Convergence:
    """The estimate.

    Args:
        exact: the pilot whose exchange is exact; it validated at least once.
        others: those with approximations, after as many epochs.
    """
    best, targets = max(exact.values), targets_of(exact.values)
    rows, logs, failed = [], [], []
    for pilot in others:
        if pilot.epochs_to(targets[-1]) is None:
            failed.append(pilot.training)
        for target in targets:
            mine, of_exact = pilot.epochs_to(target), exact.epochs_to(target)
            assert of_exact is not None
            rows.append(_coarser(pilot.training, exact.training))
            logs.append(math.log((mine or len(pilot.values) + 1) / of_exact))
    of_int8, of_rows, of_gradients = nnls(np.array(rows), np.array(logs))[0].tolist() if rows else (0.0, 0.0, 0.0)
    first = exact.epochs_to(targets[-1])
    assert first is not None
    return Convergence(
        exact=exact.training,
        epochs=first,
        best=best,
        target=targets[-1],
        parts=(of_int8, of_rows, of_gradients),
        failed=tuple(failed),
    )
