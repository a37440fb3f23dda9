"""Control variates: their sums are unbiased and vary little."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.minibatch.in_process import SamplerInProcess
from tests.trainer.minibatch.test_sampler_process import BATCH
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.minibatch.batch_graph import BatchGraph, BatchShape
from trainer.minibatch.control_variates import LayerHistory

NODES, SEEDS, EPOCHS = 60, torch.tensor([1, 7, 20, 33]), 250


@pytest.fixture(scope="module")
def graph() -> HandmadeGraph:
    return random_graph(num_nodes=NODES, num_edges=900, weighted=True)


def mean_matrix(graph: HandmadeGraph) -> Tensor:
    """What each edge counts in a mean: dense, rows are destinations."""
    dense = np.zeros((NODES, NODES))
    assert graph.weight is not None
    np.add.at(dense, (graph.dst, graph.src), graph.weight)
    return torch.from_numpy(dense / np.maximum(dense.sum(1, keepdims=True), 1e-9)).float()


@pytest.fixture(scope="module")
def estimates(graph: HandmadeGraph, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Tensor]:
    """The sums of layer 2 for the seeds in many draws of two neighbours, with and without control, for each share of
    dropout: [epochs, seeds, F]; and the exact ones."""
    cache = str(make_cache(tmp_path_factory.mktemp("control") / "c", graph, np.zeros(NODES, int), 1))
    torch.set_num_threads(1)  # as ranks in tests have
    cpu, generator = torch.device("cpu"), torch.Generator().manual_seed(0)
    matrix, rows_NF = mean_matrix(graph), torch.randn(NODES, 5, generator=generator)
    history_NF = rows_NF + 0.1 * torch.randn(NODES, 5, generator=generator)
    shape = BatchShape(
        type_names=["node"],
        first_ids=[0],
        relation_names=[""],
        target="node",
        is_typed=False,
        sums="mean",
        num_nodes=NODES,
        seed=0,
        communicator=Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu)),
    )
    batch = {**BATCH, "batch_size": 4, "fanouts": [2, 1], "sums": "mean", "histories": True, "roots": True}
    sampler = SamplerInProcess(cache=cache, rank=0, seeds=SEEDS, batch=batch, epochs=(1, EPOCHS))
    found: dict[tuple[bool, float], list[Tensor]] = {}
    for epoch in range(1, EPOCHS + 1):
        arrays = sampler.next().arrays
        layers, ids = shape.layers(arrays), arrays["ids/node"]
        seeds, inner = (int(number) for number in arrays["counts"][:2, 0])
        histories = [
            LayerHistory(rows_nF=None, sums_nF=(matrix @ rows_NF)[ids[:inner]]),
            LayerHistory(rows_nF=history_NF[ids[:inner]], sums_nF=(matrix @ history_NF)[ids[:seeds]]),
        ]
        context = PassContext(epoch=epoch, training=True)
        make = partial(BatchGraph, rows_NF[ids], layers, context, first_share=0.0, stored_type=torch.float32)
        means = make(share=0.0, histories=histories)
        torch.testing.assert_close(means.features.aggregate(), (matrix @ rows_NF)[ids[:inner]])
        graphs = {
            (True, 0.0): means,
            (True, 0.5): make(share=0.5, histories=histories, means=means),
            (False, 0.0): make(share=0.0),
            (False, 0.5): make(share=0.5),
        }
        for key, one in graphs.items():
            drawn = torch.empty(len(SEEDS), 5)
            drawn[torch.searchsorted(SEEDS, ids[:seeds])] = one.rows(rows_NF[ids[:inner]]).aggregate()
            found.setdefault(key, []).append(drawn)
    stacked: dict[Any, Tensor] = {key: torch.stack(drawn) for key, drawn in found.items()}
    return stacked | {"exact": (matrix @ rows_NF)[SEEDS]}


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_they_are_unbiased_and_vary_little(estimates: Any, share: float) -> None:
    """Guards against histories that do not cancel, and against dropout whose variance grows with what is not drawn."""
    controlled, plain, exact = estimates[True, share], estimates[False, share], estimates["exact"]
    error, deviation = (controlled.mean(0) - exact).abs(), controlled.std(0) / EPOCHS**0.5
    assert bool((error < 4.5 * deviation).all())
    assert controlled.var(0).mean() < (0.1 if not share else 0.5) * plain.var(0).mean()
