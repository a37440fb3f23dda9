"""Arrays of numbers, dense and sparse, from MATLAB's .mat files of format 5 (which MATLAB 5 to 7.2 write).

    128 bytes of header, the last four a version and the byte order; then one element a variable, packed or not
    element         type and size, 4 bytes each, then the data, padded to 8 bytes; up to 4 bytes of data may take the
                    place of the size, which then shares the type's 4 bytes
    packed          a zlib stream that holds one element, unpadded
    variable        flags and class, dimensions, name, then the values, or for a sparse matrix the row of each entry,
                    column pointers and values; integers may be stored narrower than their class

SciPy reads all of MATLAB's types, but fills arrays from sizes and indices that it does not compare: one changed byte is
enough for a crash of the whole process. Here no number is used before it has been compared with what is there, and a
packed variable is unpacked no further than its size says, once that size is known to fit into memory.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.arrays import Sparse, rows_of
from graphprep.errors import DatasetError
from graphprep.system import memory

Array = NDArray[Any]
HEADER_BYTES, HEAD_BYTES, PIECE_BYTES = 128, 4096, 1 << 20
TAG_BYTES, PADDING_BYTES = 8, 8
COPIES = 3
"""times the bytes of a variable, what is held while it is read: its bytes, its numbers, and the row of each entry"""
MAGIC = b"MATLAB 5.0 MAT-file"
ORDERS = {b"IM": "<", b"MI": ">"}
MATRIX, PACKED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
SPARSE_CLASS, NUMBER_CLASSES = 5, range(6, 16)
COMPLEX = 0x08
LONGEST_NAME = 63


class _Element(NamedTuple):
    kind: int
    data: memoryview


class _Head(NamedTuple):
    kind: int
    flags: int
    shape: tuple[int, ...]
    name: str
    rest: int
    """where the values begin in the variable's bytes"""


def read_arrays(stream: IO[bytes], names: tuple[str, ...]) -> dict[str, Array | Sparse]:
    """The variables called `names`; all others are passed over.

    Args:
        stream: the file, which can be read at any place.
        names: of arrays of numbers, in two dimensions.

    Raises:
        DatasetError: it is another kind of file or damaged; one of the variables is missing, is there twice, is no
            array of real numbers, or takes more memory than there is by the size that it states. The message is the
            end of a sentence.
    """
    end = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    header = stream.read(HEADER_BYTES)
    order = ORDERS.get(header[126:128])
    if not header.startswith(MAGIC) or order is None:
        raise DatasetError("its .mat file is none of MATLAB's format 5")
    arrays: dict[str, Array | Sparse] = {}
    while tag := stream.read(8):
        if len(tag) < 8:
            raise DatasetError("its .mat file is cut short")
        kind, size = struct.unpack(f"{order}II", tag)
        if kind not in (MATRIX, PACKED):
            raise DatasetError(f"its .mat file is damaged: it has an element of type {kind} where a variable begins")
        start = stream.tell()
        if start + size > end:
            raise DatasetError("its .mat file is cut short")
        head = _head(memoryview(_front(stream, kind, size, order)), order)
        if head.name in names:
            if head.name in arrays:
                raise DatasetError(f"its .mat file has two variables called {head.name!r}")
            stream.seek(start)
            arrays[head.name] = _values(_all(stream, kind, size, order, head.name), head, order)
        stream.seek(start + size)
    if missing := [name for name in names if name not in arrays]:
        raise DatasetError(f"its .mat file has no array {missing[0]!r}")
    return arrays


def _front(stream: IO[bytes], kind: int, size: int, order: str) -> bytes:
    """The first bytes of a variable, enough for all but its values."""
    if kind == MATRIX:
        return stream.read(min(size, HEAD_BYTES))
    unpacked = next(_unpacked(stream, size, HEAD_BYTES), b"")
    _inner_bytes(unpacked, order)
    return unpacked[TAG_BYTES:]


def _all(stream: IO[bytes], kind: int, size: int, order: str, name: str) -> memoryview:
    """All bytes of the variable called `name`, of which a packed one says how many it has before it is unpacked."""
    if kind == MATRIX:
        memory.require_memory(COPIES * size, f"its array {name!r}")
        return memoryview(stream.read(size))
    unpacked, num_bytes = bytearray(), None
    for piece in _unpacked(stream, size, PIECE_BYTES):
        unpacked += piece
        if num_bytes is None and len(unpacked) >= TAG_BYTES:
            num_bytes = TAG_BYTES + _inner_bytes(unpacked, order)
            memory.require_memory(COPIES * num_bytes, f"its array {name!r}")
        if num_bytes is not None and len(unpacked) > num_bytes + PADDING_BYTES:
            raise DatasetError(f"its .mat file is damaged: its array {name!r} unpacks to more bytes than it says")
    if num_bytes is None or len(unpacked) < num_bytes:
        raise DatasetError("its .mat file is damaged: a variable is shorter than it says")
    return memoryview(unpacked)[TAG_BYTES:num_bytes]


