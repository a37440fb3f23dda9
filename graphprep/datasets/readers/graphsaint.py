"""GraphSAINT's inductive benchmarks: Flickr, Reddit2, Yelp, AmazonProducts, in four files.

    adj_full.npz      the edges as a sparse matrix, row to column; both directions are listed
    feats.npy         features, one row a node, mostly float64; read as float32, as PyTorch Geometric does
    class_map.json    node -> its class, or a list of 0 and 1 for several labels a node
    role.json         "tr", "va", "te" -> lists of nodes

Features are a memory map, edges are streamed from the matrix, and the matrix's weights (all 1) are not read. Nodes that
class_map.json does not name are unlabelled where there are classes, and an error where there are several labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz, Sparse, map_npy
from graphprep.datasets.formats.checks import classes, disjoint, features, flags, node_mask, reading
from graphprep.datasets.formats.json_file import load_json, numbers
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

EDGES, FEATURES, LABELS, ROLES = "adj_full.npz", "feats.npy", "class_map.json", "role.json"
PARTS = {"tr": "train_mask", "va": "val_mask", "te": "test_mask"}


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float [N, F], y int64 [N] or bool [N, C], masks bool [N, 1]."""
    options_of(entry, ReaderOptions)
    with reading(folder / FEATURES):
        x = features(map_npy(folder / FEATURES, "fiu", (None, None)), folder)
    with reading(folder / EDGES), Archive(folder / EDGES) as archive:
        edges: Sparse = Npz(archive).sparse(values=False)
        if edges.shape != (len(x), len(x)):
            raise DatasetError(f"it has edges of the shape {edges.shape} for {len(x):,} rows in {FEATURES}")
    with reading(folder / LABELS):
        y = _labels(load_json(folder / LABELS), len(x))
    with reading(folder / ROLES):
        masks = _masks(load_json(folder / ROLES), len(x))
    return one_type(entry, num_nodes=len(x), x=x, y=y, edges=edges, masks=masks)


def _labels(class_of: Any, num_nodes: int) -> NDArray[np.generic]:
    if not isinstance(class_of, dict) or not all(key.isdecimal() and len(key) < 19 for key in class_of):
        raise DatasetError("it is no mapping from node numbers to classes")
    nodes = np.array([int(key) for key in class_of], np.int64)
    named = node_mask(nodes, num_nodes, "it")[:, 0]
    several = any(isinstance(value, list) for value in class_of.values())
    values = numbers(list(class_of.values()), "if" if several else "i", 2 if several else 1, "labels")
    if not several:
        y = np.full(num_nodes, -1, np.int64)
        y[nodes] = values
        return classes(y)
    if not named.all():
        raise DatasetError(f"it has no labels for the node {int(np.argmin(named))}")
    table = np.zeros((num_nodes, values.shape[1]), np.bool_)
    table[nodes] = flags(values)
    return table


def _masks(roles: Any, num_nodes: int) -> dict[str, NDArray[np.bool_]]:
    if not isinstance(roles, dict) or not all(isinstance(roles.get(part), list) for part in PARTS):
        raise DatasetError(f"it lacks one of the lists {', '.join(PARTS)}")
    return disjoint(
        {
            mask: node_mask(numbers(roles[part], "i", 1, f"nodes in {part!r}"), num_nodes, f"its list {part!r}")
            for part, mask in PARTS.items()
        }
    )
