"""The bytes that are counted are those that the sockets carried."""

from __future__ import annotations

import os
import socket
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import Run, among_ranks, train_once

from trainer.dist.communicator import Communicator

pytestmark = pytest.mark.slow

TCP_INFO, BYTES_ACKED = 11, 120
"""Linux: the option, and where in its answer the 64 bits are that count what the other end has got."""
MODELS: dict[str, dict[str, Any]] = {
    "rows outweigh": {"model": "sage", "hidden": 64, "layers": 3},
    "weights outweigh": {"model": "gcn", "hidden": 256},
    "batch norm, int8, variation": {
        "hidden": 64,
        "layers": 3,
        "norm": "batch",
        "wire": "int8",
        "weights_wire": "bf16",
        "staleness": "variation:0.4",
    },
    "broadcast, scores at the end": {"hidden": 64, "layers": 3, "exchange": "broadcast", "save_predictions": True},
    "roc-auc, one peer after the other": {"hidden": 64, "exchange": "sequential", "metric": "roc-auc"},
}


def acknowledged() -> int:
    """The bytes that all TCP connections of this process have sent and that have arrived."""
    total = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as found:
                if found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6):
                    [acked] = struct.unpack_from("Q", found.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 192), BYTES_ACKED)
                    total += acked
        except OSError:
            continue  # no socket any more, or one that is listening
    return total


def watched_run(communicator: Communicator, *, cache: str, **changes: Any) -> tuple[Run, int]:
    """A run, and what the sockets of all ranks carried in it."""
    communicator.connect()
    communicator.all_reduce(torch.zeros(1))
    before = acknowledged()
    run = train_once(communicator, cache=cache, **changes)
    communicator.all_reduce(torch.zeros(1))
    return run, int(communicator.all_reduce(torch.tensor(acknowledged() - before)))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the kernel's counters are Linux's")
@pytest.mark.parametrize("world", [2, 4])
def test_counted_bytes_are_those_of_the_sockets(tmp_path: Path, world: int) -> None:
    """Sums of weights' gradients were in no count, though on Cora they are 87 times as many bytes as the rows."""
    graph = random_graph(num_nodes=3000, num_edges=30_000, num_features=200, weighted=True, seed=5)
    cache = make_cache(tmp_path / "c", graph, np.arange(3000) % world, world)
    tasks = []
    for number, model in enumerate(MODELS.values()):
        saves = {"save_predictions": str(tmp_path / f"{number}.npy")} if "save_predictions" in model else {}
        tasks.append(partial(watched_run, cache=str(cache), epochs=6, **{**model, **saves}))
    for name, (run, carried) in zip(MODELS, among_ranks(world, tasks), strict=True):
        assert carried > 1e6, name
        assert run.result["bytes_sent"] == pytest.approx(carried, rel=0.03), (name, run.result["sent_for"])
