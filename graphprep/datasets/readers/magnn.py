"""MAGNN's heterogeneous graphs, IMDB and DBLP: a zip archive of one big matrix and a table for each node type.

    adjM.npz                  all edges as one sparse matrix; nodes are numbered type after type
    features_<k>.npz or .npy  the features of the k-th type, sparse or dense
    labels.npy                the classes of the labelled type
    node_types.npy            the type of every node, where a type has no features to count its nodes by
    train_val_test_idx.npz    train_idx, val_idx, test_idx: nodes of the labelled type

The matrix is cut into one edge type for each pair of node types that has edges, called `to`, row to column, as PyTorch
Geometric cuts it. It lists both directions, so each relation comes with its reverse.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeTable, EdgeType, NodeTable, RawGraph
from graphprep.datasets.assemble import labelled, stream
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz, Sparse, member_array
from graphprep.datasets.formats.checks import classes, disjoint, features, file_of, node_mask, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

Array = NDArray[Any]
EDGES, LABELS, NODE_TYPES, SPLIT = "adjM.npz", "labels.npy", "node_types.npy", "train_val_test_idx.npz"
PARTS = ("train", "val", "test")


class MagnnOptions(ReaderOptions):
    features: dict[str, str | None]
    """node type -> its member with features, in the order in which the matrix numbers them; null where it has none"""
    labelled: str
    """the node type of labels.npy and of the split"""


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F] for each type that has features, y int64 and masks bool [N, 1] for the labelled."""
    options = options_of(entry, MagnnOptions)
    if options.labelled not in options.features:
        raise DatasetError(f"{entry.name}: the labelled type {options.labelled!r} is none of the node types")
    path = file_of(folder, entry)
    with reading(path), Archive(path) as archive:
        tables = {name: _features(archive, member, folder) for name, member in options.features.items()}
        counts = {name: None if x is None else len(x) for name, x in tables.items()}
        sizes = _sizes(archive, counts)
        y = classes(member_array(archive, LABELS, "iu", (sizes[options.labelled],)))
        masks = _masks(archive, folder, len(y))
        with archive.copied(EDGES, folder) as copy, Archive(copy) as inner:
            edges = _by_type(Npz(inner).sparse(values=False), sizes)
    return RawGraph(
        nodes={
            name: labelled(sizes[name], x=x, y=y, masks=masks)
            if name == options.labelled
            else NodeTable(num_nodes=sizes[name], x=x)
            for name, x in tables.items()
        },
        edges=edges,
        treatment=entry.edge_treatment,
    )


def _features(archive: Archive, member: str | None, folder: Path) -> Array | None:
    if member is None:
        return None
    if member.endswith(".npy"):
        return features(member_array(archive, member, "fiu", (None, None)).astype(np.float32), folder)
    with archive.copied(member, folder) as copy, Archive(copy) as inner:
        return Npz(inner).sparse().dense()


def _sizes(archive: Archive, counts: dict[str, int | None]) -> dict[str, int]:
    """The nodes of each type; those without features are counted in node_types.npy."""
    if None not in counts.values():
        return {name: count for name, count in counts.items() if count is not None}
    codes = member_array(archive, NODE_TYPES, "iu", (None,)).astype(np.int64)
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(counts):
        raise DatasetError(f"its member {NODE_TYPES} has a type outside 0 .. {len(counts) - 1}")
    if (np.diff(codes) < 0).any():
        raise DatasetError(f"its member {NODE_TYPES} does not number the nodes type after type")
    sizes = dict(zip(counts, np.bincount(codes, minlength=len(counts)).tolist(), strict=True))
    for name, count in counts.items():
        if count not in (None, sizes[name]):
            raise DatasetError(f"its member {NODE_TYPES} has {sizes[name]:,} nodes of type {name}, features {count:,}")
    return sizes


def _masks(archive: Archive, folder: Path, num_nodes: int) -> dict[str, NDArray[np.bool_]]:
    with archive.copied(SPLIT, folder) as copy, Archive(copy) as inner:
        arrays = Npz(inner)
        lists = {part: arrays.array(f"{part}_idx", "iu", (None,)) for part in PARTS}
    return disjoint({f"{part}_mask": node_mask(nodes, num_nodes, f"its {part}_idx") for part, nodes in lists.items()})


def _by_type(edges: Sparse, sizes: dict[str, int]) -> tuple[EdgeTable, ...]:
    """One table for each pair of types between which there are edges; ids count within their type."""
    total = sum(sizes.values())
    if edges.shape != (total, total):
        raise DatasetError(f"it has edges of the shape {edges.shape} for {total:,} nodes")
    if not len(edges):
        return ()
    rows, columns = (np.concatenate(ends) for ends in zip(*edges.entries(), strict=True))
    starts = np.cumsum([0, *sizes.values()])
    names = list(sizes)
    of_row, of_column = (np.searchsorted(starts, ends, "right") - 1 for ends in (rows, columns))
    tables = []
    for source, source_name in enumerate(names):
        for target, target_name in enumerate(names):
            here = (of_row == source) & (of_column == target)
            if here.any():
                pairs = np.column_stack([rows[here] - starts[source], columns[here] - starts[target]])
                kind = EdgeType(source_name, "to", target_name)
                tables.append(EdgeTable(type=kind, chunks=stream(pairs), num_edges=len(pairs)))
    return tuple(tables)
