"""Workers of a rank, and how long they did two things at the same time."""

from __future__ import annotations

import pytest
import torch

from trainer.temporal.snapshots.workers import Workers, overlap_seconds


def test_every_item_is_done_by_the_worker_of_its_place() -> None:
    """An item that is done twice or by whichever thread is free, which would make sums depend on chance."""
    done: list[tuple[int, int]] = []
    Workers(2, torch.device("cpu")).map(lambda item, worker: done.append((item, worker)), range(10, 15))
    assert sorted(done) == [(10, 0), (11, 1), (12, 0), (13, 1), (14, 0)]


def test_errors_of_a_worker_are_raised() -> None:
    """A thread that fails in silence."""

    def fail(item: int, worker: int) -> None:
        raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        Workers(2, torch.device("cpu")).map(fail, [0, 1][1:])


def test_overlap_is_of_two_workers_and_two_activities() -> None:
    """One worker's own spans, spans of the same activity, and spans that are counted twice."""
    first = [("sparse", 0.0, 4.0), ("dense", 4.0, 6.0)]
    second = [("dense", 1.0, 2.0), ("dense", 1.5, 3.0), ("sparse", 5.0, 9.0)]
    assert overlap_seconds([first, second], "sparse", "dense") == pytest.approx(2.0 + 1.0)
    assert overlap_seconds([first], "sparse", "dense") == 0.0
