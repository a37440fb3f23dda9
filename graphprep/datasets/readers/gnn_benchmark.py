"""Attributed graphs as graph2gauss and gnn-benchmark publish them: one .npz with two sparse matrices and the labels.

    adj_data, adj_indices, adj_indptr, adj_shape        the edges, row to column
    attr_data, attr_indices, attr_indptr, attr_shape    the features; words are counted, only whether is used
    labels                                              one class a node

Each edge may be listed in one direction or in both, self-loops occur, and weights mean nothing; the registry's
treatment makes the graph undirected and simple, as PyTorch Geometric does. Shchur et al. (Pitfalls of Graph Neural
Network Evaluation, 2018) go on with the largest connected component, which `largest_component` does too: no message
reaches the other nodes from there. Some of the files carry pickled names of nodes and classes as well, which are not
read here. None brings a split.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz, Sparse
from graphprep.datasets.formats.checks import classes, file_of, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive


class GnnBenchmarkOptions(ReaderOptions):
    """What differs between those who read these files."""

    counts: bool = False
    """keep how often a word is used, as DGL does, instead of whether it is"""
    largest_component: bool = False
    """take the nodes of the largest connected component alone; `node_number` says which they are in the file"""


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F] of 0 and 1 (or counts), y int64 [N], edges as the matrix has them.

    With `largest_component` also node_number, int64 [N]: the number of each node in the file, ascending.
    """
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
    if not options.largest_component:
        return one_type(entry, num_nodes=num_nodes, x=x, y=y, edges=edges, masks=None)
    kept, pairs = largest_component(edges)
    return one_type(
        entry, num_nodes=len(kept), x=x[kept], y=y[kept], edges=pairs, masks=None, more={"node_number": kept}
    )


def largest_component(edges: Sparse) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Its nodes, int64 [n] ascending, and the edges among them by their new numbers, int64 [E', 2] in the file's order.

    Edges join both ways; of components of the same size the one with the lowest node is taken.
    """
    pairs = np.concatenate([np.stack(run, axis=1) for run in edges.entries()] or [np.empty((0, 2), np.int64)])
    matrix = coo_array((np.ones(len(pairs), np.bool_), pairs.T), shape=edges.shape)
    component_N = connected_components(matrix, directed=False)[1]
    inside_N = component_N == np.bincount(component_N, minlength=1).argmax()
    place_N = np.cumsum(inside_N) - 1
    return np.flatnonzero(inside_N), place_N[pairs[inside_N[pairs[:, 0]]]]
