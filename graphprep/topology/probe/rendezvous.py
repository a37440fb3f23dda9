"""One rank among all: the store, where ranks leave each other notes, and the process group, through which they send.

Everything that needs torch's communication is in this one object. A rank that is gone or silent becomes a
`LostRankError` for the others; why it went is its own to say.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphprep.errors import TopologyError
from graphprep.topology.probe.rank_info import RankInfo

if TYPE_CHECKING:
    import torch


class LostRankError(TopologyError):
    """Another rank is gone or silent."""


class Meeting:
    """The ranks of a probe, seen from one of them."""

    def __init__(self, seat: RankInfo, device: str, *, timeout: float) -> None:
        """Meet the other ranks' store; torchrun's variables say where it is.

        Args:
            seat: this rank.
            device: `cpu` or `cuda:N`; NCCL joins GPUs, gloo CPUs.
            timeout: seconds to wait for another rank, here and later.

        Raises:
            LostRankError: the store does not answer.
        """
        import torch
        from torch.distributed.rendezvous import rendezvous

        self.rank, self.world = seat.rank, seat.world
        self.device = torch.device(device)
        self._timeout = datetime.timedelta(seconds=timeout)
        self._received: dict[int, torch.Tensor] = {}
        self._sent = torch.zeros(0, dtype=torch.uint8)
        with _talking("meet"):
            self._store, _, _ = next(rendezvous("env://", rank=self.rank, world_size=self.world, timeout=self._timeout))
            self._store.set_timeout(self._timeout)

    def tell(self, page: str, text: str) -> None:
        """Leave a note for all ranks."""
        with _talking("leave a note"):
            self._store.set(page, text)

    def hear(self, page: str) -> str:
        """Wait for a note."""
        with _talking("compare notes"):
            return str(self._store.get(page).decode())

    def connect(self) -> None:
        """Start the process group."""
        import torch
        import torch.distributed as dist
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        on_gpu = self.device.type == "cuda"
        with _talking("connect"):
            if on_gpu:
                torch.cuda.set_device(self.device)
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                store=PrefixStore("group", self._store),
                rank=self.rank,
                world_size=self.world,
                timeout=self._timeout,
                device_id=self.device if on_gpu else None,
            )
            self.line_up(stop=False)

    def line_up(self, *, stop: bool) -> bool:
        """Wait until all ranks are here; whether one of them wants to stop."""
        import torch
        import torch.distributed as dist

        flag = torch.tensor([int(stop)], dtype=torch.int32, device=self.device)
        with _talking("line up"):
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            return bool(flag.item())

    def exchange(self, messages: Sequence[tuple[int, int]], repeats: int) -> list[float]:
        """Send to and receive from several ranks, all at once, several times.

        Args:
            messages: ranks, and the bytes that go each way.
            repeats: after one exchange for warming up.

        Returns:
            When the warm-up and each repeat were done, in seconds since the call.
        """
        import torch
        import torch.distributed as dist

        self._make_room(messages)
        started, stamps = time.perf_counter(), []
        with _talking("exchange messages"):
            for _ in range(1 + repeats):
                operations = []
                for peer, num_bytes in messages:
                    operations.append(dist.P2POp(dist.irecv, self._received[peer][:num_bytes], peer))
                    operations.append(dist.P2POp(dist.isend, self._sent[:num_bytes], peer))
                for work in dist.batch_isend_irecv(operations):
                    work.wait()
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
                stamps.append(time.perf_counter() - started)
        return stamps

    def leave(self) -> None:
        """End the process group together with all others."""
        import torch.distributed as dist

        self.line_up(stop=False)
        dist.destroy_process_group()

    def _make_room(self, messages: Sequence[tuple[int, int]]) -> None:
        def room(buffer: torch.Tensor | None, num_bytes: int) -> Any:
            if buffer is not None and buffer.numel() >= num_bytes:
                return buffer
            return torch.ones(num_bytes, dtype=torch.uint8, device=self.device)

        import torch

        for peer, num_bytes in messages:
            self._received[peer] = room(self._received.get(peer), num_bytes)
            self._sent = room(self._sent, num_bytes)


@contextmanager
def _talking(purpose: str) -> Iterator[None]:
    """Turn what torch raises when a rank is gone into one sentence."""
    try:
        yield
    except RuntimeError as problem:
        # The libraries begin with the place in their source: "[.../pair.cc:547] Connection closed by peer".
        first_line = str(problem).strip().partition("\n")[0]
        said = re.sub(r"^\[[^\]]*\]\s*", "", first_line)
        raise LostRankError(
            f"could not {purpose} with the other ranks ({said}); if one failed, it says why, "
            "and if one is only slow, give a longer --timeout"
        ) from problem
