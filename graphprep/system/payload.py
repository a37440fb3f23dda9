"""Arguments for other processes, with large arrays as named files that the processes map.

Pickling copies all that a mapped array holds. A `SharedPayload` pickles such an array as the place of its file,
wherever in a value it is, and everything else as usual. Nobody writes to what arrives. It is mapped writable all the
same, because numba's loops would otherwise be compiled once more, for arrays that cannot be written to.
"""

from __future__ import annotations

import mmap
import pickle
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.system.files.scratch import RowSink

LARGE_BYTES = 1 << 20
"""An array of so many bytes is put in a file rather than sent."""


def has_name(array: NDArray[Any]) -> bool:
    """Whether it is all of an array that is mapped from the beginning of a file with a name, and written to it."""
    return (
        isinstance(array, np.memmap)
        and array.filename is not None
        and array.offset == 0
        and array.mode != "c"
        and isinstance(array.base, mmap.mmap)
    )


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


class SharedPayload:
    """Values on their way to processes that reach the same files under the same paths.

    They are packed once, and unpacked once by each process, where they are used: a process that only passes a payload
    on opens no file of it. A payload that has not been sent gives the values themselves.
    """

    def __init__(self, content: tuple[Any, ...], *, folder: Path | None = None, stage: str = "") -> None:
        """
        Args:
            content: can be pickled.
            folder: an existing one for large arrays that are in no file with a name yet; None to pickle these too.
                The files are gone with the payload.
            stage: what is going on, for the error.
        """
        self.content = content
        self._folder, self._stage = folder, stage
        self._files: list[NDArray[Any]] = []

    def sent(self) -> _Arrived:
        """What arrives; packed here and now, as whoever sends it may make another error of one that comes on the way.

        Raises:
            NoRoomError: the disk is full.
        """
        return _Arrived(self._packed)

    def __reduce__(self) -> tuple[type[_Arrived], tuple[bytes]]:
        """
        Raises:
            NoRoomError: the disk is full.
        """
        return self.sent().__reduce__()

    @cached_property
    def _packed(self) -> bytes:
        stream = BytesIO()
        _Pickler(stream, self._in_file if self._folder else None).dump(self.content)
        return stream.getvalue()

    def _in_file(self, array: NDArray[Any]) -> NDArray[Any]:
        assert self._folder is not None
        self._files.append(in_file(array, self._folder, stage=self._stage))
        return self._files[-1]


class _Arrived:
    """A payload that has been received."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    @cached_property
    def content(self) -> tuple[Any, ...]:
        content: tuple[Any, ...] = pickle.loads(self._packed)
        return content

    def __reduce__(self) -> tuple[type[_Arrived], tuple[bytes]]:
        return _Arrived, (self._packed,)


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, put: Callable[[NDArray[Any]], NDArray[Any]] | None) -> None:
        super().__init__(file, protocol=5)
        self._put = put

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return NotImplemented
        if not has_name(value):
            if self._put is None or value.nbytes < LARGE_BYTES:
                return NotImplemented
            value = self._put(value)
        assert isinstance(value, np.memmap)
        value.flush()
        return _mapped, (str(value.filename), value.dtype, value.shape)


def _mapped(path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    mapped: NDArray[Any] = np.memmap(path, dtype, "r+", shape=shape)
    return mapped
