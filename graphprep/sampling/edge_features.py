"""The features of drawn edges: an array of a cache's edges, mapped as the parts have it, or the edges' weights.

Which row of which file an edge has is held in memory, 5 bytes an edge (8 and more from 2^31 edges or 17 parts on); the
rows themselves stay in the cache's files until they are drawn.

Letters: E edges of the graph, e of a batch, D features.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, product

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import edge_places
from graphprep.core.bfloat16 import to_float32
from graphprep.core.types import Csr, EdgeType
from graphprep.sampling.rows import ArrayRows

WEIGHTS = "weights"
"""the name by which weights are features, as in trainer/data/cache.py"""


class EdgeFeatures:
    """The features of the edges of one type."""

    def __init__(self, cache: PartitionCache, kind: EdgeType, name: str, matrix: Csr) -> None:
        """Find the rows.

        Args:
            cache: whose edges they are.
            kind: their type.
            name: of an array of these edges, or `WEIGHTS`.
            matrix: the edges that are drawn; its `edge_number` says which of the cache's edges each is, and None that
                they are all of them.

        Raises:
            CacheError: a file is damaged.
        """
        self._matrix, self._rows = matrix, None
        self.width = 1
        if name == WEIGHTS:
            return
        blocks = list(product(range(cache.num_parts), repeat=2))
        pieces = [cache.edge_array(part, kind, owner, name) for part, owner in blocks]
        place_E = edge_places(cache, kind)
        starts = np.array([0, *accumulate(map(len, pieces))])
        piece_E = np.searchsorted(starts, place_E, side="right") - 1
        row_E = place_E - starts[piece_E]
        index_type = np.int32 if len(place_E) < 2**31 else np.int64
        piece_type = np.uint8 if len(pieces) <= 1 << 8 else np.int32
        self._rows = ArrayRows(pieces, piece_E.astype(piece_type), row_E.astype(index_type))
        self.width = pieces[0].shape[1] if pieces[0].ndim == 2 else 1

    def gather(self, number_e: NDArray[np.int64]) -> NDArray[np.float32]:
        """The features of some edges of the matrix, by their numbers in it: [e, D]."""
        if self._rows is None:
            data = self._matrix.data
            return np.ones((len(number_e), 1), np.float32) if data is None else data[number_e][:, None]
        if self._matrix.edge_number is not None:
            number_e = self._matrix.edge_number[number_e]
        values = to_float32(self._rows.gather(number_e)).astype(np.float32, copy=False)
        return values.reshape(len(number_e), self.width)


def features_by_type(
    cache: PartitionCache, name: str | None, edges: Mapping[EdgeType, Csr]
) -> dict[EdgeType, EdgeFeatures]:
    """Those of all types, by an array's name; nothing for None.

    Raises:
        CacheError: a file is damaged.
    """
    if name is None:
        return {}
    return {kind: EdgeFeatures(cache, kind, name, matrix) for kind, matrix in edges.items()}
