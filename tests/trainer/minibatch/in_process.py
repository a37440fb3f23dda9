"""Training on batches whose sampler is in the trainer's own process, so that a test need not start others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from graphprep.sampling.batches import BatchOptions, part_batches
from tests.trainer.rank_group import Run, train_once
from trainer.dist.communicator import Communicator
from trainer.minibatch.ring import Slot


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
        **_: Any,
    ) -> None:
        without = None if removed is None else removed.numpy()
        self._batches = part_batches(Path(cache), rank, seeds.numpy(), BatchOptions(**batch), epochs, without)
        self._steps = iter([(epoch, step) for epoch in range(epochs[0], epochs[1] + 1) for step in self.steps])
        self.num_used, self.num_freed = 0, 0

    @property
    def steps(self) -> range:
        return range(self._batches.steps)

    def next(self) -> Slot:
        epoch, step = next(self._steps)
        self.num_used += 1
        arrays = {name: torch.from_numpy(values.copy()) for name, values in self._batches.make(epoch, step).items()}
        return Slot(number=0, epoch=epoch, step=step, started=0.0, ended=0.0, arrays=arrays)

    def free(self, slot: Slot) -> None:
        for values in slot.arrays.values():
            values.fill_(0)  # as the next batch in a slot would; whoever still reads it learns something else
        self.num_freed += 1
        assert self.num_used - self.num_freed <= 4

    def num_kept(self) -> dict[str, int]:
        return self._batches.num_kept

    def close(self) -> None:
        pass


def train_in_process(communicator: Communicator, *, cache: str, **changes: Any) -> Run:
    """`train_once` with such a sampler."""
    with patch("trainer.minibatch.batch_stream.SamplerProcesses", SamplerInProcess):
        return train_once(communicator, cache=cache, **changes)
