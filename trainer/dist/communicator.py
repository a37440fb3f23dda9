"""The ranks of a run: who they are, how they meet, and all that passes between them.

Everything that depends on a rank's number is in this one object. Ranks meet at a store (torchrun's, a small key-value
server) and compare notes there before the process group starts, so that what does not fit is said rather than waited
for. After that there are four ways to talk: `exchange`, rows from rank to rank; `all_reduce`, a sum over all; `all_gather_flag`, a
yes or no of each to all; `broadcast`, rank 0's values to all. A run of one rank needs neither store nor group.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from trainer.base.traffic_log import Clock
from trainer.base.errors import LostPeerError, TrainerError, found_by_every_rank
from trainer.dist.network_interfaces import check_interfaces
from trainer.dist.rendezvous import meet
from trainer.dist.reachability import check_reachable
from trainer.dist.rank_info import RankInfo
from trainer.base.sent_bytes import Purpose, SentBytes

log = logging.getLogger("trainer")


class PendingExchange:
    """Rows on their way, out and in."""

    def __init__(
        self,
        ranks: Communicator,
        works: list[dist.Work],
        outgoing: list[Tensor],
        unpacked: Sequence[tuple[Tensor, Tensor]],
        *,
        started: float,
    ) -> None:
        self._ranks, self._works, self._unpacked, self._started = ranks, works, unpacked, started
        self._outgoing = outgoing  # kept alive until they have left
        self.seconds = 0.0
        """Between CPUs, from the start until all was here and was asked for; known after `wait`."""

    def wait(self) -> None:
        """Return when all rows that were asked for are here and all others have left."""
        with self._ranks.translate_remote_errors("exchange rows"), self._ranks.clock("waiting"):
            for work in self._works:
                work.wait()
        for place, arrived in self._unpacked:
            place.copy_(arrived)
        self._outgoing, self._unpacked = [], []
        self.seconds = time.perf_counter() - self._started


class Communicator:
    """All ranks, seen from one of them."""

    def __init__(
        self, rank_info: RankInfo, device: torch.device, *, timeout: float, clock: Clock, through_host: bool = False
    ) -> None:
        """Meet the other ranks' store.

        Args:
            seat: this rank.
            device: where its tensors are.
            timeout: seconds to wait for another rank, here and later.
            clock: what measures the waiting.
            through_host: talk by gloo, with all that travels copied to the host's memory first: for several ranks that
                share a GPU, which NCCL does not serve.

        Raises:
            LostPeerError: the store does not answer.
            TrainingError: the network interface that the environment names cannot be used.
        """
        self.rank, self.world, self.device, self.clock = rank_info.rank, rank_info.world, device, clock
        self.restarts, self.through_host = rank_info.restarts, through_host
        self.sent = SentBytes(rank=self.rank, world=self.world)
        """What has left this rank."""
        self._timeout = datetime.timedelta(seconds=timeout)
        self._store: Store | None = None
        self._comparisons = 0
        if self.world > 1:
            with found_by_every_rank():  # of this machine
                check_interfaces(os.environ, on_gpu=device.type == "cuda" and not through_host)
            with self.translate_remote_errors("meet"):
                store, _, _ = next(rendezvous("env://", rank=self.rank, world_size=self.world, timeout=self._timeout))
                store.set_timeout(self._timeout)
                self._store = meet(store, rank=self.rank, world=self.world, timeout=timeout)

    @property
    def peers(self) -> list[int]:
        """The other ranks in ascending order: the order of halo columns and of all that is laid out by peer."""
        return [rank for rank in range(self.world) if rank != self.rank]

    @property
    def speaks(self) -> bool:
        """True on the one rank that speaks for the run."""
        return self.rank == 0

    def all_gather_object(self, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Tell the others `facts` (as JSON) and learn theirs, in rank order.

        Raises:
            LostPeerError: a rank did not come within the timeout.
        """
        text = json.dumps(facts)
        if self._store is None:
            return [json.loads(text)]
        page = f"facts/{self._comparisons}"
        self._comparisons += 1
        self.sent.record("notes and counts", len(text.encode()) * (1 + self.world))
        with self.translate_remote_errors("compare notes"):
            self._store.set(f"{page}/{self.rank}", text)
            return [json.loads(self._store.get(f"{page}/{rank}")) for rank in range(self.world)]

    def connect(self) -> None:
        """Start the process group: gloo between CPUs, NCCL between GPUs.

        Raises:
            LostPeerError: a rank did not come within the timeout.
            TrainingError: machines do not reach each other at the addresses that would be used.
        """
        if self._store is None or dist.is_initialized():
            return
        on_gpu = self.device.type == "cuda" and not self.through_host
        with self.translate_remote_errors("connect"), found_by_every_rank():
            remark = check_reachable(
                self._store,
                rank=self.rank,
                world=self.world,
                environment=os.environ,
                on_gpu=on_gpu,
                timeout=self._timeout.total_seconds(),
            )
        if remark is not None and self.speaks:
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
            # NCCL wants a step of all ranks before the first one of pairs.
            dist.all_reduce(torch.zeros(1, device=self.device if on_gpu else "cpu"))

    def exchange(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], *, purpose: Purpose = "rows"
    ) -> PendingExchange:
        """Start to send to and receive from peers; both ends have to name the same rows.

        Args:
            outgoing: contiguous tensors by destination, at most one a peer.
            incoming: contiguous tensors to fill, by source.
            purpose: what the bytes are booked as.
        """
        self.sent.record(purpose, sum(rows.numel() * rows.element_size() for rows in outgoing.values()))
        unpacked: list[tuple[Tensor, Tensor]] = []
        if self.through_host:
            outgoing = {peer: _host_memory(rows).copy_(rows) for peer, rows in outgoing.items()}
            places = incoming
            incoming = {peer: _host_memory(place) for peer, place in places.items()}
            unpacked = [(place, incoming[peer]) for peer, place in places.items()]
        operations, started = [], time.perf_counter()
        for step in range(1, self.world):
            # All ranks walk the ring at once, so that no rank is everybody's first destination.
            destination, source = (self.rank + step) % self.world, (self.rank - step) % self.world
            if source in incoming and incoming[source].numel():
                operations.append(dist.P2POp(dist.irecv, incoming[source], source))
            if destination in outgoing and outgoing[destination].numel():
                operations.append(dist.P2POp(dist.isend, outgoing[destination], destination))
        with self.translate_remote_errors("exchange rows"):
            works = dist.batch_isend_irecv(operations) if operations else []
        return PendingExchange(self, works, list(outgoing.values()), unpacked, started=started)

    def all_reduce(self, values: Tensor, purpose: Purpose = "notes and counts") -> Tensor:
        """Sum `values` over all ranks, in place, the same to the last bit everywhere.

        Args:
            values: any shape; the same on every rank.
            purpose: what the bytes are booked as.
        """
        if self.world > 1:
            self.sent.record_all_reduce(purpose, values.numel() * values.element_size())
            with self.translate_remote_errors("add up"), self.clock("all-reduce"):
                self._for_all(values, dist.all_reduce)
        return values

    def all_gather_flag(self, flag: bool) -> list[bool]:
        """Tell all ranks `flag`, and learn theirs, in rank order: a sum of one byte a rank."""
        flags = torch.zeros(self.world, dtype=torch.uint8, device=self.device)
        flags[self.rank] = flag
        if self.world > 1:
            self.sent.record_all_reduce("who sends", self.world)
            with self.translate_remote_errors("agree on what to send"), self.clock("agreeing"):
                self._for_all(flags, dist.all_reduce)
        return [bool(flag) for flag in flags.tolist()]

    def broadcast(self, values: Tensor) -> Tensor:
        """Replace `values` by rank 0's, in place."""
        if self.world > 1:
            self.sent.record_broadcast("first weights", values.numel() * values.element_size(), source=0)
            with self.translate_remote_errors("share the first weights"):
                self._for_all(values, partial(dist.broadcast, src=0))
        return values

    def broadcast_bytes(self, content: bytes, *, source: int) -> bytes:
        """The bytes that rank `source` gives, to all; what the others give is ignored."""
        if self.world == 1:
            return content
        size, share = torch.tensor([len(content)], device=self.device), partial(dist.broadcast, src=source)
        self.sent.record_broadcast("checkpoints", len(content) + size.element_size(), source=source)
        with self.translate_remote_errors("share a checkpoint"):
            self._for_all(size, share)
            mine = bytearray(content) if self.rank == source else bytearray(int(size))
            values = torch.frombuffer(mine, dtype=torch.uint8)
            travelling = values.to(self.device)
            self._for_all(travelling, share)
            values.copy_(travelling)
        return bytes(mine)

    def _for_all(self, values: Tensor, operation: Callable[[Tensor], object]) -> None:
        """Make an operation of all ranks on `values`, in place."""
        if not self.through_host:
            operation(values)
            return
        on_host = _host_memory(values).copy_(values)
        operation(on_host)
        values.copy_(on_host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave together after a run that went well; after an error a rank just goes, since the others may be gone."""
        if kind is None and dist.is_initialized():
            self.all_reduce(torch.zeros(1, device=self.device))
            dist.destroy_process_group()

    @contextmanager
    def translate_remote_errors(self, purpose: str) -> Iterator[None]:
        """Turn what the backend raises when a peer is gone or silent into the trainer's error."""
        try:
            yield
        except TrainerError:
            raise
        except RuntimeError as error:
            # The backends begin with the place in their source: "[.../pair.cc:547] Connection closed by peer".
            said = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip().partition("\n")[0])
            lost = LostPeerError(
                f"could not {purpose} with the other ranks ({said}); if one failed, it says why, "
                "and if one is only slow, give a longer --timeout"
            )
            lost.timed_out = "timed out" in said.lower()
            raise lost from error


def _host_memory(values: Tensor) -> Tensor:
    """Room for `values` in the host's memory, where a GPU reads and writes without a further copy."""
    return torch.empty_like(values, device="cpu", pin_memory=values.is_cuda)
