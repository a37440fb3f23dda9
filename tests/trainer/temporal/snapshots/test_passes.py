"""Losses and gradients do not depend on how the snapshots are shared among ranks and workers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.trainer.rank_group import among_ranks
from tests.trainer.temporal.snapshots.streams import MODELS, small_events, step_task
from trainer.temporal.snapshots.graphs import Snapshots

pytestmark = pytest.mark.slow

EVENTS = small_events(num_events=300, num_snapshots=14)
NUM_STEPS = Snapshots(events=EVENTS, device=torch.device("cpu"), seed=0).num_steps("train")
CASES: dict[str, dict[str, Any]] = {
    "one sequence": {"history": 0},
    "two workers": {"history": 0, "num_workers": 2},
    "sequences across borders": {"history": 2},
    "sequences longer than a group": {"history": 7},
}
BORDERS = {
    2: {"even": [0, 4, NUM_STEPS], "first": [0, 1, NUM_STEPS], "empty": [0, NUM_STEPS, NUM_STEPS]},
    3: {"even": [0, 3, 6, NUM_STEPS], "empty between": [0, 4, 4, NUM_STEPS], "empty first": [0, 0, 5, NUM_STEPS]},
}
_KEYS = [(model, case) for model in MODELS for case in CASES]


@pytest.fixture(scope="module")
def one_rank() -> dict[tuple[str, str], Any]:
    """Loss and gradients of one rank with one worker."""
    tasks = [
        step_task(EVENTS, [0, NUM_STEPS], **MODELS[model], history=CASES[case]["history"]) for model, case in _KEYS
    ]
    return dict(zip(_KEYS, among_ranks(1, tasks), strict=True))


def assert_same(keys: list[tuple[str, str, str]], steps: list[Any], one_rank: dict[tuple[str, str], Any]) -> None:
    """Compare losses and gradients with those of one rank."""
    for (model, case, name), (loss, gradients) in zip(keys, steps, strict=True):
        expected_loss, expected = one_rank[model, case]
        where = f"{model}, {case}, {name}"
        assert loss == pytest.approx(expected_loss, rel=1e-5), where
        for parameter, gradient in gradients.items():
            torch.testing.assert_close(
                gradient,
                expected[parameter],
                rtol=1e-4,
                atol=1e-6,
                msg=lambda text, w=where, p=parameter: f"{w} {p}: {text}",
            )


SHARED = {
    2: {"one group of two": ([0, NUM_STEPS], 2)},
    4: {
        "two groups of two": ([0, 4, NUM_STEPS], 2),
        "an empty group": ([0, NUM_STEPS, NUM_STEPS], 2),
        "one group of four": ([0, NUM_STEPS], 4),
    },
}
"""Borders and how many ranks share each group, by the number of ranks."""
ONE_WORKER = {case: changes for case, changes in CASES.items() if "num_workers" not in changes}


@pytest.mark.parametrize("world", SHARED)
def test_ranks_that_share_a_group_give_the_same_gradients(world: int, one_rank: dict[tuple[str, str], Any]) -> None:
    """A halo row of another node, a gradient that stays with the rank that fetched the row, or one added twice."""
    keys = [(model, case, name) for model in MODELS for case in ONE_WORKER for name in SHARED[world]]
    tasks = []
    for model, case, name in keys:
        borders, num_members = SHARED[world][name]
        tasks.append(step_task(EVENTS, borders, num_members=num_members, **MODELS[model], **CASES[case]))
    assert_same(keys, among_ranks(world, tasks), one_rank)


@pytest.mark.parametrize("world", BORDERS)
def test_any_groups_give_the_same_gradients(world: int, one_rank: dict[tuple[str, str], Any]) -> None:
    """A state or gradient that does not cross a border, arrives in the wrong order, or is added twice."""
    keys = [(model, case, name) for model, case in _KEYS for name in BORDERS[world]]
    tasks = [step_task(EVENTS, BORDERS[world][name], **MODELS[model], **CASES[case]) for model, case, name in keys]
    assert_same(keys, among_ranks(world, tasks), one_rank)
