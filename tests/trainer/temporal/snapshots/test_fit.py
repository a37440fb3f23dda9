"""Whole trainings: the same losses, weights and metrics on any number of ranks."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import pytest
import torch

from tests.trainer.rank_group import among_ranks, run_options
from tests.trainer.temporal.snapshots.streams import MODELS, shared_snapshots, small_events
from trainer.dist.communicator import Communicator
from trainer.temporal.snapshots import passes
from trainer.temporal.snapshots.fit import SnapshotFit
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.workers import Workers

pytestmark = pytest.mark.slow

EVENTS = small_events(num_events=400, num_snapshots=16)
EPOCHS = 5


def trained(communicator: Communicator, *, num_members: int = 1, **changes: Any) -> dict[str, Any]:
    """Losses, weights and metrics of a short training in which the groups change by measured seconds."""
    communicator.connect()
    passes._LEAST_ROWS = 5
    options = run_options("", epochs=EPOCHS, lr=0.02, negatives=2, **changes)
    snapshots = shared_snapshots(communicator, EVENTS, num_members)
    num_steps, num_groups = snapshots.num_steps("train"), communicator.world // num_members
    first = [0, *(min(1 + group, num_steps) for group in range(num_groups - 1)), num_steps]
    workers = Workers(2 if num_members == 1 else 1, communicator.device)
    fit = SnapshotFit(snapshots, options, communicator, workers, borders=first)
    losses = [fit.round(number, number == EPOCHS - 1) for number in range(EPOCHS)]
    return {
        "losses": losses,
        "weights": fit.weights(),
        "metrics": fit.evaluate("val", "test", negatives=7),
        "first": first,
        "borders": fit.groups.borders,
        "is_measured": fit.groups.is_measured,
        "seconds": fit.groups.seconds,
    }


def resumed(communicator: Communicator, *, num_members: int = 1, **changes: Any) -> tuple[Any, Any]:
    """Two epochs after a change of the groups: of one run, and of another one that resumes from its state."""
    communicator.connect()
    passes._LEAST_ROWS = 5
    options = run_options("", epochs=7, lr=0.02, negatives=2, **changes)
    snapshots = shared_snapshots(communicator, EVENTS, num_members)
    num_steps, num_groups = snapshots.num_steps("train"), communicator.world // num_members
    first = [0, *(min(1 + group, num_steps) for group in range(num_groups - 1)), num_steps]

    def fit_of(borders: list[int] | None) -> SnapshotFit:
        workers = Workers(2 if num_members == 1 else 1, communicator.device)
        return SnapshotFit(snapshots, options, communicator, workers, borders=borders)

    whole, later = fit_of(first), fit_of(None)
    for number in range(5):
        whole.round(number, False)
    content = io.BytesIO()
    torch.save(whole.state_dict(), content)
    content.seek(0)
    later.load_state_dict(torch.load(content, weights_only=True), 5)
    outcomes = [
        ([fit.round(number, False) for number in (5, 6)], fit.weights(), fit.groups.borders, first)
        for fit in (whole, later)
    ]
    return outcomes[0], outcomes[1]


def of_all_models(worlds: tuple[int, ...], num_members: int) -> dict[int, dict[str, Any]]:
    """By the number of ranks, a training of each model, and where each group is one rank or there are several groups
    those that are resumed.
    """
    number, found = len(MODELS), {}
    for world in worlds:
        kinds = (trained, resumed) if world == 1 or world > num_members else (trained,)
        tasks = [partial(task, num_members=num_members, **changes) for task in kinds for changes in MODELS.values()]
        outcomes = among_ranks(world, tasks)
        of_resumed = dict(zip(MODELS, outcomes[number:], strict=True)) if len(kinds) == 2 else {}
        found[world] = {**dict(zip(MODELS, outcomes[:number], strict=True)), "resumed": of_resumed}
    return found


@pytest.fixture(scope="module")
def outcomes() -> dict[int, dict[str, Any]]:
    """Where each rank has a group."""
    return of_all_models((1, 3), 1)


@pytest.fixture(scope="module")
def shared_outcomes() -> dict[int, dict[str, Any]]:
    """Where two ranks share each group."""
    return of_all_models((2, 4), 2)


@pytest.mark.parametrize("model", MODELS)
def test_ranks_train_the_model_of_one_rank(model: str, outcomes: dict[int, dict[str, Any]]) -> None:
    """A share of the loss that is counted twice, groups that change the result, or metrics of one rank's pairs."""
    assert_same_training(outcomes[1][model], outcomes[3][model])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("model", MODELS)
def test_ranks_that_share_a_group_train_the_model_of_one_rank(
    model: str, world: int, outcomes: dict[int, dict[str, Any]], shared_outcomes: dict[int, dict[str, Any]]
) -> None:
    """Scores of rows that other members have, or pairs that no member scores, in one group and in two."""
    assert_same_training(outcomes[1][model], shared_outcomes[world][model])


def assert_same_training(one: dict[str, Any], several: dict[str, Any]) -> None:
    """Compare losses, weights and metrics."""
    assert several["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert one["losses"][-1] < one["losses"][0]
    for name, weight in one["weights"].items():
        torch.testing.assert_close(several["weights"][name], weight, rtol=1e-4, atol=1e-5)
    for measured, expected in zip(several["metrics"], one["metrics"], strict=True):
        assert measured == pytest.approx(expected, abs=1e-5)
        assert 0 < expected["mrr"] <= 1


@pytest.mark.parametrize("model", MODELS)
def test_a_resumed_run_is_the_whole_run_to_the_last_bit(
    model: str, outcomes: dict[int, dict[str, Any]], shared_outcomes: dict[int, dict[str, Any]]
) -> None:
    """Guards against groups that begin anew, whose sums are added in another order, and against a lost optimiser."""
    for world, of_world in ((1, outcomes[1]), (3, outcomes[3]), (4, shared_outcomes[4])):
        whole, later = of_world["resumed"][model]
        assert later[0] == whole[0], world
        assert all(torch.equal(later[1][parameter], weight) for parameter, weight in whole[1].items()), world
        assert later[2] == whole[2], world
        assert len(whole[2]) == 2 or whole[2] != whole[3], world


def test_learnt_rows_are_saved_in_the_order_of_nodes() -> None:
    """Guards against rows in the order of first events, which only the model knows."""
    snapshots = Snapshots(events=EVENTS, device=torch.device("cpu"), seed=0)

    def by_node(communicator: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
        fit = SnapshotFit(snapshots, run_options("", model="tgcn"), communicator, Workers(1, communicator.device))
        return fit.by_node(fit.weights())["vectors_NF"], fit.weights()["vectors_NF"]

    [(saved_NF, own_NF)] = among_ranks(1, [by_node])
    first = int(EVENTS.source_M[0])
    assert torch.equal(saved_NF[first], own_NF[0])
    assert not torch.equal(saved_NF, own_NF)


def test_measured_seconds_change_groups_that_are_far_from_equal(outcomes: dict[int, dict[str, Any]]) -> None:
    """Seconds that are not gathered, or groups that stay as they were."""
    for model in MODELS:
        several = outcomes[3][model]
        assert several["is_measured"]
        assert several["borders"] != several["first"], model
        assert min(several["seconds"]) > 0
