"""Python 2 pickles of arrays, sparse matrices and adjacency lists, read without running anything that they name.

A pickle is a program: it names functions and calls them. Here only nine names resolve, and all but `list` and
`defaultdict` resolve to the inert stand-ins below, which keep what they are called with. NumPy's and SciPy's own
classes never see the file: their state setters trust it (a doctored dtype or a matrix with indices out of range reads
memory that is not its own). Arrays are then built from the kept bytes, after their sizes have been compared.
"""

from __future__ import annotations

import collections
import contextlib
import math
import pickle
import pickletools
import re
import reprlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.arrays import Sparse
from graphprep.errors import DatasetError
from graphprep.system.files.regular_file import regular_file

MEMO_NAMES = ("PUT", "BINPUT", "LONG_BINPUT")
PLAIN_DTYPE = re.compile(r"[biuf][1248]")
"""numbers and truth values; no objects, no strings, no records"""


class PickledDtype:
    """Stands for numpy.dtype."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code, self.byte_order = code, "="

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "="):
            self.byte_order = state[1]
        else:
            raise DatasetError("it holds a dtype with a state that NumPy does not write")

    def plain(self) -> np.dtype[Any]:
        if not isinstance(self.code, str) or not PLAIN_DTYPE.fullmatch(self.code):
            raise DatasetError(f"it holds an array of dtype {reprlib.repr(self.code)}, not of numbers")
        try:
            return np.dtype(self.byte_order + self.code)
        except TypeError as problem:  # f1, b8
            raise DatasetError(
                f"it holds an array of dtype {reprlib.repr(self.code)}, which does not exist"
            ) from problem


class _Kept:
    """Keeps the state that it is given."""

    def __init__(self, *_: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class PickledArray(_Kept):
    """Stands for numpy.ndarray."""

    def plain(self) -> NDArray[Any]:
        """The array, with its bytes in this machine's order."""
        match self.state:
            case (_, tuple(shape), PickledDtype() as dtype, fortran, (bytes() | str()) as raw):
                data = raw.encode("latin1") if isinstance(raw, str) else raw
            case _:
                raise DatasetError("it holds an array in a form that NumPy does not write")
        kind = dtype.plain()
        if not all(isinstance(size, int) and size >= 0 for size in shape) or len(shape) > 2:
            raise DatasetError(f"it holds an array of the shape {reprlib.repr(shape)}")
        if math.prod(shape) * kind.itemsize != len(data):
            raise DatasetError(
                f"it holds {len(data):,} bytes for an array of shape {reprlib.repr(shape)} and dtype {kind}"
            )
        array = np.frombuffer(data, kind).reshape(shape, order="F" if fortran else "C")
        return array.astype(kind.newbyteorder("="))


class PickledCsr(_Kept):
    """Stands for scipy.sparse.csr_matrix."""

    def dense(self) -> NDArray[np.float32]:
        """The whole matrix, float32 [rows, columns]; entries given twice are added, as SciPy does.

        Raises:
            DatasetError: the three arrays do not make a matrix of the stated shape, or a value is not finite.
        """
        if not isinstance(self.state, dict):
            raise DatasetError("it holds a sparse matrix in a form that SciPy does not write")
        indptr, indices, data = (self._array(name) for name in ("indptr", "indices", "data"))
        shape = self.state.get("_shape")
        match shape:
            case (int(rows), int(columns)) if rows >= 0 and columns >= 0:
                pass
            case _:
                raise DatasetError(f"it holds a sparse matrix of the shape {reprlib.repr(shape)}")
        if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise DatasetError("it holds a sparse matrix whose indices are not integers or whose values are no numbers")
        return Sparse.of(row=None, column=indices, indptr=indptr, data=data, shape=(rows, columns)).dense()

    def _array(self, name: str) -> NDArray[Any]:
        array = self.state.get(name) if isinstance(self.state, dict) else None
        array = array.plain() if isinstance(array, PickledArray) else None
        if array is None or array.ndim != 1:
            raise DatasetError(f"it holds a sparse matrix without the array {name!r}")
        return array


def _reconstruct(*_: object) -> PickledArray:
    return PickledArray()


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): PickledDtype,
    ("numpy", "ndarray"): PickledArray,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): PickledCsr,
    ("scipy.sparse._csr", "csr_matrix"): PickledCsr,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class PlainUnpickler(pickle.Unpickler):
    """Resolves the names of `ALLOWED` alone."""

    opener = "pickle"
    """what people may have in mind to open such a file with"""

    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return ALLOWED[module_name, global_name]
        except KeyError:
            raise DatasetError(
                f"it asks for {module_name}.{global_name}, which data has no need of; do not open it with "
                f"`{self.opener}`"
            ) from None


def require_small_memo(program: IO[bytes], num_bytes: int) -> None:
    """Refuse a pickle that numbers what it remembers beyond its own length; leaves the stream at its beginning.

    Python's unpickler makes a table as long as the largest such number, so that ten bytes take gigabytes.

    Args:
        program: the pickle, at its beginning.
        num_bytes: of it.

    Raises:
        DatasetError: it does; as the end of a sentence. What else is wrong is left to the unpickler.
    """
    largest = 0
    with contextlib.suppress(ValueError, EOFError, LookupError, ArithmeticError, MemoryError):
        for operation, number, _ in pickletools.genops(program):
            if operation.name in MEMO_NAMES and isinstance(number, int) and number > num_bytes:
                largest = number
                break
    program.seek(0)
    if largest:
        raise DatasetError(
            f"it is a damaged pickle (it remembers a value as number {largest:,} in {num_bytes:,} bytes)"
        )


def load(path: Path) -> object:
    """The one value in the pickle at `path`: a number, text, list or mapping, an array, or a PickledCsr.

    Raises:
        DatasetError: a name outside `ALLOWED`, a pickle that is cut short or damaged, bytes after its end. The
            message is the end of a sentence that begins with the file.
        OSError: it cannot be read.
    """
    with regular_file(path).open("rb") as stream:
        require_small_memo(stream, path.stat().st_size)
        try:
            value = PlainUnpickler(stream, encoding="latin1").load()
        except DatasetError:
            raise
        except EOFError as problem:
            raise DatasetError("it is cut short") from problem
        except MemoryError as problem:
            raise DatasetError("it is a damaged pickle (it asks for more memory than there is)") from problem
        except Exception as problem:  # the pickle module lets out whatever the damaged program runs into
            cut = "truncated" in str(problem) or "ran out of input" in str(problem).lower()
            words = "it is cut short" if cut else f"it is a damaged pickle, or none ({str(problem)[:300]})"
            raise DatasetError(words) from problem
        if stream.read(1):
            raise DatasetError("it has more bytes after the end of its pickle")
    return value.plain() if isinstance(value, PickledArray) else value