def _unpacked(stream: IO[bytes], size: int, piece_bytes: int) -> Iterator[bytes]:
    """What a packed element of `size` bytes holds, at most `piece_bytes` at a time."""
    unpacker = zlib.decompressobj()
    try:
        while not unpacker.eof:
            packed = unpacker.unconsumed_tail
            if not packed:
                packed = stream.read(min(size, piece_bytes))
                size -= len(packed)
            piece = unpacker.decompress(packed, piece_bytes)
            if not packed and not piece and not unpacker.eof:
                raise DatasetError("its .mat file is cut short")
            yield piece
    except zlib.error as problem:
        raise DatasetError(f"its .mat file is damaged ({problem})") from problem


def _inner_bytes(unpacked: bytes | bytearray, order: str) -> int:
    """How many bytes the variable in a packed element should have, by the tag that it begins with."""
    if len(unpacked) < TAG_BYTES:
        raise DatasetError("its .mat file is cut short")
    kind, size = struct.unpack_from(f"{order}II", unpacked)
    if kind != MATRIX:
        raise DatasetError(f"its .mat file is damaged: it has packed something of type {kind}")
    return int(size)


def _elements(data: memoryview, order: str, start: int = 0) -> Iterator[tuple[_Element, int]]:
    """The elements of a variable, each with the place where the next one begins."""
    place = start
    while place + 8 <= len(data):
        word, size = struct.unpack_from(f"{order}II", data, place)
        if word >> 16:  # up to four bytes, which stand in the place of the size
            kind, size, begin, after = word & 0xFFFF, word >> 16, place + 4, place + 8
            if size > 4:
                raise DatasetError("its .mat file is damaged: a short element is not short")
        else:
            kind, begin = word, place + 8
            after = begin + -(-size // 8) * 8
        if begin + size > len(data):
            raise DatasetError("its .mat file is damaged: an element is longer than its variable")
        yield _Element(kind, data[begin : begin + size]), after
        place = after


def _head(data: memoryview, order: str) -> _Head:
    parts = list(itertools.islice(_elements(data, order), 3))
    if len(parts) < 3:
        raise DatasetError("its .mat file is damaged: a variable has no name")
    (flags, _), (sizes, _), (name, rest) = parts
    if len(flags.data) != 8 or len(sizes.data) % 4 or len(name.data) > LONGEST_NAME:
        raise DatasetError("its .mat file is damaged: a variable begins in a form that MATLAB does not write")
    (word,) = struct.unpack_from(f"{order}I", flags.data)
    shape = struct.unpack(f"{order}{len(sizes.data) // 4}i", sizes.data)
    return _Head(word & 0xFF, word >> 8 & 0xFF, shape, bytes(name.data).decode("latin-1"), rest)


def _values(data: memoryview, head: _Head, order: str) -> Array | Sparse:
    if len(head.shape) != 2 or min(head.shape) < 0 or head.flags & COMPLEX:
        raise DatasetError(f"its array {head.name!r} has shape {head.shape}, or complex numbers")
    parts = [_numbers(element, head.name, order) for element, _ in _elements(data, order, head.rest)]
    if head.kind in NUMBER_CLASSES and len(parts) == 1:
        if len(parts[0]) != math.prod(head.shape):
            raise DatasetError(f"its array {head.name!r} has {len(parts[0]):,} values for the shape {head.shape}")
        return parts[0].reshape(head.shape, order="F")
    if head.kind == SPARSE_CLASS and len(parts) == 3:
        row, pointers, values = parts
        return _sparse(row, pointers, values, head)
    raise DatasetError(f"its array {head.name!r} is no array of numbers")


def _sparse(row: Array, pointers: Array, values: Array, head: _Head) -> Sparse:
    """MATLAB keeps room for more entries than there are; the pointers say how many count."""
    used = int(pointers[-1]) if len(pointers) else -1
    if not 0 <= used <= min(len(row), len(values)) or row.dtype.kind == "f" or pointers.dtype.kind == "f":
        raise DatasetError(f"its sparse array {head.name!r} has fewer entries than its columns need")
    return Sparse.of(
        row=row[:used],
        column=rows_of(pointers, head.shape[1], used),
        indptr=None,
        data=values[:used],
        shape=(head.shape[0], head.shape[1]),
    )


def _numbers(element: _Element, name: str, order: str) -> Array:
    code = NUMBERS.get(element.kind)
    if code is None:
        raise DatasetError(f"its array {name!r} is no array of numbers")
    dtype = np.dtype(order + code)
    if len(element.data) % dtype.itemsize:
        raise DatasetError(f"its .mat file is damaged: {name!r} ends within a number")
    return np.frombuffer(element.data, dtype).astype(dtype.newbyteorder("="))
