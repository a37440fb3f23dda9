"""A run of events as a reader gives them, and what is known of the nodes once all have been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Ids

Array = NDArray[Any]


class EventRows(NamedTuple):
    """Events in the order of the input; ids are numbers that `NodesOfEvents` turns into rows of nodes."""

    source: Ids
    destination: Ids
    time: NDArray[np.int64] | NDArray[np.float64]
    x: NDArray[np.float32] | None = None
    """[M', F]"""
    y: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangingFeatures:
    """Features of nodes that change, in any order: R rows, each true of a node from a time on."""

    node: NDArray[np.int64]
    """[R]: rows of nodes"""
    time: Array
    """[R]: whole or floating-point numbers"""
    x: NDArray[np.float32]
    """[R, D]"""


RowsOf = Callable[[Ids], Ids]
"""turns the numbers of one end of events into rows of nodes"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodesOfEvents:
    """The nodes that events join, known when all events have been read."""

    num_nodes: int
    sources: RowsOf
    destinations: RowsOf
    x: Array | None = None
    """[N, D], may be a memory map"""
    original_id: Array | None = None
    """[N]: whole numbers, or words, where they are not the row numbers"""
    notes: Mapping[str, Any] = field(default_factory=dict)


class EventReader(Protocol):
    """One stream of events in files, or a generated one."""

    num_features: int
    """F of an event; 0 for none"""
    has_states: bool
    """whether events say which state their sources have afterwards"""

    def rows(self) -> Iterator[EventRows]:
        """All events, once.

        Raises:
            DatasetError: with its place, what is no event.
        """
        ...

    def nodes(self) -> NodesOfEvents:
        """The nodes; after `rows`."""
        ...

    def read_as(self) -> list[str]:
        """What was taken as what, for people; after `rows`."""
        ...
