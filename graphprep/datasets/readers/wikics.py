"""Wiki-CS: one JSON file with a dense table, a list of links a node, and twenty splits.

    features [N][F]    labels [N]    links [N][...]
    train_masks, val_masks, stopping_masks [20][N]    test_mask [N]

Links are directed and some are given twice; the registry's treatment makes them undirected and distinct. The one test
mask is repeated for every split. `stopping_mask` marks nodes on which early stopping may look, apart from validation.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.checks import classes, disjoint, features, file_of, node_ids, reading
from graphprep.datasets.formats.json_file import load_json, numbers
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.verify import FileCheck

KEYS = ("features", "labels", "links", "train_masks", "val_masks", "stopping_masks", "test_mask")


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:  # noqa: ARG001
    """Parses the file and looks for its keys."""
    return _load


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F], y int64 [N], masks bool [N, S] and stopping_mask like them, links as listed."""
    options_of(entry, ReaderOptions)
    path = file_of(folder, entry)
    with reading(path):
        content = _load(path)
        x = features(numbers(content["features"], "fi", 2, "features").astype(np.float64), folder)
        y = classes(numbers(content["labels"], "i", 1, "labels"))
        if len(y) != len(x) or len(content["links"]) != len(x):
            raise DatasetError(
                f"it has {len(x):,} rows of features, {len(y):,} labels and links of {len(content['links']):,} nodes"
            )
        edges = _edges(content["links"], len(x))
        masks = {f"{part}_mask": _mask(content[f"{part}_masks"], len(x)) for part in ("train", "val", "stopping")}
        test_mask = _mask([content["test_mask"]], len(x))
        masks["test_mask"] = np.repeat(test_mask, masks["train_mask"].shape[1], axis=1)
        stopping = disjoint(masks)["stopping_mask"]
        del masks["stopping_mask"]
    return one_type(entry, num_nodes=len(x), x=x, y=y, edges=edges, masks=masks, more={"stopping_mask": stopping})


def _load(path: Path) -> dict[str, Any]:
    content = load_json(path)
    missing = [key for key in KEYS if not isinstance(content, dict) or not isinstance(content.get(key), list)]
    if missing:
        raise DatasetError(f"it lacks the lists {', '.join(missing)}")
    return dict(content)


def _edges(links: list[Any], num_nodes: int) -> NDArray[np.int64]:
    """Each list's node as source, its entries as destinations, int64 [E, 2]."""
    if not all(isinstance(near, list) for near in links):
        raise DatasetError("its links are not one list for each node")
    ends = numbers(list(itertools.chain.from_iterable(links)), "i", 1, "links")
    node_ids(ends, num_nodes, "its list of links")
    starts = np.repeat(np.arange(num_nodes), [len(near) for near in links])
    return np.column_stack([starts, ends])


def _mask(rows: list[Any], num_nodes: int) -> NDArray[np.bool_]:
    """Rows of truth values, one row a split, as columns [N, S]."""
    table = numbers(rows, "bi", 2, "masks")
    if table.shape[1] != num_nodes:
        raise DatasetError(f"it has a mask of {table.shape[1]:,} values for {num_nodes:,} nodes")
    return np.ascontiguousarray(table.T.astype(np.bool_))
