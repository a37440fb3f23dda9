"""Results come in order, errors come out, and one worker needs no thread."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from graphprep.system import threads as module
from graphprep.system.threads import cores, side_by_side, workers_for


def test_results_come_in_the_order_of_the_pieces() -> None:
    """Guards against results in the order in which they were ready, and against pieces that wait for each other."""
    second_ran = threading.Event()

    def first() -> str:
        assert second_ran.wait(10), "the pieces did not run at the same time"
        return "first"

    def second() -> str:
        second_ran.set()
        return "second"

    assert side_by_side([first, second], workers=2) == ["first", "second"]


def test_one_worker_runs_here() -> None:
    """Guards against threads where there is no memory for two pieces at once."""
    names = side_by_side([lambda: threading.current_thread().name] * 3, workers=1)
    assert names == [threading.current_thread().name] * 3


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_out_and_nothing_new_begins(workers: int) -> None:
    """Guards against an error that is lost in a thread, and against hours of work after it."""
    begun: list[int] = []

    def piece(number: int) -> None:
        begun.append(number)
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        side_by_side([partial(piece, number) for number in range(100)], workers=workers)
    assert len(begun) < 100


def test_what_runs_is_waited_for_after_an_error() -> None:
    """Guards against threads that still write after their caller has given up its lock."""
    ended: list[bool] = []
    begun = threading.Event()

    def slow() -> None:
        begun.set()
        time.sleep(0.3)
        ended.append(True)

    def fails() -> None:
        begun.wait(10)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  it is our own
        side_by_side([fails, slow], workers=2)
    assert ended == [True]


def test_workers_follow_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against two pieces that each need most of the memory, and against none at all."""
    assert cores() >= 1
    monkeypatch.setattr(module, "cores", lambda: 4)
    assert workers_for(10, 1000) == 4
    assert workers_for(10, 25) == 2
    assert workers_for(10, 5) == 1
    assert workers_for(0, 5) == 4
