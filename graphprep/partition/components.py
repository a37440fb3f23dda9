"""Connected components of a symmetric graph, by a breadth-first walk. Letters: N nodes, K components."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.read_only import read_only
from graphprep.core.types import Csr


def components(graph: Csr) -> tuple[NDArray[np.int64], int]:
    """The component of each node, int64 [N], and K; they are numbered in the order of their first nodes. O(N + E)."""
    component_N = np.full(graph.num_rows, -1, np.int64)
    count = _walk(read_only(graph.indptr), read_only(graph.indices), component_N, np.empty(graph.num_rows, np.int64))
    return component_N, int(count)


@njit(cache=True)
def _walk(indptr: Any, indices: Any, component_N: Any, queue_N: Any) -> int:
    count = 0
    for start in range(len(component_N)):
        if component_N[start] >= 0:
            continue
        component_N[start] = count
        queue_N[0] = start
        head, tail = 0, 1
        while head < tail:
            node = queue_N[head]
            head += 1
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                if component_N[other] < 0:
                    component_N[other] = count
                    queue_N[tail] = other
                    tail += 1
        count += 1
    return count
