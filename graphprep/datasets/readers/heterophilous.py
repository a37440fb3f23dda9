"""Heterophilous graphs of Yandex Research: one .npz with a dense table, each edge once, and ten splits.

    node_features [N, F]    node_labels [N]    edges [E, 2]    train_masks, val_masks, test_masks [10, N]

Masks are turned to one column a split; the registry's treatment adds the other direction of each edge.
"""

from __future__ import annotations

from pathlib import Path

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz
from graphprep.datasets.formats.checks import classes, disjoint, features, file_of, node_ids, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.system.files.archive import Archive

PARTS = ("train", "val", "test")


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x in the file's dtype [N, F], y int64 [N], masks bool [N, S], each edge once."""
    options_of(entry, ReaderOptions)
    path = file_of(folder, entry)
    with reading(path), Archive(path) as archive:
        arrays = Npz(archive)
        x = features(arrays.array("node_features", "fiu", (None, None)), folder)
        y = classes(arrays.array("node_labels", "iu", (len(x),)))
        edges = node_ids(arrays.array("edges", "iu", (None, 2)), len(x), "its array 'edges'")
        masks = {f"{part}_mask": arrays.array(f"{part}_masks", "b", (None, len(x))).T.copy() for part in PARTS}
        disjoint(masks)
    return one_type(entry, num_nodes=len(x), x=x, y=y, edges=edges, masks=masks)
