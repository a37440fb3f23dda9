"""Whole trainings: the same losses, weights and metrics on any number of ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from tests.trainer.rank_group import among_ranks, run_options
from tests.trainer.temporal.snapshots.streams import MODELS, small_events
from trainer.dist.communicator import Communicator
from trainer.temporal.snapshots import passes
from trainer.temporal.snapshots.fit import SnapshotFit
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.workers import Workers

EVENTS = small_events(num_events=400, num_snapshots=16)
EPOCHS = 5


def trained(communicator: Communicator, **changes: Any) -> dict[str, Any]:
    """Losses, weights and metrics of a short training in which the groups change by measured seconds."""
    communicator.connect()
    passes._LEAST_ROWS = 5
    options = run_options("", epochs=EPOCHS, lr=0.02, negatives=2, **changes)
    snapshots = Snapshots(events=EVENTS, device=communicator.device, seed=0)
    num_steps = snapshots.num_steps("train")
    first = [0, *(min(1 + rank, num_steps) for rank in range(communicator.world - 1)), num_steps]
    fit = SnapshotFit(snapshots, options, communicator, Workers(2, communicator.device), borders=first)
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


@pytest.fixture(scope="module")
def outcomes() -> dict[int, dict[str, Any]]:
    """Of each number of ranks, of each model."""
    tasks = [partial(trained, **changes) for changes in MODELS.values()]
    return {world: dict(zip(MODELS, among_ranks(world, tasks), strict=True)) for world in (1, 2, 3)}


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_ranks_train_the_model_of_one_rank(model: str, world: int, outcomes: dict[int, dict[str, Any]]) -> None:
    """A share of the loss that is counted twice, groups that change the result, or metrics of one rank's pairs."""
    one, several = outcomes[1][model], outcomes[world][model]
    assert several["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert one["losses"][-1] < one["losses"][0]
    for name, weight in one["weights"].items():
        torch.testing.assert_close(several["weights"][name], weight, rtol=1e-4, atol=1e-5)
    for measured, expected in zip(several["metrics"], one["metrics"], strict=True):
        assert measured == pytest.approx(expected, abs=1e-5)
        assert 0 < expected["mrr"] <= 1


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


@pytest.mark.parametrize("world", [2, 3])
def test_measured_seconds_change_groups_that_are_far_from_equal(
    world: int, outcomes: dict[int, dict[str, Any]]
) -> None:
    """Seconds that are not gathered, or groups that stay as they were."""
    for model in MODELS:
        several = outcomes[world][model]
        assert several["is_measured"]
        assert several["borders"] != several["first"], model
        assert min(several["seconds"]) > 0
