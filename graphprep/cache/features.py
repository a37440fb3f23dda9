"""What is done to node features on their way from the store into a cache.

    as          stored (as they are), float32, float16, bfloat16, or none: the cache then has no features
    scale       none; rows: each row is divided by the sum of its absolute values, as bag-of-words sets are used;
                columns: each column gets mean 0 and deviation 1 over all nodes of the type (a constant one becomes 0)
    aggregate   none; gcn, mean: the sums over neighbours that the first layer of GCN or GraphSAGE begins with are made
                here (`aggregate`) and are stored with the features. With `as` none the cache has GCN's sums alone

Scaling happens in float64 and comes before the change of type, and sums are those of what came out. Columns take one
more pass over the store; sums and squares are shifted by the first row, so that a large mean costs no digits.

Letters: N nodes, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import X_AGGREGATED
from graphprep.core import bfloat16
from graphprep.core.source import GraphSource
from graphprep.errors import UsageError
from graphprep.system import progress

TYPES = ("stored", "float32", "float16", "bfloat16", "none")
SCALES = ("none", "rows", "columns")
AGGREGATES = ("none", "gcn", "mean")
NAMED: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": bfloat16.BFLOAT16,
}
Treat = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureOptions:
    """What a person asks for."""

    features: str = "stored"
    """one of TYPES"""
    scale_features: str = "none"
    """one of SCALES"""
    aggregate_features: str = "none"
    """one of AGGREGATES"""

    def __post_init__(self) -> None:
        if self.features not in TYPES:
            raise UsageError(f"--features {self.features!r} is unknown; use one of {', '.join(TYPES)}")
        if self.scale_features not in SCALES:
            raise UsageError(f"--scale-features {self.scale_features!r} is unknown; use one of {', '.join(SCALES)}")
        if self.aggregate_features not in AGGREGATES:
            known = ", ".join(AGGREGATES)
            raise UsageError(f"--aggregate-features {self.aggregate_features!r} is unknown; use one of {known}")
        if self.aggregate_features == "mean" and self.features == "none":
            raise UsageError(
                "--aggregate-features mean is for GraphSAGE, which needs a node's own features too; "
                "leave --features none away"
            )

    def require_aggregatable(self, source: GraphSource) -> None:
        """Refuse sums over the neighbours of a graph for which they mean nothing.

        Raises:
            UsageError: there are several node or edge types, or no features.
        """
        if self.aggregate_features == "none":
            return
        if len(source.num_nodes) != 1 or len(source.num_edges) != 1:
            raise UsageError(
                f"--aggregate-features {self.aggregate_features} is for graphs of one node type and one edge type, and "
                f"{source.name} has {len(source.num_nodes)} and {len(source.num_edges)}; leave it away"
            )
        [node_type] = source.num_nodes
        if not {"x", X_AGGREGATED} & set(source.node_arrays(node_type)):
            raise UsageError(
                f"--aggregate-features {self.aggregate_features} sums features, and {source.name} has none; "
                "leave it away"
            )

    def dtype(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Of the cache's features; whole numbers that are scaled become float32."""
        if self.features in NAMED:
            return NAMED[self.features]
        if self.scale_features != "none" and stored.kind != "f":
            return NAMED["float32"]
        return stored

    @property
    def dtype_of_sums(self) -> np.dtype[Any]:
        """The dtype of sums over neighbours: the requested one, else float32."""
        return NAMED.get(self.features, NAMED["float32"])

    def treatment(self, source: GraphSource, node_type: str, rows_at_a_time: int) -> Treat:
        """A function from rows as they are stored, [n, F], to rows of the cache."""
        array = source.node_array(node_type, "x")
        assert array is not None
        dtype = self.dtype(array.dtype)
        if self.scale_features == "rows":
            return lambda rows: as_type(_by_row(rows), dtype)
        if self.scale_features == "columns":
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
