"""GraphSAGE's Reddit posts: a zip archive with two .npz files.

    reddit_data.npz     feature [N, F], label [N], node_types [N]: 1 trains, 2 validates, 3 tests
    reddit_graph.npz    the edges as a sparse matrix in coordinates, both directions listed, some twice

The .npz files must be read at any place, so each is copied out of the archive to a temporary file while it is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz
from graphprep.datasets.formats.checks import classes, features, file_of, reading
from graphprep.datasets.formats.large_arrays import stored_array
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

TABLES, EDGES = "reddit_data.npz", "reddit_graph.npz"
ROLES = {"train_mask": 1, "val_mask": 2, "test_mask": 3}


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F], y int64 [N], masks bool [N, 1], edges as the matrix has them."""
    options_of(entry, ReaderOptions)
    path = file_of(folder, entry)
    with reading(path), Archive(path) as archive:
        with archive.copied(TABLES, folder) as copy, Archive(copy) as inner:
            arrays = Npz(inner)
            x = features(_features(inner, folder), folder)
            y = classes(arrays.array("label", "iu", (len(x),)))
            roles = arrays.array("node_types", "iu", (len(x),))
        with archive.copied(EDGES, folder) as copy, Archive(copy) as inner:
            edges = Npz(inner).sparse(values=False)
        if edges.shape != (len(x), len(x)):
            raise DatasetError(f"it has edges of the shape {edges.shape} for {len(x):,} nodes")
    masks = {name: (roles == role)[:, None] for name, role in ROLES.items()}
    return one_type(entry, num_nodes=len(x), x=x, y=y, edges=edges, masks=masks)


def _features(archive: Archive, folder: Path) -> NDArray[Any]:
    """The table of features: half a gigabyte in the real file, so it is mapped."""
    x = stored_array(archive, "feature.npy", folder)
    if x.ndim != 2:
        raise DatasetError(f"its array 'feature' has shape {x.shape}, not one row a node")
    return x
