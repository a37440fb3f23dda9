"""Ranges of rows cover all rows once, however many threads and rows there are."""

from __future__ import annotations

import pytest

from graphprep.core import over_rows


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("num_rows", [0, 1, 2, 100])
def test_each_row_is_in_one_range(monkeypatch: pytest.MonkeyPatch, threads: int, num_rows: int) -> None:
    """Guards against a lost or doubled row at the seams of ranges, and against results out of order."""
    monkeypatch.setattr(over_rows, "kernel_threads", lambda: threads)
    ranges = over_rows.over_rows(lambda start, stop, more: (start, stop, more), num_rows, 1 << 30, "argument")
    assert [row for start, stop, _ in ranges for row in range(start, stop)] == list(range(num_rows))
    assert {more for _, _, more in ranges} == {"argument"}
    assert len(ranges) > 1 or threads == 1 or num_rows < 2


def test_small_work_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against threads that take longer to start than the rows take."""
    monkeypatch.setattr(over_rows, "kernel_threads", lambda: 4)
    assert over_rows.over_rows(lambda start, stop: (start, stop), 100, over_rows.ENTRIES_A_THREAD) == [(0, 100)]
