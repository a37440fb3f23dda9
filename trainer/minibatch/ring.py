"""The emptying end of a ring of batches in shared memory; graphprep/sampling/ring.py fills it and defines its form.

The arrays of a batch are tensors over the shared memory itself, until their slot is given back.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import IO, Any

import torch
from torch import Tensor

from trainer.base.errors import TrainingError

_SHARED_MEMORY = "/dev/shm"


def shared_file() -> IO[bytes]:
    """A new file without a name, in the machine's memory where there is a folder for that.

    Raises:
        TrainingError: there is no folder to make it in.
    """
    folder = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise TrainingError(
            f"no file for batches can be made in {folder or tempfile.gettempdir()} ({error.strerror}); set TMPDIR to a "
            "folder that can be written"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One batch, as long as its slot is not given back."""

    number: int
    """of the sampler process that made it"""
    epoch: int
    step: int
    """of the epoch, from 0"""
    started: float
    """when it was sampled, in seconds of the monotonic clock, as the next"""
    ended: float
    arrays: Mapping[str, Tensor]
    num_bytes: int = 0
    """that its sampler has sent to other ranks' samplers and received of them"""


@dataclass(slots=True, kw_only=True)
class RingReader:
    """The ring of one sampler process."""

    number: int
    ring: IO[bytes]
    filled: IO[bytes]
    """the pipe that says which slots are filled"""
    freed: int
    """descriptor of the pipe that says which are free again"""
    num_slots: int
    facts: dict[str, Any] = field(default_factory=dict)
    """what the process has said of all its batches"""
    _map: mmap.mmap | None = None
    _next: int = 0

    def next(self) -> Slot | None:
        """Wait for the next batch; None when the process is gone.

        Raises:
            TrainingError: what the process says.
        """
        if self._map is None:
            message = self._message()
            if message is None:
                return None
            self.facts = message
            self._map = mmap.mmap(self.ring.fileno(), message["slot_bytes"] * self.num_slots)
        if self._message() is None:
            return None
        start = self._next * self.facts["slot_bytes"]
        self._next = (self._next + 1) % self.num_slots
        length = int.from_bytes(self._map[start : start + 8], sys.byteorder)
        header = json.loads(self._map[start + 8 : start + 8 + length])
        arrays = {
            name: self._tensor(getattr(torch, data_type), shape, start + offset)
            for name, data_type, shape, offset in header.pop("arrays")
        }
        return Slot(number=self.number, arrays=arrays, **header)

    def free(self) -> None:
        """Give the oldest slot back. No tensor over it may be used any more."""
        with contextlib.suppress(BrokenPipeError):  # the process is gone; whoever waits for its next batch says so
            os.write(self.freed, b"\0")

    def _message(self) -> dict[str, Any] | None:
        line = self.filled.readline()
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise TrainingError(message["error"])
        return message

    def _tensor(self, data_type: torch.dtype, shape: list[int], offset: int) -> Tensor:
        if not prod(shape):
            return torch.empty(shape, dtype=data_type)
        assert self._map is not None
        return torch.frombuffer(self._map, dtype=data_type, count=prod(shape), offset=offset).view(shape)
