"""Predictions as a table with the nodes' own ids, for people whose other tables know nodes by these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.original_ids import OriginalIds
from graphprep.errors import UsageError
from graphprep.system.files.atomic import published_file
from graphprep.system.files.output_path import checked_file

ENDINGS = (".csv", ".parquet")


def class_names(attributes: Mapping[str, Any], node_type: str) -> Sequence[str] | None:
    """The names of the classes of a node type, by their numbers; None where the source has none but the numbers.

    Args:
        attributes: of a store or cache.
        node_type: whose labels these are.
    """
    names = attributes["source"].get("classes")
    return names.get(node_type) if isinstance(names, dict) else names


def columns_of(
    predictions: NDArray[Any], ids: OriginalIds | None, task: str, classes: Sequence[str] | None = None
) -> dict[str, NDArray[Any]]:
    """The columns of the table, in the dataset's node order; arguments and names as for `write_table`."""
    columns: dict[str, NDArray[Any]] = {"id": np.arange(len(predictions)) if ids is None else ids.array()}
    chosen = predictions if predictions.ndim == 1 else predictions.argmax(axis=1)
    names = None if classes is None or task != "classes" else np.array(classes, object)
    if predictions.ndim == 1 or task == "classes":
        columns["prediction"] = chosen if names is None else names[chosen]
    if predictions.ndim == 1:
        return columns
    called = range(predictions.shape[1]) if names is None else names
    name = "embedding" if task == "links" else "score"
    return columns | {f"{name}_{each}": predictions[:, number] for number, each in enumerate(called)}


def write_table(
    target: Path,
    predictions: NDArray[Any],
    ids: OriginalIds | None,
    task: str,
    classes: Sequence[str] | None = None,
) -> None:
    """Write one row a node, in the dataset's node order; the file appears whole or not at all.

    Args:
        target: .csv or .parquet, of the columns `id` (of the node in the source; its row number where that is the id),
            `prediction` (the class, where there are classes) and `score_0` .. (each column of the predictions; with
            the names of the classes where they have names; of links `embedding_0` ..).
        predictions: [N, C], or whole numbers [N]: classes.
        ids: of the nodes; None for row numbers.
        task: classes, multilabel, regression or links.
        classes: their names; None for their numbers.

    Raises:
        UsageError: `target` has another ending, or its folder does not exist.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    require_target(target)
    columns = columns_of(predictions, ids, task, classes)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    with published_file(target) as file:
        if target.suffix == ".csv":
            csv.write_csv(table, file)
        else:
            pq.write_table(table, file)


def require_target(target: Path) -> None:
    """See that a table can be written there, before any work.

    Raises:
        UsageError: as `write_table`.
    """
    if target.suffix not in ENDINGS:
        raise UsageError(f"--table {target} ends in none of {', '.join(ENDINGS)}; give another name")
    checked_file(target, called="--table")
