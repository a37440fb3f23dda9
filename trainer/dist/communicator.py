"""All communication between the ranks of a run: the rendezvous, the process group, and its collectives.

Everything that depends on a rank's number is in this one object. Ranks connect to a key-value store (torchrun's) and
compare options and parts there (`all_gather_object`) before the process group starts, so that what does not fit is an
error rather than a wait. After that there are four operations: `exchange` (and `exchange_in_stages`), rows from rank to rank; `all_reduce`, a sum
over all ranks; `all_gather_flag`, one bool of each rank to all; `broadcast`, rank 0's values to all. A run of one rank
needs neither store nor process group.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from trainer.base.to_device import to_device
from trainer.base.traffic_log import Clock
from trainer.base.errors import LostPeerError, TrainerError, found_by_every_rank
from trainer.dist.network_interfaces import check_interfaces
from trainer.dist.rendezvous import own_store
from trainer.dist.reachability import check_reachable
from trainer.dist.rank_info import RankInfo
from trainer.dist.staged_exchange import Background, Received, StagedExchange, StagedMessage
from trainer.base.sent_bytes import Purpose, SentBytes

log = logging.getLogger("trainer")


@dataclass(slots=True, kw_only=True)
class PendingExchange:
    """An exchange of rows that may not be finished; like torch.distributed's `Work`, for all peers."""

    communicator: Communicator
    works: list[dist.Work]
    peers: Sequence[int]
    """The peer of each of them; NCCL has one for all."""
    outgoing: Sequence[Tensor]
    """Kept alive until they are sent."""
    copies: Sequence[tuple[Tensor, Tensor]]
    """Where to copy what is received, and from where."""
    started: float
    seconds: float = 0.0
    """Between CPUs, from the start to the end of `wait`."""

    def wait(self) -> None:
        """Return when all rows are received and sent."""
        clock = self.communicator.clock
        with clock("waiting"):
            for work, peer in zip(self.works, self.peers, strict=False):
                before = time.perf_counter()
                with self.communicator.translate_remote_errors("exchange rows", peer):
                    work.wait()
                clock.add_for_peer(peer, time.perf_counter() - before)
        for target, received in self.copies:
            target.copy_(received, non_blocking=True)
        self.outgoing, self.copies = [], []
        self.seconds = time.perf_counter() - self.started


@dataclass(slots=True, kw_only=True)
class PendingAllToAll:
    """What all ranks send to all ranks, on its way."""

    communicator: Communicator
    work: dist.Work
    outgoing: Tensor
    """Kept alive until it is sent."""
    received: Tensor

    def wait(self) -> Tensor:
        """What was received, rank after rank."""
        with self.communicator.translate_remote_errors("exchange rows of batches"):
            self.work.wait()
        return self.received


