"""Losses and gradients do not depend on how the snapshots are shared among ranks and workers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.trainer.rank_group import among_ranks
from tests.trainer.temporal.snapshots.streams import MODELS, small_events, step_task
from trainer.temporal.snapshots.graphs import Snapshots

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


@pytest.mark.parametrize("world", BORDERS)
def test_any_groups_give_the_same_gradients(world: int, one_rank: dict[tuple[str, str], Any]) -> None:
    """A state or gradient that does not cross a border, arrives in the wrong order, or is added twice."""
    keys = [(model, case, name) for model, case in _KEYS for name in BORDERS[world]]
    tasks = [step_task(EVENTS, BORDERS[world][name], **MODELS[model], **CASES[case]) for model, case, name in keys]
    for (model, case, name), (loss, gradients) in zip(keys, among_ranks(world, tasks), strict=True):
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
