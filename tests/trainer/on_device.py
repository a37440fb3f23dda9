"""Trains on the CPU and on the simulated device, and counts what the host waits for in each epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.simulated_device.device import NAME, install
from tests.simulated_device.waits import Wait, recorded
from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.exchange.layer_exchanges import BYTES_PER_S
from trainer.training.fit import Fit

STAGING = {
    "trainer/dist/communicator.py": {"Communicator.exchange", "Communicator._run", "Communicator.to_host"},
}
"""Where rows are copied to the host's memory for gloo. Ranks with a GPU each send from there, by NCCL."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One run on the CPU, and the same on the device."""

    on_cpu: Run
    on_device: Run
    waits: list[list[Wait]]
    """Of rank 0, by epoch: from the start of its step to the start of the next one's."""

    def hidden(self, epoch: int) -> Counter[tuple[str, str, str]]:
        """The waits of an epoch by kind, file and function, without those of staging."""
        return Counter(
            (wait.kind, wait.file, wait.function)
            for wait in self.waits[epoch - 1]
            if wait.function not in STAGING.get(wait.file, ())
        )


@contextmanager
def on_simulated_device(communicator: Communicator) -> Iterator[None]:
    """Let a communicator between CPUs serve ranks whose tensors are on the device."""
    before = communicator.device, communicator.clock, communicator.through_host
    communicator.device = install()
    communicator.clock, communicator.through_host = Clock(communicator.device), True
    # The same choice of exchanges as on the CPU.
    with patch.dict(BYTES_PER_S, {NAME: BYTES_PER_S["cpu"]}):
        yield
    communicator.device, communicator.clock, communicator.through_host = before


@contextmanager
def waits_by_epoch() -> Iterator[list[list[Wait]]]:
    """The waits of each epoch of the runs within the block, and of what comes after it before the next one."""
    epochs: list[list[Wait]] = []
    step = Fit._step

    def begin(fit: Fit, *arguments: Any, **named: Any) -> Any:
        starts.append(len(log))
        return step(fit, *arguments, **named)

    starts: list[int] = []
    with recorded() as log, patch.object(Fit, "_step", begin):
        yield epochs
    epochs += [log[start:end] for start, end in zip(starts, [*starts[1:], len(log)], strict=True)]


def compare(communicator: Communicator, **changes: Any) -> Comparison:
    """Train once on the CPU and once on the device."""
    install()
    on_cpu = train_once(communicator, **changes)
    with on_simulated_device(communicator), waits_by_epoch() as epochs:
        on_device = train_once(communicator, **changes)
    return Comparison(on_cpu=on_cpu, on_device=on_device, waits=epochs)


def resume(communicator: Communicator, *, cache: str, folder: str, **changes: Any) -> tuple[list[float], list[float]]:
    """The losses of the second half of a run on the CPU, and of one that goes on on the device from its checkpoint."""
    install()
    train = partial(train_once, communicator, cache=cache, **changes)
    whole = train(epochs=6)
    with on_simulated_device(communicator):
        train(epochs=3, checkpoint=folder)
        rest = train(epochs=6, checkpoint=folder, resume=True)
    return whole.losses[3:], rest.losses


def among_device_ranks(world: int, tasks: dict[Any, Callable[[Communicator], Any]]) -> dict[Any, Any]:
    """What each task found on rank 0, in processes that may have the device."""
    return dict(zip(tasks, among_ranks(world, list(tasks.values()), forks=True), strict=True))
