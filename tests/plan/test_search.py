"""The ways that are searched, and which is best under which budget."""

from __future__ import annotations

from typing import Any

import pytest

from graphprep.errors import UsageError
from graphprep.plan.search import Budget, Candidate, best, is_approximate, reasons, trainings_to_search
from graphprep.plan.training import TrainingPlan

BASE = TrainingPlan()


def way(seconds: float, *, ranks: int = 4, **changes: Any) -> Candidate:
    """A candidate whose epochs take some seconds, half of them on links."""
    of_candidate = {name: changes.pop(name) for name in ("factor", "fits", "memory_bytes") if name in changes}
    return Candidate(
        **{
            "training": BASE.with_options(**changes),
            "ranks": ranks,
            "topology": f"flat-{ranks}",
            "epoch_seconds": seconds,
            "compute_seconds": seconds / 2,
            "communication_seconds": seconds / 2,
            "memory_bytes": 1,
            "fits": True,
            "factor": 1.0,
            "epochs": None,
            "row_bytes": 1,
        }
        | of_candidate
    )


def test_all_combinations_of_what_is_free() -> None:
    """Guards against ways that are left out, against options that a person fixed, and against doubles."""
    found = trainings_to_search(BASE, (), ranks=4, has_relays=True, approximate=False)
    assert found[0] == BASE
    assert len(found) == len({repr(each) for each in found}) == 2**4
    assert not any(map(is_approximate, found))
    fixed = trainings_to_search(BASE, ("wire", "exchange"), ranks=4, has_relays=False, approximate=True)
    assert len(fixed) == 2 * 9
    assert {each.wire for each in fixed} == {"fp32"}
    assert sum(map(is_approximate, fixed)) == 2 * 8
    assert trainings_to_search(BASE, (), ranks=1, has_relays=False, approximate=True) == [BASE]


def test_the_quickest_wins_unless_a_simpler_one_is_as_quick() -> None:
    """Guards against an option that saves nothing, and against three names of one way."""
    plain, nearly = way(1.0, wire="bf16"), way(0.99, wire="bf16", weights_wire="bf16")
    slow = way(3.0)
    assert best([slow, nearly, plain], Budget()) == [plain, slow]
    costly = way(0.5, staleness="adaptive:3", factor=3.0)
    assert best([slow, plain, costly], Budget())[:2] == [plain, costly]
    large = way(0.1, wire="int8", fits=False)
    assert large not in best([large, plain], Budget())


def test_budgets_of_time_and_of_money() -> None:
    """Guards against a cheap way that takes too long, and a quick one that costs too much."""
    many, few = way(1.0, ranks=8), way(3.0, ranks=2)
    assert best([many, few], Budget(epochs=100)) == [many, few]
    assert best([many, few], Budget(epochs=100, within=400.0)) == [few, many]  # fewer rank-seconds
    assert best([many, few], Budget(epochs=100, within=200.0)) == [many]
    budget = Budget(epochs=3600, price=2.0, cost=14.0)
    assert (budget.cost_of(many), budget.cost_of(few)) == (16.0, 12.0)
    assert best([many, few], budget) == [few]
    assert best([many, few], Budget(epochs=3600, price=2.0, cost=10.0)) == []
    with pytest.raises(UsageError, match="--cost needs --price"):
        Budget(cost=1.0)


def test_reasons_are_differences_from_the_first_options() -> None:
    """Guards against reasons that are no reasons."""
    assert reasons(way(1.0), way(1.0)) == ["50 % of an epoch is communication"]
    assert reasons(way(1.0, factor=1.5), way(4.0)) == [
        "links take 4.0 times less time than by default",
        "computing takes 4.0 times less",
        "it needs 1.50 times the epochs by the pilots",
        "50 % of an epoch is communication",
    ]
