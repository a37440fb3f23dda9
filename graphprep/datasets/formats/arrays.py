"""Arrays from .npy and .npz files, read without unpickling and checked against what is expected of them.

NumPy marks arrays of Python objects as pickles; they are refused by name, and a member that is not requested is not
read, so an archive may carry such metadata. A header can claim any shape: it is compared with the bytes that are
there, with what is expected and with the memory that is left before anything is allocated.

Sparse matrices come in SciPy's layout (`format`, `shape`, and `data` with `indices`, `indptr` or `row`, `col`), or with
the same names behind a prefix (`adj_indices`). Every index is compared with the shape before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.system import memory
from graphprep.system.files.archive import COPY_BYTES, Archive, in_plain_words
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import HEAD_BYTES, substitute

Array = NDArray[Any]
Shape = Sequence[int | None]
"""the sizes that an array must have; None where any will do"""
CHUNK_ENTRIES = 1 << 22
KINDS = {"b": "truth values", "i": "integers", "u": "integers", "f": "numbers"}


class Npz:
    """An .npz file. Its errors are the ends of sentences that begin with the file."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.names = frozenset(name.removesuffix(".npy") for name in archive.names)

    def array(self, name: str, kinds: str, shape: Shape) -> Array:
        """One array, with its bytes in this machine's order.

        Args:
            name: without .npy.
            kinds: NumPy's letters of the dtypes that will do: "b", "i", "u", "f".
            shape: what it must have.

        Raises:
            DatasetError: it is missing, damaged, an array of objects, or of another dtype or shape.
        """
        if name not in self.names:
            raise DatasetError(f"it has no array {name!r}; there are {', '.join(sorted(self.names)) or 'none'}")
        return member_array(self.archive, f"{name}.npy", kinds, shape, name=name)

    def sparse(self, prefix: str = "", *, values: bool = True) -> Sparse:
        """A sparse matrix in SciPy's layout, each name behind `prefix`; `values` False leaves the data unread."""
        shape = self.array(f"{prefix}shape", "iu", (2,))
        rows, columns = (int(size) for size in shape)
        if min(rows, columns) < 0 or max(rows, columns) >= 2**62:
            raise DatasetError(f"its {prefix or 'sparse '}matrix has the shape ({rows}, {columns})")
        layout = self._layout(prefix)
        data = self.array(f"{prefix}data", "biuf", (None,)) if values else None
        if layout == "coo":
            row, column = (self.array(f"{prefix}{name}", "iu", (None,)) for name in ("row", "col"))
            return Sparse.of(row=row, column=column, indptr=None, data=data, shape=(rows, columns))
        indptr, indices = (self.array(f"{prefix}{name}", "iu", (None,)) for name in ("indptr", "indices"))
        if layout == "csc":
            row = rows_of(indptr, columns, len(indices))
            return Sparse.of(row=indices, column=row, indptr=None, data=data, shape=(rows, columns))
        return Sparse.of(row=None, column=indices, indptr=indptr, data=data, shape=(rows, columns))

    def _layout(self, prefix: str) -> str:
        if f"{prefix}format" not in self.names:
            return "coo" if f"{prefix}row" in self.names else "csr"
        word = member_array(self.archive, f"{prefix}format.npy", "SU", (), name="format")
        layout = word.item()
        layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else layout
        if layout not in ("csr", "csc", "coo"):
            raise DatasetError(f"its sparse matrix has the format {layout!r}, none of csr, csc and coo")
        return str(layout)


def check_npz(path: Path) -> None:
    """Read all members to their end; for `file_check`."""
    with Archive(path) as archive:
        archive.check()


def member_array(archive: Archive, member: str, kinds: str, shape: Shape, *, name: str | None = None) -> Array:
    """The one array in a .npy member; see `Npz.array`. `name` is what errors call it, if not `member`."""
    num_bytes = archive.size(member)
    with archive.open(member) as stream:
        return read_npy(stream, num_bytes, name or member, kinds, shape)


def read_npy(stream: IO[bytes], num_bytes: int, name: str, kinds: str, shape: Shape) -> Array:
    """The one array in a .npy stream of `num_bytes` bytes; see `Npz.array`."""
    what = f"its array {name!r}"
    actual_shape, fortran, dtype = npy_header(stream, num_bytes, what)
    _require_fits(actual_shape, dtype, name, kinds, shape)
    size = math.prod(actual_shape) * dtype.itemsize
    memory.require_memory(size, what)
    with in_plain_words(f"{what} is damaged"):
        data = read_exactly(stream, size, what)
        flat = np.frombuffer(data, dtype) if size else np.empty(math.prod(actual_shape), dtype)
        array = flat.reshape(actual_shape[::-1]).T if fortran else flat.reshape(actual_shape)
    return _native(array)


def read_exactly(stream: IO[bytes], num_bytes: int, what: str, *, to_end: bool = True) -> bytearray:
    """So many bytes of a stream, after which it ends if `to_end`.

    Raises:
        DatasetError: there are fewer or more.
    """
    data = bytearray(num_bytes)
    filled = 0
    while filled < num_bytes and (piece := stream.read(min(COPY_BYTES, num_bytes - filled))):
        data[filled : filled + len(piece)] = piece
        filled += len(piece)
    more = to_end and stream.read(1)  # also makes the archive compare its checksum
    if filled < num_bytes or more:
        raise DatasetError(f"{what} is damaged ({'bytes follow after its end' if more else 'it is cut short'})")
    return data


