"""Arrays in files with names: other processes map the files, in place of being sent what lies in them.

Pickling copies all that a mapped array holds. `packed` pickles such an array as the place of its file, wherever in a
value it is, and everything else as usual. Nobody writes to what arrives. It is mapped writable all the same, because
numba's loops would otherwise be compiled once more, for arrays that cannot be written to.
"""

from __future__ import annotations

import mmap
import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.sources.scratch import RowSink


def has_name(array: NDArray[Any]) -> bool:
    """Whether it is all of an array that is mapped from a file with a name."""
    return isinstance(array, np.memmap) and array.filename is not None and isinstance(array.base, mmap.mmap)


def in_file(array: NDArray[Any], folder: Path, *, stage: str) -> NDArray[Any]:
    """A copy in a file with a name, mapped; the file is gone as soon as the copy is. An empty array is left as it is.

    Args:
        array: of any shape.
        folder: an existing one.
        stage: what is going on, for the error.

    Raises:
        NoRoomError: the disk is full.
    """
    if array.size == 0:
        return array
    sink = RowSink(array.shape, array.dtype, folder, memory_bytes=0, stage=stage, named=True)
    sink.add(array)
    return sink.array()


def packed(value: object) -> bytes:
    """A pickle for a process that may write to the same files under the same paths; `pickle.loads` takes it."""
    found = BytesIO()
    _Pickler(found, protocol=5).dump(value)
    return found.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.memmap) and has_name(value):
            value.flush()
            return _mapped, (str(value.filename), value.dtype, value.shape)
        return NotImplemented


def _mapped(path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    mapped: NDArray[Any] = np.memmap(path, dtype, "r+", shape=shape)
    return mapped
