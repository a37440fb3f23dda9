"""Features, labels, masks and times of nodes from files, checked.

Files are read by `table_files`; a .npy file stays a memory map, so features may be larger than memory. Numbers that are
not finite, labels that number nothing, and masks that overlap are errors with the row that they are in: in training
they would show as a loss of NaN, an index error in a kernel, or an accuracy that is too good.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.datasets.formats.checks import node_mask
from graphprep.datasets.formats.dtypes import storable
from graphprep.datasets.formats.labels import checked_labels
from graphprep.datasets.importing.table_files import (
    TEXT,
    TableOptions,
    kind_of_table,
    read_array,
    read_lines,
    reading,
)
from graphprep.errors import DatasetError

Array = NDArray[Any]
CHECK_BYTES = 16 << 20
"""features are checked so many bytes at a time"""
FEATURE_KINDS = LABEL_KINDS = (".npy", ".npz", *TEXT, ".parquet", ".pq")


def load_features(path: Path, options: TableOptions | None = None) -> Array:
    """A table of numbers, [N, F], in the dtype of the file (text: float32).

    Args:
        path: .npy; .npz with one array, or a sparse matrix as SciPy saves it; .csv, .tsv, .txt; .parquet.
        options: how to read a table.

    Raises:
        DatasetError: it is of another kind, damaged, not a table of numbers, or holds a NaN or an infinity.
    """
    with reading(path, FEATURE_KINDS):
        x = read_array(path, options)
        return checked_features(x.astype(np.float32) if kind_of_table(path) in TEXT else x, str(path))


def checked_features(x: Array, origin: str = "features") -> Array:
    """`x` as features: [N, F], native byte order, truth values as uint8, long doubles as float64.

    Raises:
        DatasetError: it is no table of finite numbers; as the end of a sentence, as are those of all `checked_...`.
    """
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or x.dtype.kind not in "biuf" or not x.size:
        raise DatasetError(f"it holds shape {x.shape} and dtype {x.dtype}, not a table of numbers, one row a node")
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    x = storable(x, origin)
    _require_finite(x)
    return x


def load_labels(path: Path, options: TableOptions | None = None, *, task: LabelTask = "auto") -> Array:
    """Labels: int64 [N] with -1 for none, or for several labels (or numbers to predict) a node bool or float [N, C].

    Args:
        path: .npy; .npz with one array; .parquet; .csv, .tsv or .txt with one class a line, or a table of 0 and 1.
        options: how to read a table.
        task: what the labels are for; see `labels.checked_labels`.

    Raises:
        DatasetError: it is of another kind, damaged, or holds something that is no label.
    """
    with reading(path, LABEL_KINDS):
        if task == "regression":
            y = np.array(read_array(path, options))
        else:
            y = _whole(path, "the number of a class", options)
        return checked_labels(y, task=task, origin=str(path), is_table=kind_of_table(path) not in (".npy", ".npz"))


def load_mask(path: Path, num_nodes: int, options: TableOptions | None = None) -> NDArray[np.bool_]:
    """A mask, bool [N, S].

    Args:
        path: .npy, .npz, .parquet, .csv, .tsv or .txt with truth values or 0 and 1, [N] or [N, S], or with the numbers
            of the nodes.
        num_nodes: N.
        options: how to read a table.

    Raises:
        DatasetError: it is of another kind, damaged, or does not fit N nodes.
    """
    array = load_mask_array(path, replace(options or TableOptions(), rows=num_nodes))
    with reading(path, LABEL_KINDS):
        return checked_mask(array, num_nodes)


def load_mask_array(path: Path, options: TableOptions | None = None) -> Array:
    """What a file of a mask, or of node numbers, holds; unchecked.

    Raises:
        DatasetError: it is of another kind, or damaged.
    """
    with reading(path, LABEL_KINDS):
        array = _whole(path, "the number of a node", options)
        return array[:, 0] if kind_of_table(path) in (".parquet", ".pq") and array.shape[1:] == (1,) else array


def is_mask(array: Array, num_nodes: int) -> bool:
    """Whether an array is a mask of N nodes, and no list of their numbers."""
    if array.dtype.kind != "b" and (array.dtype.kind not in "iu" or len(array) != num_nodes):
        return False
    return array.dtype.kind == "b" or ((array.ndim == 2 or num_nodes > 2) and bool(((array == 0) | (array == 1)).all()))


def checked_mask(array: Array, num_nodes: int) -> NDArray[np.bool_]:
    """`array` as a mask; see `load_mask`.

    Raises:
        DatasetError: it does not fit N nodes.
    """
    if array.dtype.kind not in "biu" or array.ndim not in (1, 2):
        raise DatasetError(f"it holds shape {array.shape} and dtype {array.dtype}, neither a mask nor node numbers")
    if is_mask(array, num_nodes):
        if len(array) != num_nodes:
            raise DatasetError(f"it holds {len(array):,} rows for {num_nodes:,} nodes")
        return np.asarray(array, np.bool_).reshape(num_nodes, -1)
    if array.ndim != 1:
        raise DatasetError(f"it holds shape {array.shape}, but a mask has one row for each of {num_nodes:,} nodes")
    if (odd := _first((array < 0) | (array >= num_nodes))) is not None:
        raise DatasetError(f"entry {odd} is the node {array[odd]}, but nodes are 0 .. {num_nodes - 1:,}")
    return node_mask(array, num_nodes, "it")


def load_times(path: Path, options: TableOptions | None = None) -> Array:
    """One time a node, int64 or float64 [N].

    Raises:
        DatasetError: it is of another kind, damaged, or holds something else.
    """
    with reading(path, LABEL_KINDS):
        return checked_times(_whole(path, "a time as a whole number", options))


def checked_times(times: Array) -> Array:
    """`times` as int64 or float64 [N].

    Raises:
        DatasetError: it is not one finite number a node.
    """
    if times.ndim == 2 and times.shape[1] == 1:
        times = times[:, 0]
    if times.ndim != 1 or times.dtype.kind not in "iuf":
        raise DatasetError(f"it holds shape {times.shape} and dtype {times.dtype}, not one time a node")
    converted = times.astype(np.float64 if times.dtype.kind == "f" else np.int64)
    if (odd := _first(~np.isfinite(converted))) is not None:
        raise DatasetError(f"row {odd} has the time {times[odd]}")
    return converted


def _whole(path: Path, what: str, options: TableOptions | None) -> Array:
    """What a file holds, in memory; text has `what` in each line, for messages."""
    return read_lines(path, what, options) if kind_of_table(path) in TEXT else np.array(read_array(path, options))


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
