"""Files of numbers about nodes -> arrays, without a look at what they mean: .npy, .npz, .csv, .txt, .parquet.

Nothing here unpickles. A .npy file is mapped into memory, so it may be larger than it. A table (.csv, .parquet) may
have a column of ids, numbers or words, which say to which node a row belongs; its other columns are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.whole_file import HEAD_BYTES, substitute

Array = NDArray[Any]
TABLES = (".csv", ".parquet")
LONGEST_WORD = 500
"""an array of words takes as much for each as for the longest"""


class IdentifiedRows(NamedTuple):
    """Rows with the ids of their nodes."""

    ids: NDArray[np.int64] | NDArray[np.str_]
    """[rows], none twice"""
    rows: Array
    """numbers [rows, columns]"""


@contextmanager
def reading(path: Path, kinds: tuple[str, ...] | None = None) -> Iterator[None]:
    """Gives every failure to read `path` one sentence that begins with its name.

    Args:
        path: of a file, whose beginning must not show that it is something else.
        kinds: the endings that its name may have; None for any.

    Raises:
        DatasetError: what the block raised, or the file cannot be read.
    """
    if kinds is not None and path.suffix.lower() not in kinds:
        raise DatasetError(f"{path} is none of {', '.join(kinds)}; convert it to one of them")
    try:
        with path.open("rb") as stream:
            if reason := substitute(stream.read(HEAD_BYTES)):
                raise DatasetError(reason)
        yield
    except DatasetError as problem:
        raise DatasetError(f"{path} cannot be used: {problem}") from problem
    except Exception as problem:  # zipfile, zlib, tokenize and Arrow each have their own for a damaged file
        if isinstance(problem, OSError) and problem.strerror:
            raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
        words = " ".join(str(problem).split())
        raise DatasetError(f"{path} is damaged, or is not what its name says ({words})") from problem


def read_array(path: Path) -> Array:
    """The array in a .npy, .npz, .csv or .parquet file; tables and sparse matrices are [rows, columns]."""
    match path.suffix.lower():
        case ".npy":
            return _mapped(path)
        case ".npz":
            return _from_npz(path)
        case ".csv":
            return _columns(_csv_table(path))
        case _:
            return _columns(_parquet_table(path))


def read_identified(path: Path, column: str) -> IdentifiedRows:
    """A table whose column `column` has the ids.

    Raises:
        DatasetError: there is no such column, an id is there twice, or another column is not of numbers.
    """
    with reading(path, TABLES):
        table = _table(path)
        if column not in table.column_names:
            raise DatasetError(f"it has no column {column!r} of ids; there are {', '.join(table.column_names)}")
        ids = _ids(table.column(column), column)
        rest = table.drop_columns([column])
        rows = _columns(rest) if rest.num_columns else np.zeros((len(ids), 0))
    return IdentifiedRows(ids, rows)


def _table(path: Path) -> Any:
    return _csv_table(path) if path.suffix.lower() == ".csv" else _parquet_table(path)


def _ids(column: Any, name: str) -> NDArray[np.int64] | NDArray[np.str_]:
    import pyarrow as pa

    if column.null_count:
        raise DatasetError(f"column {name!r} has {column.null_count:,} rows without an id")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type):
        ids: Array = column.to_numpy()
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= 2**63 - 1):
            odd = int(np.argmin(ids)) if int(ids.min()) < 0 else int(np.argmax(ids))
            raise DatasetError(f"row {odd} has the id {ids[odd]}, which is negative or beyond 64 bits")
        ids = ids.astype(np.int64)
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        words = [word.strip() for word in column.to_pylist()]
        if "" in words:
            raise DatasetError(f"row {words.index('')} has no id")
        ids = word_array(words)
    else:
        raise DatasetError(f"column {name!r} is of {column.type}, but node ids are integers or words")
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if len(twice):
        raise DatasetError(
            f"row {order[twice[0] + 1]} has the id {ids[order[twice[0]]]} of row {order[twice[0]]} again"
        )
    return ids


def word_array(words: list[str]) -> NDArray[np.str_]:
    """Words as an array.

    Raises:
        DatasetError: one has a NUL byte in it, or is too long to be an id.
    """
    for word in words:
        if len(word) > LONGEST_WORD or "\0" in word:
            raise DatasetError(f"the node id {word[:40]!r} ... has more than {LONGEST_WORD} letters, or a NUL byte")
    return np.array(words, np.str_)


def _mapped(path: Path) -> Array:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.memmap):
        raise DatasetError("it is no .npy file")
    expected, size = array.offset + array.nbytes, path.stat().st_size
    if size != expected:
        raise DatasetError(f"it has {size:,} bytes where its header asks for {expected:,}")
    return array


def _from_npz(path: Path) -> Array:
    with np.load(path, allow_pickle=False) as archive:
        names = archive.files
        if "format" not in names:
            if len(names) != 1:
                found = f"the arrays {', '.join(names)}" if names else "no array"
                raise DatasetError(f"it holds {found}, where one is wanted")
            return np.asarray(archive[names[0]])
    import scipy.sparse

    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # toarray trusts the indices
    return np.asarray(matrix.toarray())


def _csv_table(path: Path) -> Any:
    from pyarrow import csv

    with path.open("rb") as stream:
        first = stream.readline().strip().split(b",")
    names = not any(is_number(field) for field in first)
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(autogenerate_column_names=not names),
        convert_options=csv.ConvertOptions(null_values=[], strings_can_be_null=False),
    )


def _parquet_table(path: Path) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def _columns(table: Any) -> Array:
    """An Arrow table's columns beside each other, [N, F]."""
    import pyarrow as pa

    for number, column in enumerate(table.columns):
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            words = ((row, str(value)) for row, value in enumerate(column.to_pylist()))
            odd = next((f": row {row} has {word[:40]!r}" for row, word in words if not is_number(word.encode())), "")
            raise DatasetError(f"column {table.column_names[number]!r} is not of numbers{odd}")
        if column.null_count:
            raise DatasetError(f"column {table.column_names[number]!r} has {column.null_count:,} rows without a value")
    if not table.num_columns:
        raise DatasetError("it has no columns")
    return np.column_stack([column.to_numpy() for column in table.columns])


def read_lines(path: Path, what: str) -> NDArray[np.int64]:
    """One whole number a line; lines that begin with # or %, and the heading of a .csv, are skipped.

    Raises:
        DatasetError: with its number, a line that is not `what`.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    words = [(number, text) for number, line in enumerate(lines, 1) if (text := line.strip()) and text[0] not in "#%"]
    if path.suffix.lower() == ".csv" and words and not is_number(words[0][1].encode()):
        words = words[1:]
    for number, text in words:
        if not text.removeprefix("-").isdecimal() or len(text) > 18:
            raise DatasetError(f"line {number} is {text[:40]!r}, not {what}")
    return np.array([int(text) for _, text in words], np.int64)


def is_number(field: bytes) -> bool:
    """Whether `field` is a number as Python reads it."""
    try:
        float(field)
    except ValueError:
        return False
    return True
