"""What goes from part to part: distinct rows and edges of every ordered pair.

V[p,q], the number of distinct nodes of part p with an edge into part q, is counted one destination part at a time. The
rows of part q are walked; the first time that one of their columns is met it is stamped with q and counted for its own
part. One int32 stamp a node replaces the N x P table of marks, and nothing is sorted: O(N + E) time, 4 bytes a node and
thread. Each thread has stamps of its own and writes to columns of its own parts, so that the counts are exact whatever
the number of threads; there are as many threads as keep the stamps below the size of the column indices.

A node with edges of several types into the same part is counted once: stamps are kept over all edge types that leave
one node type.

Letters: N nodes, E directed edges, P parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.read_only import read_only
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import PartitionError
from graphprep.system.threads import cores

Matrices = Mapping[EdgeType, Csr]
"""In-edges of every edge type."""
Assignments = Mapping[str, NDArray[np.int32]]
"""int32 [N] for every node type: the part of each node."""

EDGES_A_THREAD = 1 << 20
"""Fewer are counted sooner than a thread is started."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelayedRows:
    """What one exchange really sends where rows are relayed (`graphprep.traffic.relay`), stage after stage.

    Rows on their first hop are stage 1. Over all stages each rank receives the rows that it needs, each once.
    """

    rows_SPP: NDArray[np.int64]
    """int64 [S, P, P]: rows from rank to rank"""
    messages_SPP: NDArray[np.int64]
    """int64 [S, P, P]: messages; one passes on the rows of a group of owners (`Relays.batch_P`)"""

    def reversed(self) -> RelayedRows:
        """The exchange of the backward pass: the last hop is the first of the way back."""
        return RelayedRows(
            rows_SPP=self.rows_SPP[::-1].transpose(0, 2, 1), messages_SPP=self.messages_SPP[::-1].transpose(0, 2, 1)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """What one exchange moves. Row p, column q of a matrix is what part p sends to part q; diagonals are 0."""

    rows_PP: NDArray[np.int64]
    """int64 [P, P]: distinct (type, node) of part p with an edge into part q."""
    edges_PP: NDArray[np.int64]
    """int64 [P, P]: directed edges from part p into part q."""
    local_edges_P: NDArray[np.int64]
    """int64 [P]: edges with both ends in the part."""
    relayed: RelayedRows | None = None
    """What is really sent, where it is not `rows_PP` itself."""

    @property
    def num_parts(self) -> int:
        return len(self.local_edges_P)

    @property
    def in_edges_P(self) -> NDArray[np.int64]:
        """int64 [P]: edges into the part's nodes, which are the edges that the part stores."""
        return np.asarray(self.local_edges_P + self.edges_PP.sum(axis=0))

    @property
    def halo_rows_P(self) -> NDArray[np.int64]:
        """int64 [P]: rows that the part receives."""
        return np.asarray(self.rows_PP.sum(axis=0))

    def reversed(self) -> Traffic:
        """The exchange of the backward pass: every receiver sends back as many rows as it had received."""
        return Traffic(
            rows_PP=self.rows_PP.T,
            edges_PP=self.edges_PP.T,
            local_edges_P=self.local_edges_P,
            relayed=None if self.relayed is None else self.relayed.reversed(),
        )

    def without_relays(self) -> Traffic:
        """The same, every row sent by its owner."""
        return replace(self, relayed=None)


Count = Callable[[Matrices, Assignments, int], Traffic]
"""A way to count, of which there are several with one result: `count_traffic`, `in_order`, `by_ranges`."""


def count_traffic(csrs: Matrices, assignments: Assignments, num_parts: int) -> Traffic:
    """Count the rows and edges that go from part to part.

    Args:
        csrs: in-edges of every edge type, duplicates and self-loops as they are.
        assignments: int32 [N] for every node type.
        num_parts: P; parts may be empty.

    Raises:
        PartitionError: an assignment is absent, of another length than its type has nodes, or names a part that
            is not there.
    """
    check_assignments(csrs, assignments, num_parts)
    grouped = {node_type: _rows_by_part(part_N, num_parts) for node_type, part_N in assignments.items()}
    rows_PP = np.zeros((num_parts, num_parts), np.int64)
    edges_PP = np.zeros((num_parts, num_parts), np.int64)
    for source in dict.fromkeys(kind.source for kind in csrs):
        leaving = [(csr, grouped[kind.destination]) for kind, csr in csrs.items() if kind.source == source]
        _count_leaving(assignments[source], leaving, rows_PP, edges_PP)
    local_edges_P = np.diagonal(edges_PP).copy()
    np.fill_diagonal(edges_PP, 0)
    return Traffic(rows_PP=rows_PP, edges_PP=edges_PP, local_edges_P=local_edges_P)


def check_assignments(csrs: Matrices, assignments: Assignments, num_parts: int) -> None:
    """Raise PartitionError where an assignment does not fit the graph; the kernels trust it."""
    check_counts({kind: (csr.num_rows, csr.num_sources) for kind, csr in csrs.items()}, assignments, num_parts)


def check_counts(counts: Mapping[EdgeType, tuple[int, int]], assignments: Assignments, num_parts: int) -> None:
    """The same from the numbers of destinations and sources of each edge type."""
    for kind, (num_rows, num_sources) in counts.items():
        for node_type, num_nodes in ((kind.destination, num_rows), (kind.source, num_sources)):
            if node_type not in assignments:
                raise PartitionError(f"nodes of type {node_type!r} are not assigned, and edges {kind.key!r} need them")
            found = len(assignments[node_type])
            if found != num_nodes:
                raise PartitionError(f"{found:,} nodes of type {node_type!r} are assigned, and there are {num_nodes:,}")
    for node_type, part_N in assignments.items():
        if len(part_N) and not 0 <= int(part_N.min()) <= int(part_N.max()) < num_parts:
            raise PartitionError(
                f"nodes of type {node_type!r} are assigned to parts {part_N.min()} to {part_N.max()}, "
                f"and there are parts 0 to {num_parts - 1}"
            )


def _rows_by_part(part_N: NDArray[np.int32], num_parts: int) -> list[NDArray[np.int64]]:
    """The nodes of each part, ascending."""
    starts = np.zeros(num_parts + 1, np.int64)
    np.cumsum(np.bincount(part_N, minlength=num_parts), out=starts[1:])
    node_N = np.empty(len(part_N), np.int64)
    group_by_part(read_only(part_N), starts[:-1].copy(), node_N)
    return np.split(node_N, starts[1:-1])


def _count_leaving(
    part_N: NDArray[np.int32],
    leaving: list[tuple[Csr, list[NDArray[np.int64]]]],
    rows_PP: NDArray[np.int64],
    edges_PP: NDArray[np.int64],
) -> None:
    """Add what the nodes of one type send. `leaving`: each edge type's CSR with its destinations by part."""
    num_parts, num_nodes = len(rows_PP), len(part_N)
    num_edges = sum(csr.num_edges for csr, _ in leaving)
    threads = max(1, min(cores(), num_parts, num_edges // EDGES_A_THREAD, num_edges // max(num_nodes, 1)))
    free_stamps = [np.full(num_nodes, -1, np.int32) for _ in range(threads)]

    def count_into(q: int) -> None:
        stamp_N = free_stamps.pop()
        rows_P, edges_P = np.zeros(num_parts, np.int64), np.zeros(num_parts, np.int64)
        for csr, node_lists in leaving:
            indptr, indices = read_only(csr.indptr), read_only(csr.indices)
            count_columns(indptr, indices, node_lists[q], q, read_only(part_N), stamp_N, rows_P, edges_P)
        rows_PP[:, q] += rows_P
        edges_PP[:, q] += edges_P
        free_stamps.append(stamp_N)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(count_into, range(num_parts)))


@njit(cache=True)
def group_by_part(part_N: Any, place_P: Any, node_N: Any) -> None:
    """Counting sort: fill node_N [N] with the nodes in the order of their parts; place_P is where each part begins."""
    for node in range(len(part_N)):
        part = part_N[node]
        node_N[place_P[part]] = node
        place_P[part] += 1


@njit(cache=True, nogil=True)
def count_columns(
    indptr: Any, indices: Any, rows: Any, q: int, part_N: Any, stamp_N: Any, rows_P: Any, edges_P: Any
) -> None:
    """Count, by the part of the column, the edges into `rows`, which are of part q, and the columns not yet stamped."""
    for row in rows:
        for e in range(indptr[row], indptr[row + 1]):
            node = indices[e]
            p = part_N[node]
            edges_P[p] += 1
            if p != q and stamp_N[node] != q:
                stamp_N[node] = q
                rows_P[p] += 1
