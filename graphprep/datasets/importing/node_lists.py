"""Splits as lists of nodes (train_idx, val_idx, test_idx) beside a graph's other arrays, in place of masks."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.checks import node_mask
from graphprep.errors import DatasetError

NODE_LISTS = {
    "train": ("train_idx", "train_index", "train_indices"),
    "val": ("val_idx", "val_index", "val_indices", "valid_idx", "valid_index", "valid_indices"),
    "test": ("test_idx", "test_index", "test_indices"),
}
"""by part of a split, the names that people give to the list of its nodes"""


def listed_nodes(nodes: NDArray[Any], num_nodes: int, what: str) -> NDArray[np.bool_]:
    """The mask of listed nodes, bool [N, 1]; truth values are the mask itself.

    Args:
        nodes: integers [n] or [n, 1].
        num_nodes: N.
        what: the list's name.

    Raises:
        DatasetError: it is no list of nodes, one does not exist, or one is there twice; as the end of a sentence.
    """
    if nodes.dtype.kind == "b":
        if nodes.shape[:1] != (num_nodes,) or nodes.ndim > 2:
            raise DatasetError(f"{what} has shape {nodes.shape}, but a mask has a row for each of {num_nodes:,} nodes")
        return nodes.reshape(num_nodes, -1)
    if nodes.dtype.kind not in "iu" or nodes.shape not in ((len(nodes),), (len(nodes), 1)):
        raise DatasetError(f"{what} has shape {nodes.shape} and dtype {nodes.dtype}, not one row number a node")
    return node_mask(nodes.ravel(), num_nodes, what)


def named_lists(names: Container[str], masks: Container[str]) -> dict[str, str]:
    """The lists among `names`, by the name of the mask in NodeTable that each makes; none for those in `masks`."""
    lists = {f"{part}_mask": name for part, known in NODE_LISTS.items() for name in known if name in names}
    return {mask: name for mask, name in lists.items() if mask not in masks}