class Communicator:
    """One rank's connection to all ranks."""

    def __init__(
        self, rank_info: RankInfo, device: torch.device, *, timeout: float, clock: Clock, through_host: bool = False
    ) -> None:
        """Connect to the store of the run.

        Args:
            rank_info: this rank.
            device: where its tensors are.
            timeout: seconds to wait for another rank, here and later.
            clock: measures the waiting.
            through_host: use gloo, with all that is sent copied to the host's memory first: for several ranks that
                share a GPU, which NCCL does not serve.

        Raises:
            LostPeerError: the store does not answer.
            TrainingError: the network interface that the environment names cannot be used.
        """
        self.rank, self.world, self.device, self.clock = rank_info.rank, rank_info.world, device, clock
        self.restarts, self.through_host = rank_info.restarts, through_host
        self.sent = SentBytes(rank=self.rank, world=self.world)
        """The bytes that this rank has sent, by purpose."""
        self._timeout = datetime.timedelta(seconds=timeout)
        self._store: Store | None = None
        self._num_gathers = 0
        self._background: Background | None = None
        self._host_group: dist.ProcessGroup | None = None
        if self.world > 1:
            with found_by_every_rank():  # of this machine
                check_interfaces(os.environ, on_gpu=device.type == "cuda" and not through_host)
            with self.translate_remote_errors("rendezvous"):
                store, _, _ = next(rendezvous("env://", rank=self.rank, world_size=self.world, timeout=self._timeout))
                store.set_timeout(self._timeout)
                self._store = own_store(store, rank=self.rank, world=self.world, timeout=timeout)

    @property
    def peers(self) -> list[int]:
        """The other ranks in ascending order: the order of halo columns and of all lists by peer."""
        return [rank for rank in range(self.world) if rank != self.rank]

    @property
    def is_main(self) -> bool:
        """True on rank 0, which logs, reports and writes files for the whole run."""
        return self.rank == 0

    def all_gather_object(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Gather one JSON object of each rank on all ranks, in rank order, through the store.

        Raises:
            LostPeerError: a rank did not come within the timeout.
        """
        text = json.dumps(values)
        if self._store is None:
            return [json.loads(text)]
        prefix = f"objects/{self._num_gathers}"
        self._num_gathers += 1
        self.sent.record("notes and counts", len(text.encode()) * (1 + self.world))
        with self.translate_remote_errors("compare options"):
            self._store.set(f"{prefix}/{self.rank}", text)
            return [json.loads(self._store.get(f"{prefix}/{rank}")) for rank in range(self.world)]

    def connect(self) -> None:
        """Start the process group: gloo between CPUs, NCCL between GPUs.

        Raises:
            LostPeerError: a rank did not come within the timeout.
            TrainingError: machines do not reach each other at the addresses that would be used.
        """
        if self._store is None or dist.is_initialized():
            return
        on_gpu = self.uses_nccl
        with self.translate_remote_errors("connect"), found_by_every_rank():
            remark = check_reachable(
                self._store,
                rank=self.rank,
                world=self.world,
                environment=os.environ,
                on_gpu=on_gpu,
                timeout=self._timeout.total_seconds(),
            )
        if remark is not None and self.is_main:
            log.info("%s", remark)
        with self.translate_remote_errors("connect"):
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                store=PrefixStore("group", self._store),
                rank=self.rank,
                world_size=self.world,
                timeout=self._timeout,
                device_id=self.device if on_gpu else None,
            )
            # NCCL needs a collective of all ranks before the first exchange of pairs.
            dist.all_reduce(torch.zeros(1, device=self.device if on_gpu else "cpu"))

    def exchange(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], *, purpose: Purpose = "rows"
    ) -> PendingExchange:
        """Start to send to and receive from peers; both ends have to name the same rows.

        Args:
            outgoing: contiguous tensors by destination, at most one a peer.
            incoming: contiguous tensors to fill, by source.
            purpose: under which the bytes are recorded.
        """
        self.sent.record(purpose, sum(rows.numel() * rows.element_size() for rows in outgoing.values()))
        copies: list[tuple[Tensor, Tensor]] = []
        if self.through_host:
            outgoing = {peer: _host_memory(rows).copy_(rows) for peer, rows in outgoing.items()}
            targets = incoming
            incoming = {peer: _host_memory(target) for peer, target in targets.items()}
            copies = [(target, incoming[peer]) for peer, target in targets.items()]
        operations, peers, started = list[dist.P2POp](), list[int](), time.perf_counter()
        for step in range(1, self.world):
            # Each rank begins with the next one, so that no rank is the first destination of all.
            destination, source = (self.rank + step) % self.world, (self.rank - step) % self.world
            if source in incoming and incoming[source].numel():
                operations.append(dist.P2POp(dist.irecv, incoming[source], source))
                peers.append(source)
            if destination in outgoing and outgoing[destination].numel():
                operations.append(dist.P2POp(dist.isend, outgoing[destination], destination))
                peers.append(destination)
        with self.translate_remote_errors("exchange rows"):
            works = dist.batch_isend_irecv(operations) if operations else []
        return PendingExchange(
            communicator=self,
            works=works,
            peers=peers,
            outgoing=list(outgoing.values()),
            copies=copies,
            started=started,
        )

    def exchange_in_stages(
        self,
        outgoing: Sequence[StagedMessage],
        incoming: Sequence[StagedMessage],
        received: Received,
        finish: Callable[[], None],
        *,
        num_stages: int,
        num_bytes: int,
    ) -> StagedExchange:
        """Start an exchange whose later messages are made of earlier ones; see `trainer.dist.staged_exchange`.

        Args:
            outgoing: what can be sent now.
            incoming: what peers will send, by stage, in the order in which it is waited for.
            received: told which of these has arrived, gives what is ready then.
            finish: called when all of them are here.
            num_stages: of the exchange.
            num_bytes: that this rank sends in all stages, as `exchange` records them.
        """
        self.sent.record("rows", num_bytes)
        exchange = StagedExchange(
            communicator=self,
            outgoing=list(outgoing),
            incoming=incoming,
            received=received,
            finish=finish,
            num_stages=num_stages,
        )
        with self.translate_remote_errors("exchange rows"):
            exchange.start()
        return exchange

    def all_to_all(
        self, outgoing: Tensor, *, sent: Sequence[int], received: Sequence[int], purpose: Purpose
    ) -> PendingAllToAll:
        """Start to send some entries of the host's memory to each rank; every rank has to call it, in the same order.

        It has a process group of its own, gloo's, so that it goes on beside all other communication.

        Args:
            outgoing: for rank after rank, in the first dimension.
            sent: how many entries for each rank.
            received: how many entries each rank sends to this one.
            purpose: under which the bytes are recorded.
        """
        own = sent[self.rank] * outgoing[:1].numel()
        self.sent.record(purpose, (outgoing.numel() - own) * outgoing.element_size())
        arrived = outgoing.new_empty(sum(received), *outgoing.shape[1:])
        with self.translate_remote_errors("exchange rows of batches"):
            if self._host_group is None:
                self._host_group = dist.new_group(backend="gloo", timeout=self._timeout)
            work = dist.all_to_all_single(
                arrived, outgoing, list(received), list(sent), group=self._host_group, async_op=True
            )
        assert work is not None
        return PendingAllToAll(communicator=self, work=work, outgoing=outgoing, received=arrived)

    @property
    def uses_nccl(self) -> bool:
        """Whether rows go from GPU to GPU."""
        return self.device.type == "cuda" and not self.through_host

    def to_host(self, rows: Tensor, *, copy: bool) -> Tensor:
        """Where gloo finds `rows`: themselves, or memory of the host, with their values if `copy`."""
        if not self.through_host:
            return rows
        on_host = _host_memory(rows)
        return on_host.copy_(rows) if copy else on_host

    def in_background(self, job: Callable[[], None]) -> Future[None]:
        """Do `job` in a thread, after those before it."""
        self._background = self._background or Background()
        return self._background(job)

    def all_gather_rows(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Gather what each rank has one row [...] of for each of its `counts` rows, on all ranks, in rank order.

        It is for what is needed once; every rank has to call it.
        """
        rows = rows.to(self.device)
        gathered = rows.new_empty(sum(counts), *rows.shape[1:])
        by_rank = torch.split(gathered, list(counts))
        by_rank[self.rank].copy_(rows)
        self.exchange(
            dict.fromkeys(self.peers, rows), {peer: by_rank[peer] for peer in self.peers}, purpose="preparation"
        ).wait()
        return gathered

    def gather_rows(self, rows: Tensor, counts: Sequence[int]) -> Tensor | None:
        """As `all_gather_rows`, on rank 0 alone; None on the others. It is for what rank 0 writes to checkpoints."""
        rows = rows.to(self.device)
        if not self.is_main:
            self.exchange({0: rows.contiguous()}, {}, purpose="checkpoints").wait()
            return None
        gathered = rows.new_empty(sum(counts), *rows.shape[1:])
        by_rank = torch.split(gathered, list(counts))
        by_rank[0].copy_(rows)
        self.exchange({}, {peer: by_rank[peer] for peer in self.peers}, purpose="checkpoints").wait()
        return gathered

    def all_reduce(self, values: Tensor, purpose: Purpose = "notes and counts") -> Tensor:
        """Sum `values` over all ranks, in place, the same to the last bit everywhere.

        Args:
            values: any shape; the same on every rank.
            purpose: under which the bytes are recorded.
        """
        if self.world > 1:
            self.sent.record_all_reduce(purpose, values.numel() * values.element_size())
            with self.translate_remote_errors("all-reduce"), self.clock("all-reduce"):
                self._run(values, dist.all_reduce)
        return values

    def all_reduce_numbers(self, numbers: Sequence[int], purpose: Purpose = "notes and counts") -> list[int]:
        """Sum whole numbers of the host over all ranks. Only through NCCL the host waits for what a GPU computes."""
        if self.world == 1:
            return list(numbers)
        sums: list[int] = self.all_reduce(self._host_values(numbers, torch.int64), purpose).tolist()
        return sums

    def all_gather_flag(self, flag: bool) -> list[bool]:
        """Gather one bool of each rank on all ranks, in rank order: an all-reduce of one byte a rank."""
        flags = self._host_values([flag and rank == self.rank for rank in range(self.world)], torch.uint8)
        if self.world > 1:
            self.sent.record_all_reduce("who sends", self.world)
            with self.translate_remote_errors("agree on what to send"), self.clock("agreeing"):
                self._run(flags, dist.all_reduce)
        return [bool(flag) for flag in flags.tolist()]

    def _host_values(self, numbers: Sequence[int], data_type: torch.dtype) -> Tensor:
        """Numbers of the host, where a collective takes them: in its own memory, unless NCCL does."""
        values = torch.tensor(numbers, dtype=data_type)
        return to_device(values, self.device) if self.uses_nccl else values

    def broadcast(self, values: Tensor) -> Tensor:
        """Replace `values` by rank 0's, in place."""
        if self.world > 1:
            self.sent.record_broadcast("first weights", values.numel() * values.element_size(), source=0)
            with self.translate_remote_errors("broadcast the first weights"):
                self._run(values, partial(dist.broadcast, src=0))
        return values

    def broadcast_bytes(self, content: bytes, *, source: int) -> bytes:
        """Rank `source`'s bytes, on all ranks; what the others pass is ignored."""
        if self.world == 1:
            return content
        size, operation = torch.tensor([len(content)], device=self.device), partial(dist.broadcast, src=source)
        self.sent.record_broadcast("checkpoints", len(content) + size.element_size(), source=source)
        with self.translate_remote_errors("broadcast a checkpoint"):
            self._run(size, operation)
            received = bytearray(content) if self.rank == source else bytearray(int(size))
            values = torch.frombuffer(received, dtype=torch.uint8)
            on_device = values.to(self.device)
            self._run(on_device, operation)
            values.copy_(on_device)
        return bytes(received)

    def _run(self, values: Tensor, operation: Callable[[Tensor], object]) -> None:
        """Run a collective on `values`, in place."""
        if not self.through_host or values.device.type == "cpu":
            operation(values)
            return
        on_host = _host_memory(values).copy_(values)
        operation(on_host)
        values.copy_(on_host, non_blocking=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End together after a run that went well; after an error a rank just ends, since the others may have failed."""
        if kind is None and dist.is_initialized():
            self.all_reduce(torch.zeros(1, device=self.device))
            dist.destroy_process_group()

    @contextmanager
    def translate_remote_errors(self, purpose: str, peer: int | None = None) -> Iterator[None]:
        """Turn what the backend raises when a peer is gone or silent into the trainer's error.

        Args:
            purpose: what could not be done.
            peer: the rank that was waited for, where the backend waits for one alone.
        """
        try:
            yield
        except TrainerError:
            raise
        except RuntimeError as error:
            # The backends begin with the line in their source: "[.../pair.cc:547] Connection closed by peer".
            message = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip().partition("\n")[0])
            if self.world == 2:
                peer = 1 - self.rank
            # NCCL waits for all peers at once.
            whom = "the other ranks" if peer is None or (self.uses_nccl and self.world > 2) else f"rank {peer}"
            lost = LostPeerError(
                f"could not {purpose} with {whom} ({message}); if one failed, it says why, "
                "and if one is only slow, give a longer --timeout"
            )
            lost.timed_out = "timed out" in message.lower()
            raise lost from error


def _host_memory(values: Tensor) -> Tensor:
    """An empty tensor like `values` in the host's memory, pinned so that a GPU reads and writes it without a copy."""
    return torch.empty_like(values, device="cpu", pin_memory=values.is_cuda)
