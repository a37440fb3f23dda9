"""The order of nodes inside a part: neighbours near each other, so that a pass over the CSR reads from cache.

Reverse Cuthill-McKee (George, Liu: Computer Solution of Large Sparse Positive Definite Systems, 1981; SciPy's code)
over the part's own edges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.csr import INT32_LIMIT
from graphprep.graph import Csr


def locality_order(graph: Csr, assignment_N: NDArray[np.int32], num_parts: int) -> list[NDArray[np.int64]]:
    """The nodes of each part, ordered for locality.

    Args:
        graph: symmetric, no self-loops, no duplicates.
        assignment_N: int32 [N].

    Returns:
        One int64 array a part: its nodes' rows in the graph; together a permutation of 0 .. N-1.
    """
    nodes = np.argsort(assignment_N, kind="stable").astype(np.int64)
    bounds = np.searchsorted(assignment_N[nodes], np.arange(num_parts + 1))
    parts = [nodes[bounds[part] : bounds[part + 1]] for part in range(num_parts)]
    if graph.num_edges >= INT32_LIMIT:
        return parts  # SciPy's routine holds offsets in 32 bits; parts keep the dataset's order there
    return _ordered(graph, parts)


def _ordered(graph: Csr, parts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    ones = np.ones(graph.num_edges, np.int8)
    whole = csr_matrix((ones, graph.indices, graph.indptr), shape=(graph.num_rows, graph.num_rows), copy=False)
    return [
        nodes[reverse_cuthill_mckee(whole[nodes][:, nodes], symmetric_mode=True)] if len(nodes) > 2 else nodes
        for nodes in parts
    ]
