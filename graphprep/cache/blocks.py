"""One part's edges, cut into a local block and one block a peer, with the halo that they need.

Two passes over the part's in-edges: the first stamps the distinct remote sources (the halo) and counts the edges of
each row and peer; the second places every edge, its column now an index into the part or into the halo list of its
peer. Memory is one part's blocks plus one int64 a node of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.csr import sort_rows
from graphprep.graph import Csr


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where every node of one type lies. Letters: N nodes of the type, P parts."""

    part_N: NDArray[np.int32]
    """the part of each node"""
    row_N: NDArray[np.int64]
    """its local row there"""
    nodes_P: list[NDArray[np.int64]]
    """the global ids of each part, in local order"""

    @classmethod
    def from_order(cls, assignment_N: NDArray[np.int32], nodes_P: list[NDArray[np.int64]]) -> Layout:
        row_N = np.empty(len(assignment_N), np.int64)
        for nodes in nodes_P:
            row_N[nodes] = np.arange(len(nodes))
        return cls(part_N=assignment_N, row_N=row_N, nodes_P=nodes_P)

    @property
    def num_parts(self) -> int:
        return len(self.nodes_P)


def halo(matrices: list[Csr], rows: list[NDArray[np.int64]], sources: Layout, part: int) -> list[NDArray[np.int64]]:
    """The distinct remote sources of a part's in-edges, by owner.

    Args:
        matrices: all edge types that leave one node type, whole graph.
        rows: for each of them, the global destination rows that the part owns.
        sources: layout of that node type.
        part: the part that receives.

    Returns:
        For each of the P parts the global ids (int64) of its nodes with an edge into `part`, in the order of its local
        rows; empty for `part` itself.
    """
    needed_N = np.zeros(len(sources.part_N), np.bool_)
    for matrix, own_rows in zip(matrices, rows, strict=True):
        _mark_sources(matrix.indptr, matrix.indices, own_rows, needed_N)
    needed_N &= sources.part_N != part
    ids = np.flatnonzero(needed_N)
    owner = sources.part_N[ids]
    ids = ids[np.lexsort((sources.row_N[ids], owner))]
    counts_P = np.bincount(owner, minlength=sources.num_parts)
    return np.split(ids, np.cumsum(counts_P)[:-1])


def split_edges(
    matrix: Csr,
    own_rows: NDArray[np.int64],
    sources: Layout,
    halo_P: list[NDArray[np.int64]],
    part: int,
) -> list[Csr]:
    """The in-edges of a part as P blocks, by the part that owns the source.

    Args:
        matrix: one edge type, whole graph.
        own_rows: global destination rows that the part owns, in local order.
        sources: layout of the source type.
        halo_P: what `halo` returned for that type.
        part: the part that owns the rows.

    Returns:
        Block `part` has local columns; block q has columns that index halo_P[q]. Columns ascend within a row.
    """
    column_N = sources.row_N.copy()
    for peer, ids in enumerate(halo_P):
        if peer != part:
            column_N[ids] = np.arange(len(ids))
    num_parts = sources.num_parts
    indptr_P, indices_P, data_P = _split(
        matrix.indptr,
        matrix.indices,
        np.zeros(0, np.float32) if matrix.data is None else matrix.data,
        own_rows,
        sources.part_N,
        column_N,
        num_parts,
    )
    blocks = []
    start = 0
    for peer in range(num_parts):
        indptr = indptr_P[peer]
        stop = start + int(indptr[-1])
        indices = indices_P[start:stop]
        data = None if matrix.data is None else data_P[start:stop]
        sort_rows(indptr, indices, np.zeros(0, np.float32) if data is None else data)
        width = len(sources.nodes_P[part]) if peer == part else len(halo_P[peer])
        blocks.append(Csr(indptr=indptr, indices=indices, data=data, num_sources=width))
        start = stop
    return blocks


@njit(cache=True)
def _mark_sources(indptr, indices, own_rows, needed_N):  # type: ignore[no-untyped-def]
    for row in own_rows:
        for e in range(indptr[row], indptr[row + 1]):
            needed_N[indices[e]] = True


@njit(cache=True)
def _split(indptr, indices, data, own_rows, part_N, column_N, num_parts):  # type: ignore[no-untyped-def]
    """Row offsets of each block [P, n + 1]; columns and weights of all blocks, one block after another."""
    num_rows = len(own_rows)
    offsets_P = np.zeros((num_parts, num_rows + 1), np.int64)
    total = 0
    for i in range(num_rows):
        row = own_rows[i]
        for e in range(indptr[row], indptr[row + 1]):
            offsets_P[part_N[indices[e]], i + 1] += 1
        total += indptr[row + 1] - indptr[row]
    start_P = np.zeros(num_parts + 1, np.int64)
    for peer in range(num_parts):
        for i in range(num_rows):
            offsets_P[peer, i + 1] += offsets_P[peer, i]
        start_P[peer + 1] = start_P[peer] + offsets_P[peer, num_rows]
    columns = np.empty(total, np.int64)
    weights = np.empty(total if len(data) else 0, np.float32)
    place_P = start_P[:num_parts].copy()
    for i in range(num_rows):
        row = own_rows[i]
        for e in range(indptr[row], indptr[row + 1]):
            node = indices[e]
            at = place_P[part_N[node]]
            place_P[part_N[node]] = at + 1
            columns[at] = column_N[node]
            if len(data):
                weights[at] = data[e]
    return offsets_P, columns, weights
