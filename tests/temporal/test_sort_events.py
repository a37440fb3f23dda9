"""Sorting a stream by time: the same as a stable sort in memory, whatever the runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.core.event_rows import EventRows
from graphprep.errors import DatasetError
from graphprep.temporal import sort_events
from graphprep.temporal.sort_events import EventSpool


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.lists(st.integers(0, 12), max_size=30), min_size=1, max_size=8),
    run_rows=st.integers(1, 40),
    block_rows=st.integers(1, 9),
)
def test_runs_are_merged_as_a_stable_sort_would(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[int]], run_rows: int, block_rows: int
) -> None:
    """Guards against events of equal times that change places between runs or blocks, and against lost events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventSpool, "run_rows", run_rows)
        patch.setattr(sort_events, "LEAST_BLOCK_ROWS", block_rows)
        patch.setattr(sort_events, "ROWS_AT_A_TIME", block_rows)
        spool = EventSpool(folder=tmp_path_factory.mktemp("spool"), num_features=2, has_states=True, budget=1)
        count = 0
        for times in pieces:
            numbers = np.arange(count, count + len(times))
            count += len(times)
            x = np.stack([numbers, -numbers], axis=1).astype(np.float32)
            spool.add(EventRows(numbers, numbers + 1, np.array(times, np.int64), x, numbers % 3))
        rows = list(spool.sorted_rows())
    all_times = np.array([time for piece in pieces for time in piece], np.int64)
    order = np.argsort(all_times, kind="stable")
    found = [np.concatenate([part[column] for part in rows]) if rows else np.empty(0) for column in range(5)]
    np.testing.assert_array_equal(found[0], order)
    np.testing.assert_array_equal(found[1], order + 1)
    np.testing.assert_array_equal(found[2], all_times[order])
    assert not rows or found[3].tolist() == [[number, -number] for number in order.tolist()]
    np.testing.assert_array_equal(found[4], order % 3)


def test_times_become_floating_point_where_some_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers that were written already are converted, unless that would change them."""
    monkeypatch.setattr(EventSpool, "run_rows", 2)
    ends = np.zeros(2, np.int64)
    spool = EventSpool(folder=tmp_path / "a", num_features=0, has_states=False, budget=1)
    for times in (np.array([3, 1]), np.array([2.5, 0.0]), np.array([7, 2])):
        spool.add(EventRows(ends, ends, times))
    assert np.concatenate([rows.time for rows in spool.sorted_rows()]).tolist() == [0.0, 1.0, 2.0, 2.5, 3.0, 7.0]
    spool = EventSpool(folder=tmp_path / "b", num_features=0, has_states=False, budget=1)
    spool.add(EventRows(ends, ends, np.array([2**60, 1])))
    with pytest.raises(DatasetError, match="beyond 2\\^53"):
        spool.add(EventRows(ends, ends, np.array([0.5, 1.0])))
