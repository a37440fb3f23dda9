"""Weights reach the libraries whole, positive and small, whatever the loads are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.methods.integer_weights import MOST_TOTAL, capped, edge_weights, node_weights


def column(amounts: list[int], shares: list[float]) -> NDArray[np.int64]:
    """The weights of one load."""
    load = NodeLoad(what="in-edges", amount_N=np.array(amounts, np.int64), limit=1.05)
    return node_weights((load,), np.array(shares))[:, 0]


@given(
    amounts=st.lists(st.integers(0, 2**62), min_size=1, max_size=60),
    parts=st.integers(2, 40),
)
def test_weights_are_positive_and_their_sum_is_small(amounts: list[int], parts: int) -> None:
    """Guards against zero and negative weights, for which METIS leaves parts empty, and against overflow."""
    weights_N = column(amounts, [1 / parts] * parts)
    assert weights_N.dtype == np.int64
    assert weights_N.min() >= 1
    assert int(weights_N.sum()) <= MOST_TOTAL + len(amounts)


def test_equal_loads_stay_as_they_are() -> None:
    """Guards against rounding where there is nothing to round."""
    assert column([1] * 50, [0.5, 0.5]).tolist() == [1] * 50
    assert column([3, 4, 5] * 10, [0.5, 0.5]).tolist() == [3, 4, 5] * 10


def test_nodes_without_a_load_do_not_outweigh_those_with_one() -> None:
    """Guards against a balance of nodes that passes for one of training nodes: the zeros weigh 1 % at most."""
    weights_N = column([1] * 10 + [0] * 990, [0.25] * 4)
    assert weights_N[10:].sum() <= 0.011 * weights_N.sum()
    assert len(set(weights_N[:10].tolist())) == 1


def test_a_node_heavier_than_a_share_is_counted_as_half_of_one() -> None:
    """Guards against one hub that makes every balance impossible, so that the library gives up on all parts."""
    weights_N = column([10_000] + [1] * 1000, [0.25] * 4)
    assert weights_N[0] == pytest.approx(weights_N.sum() / 8, rel=0.02)
    assert column([5] + [0] * 40, [0.25] * 4).tolist() == [1] * 41


@given(amounts=st.lists(st.integers(0, 10**9), min_size=1, max_size=40), most=st.floats(0.01, 0.5))
def test_the_cap_is_a_share_of_what_is_left_under_it(amounts: list[int], most: float) -> None:
    """Guards against a cap from the total that the hubs themselves have blown up."""
    given_N = np.array(amounts, np.int64)
    capped_N = capped(given_N, most)
    assert capped_N.max() <= most * capped_N.sum() * (1 + 1e-6) + 1e-6
    below = capped_N < given_N
    assert not below.any() or np.ptp(capped_N[below]) <= 1e-6 * capped_N.max()


def test_edge_weights_are_left_out_where_all_are_alike() -> None:
    """Guards against memory for weights that say nothing, and against counts that lose their proportion."""
    assert edge_weights(None) is None
    assert edge_weights(np.zeros(0, np.float32)) is None
    assert edge_weights(np.full(8, 2, np.float32)) is None
    assert np.array_equal(edge_weights(np.array([1, 2, 1], np.float32)), [1, 2, 1])  # type: ignore[arg-type]
    huge = edge_weights(np.array([1e38, 2e38, 1e-3], np.float32))
    assert huge is not None
    assert huge[1] == pytest.approx(2 * huge[0], rel=1e-6)
    assert huge[2] == 1
    assert huge.sum() <= MOST_TOTAL + 3
