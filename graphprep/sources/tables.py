"""Features, labels and masks from files that people keep them in, checked before they are used.

Nothing here unpickles. A .npy file is mapped into memory, so features may be larger than it. Numbers that are not
finite, labels that number nothing, and masks that overlap are errors with the row that they are in: in training they
would show as a loss of NaN, an index error in a kernel, or an accuracy that is too good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.whole_file import HEAD_BYTES, substitute

Array = NDArray[Any]
CHECK_BYTES = 16 << 20
"""features are checked so many bytes at a time"""
FEATURE_KINDS = (".npy", ".npz", ".csv", ".parquet")
LABEL_KINDS = (".npy", ".csv", ".txt")


def load_features(path: Path) -> Array:
    """A table of numbers, [N, F], in the dtype of the file (text: float32).

    Args:
        path: .npy; .npz with one array, or a sparse matrix as SciPy saves it; .csv; .parquet.

    Raises:
        DatasetError: it is of another kind, damaged, not a table of numbers, or holds a NaN or an infinity.
    """
    with _reading(path, FEATURE_KINDS):
        match path.suffix:
            case ".npy":
                x = np.load(path, mmap_mode="r", allow_pickle=False)
            case ".npz":
                x = _from_npz(path)
            case ".csv":
                x = _from_csv(path)
            case _:
                x = _from_parquet(path)
        if x.ndim == 1:
            x = x[:, None]
        if x.ndim != 2 or x.dtype.kind not in "biuf" or not x.size:
            raise DatasetError(f"it holds shape {x.shape} and dtype {x.dtype}, not a table of numbers, one row a node")
        if x.dtype.kind == "b":
            x = x.astype(np.uint8)
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        _require_finite(x)
    return np.asanyarray(x)


def load_labels(path: Path) -> Array:
    """Labels: int64 [N] with -1 for none, or for several labels a node bool or float [N, C].

    Args:
        path: .npy; .csv or .txt with one class a line.

    Raises:
        DatasetError: it is of another kind, damaged, or holds something that is no label.
    """
    with _reading(path, LABEL_KINDS):
        y = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _label_lines(path)
        if not y.size:
            raise DatasetError("it holds no labels")
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim == 2:
            return _label_table(y)
        if y.ndim != 1 or y.dtype.kind not in "iuf":
            raise DatasetError(f"it holds shape {y.shape} and dtype {y.dtype}, not one class a node")
        if y.dtype.kind == "f":
            y = np.where(np.isnan(y), -1, y)
            if (odd := _first(~np.isfinite(y) | (y != np.floor(y)))) is not None:
                raise DatasetError(f"row {odd} is {y[odd]}, not the number of a class")
        if (odd := _first((y < -1) | (y >= max(len(y), 2)))) is not None:
            raise DatasetError(
                f"row {odd} has the class {y[odd]}: classes are numbered from 0, -1 is no class, and there cannot be "
                f"more of them than the {len(y):,} nodes"
            )
    return y.astype(np.int64)


def load_mask(path: Path, num_nodes: int) -> NDArray[np.bool_]:
    """A mask, bool [N, S].

    Args:
        path: .npy with truth values or 0 and 1, [N] or [N, S], or with the numbers of the nodes.
        num_nodes: N.

    Raises:
        DatasetError: it is of another kind, damaged, or does not fit N nodes.
    """
    with _reading(path, (".npy",)):
        array = np.load(path, allow_pickle=False)
        if array.dtype.kind not in "biu" or array.ndim not in (1, 2):
            raise DatasetError(f"it holds shape {array.shape} and dtype {array.dtype}, neither a mask nor node numbers")
        flags = array.dtype.kind == "b" or (
            len(array) == num_nodes and (array.ndim == 2 or num_nodes > 2) and bool(((array == 0) | (array == 1)).all())
        )
        if flags:
            if len(array) != num_nodes:
                raise DatasetError(f"it holds {len(array):,} rows for {num_nodes:,} nodes")
            return np.asarray(array, np.bool_).reshape(num_nodes, -1)
        if array.ndim != 1:
            raise DatasetError(f"it holds shape {array.shape}, but a mask has one row for each of {num_nodes:,} nodes")
        if (odd := _first((array < 0) | (array >= num_nodes))) is not None:
            raise DatasetError(f"entry {odd} is the node {array[odd]}, but nodes are 0 .. {num_nodes - 1:,}")
        mask = np.zeros((num_nodes, 1), np.bool_)
        mask[array] = True
        if int(mask.sum()) != len(array):
            raise DatasetError("it names a node twice")
    return mask


def require_disjoint(masks: Mapping[str, NDArray[np.bool_]]) -> None:
    """Masks of one split may not share a node.

    Args:
        masks: bool [N, S] by the path that they came from.

    Raises:
        DatasetError: two do, or they are for different numbers of splits.
    """
    seen: list[tuple[str, NDArray[np.bool_]]] = []
    for name, mask in masks.items():
        for other_name, other in seen:
            if mask.shape != other.shape:
                raise DatasetError(
                    f"{name} has {mask.shape[1]} splits but {other_name} has {other.shape[1]}; they must agree"
                )
            if (shared := _first((mask & other).any(axis=1))) is not None:
                raise DatasetError(
                    f"{name} and {other_name} share the node {shared}; a node can be in one of them only"
                )
        seen.append((name, mask))


@contextmanager
def _reading(path: Path, kinds: tuple[str, ...]) -> Iterator[None]:
    """Gives every failure to read `path` one sentence that begins with its name."""
    if path.suffix not in kinds:
        raise DatasetError(f"{path} is none of {', '.join(kinds)}; convert it to one of them")
    try:
        with path.open("rb") as stream:
            if reason := substitute(stream.read(HEAD_BYTES)):
                raise DatasetError(reason)
        yield
    except DatasetError as problem:
        raise DatasetError(f"{path} cannot be used: {problem}") from problem
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read ({problem.strerror or problem})") from problem
    except Exception as problem:  # zipfile, zlib, tokenize and Arrow each have their own for a damaged file
        raise DatasetError(f"{path} is damaged, or is not what its name says ({problem})") from problem


def _from_npz(path: Path) -> Array:
    with np.load(path, allow_pickle=False) as archive:
        names = archive.files
        if "format" not in names:
            if len(names) != 1:
                raise DatasetError(f"it holds the arrays {', '.join(names)}, where one is wanted")
            return np.asarray(archive[names[0]])
    import scipy.sparse

    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # toarray trusts the indices
    return np.asarray(matrix.toarray())


def _from_csv(path: Path) -> Array:
    from pyarrow import csv

    with path.open("rb") as stream:
        first = stream.readline().strip().split(b",")
    names = not any(_is_number(field) for field in first)
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(autogenerate_column_names=not names),
        convert_options=csv.ConvertOptions(null_values=[], strings_can_be_null=False),
    )
    return _columns(table).astype(np.float32)


def _from_parquet(path: Path) -> Array:
    import pyarrow.parquet as pq

    return _columns(pq.read_table(path))


def _columns(table: Any) -> Array:
    """An Arrow table's columns beside each other, [N, F]."""
    import pyarrow as pa

    for number, column in enumerate(table.columns):
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            words = ((row, str(value)) for row, value in enumerate(column.to_pylist()))
            odd = next((f": row {row} has {word[:40]!r}" for row, word in words if not _is_number(word.encode())), "")
            raise DatasetError(f"column {table.column_names[number]!r} is not of numbers{odd}")
        if column.null_count:
            raise DatasetError(f"column {table.column_names[number]!r} has {column.null_count:,} rows without a value")
    if not table.num_columns:
        raise DatasetError("it has no columns")
    return np.column_stack([column.to_numpy() for column in table.columns])


