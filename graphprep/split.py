"""A seeded split into training, validation and test nodes, so many of each class.

Every node draws a 64-bit number from PCG64's raw stream, and of each class the nodes with the lowest numbers train, the
next ones validate, the rest test. The raw stream is fixed by the algorithm; `Generator.permutation` and `choice` may
change with a NumPy release, and a split that changes under people's feet makes their accuracies incomparable.

A class too small for what is asked gives a third to each: its nodes are then scarce in training, where a fixed count
would leave none to test on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError


class Split(NamedTuple):
    """Three disjoint masks, bool [N, 1], as a NodeTable takes them. Unlabelled nodes are in none."""

    train_mask: NDArray[np.bool_]
    val_mask: NDArray[np.bool_]
    test_mask: NDArray[np.bool_]


def seeded_split(y: NDArray[Any], per_class_train: int = 20, per_class_val: int = 30, seed: int = 0) -> Split:
    """Draw a split.

    Args:
        y: integer [N], classes from 0, -1 for unlabelled.
        per_class_train: training nodes of each class; at most a third of the class, rounded up.
        per_class_val: validation nodes of each class; at most a third of the class, rounded down.
        seed: the same seed gives the same split on every platform.

    Raises:
        DatasetError: `y` is not one integer class a node.
    """
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise DatasetError(
            f"a split by class needs one integer class a node, but the labels have shape {y.shape} and dtype {y.dtype}"
        )
    lot_N = np.random.PCG64(seed).random_raw(len(y))
    order_N = np.lexsort((lot_N, y))
    order_N = order_N[y[order_N] >= 0]
    classes = y[order_N]
    starts_C = np.flatnonzero(np.r_[True, classes[1:] != classes[:-1]][: len(classes)])
    sizes_C = np.diff(np.r_[starts_C, len(classes)])
    train_C = np.minimum(per_class_train, -(-sizes_C // 3))
    val_C = np.minimum(per_class_val, sizes_C // 3)
    rank = np.arange(len(classes)) - np.repeat(starts_C, sizes_C)
    val_from, test_from = np.repeat(train_C, sizes_C), np.repeat(train_C + val_C, sizes_C)
    masks = [np.zeros((len(y), 1), np.bool_) for _ in range(3)]
    masks[0][order_N[rank < val_from]] = True
    masks[1][order_N[(rank >= val_from) & (rank < test_from)]] = True
    masks[2][order_N[rank >= test_from]] = True
    return Split(*masks)
