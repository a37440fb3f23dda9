"""Training on batches whose sampler is in the trainer's own process, so that a test need not start others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from graphprep.cache.read import PartitionCache
from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import part_batches
from graphprep.sampling.neighbour_source import NeighbourSource
from graphprep.sampling.owners.source import OwnedEdges, OwnerNetwork, Serve
from tests.trainer.rank_group import Run, train_once
from trainer.dist.communicator import Communicator
from trainer.minibatch.owner_sockets import OwnerSockets
from trainer.minibatch.ring import Slot


def serve_in_thread(serve: Serve) -> None:
    """Serve other samplers in a thread that nobody ends."""
    threading.Thread(target=serve, args=(lambda: True,), daemon=True).start()


class SamplerInProcess:
    """What `trainer.minibatch.sampler_process.SamplerProcesses` does, without a ring."""

    def __init__(
        self,
        *,
        cache: str,
        rank: int,
        seeds: Tensor,
        batch: Mapping[str, Any],
        epochs: tuple[int, int],
        removed: Tensor | None = None,
        owners: OwnerSockets | None = None,
        **_: Any,
    ) -> None:
        without = None if removed is None else removed.numpy()

        def owned(opened: PartitionCache) -> NeighbourSource:
            assert owners is not None
            network = OwnerNetwork(listener=owners.listener, addresses=owners.addresses, key=owners.key, timeout=60.0)
            return OwnedEdges(opened, rank, network, serve_in_thread, without, weighted=batch["sums"] is not None)

        self._batches = part_batches(
            Path(cache), rank, seeds.numpy(), BatchOptions(**batch), epochs, without, owned if owners else None
        )
        self._steps = iter([(epoch, step) for epoch in range(epochs[0], epochs[1] + 1) for step in self.steps])
        self.num_used, self.num_freed = 0, 0
        self._first: Slot | None = None

    @property
    def steps(self) -> range:
        return range(self._batches.steps)

    def peek(self) -> Slot:
        self._first = self._first or self.next()
        return self._first

    def next(self) -> Slot:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        epoch, step = next(self._steps)
        self.num_used += 1
        before = self._batches.num_bytes
        arrays = {name: torch.from_numpy(values.copy()) for name, values in self._batches.make(epoch, step).items()}
        num_bytes = self._batches.num_bytes - before
        times = {"started": 0.0, "ended": 0.0}
        return Slot(number=0, epoch=epoch, step=step, arrays=arrays, num_bytes=num_bytes, **times)

    def free(self, slot: Slot) -> None:
        for values in slot.arrays.values():
            values.fill_(0)  # as the next batch in a slot would; whoever still reads it learns something else
        self.num_freed += 1
        assert self.num_used - self.num_freed <= 4

    def num_kept(self) -> dict[str, int]:
        return self._batches.num_kept

    def miss_share(self) -> float:
        return self._batches.miss_share

    def close(self) -> None:
        pass


def train_in_process(communicator: Communicator, *, cache: str, **changes: Any) -> Run:
    """`train_once` with such a sampler."""
    with patch("trainer.minibatch.batch_stream.SamplerProcesses", SamplerInProcess):
        return train_once(communicator, cache=cache, **changes)
