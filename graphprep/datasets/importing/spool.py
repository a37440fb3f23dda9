"""Parsed edges, kept in memory and then in a file, to be read again.

To parse a text costs far more than to read its numbers, and the ids must all be known before the first one can get its
row. So runs of edges are kept as they come, ids in int32 where they fit: 8 bytes an edge. What goes beyond `KEPT_BYTES`
is written to a file without a name, which is gone with the process, also after `kill -9`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Ids
from graphprep.system import home, memory
from graphprep.system.files.scratch import RowSink, no_room, scratch_file

Array = NDArray[Any]
KEPT_BYTES = 1 << 30
"""so much of all columns stays in memory, unless less was allowed"""
COLUMNS_SHARE = 8
"""columns beside the edges may take this part of the memory that is left"""
INT32_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class _Spilled:
    offset: int
    count: int
    dtype: np.dtype[Any]


class Spool:
    """Where the columns of one import lie: so many bytes in memory, the rest in one file."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.kept_bytes = kept_bytes
        self._kept = self._written = 0
        self._file: BinaryIO | None = None

    @classmethod
    def of_columns(cls) -> Spool:
        """For columns that are kept beside edges, of which a spool of its own has more memory."""
        return cls(min(KEPT_BYTES, memory.budget_of_block() // COLUMNS_SHARE))

    def keep(self, piece: Array) -> Array | _Spilled:
        """Take `piece` into memory, or write it to the file.

        Raises:
            DatasetError: the disk is full.
        """
        if self._kept + piece.nbytes <= self.kept_bytes:
            self._kept += piece.nbytes
            return piece if piece.base is None else piece.copy()  # a view would hold the block that it was parsed from
        folder = home.home()
        with no_room(folder):
            if self._file is None:
                folder.mkdir(parents=True, exist_ok=True)
                self._file = scratch_file(folder, piece.nbytes)
            self._file.write(np.ascontiguousarray(piece).data)
            self._file.flush()
        spilled = _Spilled(self._written, len(piece), piece.dtype)
        self._written += piece.nbytes
        return spilled

    def release(self, kept: Array | _Spilled) -> None:
        """What was kept is not wanted any more; the file stays as long as the spool."""
        if not isinstance(kept, _Spilled):
            self._kept -= kept.nbytes

    def piece(self, kept: Array | _Spilled) -> Array:
        """What was kept."""
        if not isinstance(kept, _Spilled):
            return kept
        if self._file is None:
            raise RuntimeError("nothing has been written")
        piece: Array = np.empty(kept.count, kept.dtype)
        view = piece.view(np.uint8).data
        done = 0
        while done < len(view):
            read = os.preadv(self._file.fileno(), [view[done:]], kept.offset + done)
            if not read:
                raise RuntimeError("the file of kept edges is shorter than what was written to it")
            done += read
        return piece


@dataclass(slots=True)
class Column:
    """One value an edge, in runs."""

    spool: Spool
    pieces: list[Array | _Spilled] = field(default_factory=list)
    dtypes: set[np.dtype[Any]] = field(default_factory=set)
    length: int = 0

    def add(self, values: Array) -> None:
        """Append a run."""
        self.pieces.append(self.spool.keep(values))
        self.dtypes.add(values.dtype)
        self.length += len(values)

    def add_ids(self, ids: Ids) -> None:
        """Append a run of numbers that are not negative, in int32 if they fit."""
        small = not len(ids) or int(ids.max()) < INT32_LIMIT
        self.add(ids.astype(np.int32, copy=False) if small else ids)

    def release(self) -> None:
        """Give back the memory; there are no runs any more."""
        for piece in self.pieces:
            self.spool.release(piece)
        self.pieces = []

    def runs(self) -> Iterator[Array]:
        """The runs, as they were added."""
        for piece in self.pieces:
            yield self.spool.piece(piece)

    def whole(self) -> Array:
        """All of them in one array, of the dtype that holds them all."""
        dtype = np.result_type(*self.dtypes) if self.dtypes else np.dtype(np.int64)
        folder = home.home()
        folder.mkdir(parents=True, exist_ok=True)
        sink = RowSink((self.length,), dtype, folder)
        for run in self.runs():
            sink.add(run)
        return sink.array()
