"""An exchange in stages: what arrives in one stage decides what is sent in the next.

Between CPUs all receives are posted at once, and a thread waits for the messages of one stage after the other and
sends what became ready, while the rank goes on computing. NCCL's sends and receives of one call wait for each other, so
there each stage is a call of its own, and stages after the first begin when the rank waits for the rows.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from trainer.dist.communicator import Communicator


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedMessage:
    """One message to or from a peer; both ends give it the same stage and tag, and the same length, above 0."""

    peer: int
    stage: int
    """From 0, in the order in which stages are waited for."""
    tag: int
    """Tells the messages between two ranks apart."""
    rows: Tensor
    """What is sent or filled; contiguous"""


Received = Callable[[int], Sequence[StagedMessage]]
"""Told the place of a message that has arrived; gives those that are ready to be sent now, of later stages."""


@dataclass(slots=True, kw_only=True)
class StagedExchange:
    """An exchange that may not be finished."""

    communicator: Communicator
    outgoing: list[StagedMessage]
    """What is ready to be sent and not posted yet."""
    incoming: Sequence[StagedMessage]
    """By stage, in the order in which they are waited for."""
    received: Received
    finish: Callable[[], None]
    num_stages: int
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    """Between CPUs, from the start to the end of `wait`."""
    _works: list[dist.Work] = field(default_factory=list)
    """Through gloo those of sends, through NCCL those of the call."""
    _sent: list[Tensor] = field(default_factory=list)
    """Kept alive until they are sent."""
    _arriving: dict[int, tuple[dist.Work, Tensor]] = field(default_factory=dict)
    """Through gloo, of each posted receive the work, and where it is filled."""
    _job: Future[None] | None = None
    _arrivals: list[tuple[float, int]] = field(default_factory=list)
    """When a message was here, and of which peer, in this order."""

    def start(self) -> None:
        """Post what can be posted now."""
        if self.communicator.uses_nccl:
            self._post_stage(0)
            return
        for number, message in enumerate(self.incoming):
            target = self.communicator.to_host(message.rows, copy=False)
            work = dist.irecv(target, message.peer, tag=message.tag)
            assert work is not None
            self._arriving[number] = work, target
        self._send()
        if self.incoming:
            self._job = self.communicator.in_background(self._run)

    def wait(self) -> None:
        """Return when all rows are received and sent."""
        with self.communicator.translate_remote_errors("exchange rows"), self.communicator.clock("waiting"):
            before = time.perf_counter()
            if self._job is not None:
                self._job.result()
            elif self.communicator.uses_nccl:
                for stage in range(self.num_stages):
                    if stage:
                        self._post_stage(stage)
                    self._finish(stage)
            self._wait_for_works()
            self._record_peers(before)
        self.finish()
        self._sent = []
        self.seconds = time.perf_counter() - self.started

    def _record_peers(self, before: float) -> None:
        """Say which peers' messages were waited for since `before`: each from the arrival of the one before it."""
        for at, peer in self._arrivals:
            if at > before:
                self.communicator.clock.add_for_peer(peer, at - before)
                before = at

    @torch.no_grad()
    def _run(self) -> None:
        for stage in range(self.num_stages):
            self._finish(stage)

    def _finish(self, stage: int) -> None:
        """Wait for the messages of one stage, and send what each makes ready."""
        uses_nccl = self.communicator.uses_nccl
        if uses_nccl:
            self._wait_for_works()
        for number, message in enumerate(self.incoming):
            if message.stage == stage:
                if not uses_nccl:
                    work, target = self._arriving.pop(number)
                    work.wait()
                    self._arrivals.append((time.perf_counter(), message.peer))
                    if target is not message.rows:
                        message.rows.copy_(target, non_blocking=True)
                self.outgoing += self.received(number)
                if not uses_nccl:
                    self._send()

    def _wait_for_works(self) -> None:
        for work in self._works:
            work.wait()
        self._works = []

    def _send(self) -> None:
        for message in self.outgoing:
            rows = self.communicator.to_host(message.rows, copy=True)
            work = dist.isend(rows, message.peer, tag=message.tag)
            assert work is not None
            self._works.append(work)
            self._sent.append(rows)
        self.outgoing = []

    def _post_stage(self, stage: int) -> None:
        """Post the receives and sends of one stage to NCCL, in one order at both ends of each pair."""
        sends = [message for message in self.outgoing if message.stage == stage]
        self.outgoing = [message for message in self.outgoing if message.stage != stage]
        receives = [message for message in self.incoming if message.stage == stage]
        operations = [
            dist.P2POp(operation, message.rows, message.peer)
            for operation, messages in ((dist.irecv, receives), (dist.isend, sends))
            for message in sorted(messages, key=lambda one: one.tag)
        ]
        self._works = dist.batch_isend_irecv(operations) if operations else []
        self._sent += [message.rows for message in sends]


class Background:
    """Does jobs one after the other in a thread that does not keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="relay", daemon=True).start()

    def __call__(self, job: Callable[[], None]) -> Future[None]:
        """Do `job` after those before it; the result has what it raised."""
        future: Future[None] = Future()
        self._jobs.put((job, future))
        return future

    def _work(self) -> None:
        while True:
            job, future = self._jobs.get()
            try:
                job()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)
