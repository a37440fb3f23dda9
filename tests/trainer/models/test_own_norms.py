"""Modules of a user's model that look at more rows than one."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.base.errors import TrainingError
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.models.own_norms import RanksBatchNorm, over_all_ranks, seeded

NAME = "directed, weighted, uneven"
MODEL = """
import torch

class Local(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen.add_(x.detach().sum(0))
        return x

class Mine(torch.nn.Module):
    sums = "mean"

    def __init__(self, plan):
        super().__init__()
        self.first = plan.weight(plan.num_features, plan.hidden)
        self.middle = MIDDLE
        self.last = plan.weight(plan.hidden, plan.num_classes)

    def forward(self, graph):
        hidden = self.middle(graph.features.aggregate(self.first)).relu()
        return graph.rows(hidden).aggregate(self.last)
"""
NORM = "torch.nn.Sequential(torch.nn.BatchNorm1d(8, momentum=0.2))"


def written(folder: Path, middle: str) -> str:
    file = folder / "mine.py"
    file.write_text(MODEL.replace("MIDDLE", middle))
    return f"{file}:Mine"


def trained(caches: dict[Any, Path], world: int, model: str, **changes: Any) -> Run:
    [run] = among_ranks(world, [partial(train_once, cache=str(caches[NAME, world]), model=model, **changes)])
    return run


def test_torch_s_batch_norm_counts_the_rows_of_all_ranks(caches: dict[Any, Path], tmp_path: Path) -> None:
    """Statistics over one rank's rows trained another model on each rank, on parts of unequal sizes, and said nothing;
    the evaluation then used rank 0's running means."""
    model = written(tmp_path, NORM)
    files = {world: tmp_path / f"{world}.pt" for world in (1, 3)}
    one, several = (
        trained(caches, world, model, epochs=10, save_predictions=str(file)) for world, file in files.items()
    )
    assert several.losses == pytest.approx(one.losses, rel=1e-4)
    torch.testing.assert_close(torch.load(files[3]), torch.load(files[1]), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    "middle",
    [
        "torch.nn.InstanceNorm1d(8)",
        "torch.nn.SyncBatchNorm(8)",
        "torch.nn.LazyBatchNorm1d()",
        "type('PairNorm', (torch.nn.Identity,), {})()",
        "type('Mine', (type('GraphNorm', (torch.nn.Identity,), {}),), {})()",
        "type('LayerNorm', (torch.nn.Identity,), {'mode': 'graph'})()",
        "lambda x: torch.nn.functional.batch_norm(x, None, None, training=True)",
    ],
)
def test_norms_over_one_rank_s_rows_are_refused(caches: dict[Any, Path], tmp_path: Path, middle: str) -> None:
    """Each takes statistics over the rows that one rank happens to hold: right on one rank, silently wrong on two."""
    with pytest.raises(TrainingError, match=r"one rank's.*use torch\.nn\.BatchNorm1d") as caught:
        trained(caches, 1, written(tmp_path, middle), epochs=2)
    assert caught.value.shared


def test_running_statistics_of_one_rank_are_refused(caches: dict[Any, Path], tmp_path: Path) -> None:
    """What a module of another kind remembers of its rows differs between ranks, and only rank 0's is saved."""
    model = written(tmp_path, "Local()")
    with pytest.raises(Exception, match=r"buffer middle\.seen differs between ranks"):
        trained(caches, 2, model, epochs=2)
    assert trained(caches, 1, model, epochs=2).result["epochs"] == 2


def test_dropout_of_torch_is_said_and_drawn_by_rank_and_epoch(
    caches: dict[Any, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """torch's generator starts alike in every process: all ranks dropped the same entries of their first rows."""
    model = written(tmp_path, "torch.nn.Dropout(0.5)")
    with caplog.at_level(logging.INFO, logger="trainer"):
        logging.getLogger("trainer").propagate = True
        first, again = (trained(caches, 1, model, epochs=3) for _ in range(2))
    assert first.losses == again.losses
    assert "draws masks by rank" in caplog.text
    draws = []
    for epoch, rank in ((1, 0), (1, 1), (2, 0), (1, 0)):
        with seeded(PassContext(epoch=epoch, training=True), seed=0, rank=rank):
            draws.append(torch.rand(4).tolist())
    assert draws[0] == draws[3]
    assert len({tuple(draw) for draw in draws}) == 3


@pytest.mark.parametrize("changes", [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}])
def test_on_one_rank_it_is_torch_s(changes: dict[str, Any]) -> None:
    """A stand-in that forgets an option trains another model than the user wrote."""
    cpu = torch.device("cpu")
    torch.manual_seed(0)
    theirs, copy = torch.nn.BatchNorm1d(5, eps=1e-3, **changes), torch.nn.BatchNorm1d(5, eps=1e-3, **changes)
    ours, _ = over_all_ranks(copy, Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu)))
    assert isinstance(ours, RanksBatchNorm)
    for _ in range(3):
        rows = 3.0 + 2.0 * torch.randn(40, 5)
        torch.testing.assert_close(ours(rows), theirs(rows))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    torch.testing.assert_close(ours.eval()(rows), theirs.eval()(rows))
