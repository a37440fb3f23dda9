"""Training by the kernels: the losses of training without them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.kernels.interpreted import spmm
from tests.trainer.parity_cases import uneven
from tests.trainer.rank_group import among_ranks, train_once

pytestmark = pytest.mark.slow

SETTINGS: list[tuple[dict[str, Any], float]] = [
    ({"model": "gcn", "dropout": 0.5}, 1e-5),
    ({"model": "sage", "wire": "int8", "error_feedback": True}, 1e-5),
    ({"model": "sage", "wire": "int8", "aggregator": "max"}, 1e-5),
    ({"model": "gcn", "wire": "fp16", "exchange": "tensor"}, 1e-5),
    ({"model": "gcn", "wire": "bf16"}, 1e-5),
    ({"model": "gcn", "precision": "bf16", "staleness": "variation:0.1"}, 1e-2),
]
"""Options, and how far losses may be apart, relatively."""
OF_ONE_RANK = [({"model": "gcn", "dropout": 0.5}, 1e-5), ({"model": "sage", "aggregator": "max"}, 1e-5), SETTINGS[-1]]
"""Where no row travels, wires and exchanges are one."""
EPOCHS = 2


@pytest.mark.parametrize("world", [1, 2])
def test_losses_are_those_of_torch_s_kernels(world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is right alone, and called with the transpose, or with sums that are added twice."""
    graph = random_graph(num_nodes=40, num_edges=150, num_features=24, loops_and_duplicates=True, weighted=True, seed=3)
    cache = make_cache(tmp_path / "cache", graph, uneven(40, world), world)
    settings = OF_ONE_RANK if world == 1 else SETTINGS
    # Narrower sums than 16 columns are torch's.
    same = {"cache": str(cache), "epochs": EPOCHS, "eval_every": EPOCHS, "hidden": 20, "layers": 3}
    tasks = [partial(train_once, **same, **options) for options, _ in settings]
    launches, launch = [], spmm._launch
    monkeypatch.setattr(spmm, "_launch", lambda *arguments, **named: launches.append(1) or launch(*arguments, **named))
    # First: the process that ranks are forks of may import Triton, and then keeps the variable.
    by_kernels, num_launches = among_ranks(world, tasks), len(launches)
    monkeypatch.delenv("TRITON_INTERPRET")
    plain = among_ranks(world, tasks)
    for (options, tolerance), one, other in zip(settings, plain, by_kernels, strict=True):
        assert other.losses == pytest.approx(one.losses, rel=tolerance), options
    if world == 1:  # several are processes of their own
        assert len(launches) == num_launches >= 2 * EPOCHS * len(settings), "a sum and its gradient in each epoch"
