"""Sampler processes: their batches, and what is left when they, or the rank that they are for, are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.minibatch.in_process import SamplerInProcess
from trainer.base.errors import TrainingError
from trainer.minibatch.sampler_process import SamplerProcesses

BATCH: dict[str, Any] = {
    "batch_size": 7,
    "fanouts": [3, 2],
    "seed": 0,
    "sums": "gcn",
    "is_typed": False,
    "node_type": "node",
}
SEEDS = torch.arange(0, 60, 2)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = random_graph(num_nodes=60, num_edges=400, weighted=True)
    assignment = np.random.default_rng(0).integers(0, 2, 60)
    return str(make_cache(tmp_path_factory.mktemp("caches") / "two", graph, assignment, 2))


def arguments(cache: str, **changes: Any) -> dict[str, Any]:
    common = {"cache": cache, "rank": 1, "seeds": SEEDS, "removed": None, "batch": BATCH, "epochs": (3, 4)}
    return {**common, "timeout": 60.0, "quiet": True, **changes}


def until(condition: Callable[[], bool]) -> None:
    """Wait for what has to come at once, but for a busy machine."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_any_number_of_processes_makes_the_same_batches(cache: str) -> None:
    """Guards against batches that depend on the process, slots that are filled while they are read, and a lost order;
    rings of two slots are used several times over. Every process knows the same rows to be kept."""
    common = arguments(cache, batch={**BATCH, "num_kept": {"node": 9}})
    expected = SamplerInProcess(**common)
    several = [SamplerProcesses(**common, num_processes=number, num_slots=2) for number in (1, 3)]
    for epoch in (3, 4):
        for step in range(5):
            batch = expected.next()
            for samplers in several:
                slot = samplers.next()
                assert (slot.epoch, slot.step) == (batch.epoch, batch.step) == (epoch, step)
                assert slot.arrays.keys() == batch.arrays.keys()
                for name, values in batch.arrays.items():
                    assert slot.arrays[name].dtype == values.dtype
                    assert torch.equal(slot.arrays[name], values), name
                samplers.free(slot)
    for samplers in several:
        samplers.close()
        assert samplers._process.wait(60) == 0  # a busy machine takes longer than `close` waits


@pytest.mark.slow
def test_a_killed_sampler_ends_the_run_in_one_sentence(cache: str) -> None:
    """Guards against a rank that waits for ever, and against processes beside the killed one that go on."""
    samplers = SamplerProcesses(**arguments(cache, epochs=(1, 100)), num_processes=2, num_slots=2)
    samplers.free(samplers.next())
    os.kill(samplers._process.pid, signal.SIGKILL)

    def use_all() -> None:
        for _ in range(20):
            samplers.free(samplers.next())

    with pytest.raises(TrainingError, match=r"sampler process [01] of rank 1 was ended by SIGKILL; its lines above"):
        use_all()
    other = samplers._readers[1]
    until(lambda: other.next() is None)  # after the batches that are in its ring still
    samplers.close()


@pytest.mark.slow
def test_a_killed_rank_leaves_nothing(cache: str) -> None:
    """Guards against samplers that outlive their trainer, and against files of theirs that nobody removes."""
    script = f"""
import os, time, torch
from trainer.minibatch.sampler_process import SamplerProcesses
samplers = SamplerProcesses(cache={cache!r}, rank=0, seeds=torch.arange(0, 60, 2), removed=None, batch={BATCH!r},
                            epochs=(1, 100), num_processes=2, num_slots=2, timeout=60.0, quiet=True)
samplers.next()
names = sum(os.fstat(reader.ring.fileno()).st_nlink for reader in samplers._readers)
print(samplers._process.pid, names, flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as rank:
        assert rank.stdout is not None
        first, names = map(int, rank.stdout.readline().split())
        assert not names, "a ring has a name, under which it would stay"
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        assert len(children) == 1
        rank.kill()
        rank.wait()
        for pid in (first, int(children[0])):
            until(
                lambda pid=pid: (
                    not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
                )
            )


@pytest.mark.slow
def test_what_the_sampler_cannot_do_is_its_own_sentence(cache: str, tmp_path: Path) -> None:
    """Guards against a traceback where a user can mend something."""
    samplers = SamplerProcesses(**arguments(str(tmp_path)), num_processes=1, num_slots=2)
    with pytest.raises(TrainingError, match=r"zarr\.json"):
        samplers.next()
    samplers.close()
