"""Arrays from .npy and .npz files, read without unpickling and checked against what is expected of them.

NumPy marks arrays of Python objects as pickles; they are refused by name, and a member that nobody asks for is not
looked at, so an archive may carry such metadata. A header can claim any shape: an array that is longer than its member
is an error, and one that is shorter than it too.

Sparse matrices come in SciPy's layout (`format`, `shape`, and `data` with `indices`, `indptr` or `row`, `col`), or with
the same names behind a prefix (`adj_indices`). Every index is compared with the shape before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.regular_file import regular_file
from graphprep.sources.archive import Archive, in_plain_words
from graphprep.whole_file import HEAD_BYTES, substitute

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
        with self.archive.open(f"{name}.npy") as stream:
            return read_npy(stream, name, kinds, shape)

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
        with self.archive.open(f"{prefix}format.npy") as stream:
            word = read_npy(stream, "format", "SU", ())
        layout = word.item()
        layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else layout
        if layout not in ("csr", "csc", "coo"):
            raise DatasetError(f"its sparse matrix has the format {layout!r}, none of csr, csc and coo")
        return str(layout)


def check_npz(path: Path) -> None:
    """Read all members to their end; for `file_check`."""
    with Archive(path) as archive:
        archive.check()


def read_npy(stream: IO[bytes], name: str, kinds: str, shape: Shape) -> Array:
    """The one array in a .npy stream; see `Npz.array`."""
    try:
        with in_plain_words(f"its array {name!r} is damaged"):
            array = np.lib.format.read_array(stream, allow_pickle=False)
            more = stream.read(1)
    except DatasetError as problem:
        if "allow_pickle" in str(problem):
            raise DatasetError(f"its array {name!r} is of Python objects, which only running a pickle reads") from None
        raise
    if more:
        raise DatasetError(f"its array {name!r} is damaged (bytes follow after its end)")
    return _expected(array, name, kinds, shape)


def map_npy(path: Path, kinds: str, shape: Shape) -> Array:
    """A .npy file as a read-only memory map.

    Raises:
        DatasetError: it is damaged, of another dtype or shape; as the end of a sentence.
        OSError: it cannot be read.
    """
    with regular_file(path).open("rb") as stream:
        if suspect := substitute(stream.read(HEAD_BYTES)):
            raise DatasetError(suspect)
    try:
        with in_plain_words("it is damaged, or no .npy file"):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            if not isinstance(array, np.memmap):
                raise DatasetError("it is no .npy file")
    except DatasetError as problem:
        if "pickle" in str(problem):
            raise DatasetError("it is no .npy file of numbers") from None
        raise
    expected, size = array.offset + array.nbytes, path.stat().st_size
    if size != expected:
        raise DatasetError(f"it has {size:,} bytes where its header asks for {expected:,}")
    return _expected(array, path.name, kinds, shape)


def _expected(array: Array, name: str, kinds: str, shape: Shape) -> Array:
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype.kind not in kinds or not fits:
        words = " or ".join(dict.fromkeys(KINDS.get(kind, "text") for kind in kinds))
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        raise DatasetError(
            f"its array {name!r} has dtype {array.dtype} and shape {array.shape}, not {words} of shape ({sizes})"
        )
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
        with in_plain_words(f"its matrix of {self.shape[0]:,} x {self.shape[1]:,} is too large"):
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
