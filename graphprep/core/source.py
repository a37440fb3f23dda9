"""Where a cache's content comes from: a graph that can be read by ranges of rows, be it a store or another cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.original_ids import OriginalIds
from graphprep.core.types import Csr, EdgeType, Rows


class EdgeSource(Protocol):
    """Edges that can be read by ranges of rows."""

    @property
    def num_nodes(self) -> dict[str, int]:
        """By node type."""

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """By edge type."""

    def is_weighted(self, edge_type: EdgeType) -> bool:
        """Whether edges of a type have weights other than 1."""

    def indptr(self, edge_type: EdgeType) -> NDArray[np.int64]:
        """Where each destination's in-edges begin; int64 [N + 1], in memory."""

    def csr_rows(self, edge_type: EdgeType, start: int, stop: int) -> Csr:
        """The in-edges of destinations start .. stop-1."""

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:
        """The names of the further arrays of edges of a type: features, times."""

    def edge_array(self, edge_type: EdgeType, name: str) -> Rows:
        """One of these arrays, in CSR order."""


class GraphSource(EdgeSource, Protocol):
    """A graph in its dataset's own node order. Node types come in name order, edge types in key order."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """`source`: where the data came from."""

    @property
    def name(self) -> str:
        """Of the dataset."""

    @property
    def directed(self) -> bool:
        """False if every edge has its reverse."""

    def node_arrays(self, node_type: str) -> tuple[str, ...]:
        """The names of what nodes of a type have."""

    def node_array(self, node_type: str, name: str) -> Rows | None:
        """One of these arrays; None if there is no such array."""

    def original_ids(self, node_type: str) -> OriginalIds | None:
        """The ids that the nodes of a type had in the source, by row; None where these are the row numbers."""

    def rows(self, node_type: str, name: str, rows_at_a_time: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """A node array as (first row, rows) pieces, in order."""
