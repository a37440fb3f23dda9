"""Seeded splits into training, validation and test nodes: so many of each class, or shares where there are no classes.

Every node draws a 64-bit number from PCG64's raw stream, and of each class the nodes with the lowest numbers train, the
next ones validate, the rest test. The raw stream is fixed by the algorithm; `Generator.permutation` and `choice` may
change with a NumPy release, and a split that changes under people's feet makes their accuracies incomparable.

A class that is smaller than the requested counts gives a third to each: its nodes are then scarce in training, where a
fixed count would leave none to test on.

Nodes with several labels or with numbers to predict are of no single class; there shares of all labelled nodes train,
validate and test, by the same lots.

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
    model_validator,
)

from graphprep.core.choices import MOST_SPLITS
from graphprep.errors import DatasetError
from graphprep.system import progress


class Split(NamedTuple):
    """Three masks, bool [N, S], disjoint in each split, as a NodeTable takes them. Unlabelled nodes are in none."""

    train_mask: NDArray[np.bool_]
    val_mask: NDArray[np.bool_]
    test_mask: NDArray[np.bool_]


class SplitRule(BaseModel):
    """The splits that are drawn where there are labels and no masks, as a YAML file has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: PositiveInt = 20
    """training nodes of each class; at most a third of the class, rounded up"""
    val: NonNegativeInt = 30
    """validation nodes of each class; at most a third of the class, rounded down"""
    seed: NonNegativeInt = 0
    """of the first split; each next one has the following number"""
    splits: int = Field(default=1, ge=1, le=MOST_SPLITS)
    """how many are drawn"""
    train_share: float = Field(default=0.6, gt=0, le=1)
    """of the labelled nodes, where they have several labels or numbers to predict; `train` and `val` are for classes"""
    val_share: float = Field(default=0.2, ge=0, lt=1)
    """likewise; what both leave is the test nodes"""

    @model_validator(mode="after")
    def _shares_fit(self) -> SplitRule:
        if self.train_share + self.val_share > 1:
            raise ValueError(f"train_share and val_share are {self.train_share:g} and {self.val_share:g}, more than 1")
        return self

    @model_serializer(mode="wrap")
    def _in_words(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What came later is named only where it is used, so that the keys of stores are what they were before."""
        words: dict[str, Any] = whole(self)
        later = {"splits": 1, "train_share": 0.6, "val_share": 0.2}
        return {name: value for name, value in words.items() if later.get(name) != value}

    def draw(self, y: NDArray[Any]) -> Split:
        """The masks of the nodes with the labels `y`; see `seeded_split` and `shared_split`."""
        if y.ndim == 2:
            return shared_split(y, self.train_share, self.val_share, self.seed, self.splits)
        return seeded_split(y, self.train, self.val, self.seed, self.splits)

    def describe(self, y: NDArray[Any]) -> tuple[str, dict[str, Any]]:
        """What `draw` does with the labels `y`: the end of a sentence for people, and what of the rule is used."""
        shares = y.ndim == 2
        used = {"train_share", "val_share", "seed"} if shares else {"train", "val", "seed"}
        facts = {name: getattr(self, name) for name in SplitRule.model_fields if name in used}
        if self.splits > 1:
            facts["splits"] = self.splits
        how = (
            f"{self.train_share * 100:g} % of the labelled nodes to train and {self.val_share * 100:g} % to validate"
            if shares
            else f"{self.train} nodes of each class to train and {self.val} to validate"
        )
        count = "a random split was" if self.splits == 1 else f"{self.splits} random splits were"
        return f"{count} drawn, {how}, the rest to test (seed {self.seed})", facts

    def draw_and_say(self, y: NDArray[Any], whose: str) -> tuple[Split, dict[str, Any]]:
        """The masks, and what of the rule was used; a line on standard error, begun by `whose`, says so."""
        sentence, facts = self.describe(y)
        progress.say(f"{whose}: {sentence}")
        return self.draw(y), facts


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


def shared_split(
    y: NDArray[Any], train_share: float = 0.6, val_share: float = 0.2, seed: int = 0, num_splits: int = 1
) -> Split:
    """Draw one split, or several, of nodes that have no single class.

    Args:
        y: bool or float [N, C]; a node is unlabelled if all its entries are NaN.
        train_share: part of the labelled nodes that train, rounded to the nearest, at least one node.
        val_share: part of them that validates; the rest tests.
        seed: the same seed gives the same split on every platform.
        num_splits: S; column i of the masks is the split of `seed + i`.
    """
    known = np.flatnonzero(~np.isnan(y).all(axis=1)) if y.dtype.kind == "f" else np.arange(len(y))
    masks = Split(*(np.zeros((len(y), num_splits), np.bool_) for _ in range(3)))
    train = min(len(known), max(1, round(len(known) * train_share)))
    val = min(len(known) - train, round(len(known) * val_share))
    for column in range(num_splits):
        lot_N = np.random.PCG64(seed + column).random_raw(len(y))
        order = known[np.argsort(lot_N[known], kind="stable")]
        for mask, nodes in zip(masks, np.split(order, [train, train + val]), strict=True):
            mask[nodes, column] = True
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