def _label_lines(path: Path) -> Array:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    words = [(number, text) for number, line in enumerate(lines, 1) if (text := line.strip()) and text[0] not in "#%"]
    if path.suffix == ".csv" and words and not _is_number(words[0][1].encode()):
        words = words[1:]
    for number, text in words:
        if not text.removeprefix("-").isdecimal() or len(text) > 18:
            raise DatasetError(f"line {number} is {text[:40]!r}, not the number of a class")
    return np.array([int(text) for _, text in words], np.int64)


def _label_table(y: Array) -> Array:
    """Several labels a node: truth values, or numbers with NaN for unknown."""
    if y.dtype.kind in "iu" and bool(((y == 0) | (y == 1)).all()):
        return y.astype(np.bool_)
    if y.dtype.kind == "b":
        return y
    if y.dtype.kind != "f" or bool(np.isinf(y).any()):
        raise DatasetError(
            f"it holds shape {y.shape} and dtype {y.dtype}, not 0 or 1 (or NaN for unknown) for each label"
        )
    return y.astype(y.dtype.newbyteorder("="))


def _require_finite(x: Array) -> None:
    if x.dtype.kind != "f" or not x.size:
        return
    rows = max(1, CHECK_BYTES // (x.shape[1] * x.itemsize))
    for start in range(0, len(x), rows):
        if (odd := _first(~np.isfinite(x[start : start + rows]).all(axis=1))) is not None:
            raise DatasetError(f"row {start + odd} holds a value that is not finite")


def _first(flags: Any) -> int | None:
    """The position of the first true flag."""
    position = int(np.argmax(flags)) if len(flags) else 0
    return position if len(flags) and flags[position] else None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
