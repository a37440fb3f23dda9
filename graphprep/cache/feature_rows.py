"""Rows of features on their way from the store into a cache: scaled in float64, then changed to another type.

Columns take one more pass over the store; sums and squares are shifted by the first row, so that a large mean costs no
digits.

Letters: N nodes, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.features import FeatureOptions
from graphprep.core import bfloat16
from graphprep.core.source import GraphSource
from graphprep.errors import UsageError
from graphprep.system import progress

NAMED: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": bfloat16.BFLOAT16,
}
Treat = Callable[[NDArray[Any]], NDArray[Any]]


def treatment(options: FeatureOptions, source: GraphSource, node_type: str, rows_at_a_time: int) -> Treat:
    """A function from rows as they are stored, [n, F], to rows of the cache."""
    array = source.node_array(node_type, "x")
    assert array is not None
    dtype = options.dtype(array.dtype)
    if options.scale_features == "rows":
        return lambda rows: as_type(_by_row(rows), dtype)
    if options.scale_features == "columns":
        mean_F, deviation_F = _moments(source, node_type, rows_at_a_time)
        return lambda rows: as_type((_wide(rows) - mean_F) / deviation_F, dtype)
    return lambda rows: as_type(rows, dtype)


def as_type(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers in another type, bfloat16 among them; themselves if that is theirs.

    Raises:
        UsageError: a finite number would become infinite.
    """
    if rows.dtype == dtype:
        return rows
    numbers = bfloat16.to_float32(rows)
    if bfloat16.is_bfloat16(dtype):
        return bfloat16.from_floats(numbers)
    with np.errstate(over="ignore"):
        found = numbers.astype(dtype, copy=False)
    if dtype.kind == "f" and dtype.itemsize < numbers.dtype.itemsize:
        lost = ~np.isfinite(found) & np.isfinite(numbers)
        if lost.any():
            raise UsageError(
                f"--features {dtype} cannot hold {numbers[lost][0]:g}, which lies beyond {np.finfo(dtype).max:g}; use "
                "--features bfloat16 or float32, or --scale-features"
            )
    return found


def _wide(rows: NDArray[Any]) -> NDArray[np.float64]:
    return bfloat16.to_float32(rows).astype(np.float64)


def _by_row(rows: NDArray[Any]) -> NDArray[np.float64]:
    wide = _wide(rows)
    sums = np.abs(wide).sum(axis=1, keepdims=True)
    return np.asarray(wide / np.where(sums > 0, sums, 1.0))


def _moments(
    source: GraphSource, node_type: str, rows_at_a_time: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column, float64 [F]; a deviation of 0 is given as infinite."""
    count, shift_F, sum_F, square_F = 0, None, 0.0, 0.0
    total = source.num_nodes[node_type]
    with progress.task(f"mean and deviation of {node_type} x", total=total, unit="rows") as task:
        for _, rows in source.rows(node_type, "x", rows_at_a_time):
            wide = _wide(rows)
            if shift_F is None:
                shift_F = wide[0].copy()
            wide -= shift_F
            sum_F, square_F = sum_F + wide.sum(axis=0), square_F + (wide * wide).sum(axis=0)
            count += len(rows)
            task.advance(len(rows))
    if shift_F is None:
        return np.zeros(()), np.ones(())
    mean_F = np.asarray(sum_F / count)
    deviation_F = np.sqrt(np.maximum(np.asarray(square_F / count) - mean_F**2, 0.0))
    return mean_F + shift_F, np.where(deviation_F > 0, deviation_F, np.inf)
