"""A cache as a `GraphSource`: the whole graph in the dataset's own order, from which another cache can be written.

Node arrays are gathered from the parts a range of rows at a time. The edges of a type are rebuilt in memory at
first use, and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import X_AGGREGATED
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr, rebuild_edge_arrays
from graphprep.core.original_ids import OriginalIds
from graphprep.core.types import Csr, EdgeType


class CacheSource:
    """The graph of a cache; a `GraphSource`."""

    def __init__(self, cache: PartitionCache) -> None:
        self.cache = cache
        self._row_N: dict[str, NDArray[np.int64]] = {}
        self._csr: dict[EdgeType, Csr] = {}

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {"source": self.cache.attributes["source"]}

    @property
    def location(self) -> str:
        """The cache's folder."""
        return str(self.cache.folder)

    @property
    def key(self) -> str:
        """The key of the cache: over everything that determines its content."""
        return self.cache.key

    def require_unchanged(self, prefix: str = "") -> None:  # noqa: ARG002 - all files of a cache go into each array
        """Compare the cache with its checksums, once.

        Raises:
            CacheError: a file is missing or has changed.
        """
        self.cache.require_unchanged()

    @property
    def name(self) -> str:
        return str(self.cache.attributes["dataset"])

    @property
    def directed(self) -> bool:
        return bool(self.cache.attributes["directed"])

    @property
    def num_nodes(self) -> dict[str, int]:
        return self.cache.node_types

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        counts = self.cache.attributes["edge_types"]
        return {kind: int(counts[kind.key]) for kind in self.cache.edge_types}

    def node_arrays(self, node_type: str) -> tuple[str, ...]:
        names = self.cache.node_arrays(0, node_type)
        return names if self.cache.aggregated(node_type) == "none" else (*names, X_AGGREGATED)

    def node_array(self, node_type: str, name: str) -> _NodeArray | None:
        return _NodeArray(self, node_type, name) if name in self.node_arrays(node_type) else None

    def original_ids(self, node_type: str) -> OriginalIds | None:
        return self.cache.original_ids(node_type)

    def rows(self, node_type: str, name: str, rows_at_a_time: int) -> Iterator[tuple[int, NDArray[Any]]]:
        array = _NodeArray(self, node_type, name)
        for start in range(0, self.num_nodes[node_type], rows_at_a_time):
            yield start, array[start : start + rows_at_a_time]

    def is_weighted(self, edge_type: EdgeType) -> bool:
        return self.cache.block(0, edge_type, 0).data is not None

    def csr(self, edge_type: EdgeType) -> Csr:
        """All in-edges of one type in memory."""
        if edge_type not in self._csr:
            self._csr[edge_type] = rebuild_csr(self.cache, edge_type)
        return self._csr[edge_type]

    def indptr(self, edge_type: EdgeType) -> NDArray[np.int64]:
        return self.csr(edge_type).indptr

    def csr_rows(self, edge_type: EdgeType, start: int, stop: int) -> Csr:
        matrix = self.csr(edge_type)
        edges = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
        return Csr(
            indptr=matrix.indptr[start : stop + 1] - matrix.indptr[start],
            indices=matrix.indices[edges],
            data=None if matrix.data is None else matrix.data[edges],
            num_sources=matrix.num_sources,
        )

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:
        return self.cache.edge_arrays(edge_type)

    def edge_array(self, edge_type: EdgeType, name: str) -> NDArray[Any]:
        return rebuild_edge_arrays(self.cache, edge_type, [name])[name]

    def rows_in_parts(self, node_type: str) -> NDArray[np.int64]:
        """int64 [N]: the row of each node in its part."""
        if node_type not in self._row_N:
            row_N = np.empty(self.num_nodes[node_type], np.int64)
            for part in range(self.cache.num_parts):
                ids = self.cache.node_array(part, node_type, "global_ids")
                row_N[ids] = np.arange(len(ids))
            self._row_N[node_type] = row_N
        return self._row_N[node_type]


class _NodeArray:
    """One node array, in the dataset's own order."""

    def __init__(self, whole: CacheSource, node_type: str, name: str) -> None:
        self._whole, self._node_type = whole, node_type
        cache = whole.cache
        self._pieces = [cache.node_array(part, node_type, name) for part in range(cache.num_parts)]
        self.dtype: np.dtype[Any] = self._pieces[0].dtype
        self.shape: tuple[int, ...] = (whole.num_nodes[node_type], *self._pieces[0].shape[1:])

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape))

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        part_n = self._whole.cache.assignment(self._node_type)[rows]
        row_n = self._whole.rows_in_parts(self._node_type)[rows]
        gathered = np.empty((len(part_n), *self.shape[1:]), self.dtype)
        for part, piece in enumerate(self._pieces):
            chosen = np.flatnonzero(part_n == part)
            gathered[chosen] = piece[row_n[chosen]]
        return gathered
