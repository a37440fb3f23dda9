"""Do the node tables mean what they say? Checked after reading and before anything is written.

Arrays have a row a node; labels are -1 or a class; splits share no node and train on none without a label; features are
finite. Large arrays are looked at in row ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import NodeTable, RawGraph, row_bytes
from graphprep.errors import DatasetError

BYTES_AT_A_TIME = 64_000_000
WIDEST = 8
"""bytes of a number in a store"""
MASKS = ("train_mask", "val_mask", "test_mask")


def check_nodes(tables: Mapping[str, NodeTable]) -> None:
    """Check every node type.

    Raises:
        DatasetError: the first thing that is wrong, with its numbers.
    """
    for node_type, table in tables.items():
        for name, array in {**table.arrays(), "original_id": table.original_id}.items():
            if array is not None and len(array) != table.num_nodes:
                raise DatasetError(f"nodes {node_type}: {name} has {len(array):,} rows for {table.num_nodes:,} nodes")
        if table.x is not None and table.x.ndim != 2:
            raise DatasetError(f"nodes {node_type}: x has shape {table.x.shape}, not nodes x features")
        if table.x is not None and table.x.dtype.kind == "f":
            _check_finite(node_type, table.x)
        if table.y is not None and table.y.ndim == 1 and len(table.y):
            low = int(table.y.min())
            if low < -1:
                raise DatasetError(f"nodes {node_type}: the label {low} is neither a class nor -1 for none")
        _check_masks(node_type, table)


def check_dtypes(raw: RawGraph) -> None:
    """Check that a store can hold the arrays of nodes and edges.

    Raises:
        DatasetError: one is not of numbers of at most 8 bytes.
    """
    arrays = {f"nodes {kind}: {name}": a for kind, table in raw.nodes.items() for name, a in table.arrays().items()}
    for table in raw.edges:
        arrays |= {f"edges {table.type.key}: {name}": array for name, array in table.attributes.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > WIDEST:
            raise DatasetError(f"{name} is of {array.dtype}, but a store has numbers of at most 8 bytes; convert it")


def _check_finite(node_type: str, x: NDArray[np.generic]) -> None:
    for start, rows in _ranges(x):
        finite = np.isfinite(rows.astype(np.float32, copy=False) if rows.dtype == np.float16 else rows)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            bad = int((~finite).sum())
            raise DatasetError(
                f"nodes {node_type}: feature {column} of node {start + row} is {rows[row, column]} "
                f"({bad:,} such values in its range of rows); features have to be finite"
            )


def _check_masks(node_type: str, table: NodeTable) -> None:
    masks = {name: mask for name in MASKS if (mask := getattr(table, name)) is not None}
    if not masks:
        return
    shapes = {mask.shape for mask in masks.values()}
    if len(shapes) > 1 or next(iter(shapes))[1:2] == ():
        raise DatasetError(f"nodes {node_type}: masks have the shapes {sorted(shapes)}, not all nodes x splits")
    names = list(masks)
    for position, name in enumerate(names):
        for other in names[:position]:
            shared = int((masks[name] & masks[other]).any(axis=1).sum())
            if shared:
                raise DatasetError(f"nodes {node_type}: {shared:,} nodes are both in {other} and in {name}")
    if table.y is not None and table.y.ndim == 1 and "train_mask" in masks:
        blank = int((masks["train_mask"].any(axis=1) & (table.y < 0)).sum())  # type: ignore[operator]
        if blank:
            raise DatasetError(f"nodes {node_type}: {blank:,} training nodes have no label")


def _ranges(array: NDArray[np.generic]) -> Iterator[tuple[int, NDArray[np.generic]]]:
    rows = max(1, BYTES_AT_A_TIME // row_bytes(array))
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]
