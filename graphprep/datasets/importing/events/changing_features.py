"""Features of nodes that change: a table with a row for each node and time from which on other values are true.

The first column has the node's id as the events have it, the second one the time in the unit of the events' times, and
each further one is a feature. Where sources and destinations are two kinds of nodes with ids of their own, the first
column is called as the kind (user or item, or the name of a schema's node type).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import ChangingFeatures, NodesOfEvents
from graphprep.datasets.formats.text_table import read_text_table
from graphprep.datasets.importing.table_files import TABLES, TEXT, kind_of_table, reading
from graphprep.errors import DatasetError
from graphprep.system import progress


def read_changing_features(path: Path, nodes: NodesOfEvents) -> ChangingFeatures:
    """Read a table.

    Args:
        path: CSV, TSV, text or Parquet, with names of columns.
        nodes: those of the events; rows of other nodes are left out, which is said.

    Raises:
        DatasetError: a value is missing or no number, or no row is of a node of the events.
    """
    with reading(path, TABLES):
        table = _table(path)
        if table.num_columns < 3 or not table.num_rows:
            raise DatasetError(
                f"it has {table.num_columns} columns and {table.num_rows:,} rows, and needs rows of a node, a time and "
                "features"
            )
        id_name, *names = table.column_names
        first, end = _range_of(id_name, nodes)
        time, *features = (_numbers(table.column(name), name) for name in names)
        if time.dtype.kind != "f":
            time = time.astype(np.int64)
        row_R = _rows(table.column(id_name), nodes, first, end)
        is_known_R = row_R >= 0
        if not is_known_R.any():
            raise DatasetError(f"no row of its column {id_name!r} is a node of the events")
    if missing := int((~is_known_R).sum()):
        progress.say(f"{path.name}: {missing:,} of {len(row_R):,} rows are of nodes without events, and are left out")
    x = np.stack([column.astype(np.float32) for column in features], axis=1)
    return ChangingFeatures(node=row_R[is_known_R], time=time[is_known_R], x=x[is_known_R])


def _table(path: Path) -> Any:
    if kind_of_table(path) in TEXT:
        return read_text_table(path, header=True, as_text=("1",)).table
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def _range_of(name: str, nodes: NodesOfEvents) -> tuple[int, int]:
    """The rows of the kind of nodes that the table is of."""
    kinds = nodes.notes.get("kinds")
    if not kinds:
        return 0, nodes.num_nodes
    if name not in kinds:
        raise DatasetError(
            f"its first column is called {name!r}, and the nodes of the events are of the kinds "
            f"{' and '.join(kinds)}; call it as one of them"
        )
    first, end = kinds[name]
    return first, end


def _numbers(column: Any, name: str) -> NDArray[Any]:
    if column.null_count:
        raise DatasetError(f"column {name!r} has {column.null_count:,} rows without a value")
    values: NDArray[Any] = column.to_numpy()
    if values.dtype.kind not in "biuf":
        raise DatasetError(f"column {name!r} is not of numbers")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DatasetError(f"row {row} of column {name!r} holds a value that is not finite")
    return values


def _rows(column: Any, nodes: NodesOfEvents, first: int, end: int) -> NDArray[np.int64]:
    """The row of each id; -1 where the events have no such node."""
    original = None if nodes.original_id is None else nodes.original_id[first:end]
    words = [str(word).strip() for word in column.to_pylist()]
    if original is not None and original.dtype.kind in "UT":
        row_of = {str(word): first + place for place, word in enumerate(original)}
        return np.fromiter((row_of.get(word, -1) for word in words), np.int64, len(words))
    if odd := next((word for word in words if not word.isdecimal() or int(word) >= 2**63), None):
        raise DatasetError(f"it has the node {odd[:40]!r}, and the ids of the events are whole numbers")
    ids = np.array([int(word) for word in words], np.int64)
    if original is None:
        return np.where(ids < end - first, first + ids, -1)
    order = np.argsort(original, kind="stable")
    place = np.searchsorted(original, ids, sorter=order).clip(max=len(original) - 1)
    found = order[place]
    return np.where(original[found] == ids, first + found, -1)
