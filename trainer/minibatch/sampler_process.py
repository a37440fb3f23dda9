"""The processes that sample for one rank: `python -m graphprep.sampling`, started and read, and ended with the run.

The trainer imports nothing of graphprep. A process gets the seeds, a ring (`trainer.minibatch.ring`) and two pipes as
open files. When it is gone, the end of its pipe says so at once; when this rank is gone, it sees the same.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import IO, Any

import torch
from torch import Tensor

from trainer.base.child_process import start_python
from trainer.base.errors import TrainingError
from trainer.minibatch.owner_sockets import OwnerSockets
from trainer.minibatch.ring import RingReader, Slot, shared_file

_SECONDS_TO_END = 2.0
"""For the status of a process whose pipe has ended."""


class SamplerProcesses:
    """The batches of one rank, in their order."""

    def __init__(
        self,
        *,
        cache: str,
        rank: int,
        seeds: Tensor,
        removed: Tensor | None,
        batch: Mapping[str, Any],
        epochs: tuple[int, int],
        num_processes: int,
        num_slots: int,
        timeout: float,
        quiet: bool,
        owners: OwnerSockets | None = None,
    ) -> None:
        """Start the processes.

        Args:
            cache: the folder.
            rank: whose batches are made.
            seeds: int64, all ranks' seeds, in an order that does not depend on ranks: nodes [B], pairs [2, B], or edges
                [3, B], with the number of each among the edges between its nodes.
            removed: int64 [2, K], pairs of nodes between which there is no edge in batches; None for none.
            batch: the fields of graphprep's `BatchOptions`.
            epochs: the first and the last one.
            num_processes: that sample.
            num_slots: of each one's ring.
            timeout: seconds to wait for other ranks' samplers.
            quiet: whether they say nothing but warnings.
            owners: where other ranks' samplers are asked for neighbours; None where each has all. Closed here.
        """
        self._rank, self._next = rank, 0
        self._first: Slot | None = None
        self._readers: list[RingReader] = []
        theirs: list[int] = []
        requests = []
        values = {"seeds": seeds} if removed is None else {"seeds": seeds, "removed": removed}
        if owners is not None:
            values["key"] = torch.tensor(list(owners.key), dtype=torch.uint8)
        files = {name: _file_of(of_name) for name, of_name in values.items()}
        for number in range(num_processes):
            ring = shared_file()
            (filled, their_filled), (their_freed, freed) = os.pipe(), os.pipe()
            self._readers.append(
                RingReader(number=number, ring=ring, filled=os.fdopen(filled, "rb"), freed=freed, num_slots=num_slots)
            )
            requests.append({"ring": ring.fileno(), "filled": their_filled, "freed": their_freed})
            theirs += [their_filled, their_freed]
        request = {
            "cache": os.path.abspath(cache),
            "part": rank,
            "seeds": files["seeds"].fileno(),
            "rows_of_seeds": 1 if seeds.dim() == 1 else len(seeds),
            "removed": None if removed is None else files["removed"].fileno(),
            "batch": dict(batch),
            "epochs": epochs,
            "num_slots": num_slots,
            "timeout": timeout,
            "quiet": quiet,
            "owners": None,
            "processes": requests,
        }
        if owners is not None:
            theirs.append(owners.listener.detach())
            request["owners"] = {
                "listener": theirs[-1],
                "key": files["key"].fileno(),
                "addresses": owners.addresses,
            }
        shared = [*files.values(), *(reader.ring for reader in self._readers)]
        open_files = [*theirs, *(file.fileno() for file in shared)]
        self._process: subprocess.Popen[bytes] = start_python(
            ["-m", "graphprep.sampling", json.dumps(request)], {"NUMBA_NUM_THREADS": "1"}, open_files
        )
        for descriptor in theirs:
            os.close(descriptor)
        for file in files.values():
            file.close()

    def peek(self) -> Slot:
        """Wait for the next batch, which `next` will give once more; see there."""
        if self._first is None:
            self._first = self.next()
        return self._first

    def next(self) -> Slot:
        """Wait for the next batch.

        Raises:
            TrainingError: a process has ended, or says why it cannot go on.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        reader = self._readers[self._next % len(self._readers)]
        self._next += 1
        slot = reader.next()
        if slot is None:
            raise TrainingError(self._why_ended(reader.number))
        return slot

    def free(self, slot: Slot) -> None:
        """Give a batch's slot back: its tensors are not used any more. Slots come back in the order of `next`."""
        self._readers[slot.number].free()

    def num_kept(self) -> dict[str, int]:
        """Rows of each node type that the plans of rows have place for, known with the first batch."""
        kept: dict[str, int] = self._readers[0].facts["num_kept"]
        return kept

    def miss_share(self) -> float:
        """The expected share of other ranks' rows that are not kept when a batch needs them, known likewise."""
        share: float = self._readers[0].facts["miss_share"]
        return share

    def close(self) -> None:
        """Close the pipes, which ends the processes."""
        for reader in self._readers:
            reader.filled.close()
            with contextlib.suppress(OSError):
                os.close(reader.freed)
            reader.ring.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)

    def _why_ended(self, number: int) -> str:
        how = "ended"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(_SECONDS_TO_END)
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return (
            f"sampler process {number} of rank {self._rank} {how}; its lines above say why, and if there are none and "
            "nobody ended it, the machine may be short of memory"
        )


def _file_of(values: Tensor) -> IO[bytes]:
    """A file without a name that has these values."""
    file, size = shared_file(), values.numel() * values.element_size()
    file.truncate(size)
    if size:
        torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=values.dtype).copy_(values.reshape(-1))
    return file
