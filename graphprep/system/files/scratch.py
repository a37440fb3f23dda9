"""Arrays that may be larger than memory, filled row by row from a stream.

Up to `MEMORY_BYTES` an array is one in memory. A larger one is written to a file without a name in the folder of the
raw files (which is on the disk that has room for them) and mapped. The file is gone as soon as the array is, also after
`kill -9`: nothing has to be cleaned up, and nothing half-written can be taken for whole. Where other processes are to
map it too, the file has a name, and is left over after `kill -9`.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.system import progress

MEMORY_BYTES = 256 << 20
CONVERSION = "conversion"


class NoRoomError(DatasetError):
    """The disk is full or not to be written to; the files that were read are not to blame."""


class RowSink:
    """An array in the making."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        folder: Path,
        *,
        memory_bytes: int | None = None,
        stage: str = CONVERSION,
        named: bool = False,
    ) -> None:
        """
        Args:
            shape: [N, ...]; rows are added in order.
            dtype: of the array.
            folder: where a large one lies.
            memory_bytes: from how many bytes on it is large; None for more than MEMORY_BYTES.
            stage: what is going on, for the error.
            named: whether the file has a name, and so is the caller's to remove after `kill -9`.

        Raises:
            NoRoomError: there is not enough room on the disk.
        """
        self.shape, self.dtype, self._folder, self._named = shape, dtype, folder, named
        self.rows = 0
        self._row_items = int(np.prod(shape[1:], dtype=object))
        self._in_memory: NDArray[Any] | None = None
        self._file: BinaryIO | None = None
        num_bytes = shape[0] * self._row_items * dtype.itemsize
        if num_bytes <= (MEMORY_BYTES if memory_bytes is None else memory_bytes):
            self._in_memory = np.empty(shape, dtype)
        else:
            self._file = scratch_file(folder, num_bytes, stage=stage, named=named)

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows, [n, ...]; the caller makes sure that they fit."""
        if self._in_memory is not None:
            self._in_memory[self.rows : self.rows + len(rows)] = rows
        elif self._file is not None:
            with no_room(self._folder):
                self._file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.rows += len(rows)

    def array(self) -> NDArray[Any]:
        """The whole array, in memory or as a read-only map. Call it when all rows are there."""
        if self._in_memory is not None:
            return self._in_memory
        if self._file is None:
            raise RuntimeError("the array has been taken already")
        with no_room(self._folder):
            self._file.flush()
        mapped = np.memmap(self._file, self.dtype, "r", shape=self.shape)
        with no_room(self._folder):
            self._file.close()  # by then a network's file system shows other machines what was written
        if self._named:
            weakref.finalize(mapped, Path.unlink, Path(self._file.name), missing_ok=True)
        self._file = None
        return cast(NDArray[Any], mapped)


def scratch_file(folder: Path, num_bytes: int, *, stage: str = CONVERSION, named: bool = False) -> BinaryIO:
    """A file without a name in `folder`, or with one, for so many bytes.

    Raises:
        NoRoomError: there is not enough room.
    """
    require_room(folder, num_bytes, stage=stage)
    with no_room(folder):
        if named:
            return cast(BinaryIO, tempfile.NamedTemporaryFile(dir=folder, delete=False))
        return cast(BinaryIO, tempfile.TemporaryFile(dir=folder))


def require_room(folder: Path, num_bytes: int, *, stage: str = CONVERSION) -> None:
    """
    Raises:
        NoRoomError: the disk of `folder` has fewer bytes free.
    """
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise NoRoomError(
            f"{folder} has {progress.format_bytes(free)} free, but {progress.format_bytes(num_bytes)} are needed there "
            f"for the time of the {stage}; make room or set GRAPHPREP_HOME to a larger disk"
        )


@contextmanager
def no_room(folder: Path) -> Iterator[None]:
    """A failure to write in `folder` is one sentence."""
    try:
        yield
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        hint = "; make room or set GRAPHPREP_HOME to a larger disk" if problem.errno == errno.ENOSPC else ""
        raise NoRoomError(f"{folder} cannot be written to ({reason}){hint}") from problem
