"""What short runs say of approximations: factors by least squares, and nothing of what did not arrive."""

from __future__ import annotations

import math

import pytest

from graphprep.plan.convergence import Pilot, fit_convergence, pilot_trainings
from graphprep.plan.training import TrainingPlan

EXACT = TrainingPlan()
INT8, ROWS = EXACT.with_options(wire="int8"), EXACT.with_options(staleness="adaptive:3")
BOTH = EXACT.with_options(wire="int8", staleness="adaptive:3")


def rising(training: TrainingPlan, slowness: float, *, epochs: int = 400, best: float = 0.8) -> Pilot:
    """A run that nears `best` `slowness` times as slowly as one with 1."""
    values = [best * (1 - math.exp(-epoch / (10 * slowness))) for epoch in range(1, epochs + 1)]
    return Pilot(training=training, values=values)


def test_factors_multiply_and_are_interpolated() -> None:
    """Guards against factors that are taken for combinations that no pilot had as if they cost nothing."""
    found = fit_convergence(rising(EXACT, 1), [rising(INT8, 1.5), rising(ROWS, 2), rising(BOTH, 3)])
    assert found.factor(EXACT) == 1
    assert found.factor(INT8) == pytest.approx(1.5, rel=0.03)
    assert found.factor(ROWS) == pytest.approx(2, rel=0.03)
    younger = EXACT.with_options(staleness="adaptive:1")
    assert found.factor(younger) == pytest.approx(2 ** (1 / 3), rel=0.03)
    assert found.factor(younger.with_options(wire="int8")) == pytest.approx(1.5 * 2 ** (1 / 3), rel=0.03)
    assert found.epochs == 47  # 99 % of the best are reached after 10 ln 100 epochs
    assert found.best == pytest.approx(0.8, rel=1e-6)


def test_what_did_not_arrive_is_refused_with_all_that_is_coarser() -> None:
    """Guards against a plan that advises an exchange which lost accuracy in its own pilot."""
    found = fit_convergence(rising(EXACT, 1), [rising(INT8, 1), rising(ROWS, 1, best=0.7)])
    assert found.failed == (ROWS,)
    assert found.factor(ROWS) is found.factor(BOTH) is found.factor(EXACT.with_options(staleness="fixed:5")) is None
    younger = found.factor(EXACT.with_options(staleness="adaptive:1"))
    assert younger is not None
    assert younger > 1.2  # the pilot that did not arrive took at least all its epochs
    assert found.factor(INT8) == pytest.approx(1)


def test_an_approximation_is_never_quicker_than_the_exact_exchange() -> None:
    """Guards against noise that makes a plan prefer coarser rows for their own sake."""
    found = fit_convergence(rising(EXACT, 2), [rising(INT8, 1)])
    assert found.factor(INT8) == 1


def test_errors_are_compared_by_how_far_they_fell() -> None:
    """Guards against shares of a negative number, which lie above it."""
    exact = Pilot(training=EXACT, values=[-4.0, -2.0, -1.0, -0.97])
    slow = Pilot(training=INT8, values=[-4.0, -3.0, -2.5, -2.0, -1.5, -1.0, -0.97, -0.97])
    found = fit_convergence(exact, [slow])
    assert (found.epochs, found.failed) == (3, ())
    assert (found.factor(INT8) or 0) > 1.5


def test_pilots_are_the_coarsest_of_each_kind_and_all_together() -> None:
    """Guards against a pilot for each of a hundred ways."""
    ways = [INT8, ROWS, EXACT.with_options(staleness="adaptive:1"), BOTH]
    assert pilot_trainings(EXACT, ways) == [EXACT, ROWS, INT8, BOTH]
    assert pilot_trainings(EXACT, [INT8]) == [EXACT, INT8]
    assert pilot_trainings(EXACT, []) == [EXACT]


def test_a_fixed_int8_wire_is_no_approximation_of_itself() -> None:
    """Guards against a factor for what every run has."""
    base = INT8
    found = fit_convergence(rising(base, 1), [rising(base.with_options(staleness="adaptive:3"), 2)])
    assert found.factor(base) == 1
    assert found.factor(base.with_options(staleness="adaptive:3")) == pytest.approx(2, rel=0.03)
