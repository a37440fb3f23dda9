"""Training on a stream: what ranks change, what the future changes, and whether it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.trainer.rank_group import among_ranks
from tests.trainer.temporal.events.streams import alternating_stream, fit_of, random_stream, task_of
from trainer.base.traffic_log import Clock
from trainer.data.event_tensors import FeatureHistory
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.temporal.events.evaluation import share_of
from trainer.temporal.events.memory import NodeMemory
from trainer.temporal.events.negatives import evaluation_key, negative_destinations
from trainer.temporal.events.queries import Queries
from trainer.temporal.events.stream import time_index

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture
def alone() -> Communicator:
    """The communicator of a run of one rank."""
    return Communicator(RankInfo(), CPU, timeout=60.0, clock=Clock(CPU))


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["losses"] == pytest.approx(other["losses"], abs=1e-5)
    assert one["val"] == pytest.approx(other["val"], abs=1e-5)
    assert one["test"] == pytest.approx(other["test"], abs=1e-5)
    for name, weight in one["weights"].items():
        torch.testing.assert_close(weight, other["weights"][name], atol=1e-5, rtol=0)


def test_shares_give_what_one_rank_gives() -> None:
    """Guards against a rank whose events count more, and against memory that misses another rank's events."""
    task = task_of(numbers=(1, 1, 1), batch_size=16, optimiser="sgd")
    [alone] = among_ranks(1, [task])
    for ranks in (2, 4):
        [shared] = among_ranks(ranks, [task_of(numbers=(ranks, 1, 1), batch_size=16, optimiser="sgd")])
        assert_same(shared, alone)


def test_a_share_may_have_no_event() -> None:
    """Guards against an error where the last batch has fewer events than ranks share it."""
    stream = random_stream()
    size = stream.split[0] - 1
    assert min((end - first) % size for first, end in stream.groups().values()) < 4
    [alone] = among_ranks(1, [task_of(numbers=(1, 1, 1), batch_size=size, optimiser="sgd")])
    [shared] = among_ranks(4, [task_of(numbers=(4, 1, 1), batch_size=size, optimiser="sgd")])
    assert_same(shared, alone)


def test_shares_change_no_other_division() -> None:
    """Guards against shares of a batch that are of several epochs or copies."""
    numbers = [(2, 1), (1, 2)]
    alone = among_ranks(2, [task_of(numbers=(1, j, k), batch_size=16, optimiser="sgd") for j, k in numbers])
    shared = among_ranks(4, [task_of(numbers=(2, j, k), batch_size=16, optimiser="sgd") for j, k in numbers])
    for one, other in zip(shared, alone, strict=True):
        assert_same(one, other)


def test_a_score_does_not_depend_on_later_events(alone: Communicator) -> None:
    """Guards against a leak: events are changed from a place on, and no score before it may change."""
    stream = random_stream(num_events=120)
    first = int(stream.first_of_time(torch.tensor(90)))
    ends = torch.stack([stream.source_M, stream.destination_M])
    changed = ends.clone()
    changed[:, first:] = (changed[:, first:] + 5) % stream.num_nodes
    scores = []
    for source_M, destination_M in (ends, changed):
        offset_N1, event_2M, neighbour_2M = time_index(source_M, destination_M, stream.num_nodes)
        later = replace(
            stream,
            source_M=source_M,
            destination_M=destination_M,
            offset_N1=offset_N1,
            event_2M=event_2M,
            neighbour_2M=neighbour_2M,
        )
        fit = fit_of(alone, later, (1, 1, 1), batch_size=10)
        memory = NodeMemory(later, 8, alone, range(1), later.owner_N(1))
        of_batches = []
        with torch.no_grad():
            for begin in range(0, first, 10):
                event_b = torch.arange(begin, min(begin + 10, first))
                destination_bm = torch.stack([destination_M[event_b], (destination_M[event_b] + 1) % 12], 1)
                queries = Queries.of(later, event_b, destination_bm, 4)
                rows = memory.read(queries.node_n)
                memory.write(fit.model.states, begin, min(begin + 10, first))
                of_batches.append(queries.scores(fit.model, later, rows))
        scores.append(torch.cat(of_batches))
    assert torch.equal(*scores)
    assert scores[0].std() > 0