def npy_header(stream: IO[bytes], num_bytes: int, what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether it is stored by columns, and the dtype of an array, before anything of it is allocated.

    Args:
        stream: at its beginning.
        num_bytes: of all of it.
        what: the array is, the subject of the sentence.

    Raises:
        DatasetError: it is damaged, of Python objects, or not as long as its header says.
    """
    with in_plain_words(f"{what} is damaged, or no .npy file"):
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise DatasetError(f"{what} is of Python objects, which only running a pickle reads")
    expected = stream.tell() + math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or expected != num_bytes:
        raise DatasetError(
            f"{what} is damaged: it has {num_bytes:,} bytes where its header asks for {expected:,}, as {dtype} of the "
            f"shape {shape}"
        )
    return shape, fortran, dtype


def map_npy(path: Path, kinds: str | None = None, shape: Shape = ()) -> Array:
    """A .npy file as a read-only memory map, of any dtype and shape unless they are said.

    Raises:
        DatasetError: it is damaged, of another dtype or shape; as the end of a sentence.
        OSError: it cannot be read.
    """
    with regular_file(path).open("rb") as stream:
        if suspect := substitute(stream.read(HEAD_BYTES)):
            raise DatasetError(suspect)
        stream.seek(0)
        actual_shape, _, dtype = npy_header(stream, path.stat().st_size, "it")
    if kinds is not None:
        _require_fits(actual_shape, dtype, path.name, kinds, shape)
    with in_plain_words("it is damaged, or no .npy file"):
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _native(array)


def _require_fits(actual_shape: tuple[int, ...], dtype: np.dtype[Any], name: str, kinds: str, shape: Shape) -> None:
    fits = len(actual_shape) == len(shape) and all(
        required in (None, size) for size, required in zip(actual_shape, shape, strict=True)
    )
    if dtype.kind not in kinds or not fits:
        words = " or ".join(dict.fromkeys(KINDS.get(kind, "text") for kind in kinds))
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        raise DatasetError(
            f"its array {name!r} has dtype {dtype} and shape {actual_shape}, not {words} of shape ({sizes})"
        )


def _native(array: Array) -> Array:
    """With its bytes in this machine's order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """The stored entries of a matrix, in the file's order, with no index outside its shape."""

    row: NDArray[np.integer[Any]] | None
    """[entries], or None where `indptr` says it"""
    indptr: NDArray[np.integer[Any]] | None
    """[rows + 1]"""
    column: NDArray[np.integer[Any]]
    data: Array | None
    shape: tuple[int, int]

    @classmethod
    def of(
        cls, *, row: Array | None, column: Array, indptr: Array | None, data: Array | None, shape: tuple[int, int]
    ) -> Sparse:
        """Check the arrays against each other.

        Raises:
            DatasetError: they do not make a matrix of that shape; as the end of a sentence.
        """
        if indptr is not None:
            _require_pointers(indptr, shape[0], len(column))
        lengths = {len(array) for array in (row, column, data) if array is not None}
        if len(lengths) > 1:
            raise DatasetError(f"its sparse matrix has indices and values of different lengths {sorted(lengths)}")
        for index, size in ((row, shape[0]), (column, shape[1])):
            if index is not None and len(index) and not 0 <= int(index.min()) <= int(index.max()) < size:
                odd = int(np.argmax((index < 0) | (index >= size)))
                raise DatasetError(f"its sparse matrix has the index {index[odd]:,}, outside 0 .. {size - 1:,}")
        return cls(row=row, indptr=indptr, column=column, data=data, shape=shape)

    def __len__(self) -> int:
        return len(self.column)

    def entries(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Runs of (row, column), int64; rows are made as they are needed."""
        for start in range(0, len(self), CHUNK_ENTRIES):
            run = slice(start, min(start + CHUNK_ENTRIES, len(self)))
            yield self._rows(run), self.column[run].astype(np.int64)

    def dense(self) -> NDArray[np.float32]:
        """The whole matrix; entries given twice are added, as SciPy does.

        Raises:
            DatasetError: a value is not finite, or it does not fit into memory.
        """
        if self.data is None or not np.isfinite(self.data).all():
            raise DatasetError("its sparse matrix has values that are not finite")
        what = f"its matrix of {self.shape[0]:,} x {self.shape[1]:,}"
        memory.require_memory(self.shape[0] * self.shape[1] * np.dtype(np.float32).itemsize, what)
        with in_plain_words(f"{what} is too large"):
            table = np.zeros(self.shape, np.float32)
        np.add.at(table, (self._rows(slice(0, len(self))), self.column), self.data.astype(np.float32))
        return table

    def _rows(self, run: slice) -> NDArray[np.int64]:
        if self.indptr is None:
            assert self.row is not None
            return self.row[run].astype(np.int64)
        first = int(np.searchsorted(self.indptr, run.start, "right")) - 1
        last = int(np.searchsorted(self.indptr, run.stop, "left"))
        bounds = np.clip(self.indptr[first : last + 1].astype(np.int64), run.start, run.stop)
        return np.repeat(np.arange(first, last), np.diff(bounds))


def rows_of(indptr: Array, rows: int, entries: int) -> Array:
    """The row of each entry, int64 [entries]. The pointers are checked first: `rows` is what a header claims.

    Raises:
        DatasetError: the pointers do not fit; as the end of a sentence.
    """
    _require_pointers(indptr, rows, entries)
    return np.repeat(np.arange(rows), np.diff(indptr))


def _require_pointers(indptr: Array, rows: int, entries: int) -> None:
    if len(indptr) != rows + 1 or int(indptr[0]) != 0 or bool((indptr[1:] < indptr[:-1]).any()):
        raise DatasetError(f"its sparse matrix has row pointers that do not fit {rows:,} rows")
    if int(indptr[-1]) != entries:
        raise DatasetError(f"its sparse matrix has {entries:,} indices where its rows need {int(indptr[-1]):,}")
