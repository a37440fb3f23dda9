"""What an epoch is made of: the counts are those of the trainer's rules, worked out by hand for small cases."""

from __future__ import annotations

import pytest

from graphprep.errors import UsageError
from graphprep.plan.training import TrainingPlan, epoch_work

RANK = {"rows": 100, "halo": 10, "edges": 1000}
NEVER = 10**9
"""Epochs between validations, so that none counts."""


def test_gcn_with_and_without_input_dropout() -> None:
    """Guards against first-layer sums that are counted although they were made once, or not although they are."""
    folded = TrainingPlan(hidden=8, input_dropout=0.0, eval_every=NEVER)
    pairs = folded.widths(20, 3)
    assert pairs == [(20, 8), (8, 3)]
    work = epoch_work(folded, pairs, **RANK)
    assert work.edges[3] == pytest.approx(2 * 1100, rel=1e-6)  # layer 2 sums at 3 columns, there and back, with loops
    assert work.edges[8] == pytest.approx(0, abs=1e-3)
    assert (work.products[20, 8], work.gradients[20, 8]) == pytest.approx((100, 100))
    assert work.products[8, 3] + work.products[3, 8] + work.gradients[8, 3] == pytest.approx(3 * 100)
    assert work.masked == {8: pytest.approx(200)}
    dropped = epoch_work(TrainingPlan(hidden=8, eval_every=NEVER), pairs, **RANK)
    assert dropped.edges[8] == pytest.approx(2 * 1100)  # narrows: product first, so gradients come back
    assert (dropped.products[20, 8], dropped.gradients[20, 8]) == pytest.approx((110, 110))
    assert dropped.masked[20] == pytest.approx(110)
    widening = epoch_work(TrainingPlan(hidden=40, eval_every=NEVER), [(20, 40), (40, 3)], **RANK)
    assert widening.edges[20] == pytest.approx(1100)  # sums first: the features need no gradient


def test_sage_has_two_products_and_no_loops() -> None:
    """Guards against GraphSAGE counted as GCN."""
    plan = TrainingPlan(model="sage", hidden=8, input_dropout=0.0, dropout=0.0, eval_every=NEVER)
    work = epoch_work(plan, plan.widths(20, 3), **RANK)
    assert work.edges[3] == pytest.approx(2 * 1000)
    assert (work.products[20, 8], work.gradients[20, 8]) == pytest.approx((2 * 100, 2 * 100))
    assert not work.masked


def test_validations_add_a_forward_pass() -> None:
    """Guards against epochs that validate each time and are told to take as long as those that do not."""
    plan = TrainingPlan(hidden=8, eval_every=1)
    pairs = plan.widths(20, 3)
    each, never = (
        epoch_work(plan, pairs, **RANK),
        epoch_work(TrainingPlan(hidden=8, eval_every=NEVER), pairs, **RANK),
    )
    assert each.edges[3] == pytest.approx(1.5 * never.edges[3])
    assert each.masked == never.masked


def test_features_of_edges_are_multiplied_in_every_layer() -> None:
    """Guards against a plan that reads --edge-features and counts nothing for it."""
    plan, pairs = TrainingPlan(model="sage", hidden=8, eval_every=2, edge_features="a"), [(20, 8), (8, 3)]
    without, found = (epoch_work(plan, pairs, **RANK, edge_features=number) for number in (0, 5))
    products, gradients = (found.products - without.products, found.gradients - without.gradients)
    assert products == {(5, 8): 1.5 * RANK["rows"], (5, 3): 1.5 * RANK["rows"]}
    assert gradients == {(5, 8): RANK["rows"], (5, 3): RANK["rows"]}
    assert plan.num_weights(20, 3, 5) - plan.num_weights(20, 3) == 5 * (8 + 3)
    assert "--edge-features=a" in plan.arguments
    assert not any("edge-features" in word for word in TrainingPlan().arguments)


def test_what_travels() -> None:
    """Guards against a first layer that is counted as sent, and against int8 rows without their scale."""
    plan = TrainingPlan(hidden=8, layers=3)
    assert plan.row_bytes(20, 3) == [0, 32, 12]
    assert plan.row_bytes(20, 3, wire="bf16") == [0, 16, 6]
    assert plan.row_bytes(20, 3, wire="int8") == [0, 10, 5]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gat"}, "--model 'gat'"),
        ({"hidden": 0}, "--hidden 0"),
        ({"layers": 0}, "--layers 0"),
        ({"dropout": 1.0}, "--dropout 1 must"),
        ({"input_dropout": -0.1}, "--input-dropout -0.1"),
        ({"wire": "fp8"}, "--wire .fp8."),
        ({"staleness": "variation:0.5"}, "--staleness .variation:0.5. .* known in training alone"),
        ({"staleness_grad": "fixed:0"}, "--staleness-grad .fixed:0. .* no policy"),
    ],
)
def test_what_cannot_be_planned(options: dict[str, object], words: str) -> None:
    """Guards against a plan of something that the model has no rules for."""
    with pytest.raises(UsageError, match=words):
        TrainingPlan(**options)  # type: ignore[arg-type]


def test_bytes_of_weights_are_those_of_a_ring() -> None:
    """A plan without the weights' gradients tells 1 % of what Cora's ranks send: 2.2 MB an epoch on 4 ranks."""
    plan = TrainingPlan(model="gcn", layers=2, hidden=64)
    assert plan.num_weights(1433, 7) == 92_231
    assert plan.weight_bytes(1433, 7, ranks=4) == 2 * 3 * 92_231 * 4
    assert plan.weight_bytes(1433, 7, ranks=1) == 0
