"""What the trainer says that a run would need and send."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from graphprep.temporal.write_cache import cache_of_arrays
from tests.trainer.rank_group import among_ranks
from tests.trainer.temporal.events.streams import fit_of, options_of, random_stream
from tests.trainer.temporal.events.test_run import SMALL, run_once
from trainer.base.errors import OptionError, TrainingError
from trainer.dist.communicator import Communicator
from trainer.temporal.events.expected import answer
from trainer.temporal.events.parallelism import Parallelism
from trainer.temporal.events.resources import memory_by_purpose, num_parameters
from trainer.temporal.events.sent_rows import MESSAGES
from trainer.temporal.events.stage_seconds import STAGES


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random stream with features of events, for two ranks."""
    stream = random_stream(num_nodes=20, num_events=300)
    assert stream.x_MF is not None
    return cache_of_arrays(
        tmp_path_factory.mktemp("expected") / "cache",
        stream.source_M.numpy(),
        stream.destination_M.numpy(),
        stream.time_M.numpy(),
        x=stream.x_MF.numpy(),
        num_parts=2,
    )


def request_of(cache: Path, *arguments: object, ranks: int = 2, measure: bool = False) -> dict[str, object]:
    words = [str(one) for one in (*SMALL, *arguments)]
    return {"cache": str(cache), "arguments": words, "ranks": ranks, "available": 10**9, "measure": measure}


@pytest.mark.slow
def test_the_counted_bytes_are_those_that_a_run_sends(cache: Path) -> None:
    """Guards against a plan of other messages than a round and its validation have."""
    divisions = ("2,1,1", "1,2,1", "1,1,2")
    arguments = [str(one) for one in (cache, *SMALL, "--epochs", 2, "--parallel")]
    runs = among_ranks(2, [partial(run_once, arguments=[*arguments, numbers]) for numbers in divisions])
    for numbers, run in zip(divisions, runs, strict=True):
        found = answer(request_of(cache, "--parallel", numbers))
        assert found["counted"] == found["batches"] > 4
        planned = sum(
            sum(map(sum, found[part]["bytes"][name])) for part in ("training", "validation") for name in MESSAGES
        )
        assert run.epochs[0]["row_bytes_sent"] == planned
        assert (planned > 0) == (numbers != "1,1,2")
        assert found["parallel"] == run.result["parallel"]
        assert found["parameters"] == run.result["parameters"]


def memory_of(communicator: Communicator) -> int:
    """Bytes of this rank's rows of memory, and its weights: a task."""
    fit = fit_of(communicator, random_stream(), (2, 1, 1), batch_size=16)
    return int(fit._memory.save().nbytes)


@pytest.mark.slow
def test_memory_is_that_of_the_rows_that_a_rank_owns() -> None:
    """Guards against a share of the node memory that no rank has."""
    stream, options = random_stream(), options_of()
    [size] = among_ranks(2, [memory_of])
    parallelism = Parallelism(shares=2, epochs=1, copies=1, batch_size=16)
    parameters = num_parameters(options, stream, 0)
    found = memory_by_purpose(options, stream, parallelism, owned_nodes=6, parameters=parameters)
    assert found["states of nodes"] + found["mail"] == size
    two = Parallelism(shares=1, epochs=1, copies=2, batch_size=16)
    with_validation = memory_by_purpose(options, stream, two, owned_nodes=6, parameters=parameters)
    assert with_validation["mail"] == 2 * found["mail"]
    assert all(number > 0 for number in found.values())


def test_the_stages_of_a_batch_are_measured(cache: Path) -> None:
    """Guards against stages that are left out, also for states of sources and few batches."""
    found = answer(request_of(cache, "--batch-size", 100, ranks=1, measure=True))
    assert set(found["seconds"]) == {*STAGES, "score"}
    assert all(seconds > 0 for seconds in found["seconds"].values())
    assert torch.get_num_threads() == found["threads"]


def test_some_batches_stand_for_all(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against bytes of the counted batches alone."""
    every = answer(request_of(cache, "--parallel", "2,1,1"))
    monkeypatch.setattr("trainer.temporal.events.expected.MOST_COUNTED", 5)
    some = answer(request_of(cache, "--parallel", "2,1,1"))
    assert some["counted"] == 5
    rows = [sum(map(sum, one["training"]["bytes"]["memory rows"])) for one in (every, some)]
    assert rows[1] == pytest.approx(rows[0], rel=0.2)


def test_what_is_refused_in_a_run_is_refused_in_a_plan(cache: Path) -> None:
    """Guards against a plan of a run that cannot start."""
    with pytest.raises(TrainingError, match="is for 4 ranks and this run has 2"):
        answer(request_of(cache, "--parallel", "2,2,1"))
    with pytest.raises(OptionError, match="edgebank cannot be planned"):
        answer({**request_of(cache), "arguments": ["--model", "edgebank"]})
