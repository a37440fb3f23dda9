"""Weights by name in one file, as the libraries of the formats read them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import among_ranks, train_once
from trainer.base.errors import TrainingError
from trainer.reporting.weights_file import write_weights

VALUES = {
    "matrix": torch.arange(12, dtype=torch.float32).view(3, 4).T,  # not contiguous
    "half": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
    "number": torch.tensor(7),
    "nothing": torch.empty(0, 3),
    "mask": torch.tensor([True, False, True]),
}


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pt"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    write_weights(str(file), VALUES)
    read = load_file(file) if name.endswith(".safetensors") else torch.load(file, weights_only=True)
    assert read.keys() == VALUES.keys()
    for key, value in VALUES.items():
        assert read[key].dtype == value.dtype
        assert torch.equal(read[key], value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"cannot be written .*; give another path"):
        write_weights(str(tmp_path / "none" / "weights.pt"), VALUES)


@pytest.mark.parametrize("world", [1, 2])
def test_a_run_saves_its_best_weights_by_plain_names(tmp_path: Path, world: int) -> None:
    graph = random_graph(seed=1)
    cache = make_cache(tmp_path / "cache", graph, torch.arange(60).numpy() % world, world)
    files = [tmp_path / "weights.safetensors", tmp_path / "weights.pt"]
    runs = among_ranks(
        world, [partial(train_once, cache=str(cache), model="sage", epochs=3, save_weights=str(file)) for file in files]
    )
    weights = load_file(files[0])
    assert sorted(weights) == sorted(f"layers.{layer}.{name}" for layer in (0, 1) for name in NAMES)
    assert all(torch.equal(value, weights[name]) for name, value in torch.load(files[1], weights_only=True).items())
    assert sum(value.numel() for value in weights.values()) == runs[0].result["parameters"]


NAMES = ("own_FG", "neighbours_FG", "bias_G")
