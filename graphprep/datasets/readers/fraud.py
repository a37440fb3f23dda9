"""Reviewers and reviews with fraud among them (YelpChi and Amazon), as DGL publishes them: a MATLAB file in a zip.

    features    sparse [N, F]        label    [1, N], 1 is fraud
    net_...     one sparse matrix [N, N] a relation; both directions are listed

Each relation becomes an edge type of its own between nodes of one type. Of Amazon's users the first 3,305 have too few
votes to tell; their label, 0 in the file, is read as none. The split is the one that DGL draws: a permutation of the
labelled nodes by NumPy's old generator with the seed 717, of which the first 70 % train and the last 10 % validate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt

from graphprep.core.types import EdgeTable, EdgeType, RawGraph
from graphprep.datasets.assemble import labelled, stream
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Sparse
from graphprep.datasets.formats.checks import classes, features, file_of, node_mask, reading
from graphprep.datasets.formats.matlab_file import read_arrays
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

FEATURES, LABELS = "features", "label"
MOST_FEATURES = 4096
"""there are 25 and 32; a damaged width would ask for all memory before anything looks wrong"""


class FraudOptions(ReaderOptions):
    """What differs between the two."""

    member: str
    """the .mat file in the archive"""
    node_type: str
    relations: tuple[str, ...] = Field(min_length=1)
    """the names of the matrices, which become the names of the relations"""
    unlabelled: NonNegativeInt = 0
    """so many nodes from the first on have no label"""
    seed: NonNegativeInt = 717
    train: NonNegativeFloat = 0.7
    """shares of the labelled nodes"""
    val: NonNegativeFloat = 0.1


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F], y int64 [N], masks bool [N, 1], one edge type a relation."""
    options = options_of(entry, FraudOptions)
    path = file_of(folder, entry)
    with reading(path):
        with Archive(path) as archive, archive.copied(options.member, folder) as member:
            arrays = read_arrays(member, (FEATURES, LABELS, *options.relations))
        y = _labels(arrays[LABELS], options.unlabelled)
        num_nodes = len(y)
        table = _sparse(arrays[FEATURES], FEATURES)
        if table.shape[0] != num_nodes or table.shape[1] > MOST_FEATURES:
            raise DatasetError(f"its array {FEATURES!r} has the shape {table.shape} for {num_nodes:,} labels")
        x = features(table.dense(), folder)
        edges = tuple(_relation(arrays[name], name, options.node_type, num_nodes) for name in options.relations)
    return RawGraph(
        nodes={options.node_type: labelled(num_nodes, x=x, y=y, masks=_masks(num_nodes, options))},
        edges=edges,
        treatment=entry.edge_treatment,
        notes={"split": f"DGL's: seed {options.seed}, {options.train:g} train, {options.val:g} validate"},
    )


def _sparse(array: Any, name: str) -> Sparse:
    if not isinstance(array, Sparse):
        raise DatasetError(f"its array {name!r} is no sparse matrix")
    return array


def _labels(array: Any, unlabelled: int) -> NDArray[np.int64]:
    if not isinstance(array, np.ndarray) or 1 not in array.shape:
        raise DatasetError(f"its array {LABELS!r} is no row of numbers, one a node")
    flat = array.ravel()
    if not ((flat == 0) | (flat == 1)).all():
        raise DatasetError(f"its array {LABELS!r} holds something else than 0 and 1")
    y = classes(flat.astype(np.int64))
    y[:unlabelled] = -1
    return y


def _relation(matrix: Any, name: str, node_type: str, num_nodes: int) -> EdgeTable:
    entries = _sparse(matrix, name)
    if entries.shape != (num_nodes, num_nodes):
        raise DatasetError(f"its array {name!r} has the shape {entries.shape} for {num_nodes:,} nodes")
    return EdgeTable(type=EdgeType(node_type, name, node_type), chunks=stream(entries), num_edges=len(entries))


def _masks(num_nodes: int, options: FraudOptions) -> dict[str, NDArray[np.bool_]]:
    """DGL's split: RandomState is NumPy's frozen generator, whose permutations do not change between releases."""
    nodes = np.arange(min(options.unlabelled, num_nodes), num_nodes)
    order = np.random.RandomState(options.seed).permutation(nodes)
    num_train, num_val = int(options.train * len(order)), int(options.val * len(order))
    if num_train + num_val > len(order):
        raise DatasetError("its split asks for more than all labelled nodes")
    train, test, val = np.split(order, [num_train, len(order) - num_val])
    parts = {"train_mask": train, "val_mask": val, "test_mask": test}
    return {name: node_mask(nodes, num_nodes, f"its {name}") for name, nodes in parts.items()}
