"""The store and the process group of a probe's ranks.

All communication by torch is in one object. If a rank exits or does not answer, the others raise `LostRankError`; that
rank prints the cause itself.
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
    """Another rank has exited or does not answer."""


class RankGroup:
    """The ranks of a probe, as one of them communicates with them."""

    def __init__(self, rank_info: RankInfo, device: str, *, timeout: float) -> None:
        """Connect to the store, whose address is in torchrun's variables.

        Args:
            rank_info: this rank.
            device: `cpu` or `cuda:N`; NCCL joins GPUs, gloo CPUs.
            timeout: seconds to wait for another rank, here and later.

        Raises:
            LostRankError: the store does not answer.
        """
        import torch
        from torch.distributed.rendezvous import rendezvous

        self.rank, self.world = rank_info.rank, rank_info.world
        self.device = torch.device(device)
        self._timeout = datetime.timedelta(seconds=timeout)
        self._received: dict[int, torch.Tensor] = {}
        self._sent = torch.zeros(0, dtype=torch.uint8)
        with _translated("meet the other ranks"):
            self._store, _, _ = next(rendezvous("env://", rank=self.rank, world_size=self.world, timeout=self._timeout))
            self._store.set_timeout(self._timeout)

    def store_set(self, page: str, text: str) -> None:
        """Set a value in the store."""
        with _translated("write to the store shared with the other ranks"):
            self._store.set(page, text)

    def store_get(self, page: str) -> str:
        """Wait for a value in the store."""
        with _translated("read the store shared with the other ranks"):
            return str(self._store.get(page).decode())

    def connect(self) -> None:
        """Start the process group."""
        import torch
        import torch.distributed as dist
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        on_gpu = self.device.type == "cuda"
        with _translated("connect with the other ranks"):
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
            self.agree_to_stop(stop=False)

    def agree_to_stop(self, *, stop: bool) -> bool:
        """A barrier of all ranks; whether one of them wants to stop."""
        import torch
        import torch.distributed as dist

        flag = torch.tensor([int(stop)], dtype=torch.int32, device=self.device)
        with _translated("synchronise with the other ranks"):
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
        with _translated("exchange messages with the other ranks"):
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

    def close(self) -> None:
        """End the process group together with all others."""
        import torch.distributed as dist

        self.agree_to_stop(stop=False)
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
def _translated(purpose: str) -> Iterator[None]:
    """Translate torch's errors about lost ranks into one sentence."""
    try:
        yield
    except RuntimeError as problem:
        # The libraries begin with the place in their source: "[.../pair.cc:547] Connection closed by peer".
        first_line = str(problem).strip().partition("\n")[0]
        said = re.sub(r"^\[[^\]]*\]\s*", "", first_line)
        raise LostRankError(
            f"could not {purpose} ({said}); if a rank failed, it says why, "
            "and if one is only slow, give a longer --timeout"
        ) from problem
