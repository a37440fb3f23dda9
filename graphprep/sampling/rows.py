"""The rows of a batch's nodes and edges: features, labels, masks.

Those of a cache stay in its mapped files until they are read.

Letters: N nodes of a type in the graph, n nodes of a batch, P parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.sampling.graph import node_rows
from graphprep.store.store import GraphStore


class ArrayRows:
    """One array of the nodes or edges of one type, of which any rows can be gathered. Threads may share it."""

    def __init__(self, pieces: Sequence[NDArray[Any]], piece_N: NDArray[Any] | None, row_N: NDArray[Any] | None):
        """Hold the arrays of all parts.

        Args:
            pieces: in C order, equal in dtype and in all but their first dimension.
            piece_N: integers, in which piece each node's row is; None with one piece in the order of the nodes.
            row_N: which row of the piece it is.
        """
        self._pieces, self._piece_N, self._row_N = [_bytes(piece) for piece in pieces], piece_N, row_N
        self._dtype, self._shape = pieces[0].dtype, pieces[0].shape[1:]

    def gather(self, ids_n: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of some nodes, in their order: [n, ...]."""
        found = np.empty((len(ids_n), *self._shape), self._dtype)
        target = _bytes(found)
        if self._piece_N is None or self._row_N is None:
            _copy_rows(self._pieces[0], ids_n, np.arange(len(ids_n)), target)
            return found
        piece_n, row_n = self._piece_N[ids_n], self._row_N[ids_n]
        for number in np.flatnonzero(np.bincount(piece_n, minlength=1)):
            place = np.flatnonzero(piece_n == number)
            _copy_rows(self._pieces[number], row_n[place], place, target)
        return found


class NodeLocations:
    """Where a cache has the rows of the nodes of one type. Letters: as above."""

    def __init__(self, cache: PartitionCache, node_type: str) -> None:
        num_nodes = cache.node_types[node_type]
        self.part_N, self.row_N = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int64)
        for part in range(cache.num_parts):
            ids = cache.node_array(part, node_type, "global_ids")
            self.part_N[ids], self.row_N[ids] = part, np.arange(len(ids))


def rows_of_type(source: GraphStore | PartitionCache, node_type: str, names: Sequence[str]) -> dict[str, ArrayRows]:
    """Some arrays of a node type: mapped from a cache, in memory from a store.

    Raises:
        DatasetError, CacheError: a file is damaged.
    """
    if not isinstance(source, PartitionCache):
        return {
            name: ArrayRows([np.ascontiguousarray(node_rows(source, node_type, name))], None, None) for name in names
        }
    where = NodeLocations(source, node_type) if names else None
    found = {}
    for name in names:
        assert where is not None
        pieces = [source.node_array(part, node_type, name) for part in range(source.num_parts)]
        found[name] = ArrayRows(pieces, where.part_N, where.row_N)
    return found


def _bytes(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Rows as their bytes, without a copy: uint8 [rows, bytes of a row]."""
    width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
    return rows.view(np.ndarray).reshape(-1).view(np.uint8).reshape(len(rows), width)


@njit(cache=True, nogil=True)
def _copy_rows(source, row_k, place_k, target):  # type: ignore[no-untyped-def]
    """target[place_k] = source[row_k], row by row."""
    for k in range(len(row_k)):
        row, place = row_k[k], place_k[k]
        for byte in range(source.shape[1]):
            target[place, byte] = source[row, byte]
