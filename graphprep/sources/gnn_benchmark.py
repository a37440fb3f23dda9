"""Attributed graphs as graph2gauss and gnn-benchmark publish them: one .npz with two sparse matrices and the labels.

    adj_data, adj_indices, adj_indptr, adj_shape        the edges, row to column
    attr_data, attr_indices, attr_indptr, attr_shape    the features; words are counted, only whether is used
    labels                                              one class a node

Each edge may be listed in one direction or in both, self-loops occur, and weights mean nothing; the registry's
treatment makes the graph undirected and simple, as PyTorch Geometric does. Some of the files carry pickled names of
nodes and classes as well, which nobody reads here. None brings a split.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphprep.errors import DatasetError
from graphprep.graph import RawGraph
from graphprep.sources.archive import Archive
from graphprep.sources.arrays import Npz, check_npz
from graphprep.sources.assemble import one_type
from graphprep.sources.checks import classes, file_of, reading
from graphprep.sources.options import ReaderOptions, options_of
from graphprep.whole_file import FileCheck

if TYPE_CHECKING:
    from graphprep.registry import DatasetEntry


class GnnBenchmarkOptions(ReaderOptions):
    """What differs between those who read these files."""

    counts: bool = False
    """keep how often a word is used, as DGL does, instead of whether it is"""


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:  # noqa: ARG001
    """Reads all members."""
    return check_npz


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F] of 0 and 1 (or counts), y int64 [N], edges as the matrix has them."""
    options = options_of(entry, GnnBenchmarkOptions)
    path = file_of(folder, entry)
    with reading(path), Archive(path) as archive:
        arrays = Npz(archive)
        edges, words = arrays.sparse("adj_", values=False), arrays.sparse("attr_")
        num_nodes = words.shape[0]
        if edges.shape != (num_nodes, num_nodes):
            raise DatasetError(f"it has edges of the shape {edges.shape} for {num_nodes:,} nodes")
        x = words.dense()
        if not options.counts:
            np.copyto(x, 1, where=x > 0)
        y = classes(arrays.array("labels", "iu", (num_nodes,)))
    return one_type(entry, num_nodes=num_nodes, x=x, y=y, edges=edges, masks=None)
