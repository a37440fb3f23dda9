"""Batch norm behind layers: what is learnt and how it is evaluated does not depend on the number of ranks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.training.fit import _other_weights

pytestmark = pytest.mark.slow

NAME = "directed, weighted, uneven"
MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn"},
    "sage": {"model": "sage"},
    "sage, max": {"model": "sage", "aggregator": "max"},
    "gat": {"model": "gat", "heads": 2},
    "gatv2": {"model": "gatv2", "heads": 2},
    "gin": {"model": "gin"},
    "rgcn": {"model": "rgcn"},
    "residual, side by side": {"model": "gcn", "residual": True, "jumping": "cat"},
}


def runs_of(caches: dict[Any, Path], world: int, folder: Path) -> dict[str, tuple[Run, torch.Tensor]]:
    """A run of each model with batch norm, and the scores of its best weights, which are the last."""
    changes = {"norm": "batch", "layers": 3, "epochs": 12, "lr": 0.01, "eval_every": 12}
    files = {name: folder / f"{number}-{world}.pt" for number, name in enumerate(MODELS)}
    tasks = [
        partial(train_once, cache=str(caches[NAME, world]), save_predictions=str(files[name]), **changes, **model)
        for name, model in MODELS.items()
    ]
    found = among_ranks(world, tasks)
    return {name: (run, torch.load(files[name])) for name, run in zip(MODELS, found, strict=True)}


def test_evaluations_are_alike_on_any_number_of_ranks(caches: dict[Any, Path], tmp_path: Path) -> None:
    """The gradient of a bias that batch norm takes away is rounding alone. Adam makes whole steps of it, which go
    another way on each number of ranks, and running means are behind them: scores of evaluations drifted apart."""
    one, several = runs_of(caches, 1, tmp_path), runs_of(caches, 3, tmp_path)
    for name in MODELS:
        assert several[name][0].losses == pytest.approx(one[name][0].losses, rel=2e-3), name
        scale = float(one[name][1].abs().max())
        torch.testing.assert_close(several[name][1], one[name][1], atol=2e-3 * scale, rtol=0.0, msg=name)


def test_a_checkpoint_with_the_biases_of_earlier_releases_is_a_sentence() -> None:
    """It was called one of other options, which the user cannot give."""
    mine = {"model.layers.0.weight_FG": 1, "model.layers.1.bias_G": 1}
    earlier = {name: torch.zeros(1) for name in [*mine, "model.layers.0.bias_G"]}
    assert "a release that gave biases" in _other_weights(earlier, mine)
    assert "a release" not in _other_weights({"model.layers.0.weight_FG": torch.zeros(1)}, mine)
