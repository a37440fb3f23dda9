"""The base class of OGB's two raw layouts, and the names of their arrays.

Nodes and edges have arrays: `feat` are the features, all others are what OGB's table calls additional files (`year`,
`species`, `reltype`, `weight`), without `node_` or `edge_` in front.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.errors import DatasetError
from graphprep.system.home import NAME_PATTERN

Array = NDArray[Any]
FEATURES = "feat"
MOST_NODES = 2**48


class Layout(ABC):
    """A dataset's raw files, by node and edge type."""

    node_counts: dict[str, int]
    edge_counts: dict[EdgeType, int]

    @abstractmethod
    def node_names(self, node_type: str) -> tuple[str, ...]:
        """The arrays of a node type, without labels."""

    @abstractmethod
    def edge_names(self, edge_type: EdgeType) -> tuple[str, ...]:
        """The arrays of an edge type."""

    @abstractmethod
    def node_array(self, node_type: str, name: str) -> Array:
        """[N, F], finite; int64 or float32 from text, as stored from .npz. A large one is a memory map."""

    @abstractmethod
    def edge_array(self, edge_type: EdgeType, name: str, repeat: int) -> Array:
        """[E * repeat, F], each row `repeat` times."""

    @abstractmethod
    def labels(self, node_type: str) -> Array | None:
        """[N, tasks], NaN for none; None if the type has no labels."""

    @abstractmethod
    def endpoints(self, edge_type: EdgeType) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Runs of (source, destination), each int64 [n], not compared with the counts."""


def node_type_name(word: str) -> str:
    """`word` as a node type, or part of an edge type.

    Raises:
        DatasetError: it cannot be part of a group's name.
    """
    if not NAME_PATTERN.fullmatch(word) or "__" in word or word.endswith("_"):
        raise DatasetError(f"it calls a type of nodes or edges {word[:60]!r}, which cannot name a group in a store")
    return word


def count_of(value: Any, what: str) -> int:
    """A number of nodes or edges.

    Raises:
        DatasetError: it is none.
    """
    if not 0 <= int(value) < MOST_NODES:
        raise DatasetError(f"it claims {int(value):,} {what}")
    return int(value)


def only_one(counts: Array, name: str, what: str) -> int:
    """The count of a list that has one for each graph, of which a dataset for nodes or links has one.

    Raises:
        DatasetError: it has several graphs, or none.
    """
    if counts.shape != (1,) or counts.dtype.kind not in "iu":
        raise DatasetError(f"{name} has {counts.size} counts of {what}, where one graph has one")
    return count_of(counts[0], what)
