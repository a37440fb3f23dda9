"""`--sample-from owners`: the losses of the mapped topology on 2 and 4 ranks, and what a killed sampler leaves."""

from __future__ import annotations

import os
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.minibatch.in_process import SamplerInProcess, train_in_process
from tests.trainer.minibatch.test_sampler_process import BATCH, SEEDS, until
from tests.trainer.rank_group import Run, among_ranks
from tests.trainer.typed_cache import make_typed_cache, typed_graph
from trainer.base.errors import TrainingError
from trainer.minibatch.owner_sockets import OwnerSockets
from trainer.minibatch.sampler_process import SamplerProcesses

RUNS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn"},
    "control variates": {"model": "sage", "control_variates": True},
    "attention, kept rows": {"model": "gat", "heads": 2, "remote_row_cache": "0.3"},
    "sampled evaluation": {"model": "gcn", "eval_fanouts": "4,all"},
    "links": {"task": "links", "model": "sage", "embedding": 4},
    "typed": {"model": "rgcn"},
}
COMMON = {"epochs": 2, "dropout": 0.3, "batch_size": 16, "fanouts": "3,2"}
FOUR = ("gcn", "typed")
"""are tried on four ranks too"""


def plain_cache(folder: Path, parts: int) -> str:
    graph = random_graph(num_nodes=60, num_edges=400, weighted=True, loops_and_duplicates=True)
    return str(make_cache(folder / f"plain-{parts}", graph, np.random.default_rng(1).integers(0, parts, 60), parts))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Run]:
    folder, rng, typed, found = tmp_path_factory.mktemp("owners"), np.random.default_rng(1), typed_graph(), {}
    typed.x.update({k: x if x.shape[1] else rng.normal(size=(len(x), 4)).astype("f") for k, x in typed.x.items()})
    for world in (2, 4):
        parts = {name: rng.integers(0, world, len(x)) for name, x in typed.x.items()}
        plain = plain_cache(folder, world)
        caches = {"typed": str(make_typed_cache(folder / f"typed-{world}", typed, parts, world))}
        tasks = {
            (name, source): partial(
                train_in_process, cache=caches.get(name, plain), **COMMON, **options, sample_from=source
            )
            for name, options in RUNS.items()
            for source in ("mapped", "owners")
            if world == 2 or name in FOUR
        }
        outcomes = among_ranks(world, list(tasks.values()))
        found |= {(*key, world): run for key, run in zip(tasks, outcomes, strict=True)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "world"), [*((name, 2) for name in RUNS), *((name, 4) for name in FOUR)])
def test_losses_are_those_of_the_mapped_topology(trained: Any, name: str, world: int) -> None:
    """Guards against batches that depend on who draws them: they are the same bits."""
    mapped, owners = trained[name, "mapped", world], trained[name, "owners", world]
    assert owners.losses == mapped.losses
    assert len(set(owners.losses)) == 2
    facts, before = owners.result["mini_batches"], mapped.result["mini_batches"]
    assert facts["rows_fetched"] == before["rows_fetched"]
    assert (facts["sample_from"], before["sample_from"]) == ("owners", "mapped")
    assert facts["sampler_bytes"] > before["sampler_bytes"] == 0


def samplers_of_two(cache: str) -> list[SamplerProcesses]:
    """Those of both ranks, each of two processes and one that serves."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [each.getsockname() for each in listeners]
    common = {"cache": cache, "seeds": SEEDS, "removed": None, "batch": BATCH, "epochs": (1, 400)}
    return [
        SamplerProcesses(
            **common,
            rank=rank,
            num_processes=2,
            num_slots=2,
            timeout=60.0,
            quiet=True,
            owners=OwnerSockets(listener=listener, addresses=addresses, key=b"k" * 32),
        )
        for rank, listener in enumerate(listeners)
    ]


def descendants(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def use_all(samplers: SamplerProcesses) -> None:
    for _ in range(200):
        samplers.free(samplers.next())


@pytest.mark.slow
def test_processes_make_the_same_batches_and_end_together(tmp_path: Path) -> None:
    """Guards against connections that forks share, servers that outlive their run, and a rank that waits for ever where
    another one's sampler was killed."""
    cache = plain_cache(tmp_path, 2)
    several = samplers_of_two(cache)
    for rank, samplers in enumerate(several):
        expected = SamplerInProcess(cache=cache, rank=rank, seeds=SEEDS, batch=BATCH, epochs=(1, 400))
        for _ in range(9):
            slot, batch = samplers.next(), expected.next()
            assert (slot.epoch, slot.step) == (batch.epoch, batch.step)
            for name, values in batch.arrays.items():
                assert torch.equal(slot.arrays[name], values), name
            samplers.free(slot)
            expected.free(batch)
    first, second = several
    pids = [pid for each in several for pid in (each._process.pid, *descendants(each._process.pid))]
    assert len(pids) == 2 * 3
    os.kill(second._process.pid, signal.SIGKILL)
    with pytest.raises(TrainingError, match=r"the sampler of rank 1 at 127\.0\.0\.1, port \d+, is gone; the lines of"):
        use_all(first)
    for samplers in several:
        samplers.close()
    until(lambda: all(map(is_gone, pids)))
