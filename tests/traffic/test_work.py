"""Work, target shares and limits by hand."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.topology import Topology
from graphprep.traffic.work import TRAINING_IMBALANCE, Load, Workload, speed_shares
from tests.topology.forms import LONG
from tests.traffic.slow import KINDS, csr_of

THREE = Topology.from_text(LONG.replace("speed: 1.0", "speed: 2.0"))


def load(amounts: list[float], largest: float = 0) -> Load:
    return Load(what="x", amount_P=np.array(amounts, np.float64), largest=largest)


def test_targets_follow_speed() -> None:
    """Guards against equal parts for unequal ranks."""
    assert speed_shares(THREE).tolist() == [0.5, 0.25, 0.25]
    limit = load([50, 25, 25]).limit(speed_shares(THREE), 1.05)
    assert (limit.value, limit.met) == (1.0, True)
    assert not load([40, 35, 25]).limit(speed_shares(THREE), 1.05).met


def test_a_limit_is_met_up_to_its_edge_and_not_beyond() -> None:
    """Guards against a limit that rounding turns round."""
    shares_P = np.array([0.25, 0.25, 0.25, 0.25])
    assert load([105, 95, 100, 100]).limit(shares_P, 1.05).met
    assert not load([105.01, 94.99, 100, 100]).limit(shares_P, 1.05).met


def test_one_node_of_slack() -> None:
    """Guards against limits that no assignment can keep: five nodes on two ranks, a hub with all edges."""
    halves = np.array([0.5, 0.5])
    limit = load([3, 2], largest=1).limit(halves, 1.05)
    assert (limit.value, limit.met) == (1.2, True)
    assert limit.limit == pytest.approx(1.05 + 1 / 2.5)
    assert not load([4, 1], largest=1).limit(halves, 1.05).met
    assert load([10, 0], largest=10).limit(halves, 1.05).met


def test_the_rank_that_breaks_its_limit_most_is_reported() -> None:
    """Guards against a slow rank's overload hidden behind a fast rank's larger share."""
    limit = load([50, 40, 10]).limit(np.array([0.5, 0.25, 0.25]), 1.05)
    assert limit.value == pytest.approx(1.6)
    assert not limit.met


def test_nothing_to_share_is_even() -> None:
    """Guards against NaN where a dataset has no training nodes."""
    limit = load([0, 0]).limit(np.array([0.5, 0.5]), 1.05)
    assert (limit.value, limit.limit, limit.met) == (1.0, 1.05, True)


def test_workload_by_hand() -> None:
    """Guards against edges counted at their source, and against work that ignores a cost."""
    a_to_a, a_to_b, _, _ = KINDS
    csrs = {
        a_to_a: csr_of([(0, 1), (0, 1), (1, 1), (2, 0)], 3, 3),
        a_to_b: csr_of([(0, 0), (1, 0)], 3, 2),
    }
    assignments = {"a": np.array([0, 1, 2], np.int32), "b": np.array([1, 1], np.int32)}
    work = Workload.of(
        csrs,
        assignments,
        speed_shares(THREE),
        training_masks={"a": np.array([True, True, False]), "b": np.array([False, True])},
        edge_cost=2.0,
        node_cost=3.0,
    )
    assert work.nodes_P.tolist() == [1, 3, 1]
    assert work.in_edges_P.tolist() == [1, 5, 0]
    assert work.training_nodes_P.tolist() == [1, 2, 0]
    assert work.cost_P.tolist() == [5.0, 19.0, 3.0]
    largest = {load.what: load.largest for load in work.loads}
    assert largest == {
        "nodes": 1,
        "in-edges": 3,
        "work": 9.0,
        "training nodes": 1,
        "nodes of a": 1,
        "nodes of b": 1,
        "in-edges of a__to__a": 3,
        "in-edges of a__likes__b": 2,
    }
    limits = {limit.what: limit for limit in work.limits(1.05)}
    assert limits["in-edges"].limit == pytest.approx(1.05 + 3 / (0.25 * 6))
    assert limits["training nodes"].limit == pytest.approx(TRAINING_IMBALANCE + 1 / (0.25 * 3))
    assert [limit.what for limit in work.limits(1.05, ["nodes", "training-nodes"])] == ["nodes", "training nodes"]
    assert [limit.what for limit in work.limits(1.05, ["types"])] == list(largest)[4:]
