"""The parts of new nodes: the same as a slow walk in Python gives, whatever the graph."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, Csr, EdgeType
from graphprep.partition.extension import parts_of_all
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges


class Memory:
    """An EdgeSource of matrices in memory."""

    def __init__(self, matrices: dict[EdgeType, Csr], num_nodes: dict[str, int]) -> None:
        self.matrices, self.num_nodes = matrices, num_nodes
        self.num_edges = {kind: matrix.num_edges for kind, matrix in matrices.items()}

    def is_weighted(self, edge_type: EdgeType) -> bool:
        return self.matrices[edge_type].data is not None

    def indptr(self, edge_type: EdgeType) -> NDArray[np.int64]:
        return self.matrices[edge_type].indptr

    def csr_rows(self, edge_type: EdgeType, start: int, stop: int) -> Csr:
        matrix = self.matrices[edge_type]
        edges = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
        return Csr(
            indptr=matrix.indptr[start : stop + 1] - matrix.indptr[start],
            indices=matrix.indices[edges],
            data=None if matrix.data is None else matrix.data[edges],
            num_sources=matrix.num_sources,
        )

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:
        return ()

    def edge_array(self, edge_type: EdgeType, name: str) -> NDArray[np.float32]:
        raise KeyError(edge_type, name)


def walked(matrix: Csr, known: NDArray[np.int32], shares: NDArray[np.float64]) -> list[int]:
    """The rule, node by node; edge cost 1, node cost 10."""
    count, num_parts = matrix.num_rows, len(shares)
    part = [*map(int, known), *[-1] * (count - len(known))]
    near: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    load = 10.0 + np.diff(matrix.indptr)
    for row in range(count):
        for e in range(matrix.indptr[row], matrix.indptr[row + 1]):
            source, weight = int(matrix.indices[e]), 1.0 if matrix.data is None else float(matrix.data[e])
            if source != row:
                near[row].append((source, weight))
                near[source].append((row, weight))
    loads = [sum(load[node] for node in range(count) if part[node] == p) / shares[p] for p in range(num_parts)]
    new = range(len(known), count)
    queue = deque(node for node in new if any(other < len(known) for other, _ in near[node]))
    queued = set(queue)
    for _ in new:
        if not queue:
            queue.append(next(node for node in new if node not in queued))
            queued.add(queue[0])
        node = queue.popleft()
        sums: dict[int, float] = {}
        for other, weight in near[node]:
            if part[other] >= 0:
                sums[part[other]] = sums.get(part[other], 0.0) + weight
        fresh = sorted({other for other, _ in near[node]} - queued - set(range(len(known))))
        queue.extend(fresh)
        queued |= set(fresh)
        most = max(sums.values(), default=0.0)
        best = [p for p in range(num_parts) if sums.get(p, 0.0) == most and (not sums or p in sums)]
        part[node] = min(best, key=lambda p: (loads[p], p))
        loads[part[node]] += load[node] / shares[part[node]]
    return part


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    old=st.integers(1, 12),
    new=st.integers(0, 12),
    num_edges=st.integers(0, 40),
    num_parts=st.integers(1, 4),
)
def test_parts_are_those_of_a_slow_walk(seed: int, old: int, new: int, num_edges: int, num_parts: int) -> None:
    """Guards against old nodes that move, and against neighbours, weights and loads that do not count."""
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, old + new, num_edges)
    weights = rng.integers(1, 4, num_edges).astype(np.float32)
    matrix = csr_of(edges._replace(weight=weights), old + new)
    known = rng.integers(0, num_parts, old).astype(np.int32)
    shares = rng.integers(1, 3, num_parts) / 4
    found = parts_of_all(Memory({HOMOGENEOUS_EDGE: matrix}, {"node": old + new}), {"node": known}, shares)
    assert found.dtype == np.int32
    assert found.tolist() == walked(matrix, known, shares)


def test_types_are_joined_in_name_order() -> None:
    """Guards against parts of one type's nodes that are given to another's."""
    writes = EdgeType("author", "writes", "paper")
    matrix = csr_of(random_edges(np.random.default_rng(0), 1, 0), 1)
    matrix = Csr(indptr=np.array([0, 0, 1, 2, 3]), indices=np.array([0, 1, 2], np.int32), num_sources=3)
    known = {"author": np.array([0, 1], np.int32), "paper": np.array([1, 0], np.int32)}
    found = parts_of_all(Memory({writes: matrix}, {"author": 3, "paper": 4}), known, np.array([0.5, 0.5]))
    # The third paper has the author of part 1; the new author and the last paper are alone with each other.
    assert found[:2].tolist() == [0, 1]
    assert found[3:5].tolist() == [1, 0]
    assert found[5] == 1
    assert found[2] == found[6]


@pytest.mark.slow
def test_the_kernel_stays_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against reads and writes beside arrays, which numba does not check by itself."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.core.types import HOMOGENEOUS_EDGE, Csr\n"
        "from tests.partition.test_extension import Memory, walked\n"
        "from graphprep.partition.extension import parts_of_all\n"
        "ends = np.sort(np.random.default_rng(1).integers(0, 100, 59))\n"
        "columns = np.random.default_rng(2).integers(0, 60, 100).astype(np.int32)\n"
        "matrix = Csr(indptr=np.array([0, *ends, 100]), indices=columns, num_sources=60)\n"
        "known = (np.arange(30) % 3).astype(np.int32)\n"
        "shares = np.array([0.5, 0.25, 0.25])\n"
        "found = parts_of_all(Memory({HOMOGENEOUS_EDGE: matrix}, {'node': 60}), {'node': known}, shares)\n"
        "assert found.tolist() == walked(matrix, known, shares)\n"
    )
