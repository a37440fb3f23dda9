"""What ranks on GPUs give the process group, with tensors that are on a GPU by name only.

torch's fake tensors have a device and no memory, and know what an operation would do: one that mixes devices is an
error, and so is one whose result the host would have to wait for. Copies need a driver, so they are noted and left out,
as is all that the process group gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from trainer.base.sent_bytes import SentBytes
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.dist.staged_exchange import StagedMessage

GPU = torch.device("cuda", 0)


class Work:
    def __init__(self, events: list[str]) -> None:
        self._events = events

    def wait(self) -> None:
        self._events.append("wait")


@contextmanager
def two_ranks(monkeypatch: pytest.MonkeyPatch, *, through_host: bool) -> Iterator[tuple[Communicator, list[str]]]:
    """Rank 0 of two, and what happens, in order: posts with the device of their tensors, waits, copies between
    devices, and pinned memory."""
    events: list[str] = []
    empty_like = torch.empty_like

    class Operation:
        def __init__(self, operation: object, tensor: Tensor, peer: int) -> None:
            self.tensor = tensor

    def post_all(operations: list[Operation]) -> list[Work]:
        return [post(operation.tensor) for operation in operations]

    def post(values: Tensor, *_: Any, **__: Any) -> Work:
        events.append(f"post {values.device.type}")
        return Work(events)

    def copy(self: Tensor, source: Tensor) -> Tensor:
        if self.device != source.device:
            events.append(f"copy {source.device.type} to {self.device.type}")
        return self

    def pinned(values: Tensor, **named: Any) -> Tensor:
        if named.pop("pin_memory", False):
            events.append("pin")
        return empty_like(values, **named)

    for name in ("all_reduce", "broadcast", "isend", "irecv"):
        monkeypatch.setattr(dist, name, post)
    monkeypatch.setattr(dist, "P2POp", Operation)
    monkeypatch.setattr(dist, "batch_isend_irecv", post_all)
    monkeypatch.setattr(torch, "empty_like", pinned)
    monkeypatch.setattr(Tensor, "copy_", copy)
    communicator = Communicator(RankInfo(), GPU, timeout=1.0, clock=Clock(GPU), through_host=through_host)
    communicator.world, communicator.sent = 2, SentBytes(rank=0, world=2)
    with FakeTensorMode():
        yield communicator, events


def exchange(communicator: Communicator) -> None:
    communicator.exchange({1: torch.empty(3, 4, device=GPU)}, {1: torch.empty(2, 4, device=GPU)}).wait()


def gather_rows(communicator: Communicator) -> None:
    communicator.all_gather_rows(torch.empty(3, device=GPU), [3, 5])


def all_reduce(communicator: Communicator) -> None:
    communicator.all_reduce(torch.empty(3, device=GPU))


def broadcast(communicator: Communicator) -> None:
    communicator.broadcast(torch.empty(3, device=GPU))


def exchange_in_stages(communicator: Communicator) -> None:
    first, second, third = (torch.empty(4, device=GPU) for _ in range(3))
    communicator.exchange_in_stages(
        [StagedMessage(peer=1, stage=0, tag=0, rows=first)],
        [StagedMessage(peer=1, stage=0, tag=1, rows=second)],
        lambda place: [StagedMessage(peer=1, stage=1, tag=2, rows=third)],
        lambda: None,
        num_stages=2,
        num_bytes=32,
    ).wait()


PAIRS = ["post cuda", "post cuda", "wait", "wait"]
BY_NCCL: dict[Callable[[Communicator], None], list[str]] = {
    exchange: PAIRS,
    gather_rows: PAIRS,
    all_reduce: ["post cuda"],
    broadcast: ["post cuda"],
    exchange_in_stages: [*PAIRS, "post cuda", "wait"],
}


@pytest.mark.parametrize("operation", BY_NCCL)
def test_nccl_gets_tensors_of_the_gpu_and_the_host_copies_nothing(
    operation: Callable[[Communicator], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL takes no tensor of the CPU, and a stage that waits for itself never ends."""
    with two_ranks(monkeypatch, through_host=False) as (communicator, events):
        operation(communicator)
    assert events == BY_NCCL[operation]


STAGED = ["copy cuda to cpu", "post cpu"]
BY_GLOO: dict[Callable[[Communicator], None], list[str]] = {
    exchange: ["copy cuda to cpu", "post cpu", "post cpu", "wait", "wait", "copy cpu to cuda"],
    gather_rows: ["copy cuda to cpu", "post cpu", "post cpu", "wait", "wait", "copy cpu to cuda"],
    all_reduce: [*STAGED, "copy cpu to cuda"],
    broadcast: [*STAGED, "copy cpu to cuda"],
}


@pytest.mark.parametrize("operation", BY_GLOO)
def test_gloo_gets_pinned_memory_of_the_host(
    operation: Callable[[Communicator], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are sent before they are copied, or copied back before they are here."""
    with two_ranks(monkeypatch, through_host=True) as (communicator, events):
        operation(communicator)
    assert [event for event in events if event != "pin"] == BY_GLOO[operation]
    assert events.count("pin") == events.count("post cpu")


def test_stages_by_gloo_go_through_the_host_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that passes on what has not arrived on the GPU yet."""
    with two_ranks(monkeypatch, through_host=True) as (communicator, events):
        # A thread would have the fake tensors of none.
        monkeypatch.setattr(communicator, "in_background", lambda job: Done(job))
        exchange_in_stages(communicator)
    first = ["pin", "post cpu", "pin", *STAGED]
    assert events == [*first, "wait", "copy cpu to cuda", "pin", *STAGED, "wait", "wait"]


class Done:
    """A job that is done when it is waited for."""

    def __init__(self, job: Callable[[], None]) -> None:
        self.result = job
