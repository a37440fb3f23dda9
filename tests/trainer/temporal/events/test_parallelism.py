"""How ranks are divided."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.trainer.temporal.events.streams import random_stream
from trainer.base.errors import OptionError, TrainingError
from trainer.config.parallel import parse_parallel
from trainer.temporal.events.evaluation import batches_of
from trainer.temporal.events.parallelism import Parallelism, Resources, choose_parallelism, lost_mail


def resources(**changes: Any) -> Resources:
    plain: dict[str, Any] = {
        "ranks": 8,
        "epochs": 12,
        "batch_size": None,
        "lost_mail": lambda size: 0.5 + size / 10_000,
        "tolerance": 0.1,
        "memory_bytes": 1000,
        "available_bytes": 1_000_000,
    }
    return Resources(**{**plain, **changes})


def test_every_rank_has_a_place_of_its_own() -> None:
    """Guards against two ranks with one share, or a memory whose ranks are not those of its copy."""
    parallelism = Parallelism(shares=2, epochs=3, copies=2, batch_size=10)
    places = [(parallelism.share_of(r), parallelism.epoch_of(r), parallelism.copy_of(r)) for r in range(12)]
    assert len(set(places)) == 12
    for copy in range(2):
        assert [places[rank][2] for rank in parallelism.ranks_of_copy(copy)] == [copy] * 6
    assert parallelism.epochs_a_round == 6


@pytest.mark.parametrize(
    ("changes", "numbers", "batch_size"),
    [
        ({}, [4, 1, 2], 800),  # 800 events lose 6 points more than 200, and 1600 would lose 14
        ({"tolerance": 0.0}, [1, 1, 8], 200),
        ({"tolerance": 0.0, "epochs": 4}, [1, 2, 4], 200),
        ({"tolerance": 0.0, "available_bytes": 2 * 3000}, [1, 4, 2], 200),
        ({"tolerance": 0.0, "available_bytes": 0}, [1, 8, 1], 200),
        ({"batch_size": 250}, [2, 1, 4], 250),  # eight shares of it would have 31 events each
        ({"ranks": 1}, [1, 1, 1], 200),
        ({"ranks": 1, "batch_size": 50}, [1, 1, 1], 50),
    ],
)
def test_auto_follows_its_reasons(changes: dict[str, Any], numbers: list[int], batch_size: int) -> None:
    """Guards against a choice that ignores the tolerance, the memory, the epochs or the size of the batches."""
    chosen = choose_parallelism(None, resources(**changes))
    assert (chosen.numbers, chosen.batch_size) == (numbers, batch_size)
    assert f"--parallel {','.join(map(str, numbers))}:" in chosen.reason


def test_requested_numbers_are_those_of_the_run() -> None:
    """Guards against ranks that have no place, and shares without an event."""
    chosen = choose_parallelism((2, 2, 2), resources())
    assert (chosen.numbers, chosen.batch_size) == ([2, 2, 2], 400)
    with pytest.raises(TrainingError, match="is for 4 ranks and this run has 8"):
        choose_parallelism((2, 2, 1), resources())
    with pytest.raises(TrainingError, match="--batch-size 3 has no event for each of 8 ranks"):
        choose_parallelism((8, 1, 1), resources(batch_size=3))
    assert parse_parallel("auto") is None
    assert parse_parallel("2,1,4") == (2, 1, 4)
    for text in ("2,1", "2,1,x", "0,1,1", "2,1,1,1"):
        with pytest.raises(OptionError, match="three whole numbers"):
            parse_parallel(text)


def test_lost_mail_is_counted_in_batches() -> None:
    """Guards against mails of different batches or nodes that are counted as one."""
    stream = random_stream()
    first, end = stream.groups()["train"]
    ends = stream.source_M.tolist(), stream.destination_M.tolist()
    for size in (1, 7, 50):
        kept = sum(
            len(Counter([*ends[0][begin:stop], *ends[1][begin:stop]])) for begin, stop in batches_of(first, end, size)
        )
        assert lost_mail(stream, size) == pytest.approx(1 - kept / (2 * (end - first)))
