"""Groups of consecutive snapshots by cost."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.temporal.snapshots.groups import Cost, balanced_groups, equal_groups, fitted_cost, imbalance, loads


@given(st.lists(st.integers(0, 50), max_size=9), st.integers(1, 4))
def test_no_other_groups_have_a_smaller_largest_load(costs: list[int], number: int) -> None:
    """A search that ends too early, or that loses a snapshot."""
    borders = balanced_groups(costs, number)
    assert borders == sorted(borders)
    assert (borders[0], borders[-1], len(borders)) == (0, len(costs), number + 1)
    least = min(
        max(loads(costs, [0, *inner, len(costs)]))
        for inner in combinations_with_replacement(range(len(costs) + 1), number - 1)
    )
    assert max(loads(costs, borders)) == pytest.approx(least, rel=1e-9)


def test_fits_the_cost_that_made_the_seconds() -> None:
    """Columns in another order, or scales that lose the smallest term."""
    edges, nodes = [0, 400, 90, 2000, 700, 30], [10, 200, 200, 210, 900, 1000]
    made = Cost(base=2e-3, edge=7e-7, node=5e-6)
    fitted = fitted_cost(made.seconds(edges, nodes), edges, nodes)
    assert (fitted.base, fitted.edge, fitted.node) == pytest.approx((2e-3, 7e-7, 5e-6), rel=1e-6)


def test_no_term_of_a_fitted_cost_is_negative() -> None:
    """Seconds that fall with the edges by chance would make a group of many edges the cheapest."""
    cost = fitted_cost([5.0, 4.0, 3.0, 2.0], [1, 2, 3, 4], [10, 10, 10, 10])
    assert min(cost.base, cost.edge, cost.node) >= 0
    assert sum(cost.seconds([1, 2, 3, 4], [10] * 4)) == pytest.approx(14.0)


def test_equal_groups_are_worse_where_load_grows() -> None:
    """The measure that both are compared by."""
    costs = [float(number) for number in range(1, 401)]
    assert imbalance(loads(costs, balanced_groups(costs, 4))) < 1.05 < imbalance(loads(costs, equal_groups(400, 4)))
