"""MUSAE's page, developer and gamer networks: one .npz of `features` [N, F], `target` [N] and `edges` [E, 2].

The edges are used as they are listed; both directions are there. There is no split.
"""

from __future__ import annotations

from pathlib import Path

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz
from graphprep.datasets.formats.checks import classes, features, file_of, node_ids, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.system.files.archive import Archive


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F] (integers stay), y int64 [N], edges as listed."""
    options_of(entry, ReaderOptions)
    path = file_of(folder, entry)
    with reading(path), Archive(path) as archive:
        arrays = Npz(archive)
        x = features(arrays.array("features", "fiu", (None, None)), folder)
        y = classes(arrays.array("target", "iu", (len(x),)))
        edges = node_ids(arrays.array("edges", "iu", (None, 2)), len(x), "its array 'edges'")
    return one_type(entry, num_nodes=len(x), x=x, y=y, edges=edges, masks=None)
