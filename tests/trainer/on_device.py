"""Trains on the CPU and on the simulated device, and counts what the host waits for in each epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch.distributed as dist
from torch import Tensor

from tests.simulated_device.device import NAME, SimulatedTensor, install
from tests.simulated_device.waits import Wait, recorded
from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.exchange.layer_exchanges import BYTES_PER_S
from trainer.training.fit import Fit

STAGING = {
    "trainer/dist/communicator.py": {"Communicator.exchange", "Communicator._run", "Communicator.to_host"},
}
"""Where rows are copied to the host's memory for gloo. Ranks with a GPU each have NCCL, which needs no copies."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One run on the CPU, and the same on the device."""

    on_cpu: Run
    on_device: Run
    waits: list[list[Wait]]
    """Of rank 0, by epoch: from the start of its step to the start of the next one's."""
    by_nccl: Run | None
    """The same on the device, where ranks send from its memory."""
    waits_by_nccl: list[list[Wait]]

    def hidden(self, epoch: int) -> Counter[tuple[str, str, str]]:
        """The waits of an epoch by kind, file and function, without those of staging."""
        return Counter(
            (wait.kind, wait.file, wait.function)
            for wait in self.waits[epoch - 1]
            if wait.function not in STAGING.get(wait.file, ())
        )

    def all_by_nccl(self, epoch: int) -> Counter[tuple[str, str, str]]:
        """All waits of an epoch where ranks send from the device's memory."""
        return Counter((wait.kind, wait.file, wait.function) for wait in self.waits_by_nccl[epoch - 1])


class ByNccl(Communicator):
    """Sends and adds up what is in the device's memory, as NCCL does, though the backend is gloo."""

    uses_nccl = True


def _held(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, SimulatedTensor):
        raise TypeError(f"NCCL sends from a GPU's memory, and the tensor is on {tensor.device}")
    assert tensor.is_contiguous()
    return tensor.held


def _batch(operations: list[dist.P2POp]) -> list[dist.Work]:
    return batch_isend_irecv([dist.P2POp(one.op, _held(one.tensor), one.peer) for one in operations])


batch_isend_irecv, all_reduce, broadcast = dist.batch_isend_irecv, dist.all_reduce, dist.broadcast
NCCL = {
    "batch_isend_irecv": _batch,
    "all_reduce": lambda tensor: all_reduce(_held(tensor)),
    "broadcast": lambda tensor, src: broadcast(_held(tensor), src=src),
}
"""The functions of torch.distributed that the trainer calls where it uses NCCL; isend and irecv alone are gloo's."""


@contextmanager
def on_simulated_device(communicator: Communicator, *, nccl: bool = False) -> Iterator[None]:
    """Let a communicator between CPUs serve ranks whose tensors are on the device.

    Args:
        communicator: with a process group, if there are several ranks.
        nccl: refuse what is not in the device's memory, instead of copying to the host's what is.
    """
    before = communicator.device, communicator.clock
    communicator.device = install()
    communicator.clock, communicator.through_host = Clock(communicator.device), not nccl
    communicator.__class__ = ByNccl if nccl else Communicator
    # The same choice of exchanges as on the CPU.
    with patch.dict(BYTES_PER_S, {NAME: BYTES_PER_S["cpu"]}), patch.multiple(dist, **NCCL) if nccl else nullcontext():
        yield
    communicator.device, communicator.clock = before
    communicator.through_host, communicator.__class__ = False, Communicator


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


def compare(communicator: Communicator, *, nccl: bool = False, **changes: Any) -> Comparison:
    """Train once on the CPU and once on the device; `nccl`: once more, as if by NCCL."""
    install()
    on_cpu, by_nccl, epochs_by_nccl = train_once(communicator, **changes), None, []
    with on_simulated_device(communicator), waits_by_epoch() as epochs:
        on_device = train_once(communicator, **changes)
    if nccl:
        with on_simulated_device(communicator, nccl=True), waits_by_epoch() as epochs_by_nccl:
            by_nccl = train_once(communicator, **changes)
    return Comparison(on_cpu=on_cpu, on_device=on_device, waits=epochs, by_nccl=by_nccl, waits_by_nccl=epochs_by_nccl)


def resume(communicator: Communicator, *, cache: str, folder: str, **changes: Any) -> tuple[list[float], list[float]]:
    """The losses of the second half of a run on the CPU, and of one that goes on on the device from its checkpoint.

    Several ranks run as if by NCCL.
    """
    install()
    train = partial(train_once, communicator, cache=cache, **changes)
    whole = train(epochs=6)
    with on_simulated_device(communicator, nccl=communicator.world > 1):
        train(epochs=3, checkpoint=folder)
        rest = train(epochs=6, checkpoint=folder, resume=True)
    return whole.losses[3:], rest.losses


def among_device_ranks(world: int, tasks: dict[Any, Callable[[Communicator], Any]]) -> dict[Any, Any]:
    """What each task found on rank 0, in processes that may have the device."""
    return dict(zip(tasks, among_ranks(world, list(tasks.values()), forks=True), strict=True))
