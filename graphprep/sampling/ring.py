"""A ring of slots in shared memory that one sampler process fills with batches and a trainer empties.

The file has no name: the trainer makes it and hands its descriptor over, so nothing is left behind whoever is killed.
It is as long as the largest possible batches need, and has only the memory that batches have used so far. A slot has
8 bytes with the length of its header, the header (JSON: `epoch`, `step`, `started` and `ended` in seconds of the
monotonic clock, `num_bytes` between samplers, `arrays` with name, dtype, shape and the offset from the slot's start),
and the arrays.

The process writes a line for each batch to one pipe, and reads a byte for each slot that is free again from the other.
Both wait in the system, and the end of either process is the end of its pipes.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import PartitionError

_ALIGNMENT = 64
_LONGEST_HEADER = 1 << 16
_PAGE = 4096


class TrainerGoneError(Exception):
    """The other end of the pipes is closed, so nobody needs batches any more."""


@dataclass(slots=True, kw_only=True)
class RingWriter:
    """The filling end."""

    ring: int
    """descriptor of the file"""
    filled: int
    """of the pipe to write to"""
    freed: int
    """of the pipe to read from"""
    num_slots: int
    slot_bytes: int = 0
    _map: mmap.mmap | None = None
    _num_free: int = 0
    _next: int = 0

    def open(self, most_bytes: int, more: Mapping[str, Any]) -> None:
        """Make the file long enough, and tell the trainer how long a slot is, and `more`.

        Raises:
            PartitionError: the system does not let a file be so long.
            TrainerGoneError: nobody reads any more.
        """
        self.slot_bytes = -(-(most_bytes + _LONGEST_HEADER) // _PAGE) * _PAGE
        length = self.slot_bytes * self.num_slots
        try:
            os.ftruncate(self.ring, length)
            self._map = mmap.mmap(self.ring, length)
        except (OSError, OverflowError) as error:
            raise PartitionError(
                f"no shared memory of {length} bytes can be made for batches ({error}); give a smaller --batch-size or "
                "smaller --fanouts"
            ) from error
        self._num_free = self.num_slots
        self._say({"slot_bytes": self.slot_bytes, **more})

    def fail(self, sentence: str) -> None:
        """Tell the trainer why there will be no more batches."""
        with contextlib.suppress(TrainerGoneError):
            self._say({"error": sentence})

    def put(self, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
        """Write one batch into the next slot, when it is free.

        Raises:
            PartitionError: the batch is larger than the slot, or there is no memory for it.
            TrainerGoneError: nobody reads any more.
        """
        assert self._map is not None
        if not self._num_free:
            read = os.read(self.freed, 64)
            if not read:
                raise TrainerGoneError
            self._num_free += len(read)
        start, offset = self._next * self.slot_bytes, _LONGEST_HEADER
        listed: list[tuple[str, str, tuple[int, ...], int]] = []
        for name, values in arrays.items():
            listed.append((name, values.dtype.name, values.shape, offset))
            offset += -(-values.nbytes // _ALIGNMENT) * _ALIGNMENT
        text = json.dumps({**header, "arrays": listed}).encode()
        if offset > self.slot_bytes or len(text) + 8 > _LONGEST_HEADER:
            raise PartitionError(
                f"a batch of {offset} bytes does not fit into its slot of {self.slot_bytes}; give smaller --fanouts"
            )
        self._reserve(start, offset)
        self._map[start : start + 8] = len(text).to_bytes(8, sys.byteorder)
        self._map[start + 8 : start + 8 + len(text)] = text
        for (_, _, _, at), values in zip(listed, arrays.values(), strict=True):
            target = np.frombuffer(self._map, values.dtype, values.size, start + at)
            target[:] = values.reshape(-1)
        self._num_free -= 1
        self._next = (self._next + 1) % self.num_slots
        self._say({})

    def wait_for_end(self) -> None:
        """Return when the trainer has closed its pipe; until then it reads the last slots."""
        while os.read(self.freed, 64):
            pass

    def close(self) -> None:
        """Close the files, of which another process has copies."""
        for descriptor in (self.ring, self.filled, self.freed):
            os.close(descriptor)

    def _reserve(self, start: int, length: int) -> None:
        """Get the memory now: without it, writing would be ended by SIGBUS."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self.ring, start, length)
            except OSError as error:
                raise PartitionError(
                    f"there is no shared memory for a batch of {length} bytes ({error.strerror}); give a smaller "
                    "--batch-size or smaller --fanouts, or more room in /dev/shm"
                ) from error

    def _say(self, message: Mapping[str, Any]) -> None:
        try:
            os.write(self.filled, json.dumps(message).encode() + b"\n")
        except BrokenPipeError as error:
            raise TrainerGoneError from error
