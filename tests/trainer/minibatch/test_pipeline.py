"""Features of batches: the rows of their own nodes, from wherever they come; and steps that a resumed run takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from graphprep.sampling.input_rows import Arrays, EveryBatch
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.minibatch.in_process import SamplerInProcess, train_in_process
from tests.trainer.minibatch.test_sampler_process import BATCH
from tests.trainer.rank_group import among_ranks, empty_traffic_log
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.minibatch.control_variates import Histories
from trainer.minibatch.feature_rows import FeatureRows
from trainer.minibatch.idle_time import IdleTime
from trainer.minibatch.pipeline import Pipeline

NODES, KEPT = 60, 8
EPOCHS = (1, 2)


class LastRequested(EveryBatch):
    """Keeps the rows that were requested last, in turn: a cache that a test can follow."""

    num_kept = KEPT

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kept: dict[int, int] = {}
        self._next = 0

    def of_batch(self, ids_n: NDArray[np.int64], *, epoch: int, step: int) -> Arrays:
        plan = super().of_batch(ids_n, epoch=epoch, step=step)
        others = plan["requested_place"]
        is_kept = np.array([int(ids_n[place]) in self._kept for place in others], bool)
        parts = np.repeat(np.arange(len(plan["requested_per_part"])), plan["requested_per_part"])
        requested = ids_n[others[~is_kept]]
        plan |= {
            "kept_place": others[is_kept],
            "kept_slot": np.array([self._kept[int(ids_n[place])] for place in others[is_kept]], np.int64),
            "requested_place": others[~is_kept],
            "requested_row": plan["requested_row"][~is_kept],
            "requested_per_part": np.bincount(parts[~is_kept], minlength=len(plan["requested_per_part"])),
        }
        stored = np.arange(min(len(requested), KEPT))
        slots = (self._next + stored) % KEPT
        self._next += len(stored)
        self._kept = {node: slot for node, slot in self._kept.items() if slot not in slots}
        self._kept |= dict(zip(requested[stored].tolist(), slots.tolist(), strict=True))
        return plan | {"stored_request": stored, "stored_slot": slots}


def wrong_features(communicator: Communicator, *, cache: str, graph: HandmadeGraph, data_type: torch.dtype) -> Any:
    """How many batches have other features than their nodes; how many rows were kept; bytes of rows sent."""
    opened = open_cache(cache)
    part = load_part(opened, communicator.rank, split=0)
    communicator.connect()
    before = communicator.sent.by_kind[0]
    assert part.x_nF is not None
    idle = IdleTime(Clock(torch.device("cpu")))
    rows = FeatureRows([part.x_nF], data_type, communicator, empty_traffic_log(communicator), idle)
    seeds = torch.arange(0, NODES, 2)
    samplers: Any = SamplerInProcess(
        cache=cache, rank=communicator.rank, seeds=seeds, batch={**BATCH, "batch_size": 9}, epochs=EPOCHS
    )
    steps = len(samplers.steps) * (EPOCHS[1] + 1 - EPOCHS[0])
    pipeline = Pipeline(samplers, rows, type_names=["node"], num_batches=steps, world=communicator.world, idle=idle)
    wrong = kept = 0
    for _ in range(steps - 1):  # the last one stays under way
        batch = pipeline.next()
        expected = torch.from_numpy(graph.x)[batch.slot.arrays["ids/node"]].to(data_type)
        wrong += not torch.equal(batch.features[0], expected)
        kept += len(batch.slot.arrays["rows/node/kept_place"])
    kept += sum(len(under_way.slot.arrays["rows/node/kept_place"]) for under_way in pipeline._under_way)
    pipeline.close()
    return communicator.all_reduce_numbers([wrong, kept, communicator.sent.by_kind[0] - before])


def with_cache_of_rows(communicator: Communicator, task: Callable[[Communicator], Any]) -> Any:
    with patch("graphprep.sampling.batches.EveryBatch", LastRequested):
        return task(communicator)


@pytest.mark.slow
def test_batches_have_the_features_of_their_nodes(tmp_path: Path) -> None:
    """Guards against rows of another node, of another rank or of another batch, with and without kept ones."""
    graph = random_graph(num_nodes=NODES, num_edges=400)
    cache = str(make_cache(tmp_path / "c", graph, np.random.default_rng(0).integers(0, 3, NODES), 3))
    plain = partial(wrong_features, cache=cache, graph=graph, data_type=torch.float32)
    halved = partial(wrong_features, cache=cache, graph=graph, data_type=torch.bfloat16)
    tasks = [plain, partial(with_cache_of_rows, task=plain), halved]
    whole, cached, half = among_ranks(3, tasks)
    assert [whole[0], cached[0], half[0]] == [0, 0, 0]
    assert whole[1] == 0
    assert cached[1] > 20
    assert whole[2] - cached[2] == cached[1] * 6 * 4
    assert half[2] == whole[2] / 2


def ready_before_the_epoch(communicator: Communicator, *, cache: str) -> Any:
    """How many batches of epoch 2 wait for its histories alone when epoch 1 is over; how many batches of both epochs
    have other histories than those of their epoch."""
    part = load_part(open_cache(cache), communicator.rank, split=0)
    communicator.connect()
    assert part.x_nF is not None
    idle, log = IdleTime(Clock(torch.device("cpu"))), empty_traffic_log(communicator)
    rows = FeatureRows([part.x_nF], torch.float32, communicator, log, idle)
    histories = Histories(communicator, log, idle)
    batch = {**BATCH, "batch_size": 9, "histories": True}
    samplers: Any = SamplerInProcess(
        cache=cache, rank=communicator.rank, seeds=torch.arange(0, NODES, 2), batch=batch, epochs=EPOCHS
    )
    pipeline = Pipeline(
        samplers,
        rows,
        type_names=["node"],
        num_batches=2 * len(samplers.steps),
        world=communicator.world,
        idle=idle,
        histories=histories,
    )
    ids_n1 = part.ids_n.float()[:, None]
    waiting = wrong = 0
    for epoch in EPOCHS:
        waiting += sum(batch.stage == 3 and batch.histories is None for batch in pipeline._under_way)
        rows_n1, sums = epoch * 1000 + ids_n1, partial(torch.mul, ids_n1, -epoch)
        histories.refresh([(None, partial(torch.neg, ids_n1)), (rows_n1, sums)], partial(pipeline.begin_epoch, epoch))
        for _ in samplers.steps:
            ready = pipeline.next()
            arrays, counts = ready.slot.arrays, ready.slot.arrays["counts"][:, 0].tolist()
            ids = arrays["ids/node"].float()[:, None]
            first, second = histories.of_layers(ready.histories, counts, arrays["seed_row"])
            assert second.rows_nF is not None
            wrong += not torch.equal(first.sums_nF, -ids[: counts[1]])
            wrong += not torch.equal(second.rows_nF, epoch * 1000 + ids[: counts[1]])
            wrong += not torch.equal(second.sums_nF, -epoch * ids[: counts[0]])
    pipeline.close()
    return [waiting, wrong]


@pytest.mark.slow
def test_the_next_epochs_batches_are_fetched_while_the_exact_pass_runs(tmp_path: Path) -> None:
    """Guards against batches that wait for the exact pass with what it does not change, and against its rows of the
    epoch before."""
    graph = random_graph(num_nodes=NODES, num_edges=400)
    cache = str(make_cache(tmp_path / "c", graph, np.random.default_rng(0).integers(0, 2, NODES), 2))
    assert among_ranks(2, [partial(ready_before_the_epoch, cache=cache)]) == [[1, 0]]


def test_a_resumed_run_takes_the_steps_that_follow(tmp_path: Path) -> None:
    """Guards against batches or masks of the first epochs once more."""
    graph = random_graph(num_nodes=NODES, num_edges=400)
    cache = str(make_cache(tmp_path / "c", graph, np.zeros(NODES, int), 1))
    same = {"cache": cache, "dropout": 0.3, "batch_size": 9, "fanouts": "3,2", "checkpoint": str(tmp_path / "k")}
    [whole] = among_ranks(1, [partial(train_in_process, **{**same, "checkpoint": None}, epochs=4)])
    first, rest = among_ranks(
        1, [partial(train_in_process, **same, epochs=2), partial(train_in_process, **same, epochs=4, resume=True)]
    )
    assert first.losses + rest.losses == pytest.approx(whole.losses)
    [idle] = rest.result["mini_batches"]["idle_seconds_by_rank"]
    assert 0 <= idle < rest.result["mini_batches"]["seconds_by_rank"][0]
