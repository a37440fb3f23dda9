"""Seeded splits into training, validation and test nodes, so many of each class.

Every node draws a 64-bit number from PCG64's raw stream, and of each class the nodes with the lowest numbers train, the
next ones validate, the rest test. The raw stream is fixed by the algorithm; `Generator.permutation` and `choice` may
change with a NumPy release, and a split that changes under people's feet makes their accuracies incomparable.

A class too small for what is asked gives a third to each: its nodes are then scarce in training, where a fixed count
would leave none to test on.

Accuracies on few training nodes depend on which these are, so several splits are drawn where a field reports the mean
over them (Shchur et al. 2018, Pitfalls of Graph Neural Network Evaluation). Column i of the masks is the split of
`seed + i`, so the first of many is what a single one would be.

Letters: N nodes, C classes, S splits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from graphprep.errors import DatasetError

MOST_SPLITS = 1000
"""a mask has a byte for each node and split"""


class Split(NamedTuple):
    """Three masks, bool [N, S], disjoint in each split, as a NodeTable takes them. Unlabelled nodes are in none."""

    train_mask: NDArray[np.bool_]
    val_mask: NDArray[np.bool_]
    test_mask: NDArray[np.bool_]


class SplitRule(BaseModel):
    """Which splits are drawn where there are labels and no masks, in the words of a YAML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: PositiveInt = 20
    """training nodes of each class; at most a third of the class, rounded up"""
    val: NonNegativeInt = 30
    """validation nodes of each class; at most a third of the class, rounded down"""
    seed: NonNegativeInt = 0
    """of the first split; each next one has the following number"""
    splits: int = Field(default=1, ge=1, le=MOST_SPLITS)
    """how many are drawn"""

    @model_serializer(mode="wrap")
    def _in_words(self, whole: SerializerFunctionWrapHandler) -> dict[str, int]:
        """One split is not counted, so that the keys of stores are what they were when there never were more."""
        words: dict[str, int] = whole(self)
        return words if self.splits > 1 else {name: words[name] for name in words if name != "splits"}

    def draw(self, y: NDArray[Any]) -> Split:
        """The masks of the nodes with the labels `y`; see `seeded_split`."""
        return seeded_split(y, self.train, self.val, self.seed, self.splits)


def seeded_split(
    y: NDArray[Any], per_class_train: int = 20, per_class_val: int = 30, seed: int = 0, num_splits: int = 1
) -> Split:
    """Draw one split, or several.

    Args:
        y: integer [N], classes from 0, -1 for unlabelled.
        per_class_train: training nodes of each class; at most a third of the class, rounded up.
        per_class_val: validation nodes of each class; at most a third of the class, rounded down.
        seed: the same seed gives the same split on every platform.
        num_splits: S; column i of the masks is the split of `seed + i`.

    Raises:
        DatasetError: `y` is not one integer class a node.
    """
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise DatasetError(
            f"a split by class needs one integer class a node, but the labels have shape {y.shape} and dtype {y.dtype}"
        )
    masks = Split(*(np.zeros((len(y), num_splits), np.bool_) for _ in range(3)))
    for column in range(num_splits):
        _draw(y, per_class_train, per_class_val, seed + column, [mask[:, column] for mask in masks])
    return masks


def _draw(y: NDArray[Any], train: int, val: int, seed: int, masks: list[NDArray[np.bool_]]) -> None:
    """One split into three masks, bool [N], that are all false before."""
    lot_N = np.random.PCG64(seed).random_raw(len(y))
    order_N = np.lexsort((lot_N, y))
    order_N = order_N[y[order_N] >= 0]
    classes = y[order_N]
    starts_C = np.flatnonzero(np.r_[True, classes[1:] != classes[:-1]][: len(classes)])
    sizes_C = np.diff(np.r_[starts_C, len(classes)])
    train_C = np.minimum(train, -(-sizes_C // 3))
    val_C = np.minimum(val, sizes_C // 3)
    rank = np.arange(len(classes)) - np.repeat(starts_C, sizes_C)
    val_from, test_from = np.repeat(train_C, sizes_C), np.repeat(train_C + val_C, sizes_C)
    masks[0][order_N[rank < val_from]] = True
    masks[1][order_N[(rank >= val_from) & (rank < test_from)]] = True
    masks[2][order_N[rank >= test_from]] = True
