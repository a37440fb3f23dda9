"""Features by rows and by columns: bytes of all pairs of ranks, and what of their seconds a step waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphprep.plan.feature_columns import ways_to_features
from graphprep.topology import Topology
from graphprep.traffic import LinkModel

MODEL = LinkModel.of(Topology.flat(3))
COUNTS: dict[str, Any] = {
    "requested_PP": np.array([[0.0, 5, 0], [1, 0, 0], [0, 2, 0]]),
    "computed_P": np.array([10.0, 20, 0]),
    "nodes_P": np.array([50.0, 60, 0]),
    "edges_P": np.array([100.0, 200, 0]),
    "num_nodes": 1000,
    "fetch_seconds": 0.5,
}


def ways(stage_seconds: tuple[float, float] = (0.0, 0.1)) -> list[dict[str, Any]]:
    return ways_to_features(MODEL, row_bytes=400, hidden_bytes=32, stage_seconds=stage_seconds, **COUNTS)


def test_bytes_of_both_ways() -> None:
    """Guards against a rank's own share that is counted, gradients that are not, and messages to one peer alone."""
    rows, columns = ways()
    assert rows["bytes"] == 8 * (400 + 8)
    assert columns["bytes"] == 2 * (4 * 110 + 8 * 30 + 8 * 300) + 2 * 2 * 32 * 30
    assert columns["memory_bytes"] == 133_334


def test_hidden_rows_are_waited_for() -> None:
    """Guards against seconds of a step that are said to overlap with it."""
    rows, columns = ways()
    assert rows["step_seconds"] == 0.5
    assert columns["step_seconds"] == pytest.approx(0.1 + columns["waited_seconds"])
    assert columns["waited_seconds"] > 2 * 30 * 32 / 12.5e9
    assert ways((3.0, 0.1))[1]["step_seconds"] == 3.0
