"""Speeds by measured seconds: what slow ranks are, and what balanced parts would gain."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.plan.measured_speeds import MeasuredSpeeds
from graphprep.topology import Topology


def test_a_rank_at_half_speed_is_found() -> None:
    """Guards against a rank that is called slow since it has more to do, and against one that is slow and is not."""
    work_P = np.array([100.0, 200.0, 100.0])
    seconds_TP = np.array([[1.0, 4.0, 1.0], [1.0, 4.0, 1.0], [9.0, 4.0, 1.0]])  # one epoch of one rank was slow
    found = MeasuredSpeeds.of(work_P, seconds_TP)
    np.testing.assert_allclose(found.speed_P, [1, 0.5, 1])
    assert found.balanced_seconds == pytest.approx(400 / 250)
    assert found.gain_seconds == pytest.approx(4 - 1.6)
    assert found.imbalance == pytest.approx(2.5)
    topology = found.topology(Topology.flat(3))
    assert [rank.speed for rank in topology.ranks] == [1, 0.5, 1]
    assert topology.links == Topology.flat(3).links


def test_balanced_ranks_gain_nothing() -> None:
    """Guards against moves for the sake of noise."""
    found = MeasuredSpeeds.of(np.array([100.0, 300.0]), np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(found.speed_P, [0.333, 1])
    assert found.gain_seconds == pytest.approx(0)
    assert found.imbalance == pytest.approx(1)
