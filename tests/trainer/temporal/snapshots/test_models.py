"""Each model against its paper's formulas on dense matrices: losses and gradients."""

from __future__ import annotations

import pytest
import torch

from tests.trainer.rank_group import among_ranks, run_options
from tests.trainer.temporal.snapshots.dense_reference import Reference
from tests.trainer.temporal.snapshots.streams import MODELS, small_events, step_task
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.network import SnapshotNetwork


@pytest.mark.parametrize("with_features", [False, True])
@pytest.mark.parametrize("history", [0, 3])
@pytest.mark.parametrize("model", MODELS)
def test_equals_the_formulas_on_dense_matrices(model: str, history: int, with_features: bool) -> None:
    """A gate's weights in another order, a matrix of another snapshot, or a cut that loses a gradient."""
    events = small_events(with_features=with_features)
    snapshots = Snapshots(events=events, device=torch.device("cpu"), seed=0)
    num_steps = snapshots.num_steps("train")
    task = step_task(events, [0, num_steps], history=history, **MODELS[model])
    [(loss, gradients)] = among_ranks(1, [task])

    network = SnapshotNetwork(run_options("", hidden=8, **MODELS[model]), snapshots)
    expected = Reference(network, events, history=history).loss(snapshots, num_steps, model, 2) / 100
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
    for name, parameter in network.named_parameters():
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(
            gradients[name], wanted, rtol=1e-4, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}"
        )
        assert name == "vectors_NF" or bool(wanted.any()), name
