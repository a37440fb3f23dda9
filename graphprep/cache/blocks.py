"""One part's edges, cut into a local block and one block a peer, with the halo that they need.

Two passes over the part's in-edges: the first stamps the distinct remote sources (the halo) and counts the edges of
each row and peer; the second places every edge, its column now an index into the part or into the halo list of its
peer. Memory is one part's blocks plus one column number a node of the graph. Parts can be cut in threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.merge_sort import sort_stably
from graphprep.core.types import Csr


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """Where every node of one type lies. Letters: N nodes of the type, P parts."""

    part_N: NDArray[np.int32]
    """the part of each node"""
    row_N: NDArray[np.int64]
    """its local row there"""
    nodes_P: list[NDArray[np.int64]]
    """the global ids of each part, in local order"""

    @classmethod
    def from_order(cls, assignment_N: NDArray[np.int32], nodes_P: list[NDArray[np.int64]]) -> NodeLayout:
        row_N = np.empty(len(assignment_N), np.int64)
        for nodes in nodes_P:
            row_N[nodes] = np.arange(len(nodes))
        return cls(part_N=assignment_N, row_N=row_N, nodes_P=nodes_P)

    @property
    def num_parts(self) -> int:
        return len(self.nodes_P)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """The edges of a part whose sources one part owns."""

    csr: Csr
    place_E: NDArray[np.int64] | None
    """int64 [E]: which edge of the part's matrix each one is; None if it is not needed"""


def halo(
    matrices: list[Csr], rows: list[NDArray[np.int64] | None], sources: NodeLayout, part: int
) -> list[NDArray[np.int64]]:
    """The distinct remote sources of a part's in-edges, by owner.

    Args:
        matrices: all edge types that leave one node type.
        rows: for each of them, the rows that the part owns; None for all.
        sources: layout of that node type.
        part: the part that receives.

    Returns:
        For each of the P parts the global ids (int64) of its nodes with an edge into `part`, in the order of its local
        rows; empty for `part` itself.
    """
    needed_N = np.zeros(len(sources.part_N), np.bool_)
    for matrix, own_rows in zip(matrices, rows, strict=True):
        _mark_sources(matrix.indptr, matrix.indices, _all_if_none(matrix, own_rows), needed_N)
    needed_N &= sources.part_N != part
    ids = np.flatnonzero(needed_N)
    owner = sources.part_N[ids]
    ids = ids[np.lexsort((sources.row_N[ids], owner))]
    counts_P = np.bincount(owner, minlength=sources.num_parts)
    return np.split(ids, np.cumsum(counts_P)[:-1])


def _all_if_none(matrix: Csr, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    return np.arange(matrix.num_rows) if rows is None else rows


def split_edges(
    matrix: Csr,
    own_rows: NDArray[np.int64],
    sources: NodeLayout,
    halo_P: list[NDArray[np.int64]],
    part: int,
    *,
    with_places: bool = False,
) -> list[Block]:
    """The in-edges of a part as P blocks, by the part that owns the source.

    Args:
        matrix: edges of one type.
        own_rows: the rows that the part owns, in local order.
        sources: layout of the source type.
        halo_P: what `halo` returned for that type.
        part: the part that owns the rows.
        with_places: whether to say which edge of `matrix` each one is.

    Returns:
        Block `part` has local columns; block q has columns that index halo_P[q]. Columns ascend within a row.
    """
    largest = max(len(sources.nodes_P[part]), *(len(ids) for ids in halo_P))
    column_N = sources.row_N.astype(csr.index_dtype(largest))
    for peer, ids in enumerate(halo_P):
        if peer != part:
            column_N[ids] = np.arange(len(ids))
    num_parts = sources.num_parts
    with_places = with_places or matrix.data is not None
    indptr_P, column_E, place_E = _split(
        matrix.indptr, matrix.indices, own_rows, sources.part_N, column_N, num_parts, with_places
    )
    blocks = []
    start = 0
    for peer in range(num_parts):
        indptr = indptr_P[peer]
        stop = start + int(indptr[-1])
        columns, places = column_E[start:stop], place_E[start:stop]
        _sort_rows(indptr, columns, places)
        block = Csr(
            indptr=indptr,
            indices=columns,
            data=None if matrix.data is None else matrix.data[places],
            num_sources=len(sources.nodes_P[part]) if peer == part else len(halo_P[peer]),
        )
        blocks.append(Block(csr=block, place_E=places if with_places else None))
        start = stop
    return blocks


@njit(cache=True, nogil=True)
def _mark_sources(indptr, indices, own_rows, needed_N):  # type: ignore[no-untyped-def]
    for row in own_rows:
        for e in range(indptr[row], indptr[row + 1]):
            needed_N[indices[e]] = True


@njit(cache=True, nogil=True)
def _split(indptr, indices, own_rows, part_N, column_N, num_parts, with_places):  # type: ignore[no-untyped-def]
    """Row offsets of each block [P, n + 1]; columns and places of all blocks, one block after another."""
    num_rows = len(own_rows)
    offsets_P = np.zeros((num_parts, num_rows + 1), np.int64)
    total = 0
    for i in range(num_rows):
        row = own_rows[i]
        for e in range(indptr[row], indptr[row + 1]):
            offsets_P[part_N[indices[e]], i + 1] += 1
        total += indptr[row + 1] - indptr[row]
    place_P = np.zeros(num_parts, np.int64)
    start = 0
    for peer in range(num_parts):
        for i in range(num_rows):
            offsets_P[peer, i + 1] += offsets_P[peer, i]
        place_P[peer] = start
        start += offsets_P[peer, num_rows]
    columns = np.empty(total, column_N.dtype)
    places = np.empty(total if with_places else 0, np.int64)
    for i in range(num_rows):
        row = own_rows[i]
        for e in range(indptr[row], indptr[row + 1]):
            node = indices[e]
            at = place_P[part_N[node]]
            place_P[part_N[node]] = at + 1
            columns[at] = column_N[node]
            if with_places:
                places[at] = e
    return offsets_P, columns, places


@njit(cache=True, nogil=True)
def _sort_rows(indptr, columns, places):  # type: ignore[no-untyped-def]
    """Sort each row by column, its places with it if there are any; equal columns keep their order."""
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        ascending = True
        for e in range(start + 1, stop):
            ascending = ascending and columns[e - 1] <= columns[e]
        if ascending:
            continue
        sort_stably(columns[start:stop], places[start:stop] if len(places) else places)