def test_it_learns_whose_turn_it_is(alone: Communicator) -> None:
    """Guards against a model that sees neither memory nor time: both destinations of a source are equally frequent."""
    fit = fit_of(alone, alternating_stream(), (1, 1, 1), batch_size=8, hidden=16)
    before = fit.evaluate("val", negatives=5)[0]["ap"]
    for number in range(6):
        fit.round(number, number == 5)
    [val] = fit.evaluate("val", negatives=5)
    assert before is not None
    assert val["ap"] is not None
    assert before < 0.75
    assert val["ap"] > 0.95


def test_epochs_and_copies_take_their_batches_in_order() -> None:
    """Guards against a batch that is skipped, negatives of a wrong epoch, and memory that is not zeroed at the wrap:
    what every rank trains on is compared with the schedule that the module describes."""
    for numbers in ((1, 2, 1), (1, 1, 2)):
        [(seen, loss)] = among_ranks(2, [_Schedule(numbers)])
        batches, (_, j, k) = 9, numbers
        for rank, events in enumerate(seen):
            copy, epoch = rank // j, rank % j
            expected = []
            for iteration in range(2 * batches):
                position = (copy * batches // k + iteration) % batches
                if position == 0:
                    expected.append("reset")
                if iteration % j == epoch:
                    first = iteration // batches * j * k + copy * j + 1
                    expected += [(position, number) for number in range(first, first + j)]
                expected.append(f"write {position}")
            assert events == expected
        assert loss == pytest.approx(0.69, abs=0.1)


class _Schedule:
    """Records what a rank reads, writes and resets in two rounds; a task of `among_ranks`."""

    def __init__(self, numbers: tuple[int, int, int]) -> None:
        self.numbers = numbers

    def __call__(self, communicator: Communicator) -> tuple[list[list[Any]], float]:
        stream = random_stream()
        fit = fit_of(communicator, stream, self.numbers, batch_size=16)
        seen: list[Any] = []
        memory, queries = fit._memory, fit._queries
        reset, write = memory.reset, memory.write

        def record_queries(event_b: torch.Tensor, epoch: int) -> Queries:
            seen.append((int(event_b[0]) // 16, epoch))
            return queries(event_b, epoch)

        def record_write(states: Any, first: int, end: int) -> None:
            seen.append(f"write {first // 16}")
            write(states, first, end)

        def record_reset() -> None:
            seen.append("reset")
            reset()

        fit._queries = record_queries  # type: ignore[method-assign]
        memory.reset, memory.write = record_reset, record_write  # type: ignore[method-assign]
        losses = [fit.round(number, number == 1) for number in range(2)]
        gathered = communicator.all_gather_object(
            {"seen": [list(one) if isinstance(one, tuple) else one for one in seen]}
        )
        return [
            [tuple(one) if isinstance(one, list) else one for one in of_rank["seen"]] for of_rank in gathered
        ], losses[0]


def test_epochs_train_every_batch_as_often_as_they_are(alone: Communicator) -> None:
    """Guards against a last batch that is dropped: with j epochs on j ranks, the steps are those of one and j - 1."""
    [steps] = among_ranks(2, [_steps])
    assert steps == 2 * 9 + 1


def _steps(communicator: Communicator) -> int:
    fit = fit_of(communicator, random_stream(), (1, 2, 1), batch_size=16)
    for number in range(2):
        fit.round(number, number == 1)
    return int(fit.state_dict()["steps"])


def test_evaluation_leaves_training_as_it_is() -> None:
    """Guards against a validation that changes the memory of a copy in the middle of the stream."""
    [with_it, without] = among_ranks(2, [_WithEvaluation(True), _WithEvaluation(False)])
    assert with_it == without


class _WithEvaluation:
    def __init__(self, evaluates: bool) -> None:
        self.evaluates = evaluates

    def __call__(self, communicator: Communicator) -> list[float]:
        fit = fit_of(communicator, random_stream(), (1, 1, 2), batch_size=16)
        losses = []
        for number in range(3):
            losses.append(fit.round(number, number == 2))
            if self.evaluates:
                fit.evaluate("val", negatives=1)
        return losses


def test_negatives_of_shares_are_those_of_the_batch() -> None:
    """Guards against negatives that depend on the rank."""
    stream = random_stream()
    whole = negative_destinations(stream, torch.arange(32, 48), 2, evaluation_key(0))
    pieces = [negative_destinations(stream, share_of(32, 48, share, 3), 2, evaluation_key(0)) for share in range(3)]
    assert torch.equal(torch.cat(pieces), whole)


def history_of(rows: list[tuple[int, int, float]], num_nodes: int) -> FeatureHistory:
    """Rows of a node, a time and one feature."""
    rows = sorted(rows)
    counts = torch.bincount(torch.tensor([node for node, _, _ in rows]), minlength=num_nodes)
    return FeatureHistory(
        offsets=torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
        time=torch.tensor([time for _, time, _ in rows]),
        x=torch.tensor([[value] for _, _, value in rows]),
    )


def test_features_that_change_are_those_before_each_event(alone: Communicator) -> None:
    """Guards against features of the whole batch's time: of two events of one batch, the later one alone sees a change
    between them, and no event sees a change at its own time or later; also through neighbours."""
    stream = random_stream(num_events=120, num_features=0)
    event_b = torch.arange(60, 100)
    source, time = int(stream.source_M[80]), int(stream.time_M[80])

    def scores_with(changes: list[tuple[int, int, float]]) -> torch.Tensor:
        changed = replace(stream, changing=history_of(changes, stream.num_nodes))
        fit = fit_of(alone, changed, (1, 1, 1), batch_size=16)
        queries = Queries.of(changed, event_b, stream.destination_M[event_b].unsqueeze(1), 4)
        with torch.no_grad():
            return queries.scores(fit.model, changed, fit._memory.read(queries.node_n)).squeeze(1)

    first = (source, -1, 1.0)
    before, after = scores_with([first]), scores_with([first, (source, time, 5.0)])
    is_later_b = stream.time_M[event_b] > time
    assert is_later_b.any()
    assert not is_later_b.all()
    torch.testing.assert_close(after[~is_later_b], before[~is_later_b])
    assert (after[is_later_b] != before[is_later_b]).any()
    torch.testing.assert_close(scores_with([first, (source, time, 1.0)]), before)


def test_features_that_change_are_beside_those_that_do_not(alone: Communicator) -> None:
    """Guards against one of both that is not read."""
    stream = random_stream(num_events=60)
    history = history_of([(node, -1, 1.0) for node in range(stream.num_nodes)], stream.num_nodes)
    both = replace(stream, x_NF=torch.ones(stream.num_nodes, 3), changing=history)
    fit = fit_of(alone, both, (1, 1, 1), batch_size=16)
    static = fit.model.static
    assert isinstance(static, torch.nn.Linear)
    assert static.in_features == 4
    loss = fit.round(0, True)
    for other in (replace(both, changing=replace(history, x=3 * history.x)), replace(both, x_NF=3 * both.x_NF)):
        assert fit_of(alone, other, (1, 1, 1), batch_size=16).round(0, True) != loss


def test_a_checkpoint_of_another_division_is_said_to_be_inexact(
    alone: Communicator, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against a resumed run that is silently another one, and a warning where nothing is lost."""
    fit = fit_of(alone, random_stream(), (1, 1, 1), batch_size=16)
    fit.round(0, False)
    state = fit.state_dict()
    fit.load_state_dict(state, 1)
    assert not caplog.records
    fit.load_state_dict({**state, "parallel": [1, 2, 2]}, 1)
    assert "is of --parallel 1,2,2 and this run has 1,1,1, so its node memory is not read" in caplog.text
