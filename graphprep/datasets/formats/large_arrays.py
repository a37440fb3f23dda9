"""Arrays of numbers in .npz archives that may be larger than memory.

`numpy.load` reads a member of an .npz whole, and cannot map one. Here it is read through its checksum piece by piece,
into memory if it is small and else into a scratch file that is then mapped. Arrays of objects, which NumPy would
unpickle, are refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.arrays import npy_header, read_exactly
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive
from graphprep.system.files.scratch import RowSink

Array = NDArray[Any]
PIECE_BYTES = 16 << 20
MOST_AXES = 2


def stored_array(archive: Archive, name: str, folder: Path, *, repeat: int = 1, finite: bool = False) -> Array:
    """The array in a .npy member, of numbers or truth values, in this machine's byte order.

    Args:
        archive: an .npz, or an archive with .npy files.
        name: of the member.
        folder: where a large array goes.
        repeat: give each row so many times, one after the other.
        finite: whether a NaN or an infinity is an error.

    Raises:
        DatasetError: there is no such member, it is damaged, or it is no array of numbers.
        NoRoomError: it is large, and the disk has no room for it.
    """
    size = archive.size(name)
    with archive.open(name) as stream:
        return read_large(stream, size, f"its array {name}", folder, repeat=repeat, finite=finite)


def read_large(
    stream: IO[bytes], num_bytes: int, subject: str, folder: Path, *, repeat: int = 1, finite: bool = False
) -> Array:
    """The array in a .npy stream of `num_bytes` bytes.

    Raises:
        DatasetError: it is none, not of numbers, of more than two axes, longer or shorter than its header says, or (if
            `finite`) holds a value that is not.
    """
    shape, fortran, dtype = npy_header(stream, num_bytes, subject)
    if dtype.kind not in "biuf":
        raise DatasetError(f"{subject} has dtype {dtype}, not numbers")
    if len(shape) > MOST_AXES:
        raise DatasetError(f"{subject} has the shape {shape}, more than {MOST_AXES} axes")
    stored = shape[::-1] if fortran else shape
    if fortran and len(shape) > 1 and repeat > 1:
        raise DatasetError(f"{subject} is stored column by column, where rows are to be doubled")
    # Rows of [2, E] are no pieces to read at once: without `repeat` the array is a plain run of numbers.
    width = math.prod(stored[1:]) if repeat > 1 else 1
    units = math.prod(stored) // max(1, width)
    sink = RowSink((units * repeat, width), dtype.newbyteorder("="), folder)
    units_at_once = max(1, PIECE_BYTES // max(1, width * dtype.itemsize))
    for start in range(0, units, units_at_once):
        count = min(units_at_once, units - start)
        piece = np.frombuffer(read_exactly(stream, count * width * dtype.itemsize, subject, to_end=False), dtype)
        piece = piece.reshape(count, width)
        if finite and dtype.kind == "f" and not (good := np.isfinite(piece).ravel()).all():
            raise DatasetError(
                f"{subject} holds a value that is not finite, "
                f"in row {_row(start * width + int(np.argmin(good)), shape, fortran):,}"
            )
        sink.add(np.repeat(piece, repeat, axis=0) if repeat > 1 else piece)
    read_exactly(stream, 0, subject)
    if repeat > 1:
        return sink.array().reshape(shape[0] * repeat, *shape[1:])
    array = sink.array().reshape(stored)
    return array.T if fortran else array


def _row(position: int, shape: tuple[int, ...], fortran: bool) -> int:
    """The row of the element that is stored at `position`."""
    return int(np.unravel_index(position, shape, order="F" if fortran else "C")[0])
