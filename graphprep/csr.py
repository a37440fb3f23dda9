"""Edges in any order become CSR: rows are destinations, columns ascend within a row.

Three passes, each close to memory speed: edges are scattered into buckets of neighbouring destination rows (the
scatter of a radix sort, one histogram a thread); each bucket, small enough for the cache, is counting-sorted by row;
each row is sorted by column. Buckets and rows are independent, so the passes run on all threads, and the result does
not depend on how many there are: edges that are equal in row and column keep the order in which they were given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from graphprep import csr_kernels as kernels
from graphprep.errors import DatasetError
from graphprep.graph import Csr, EdgeChunk, Treatment

ROW_BITS = 14
"""A bucket holds 2^14 rows: their counters (8 bytes each) stay within a core's L2 cache."""

INT32_LIMIT = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCounts:
    """What was found among the edges and what was done about it; kept in the store's attributes."""

    given: int
    """edges that the source listed"""
    reversed_added: int
    """missing reverse edges added to make the graph undirected"""
    self_loops_found: int
    self_loops_dropped: int
    self_loops_added: int
    duplicates_found: int
    """edges equal in source and destination to an earlier one"""
    duplicates_removed: int
    edges: int
    """edges in the result"""


def index_dtype(num_sources: int) -> type[np.int32] | type[np.int64]:
    """The dtype of column indices: int32 while there are fewer than 2^31 source nodes."""
    return np.int32 if num_sources < INT32_LIMIT else np.int64


def from_edges(
    chunks: Iterable[EdgeChunk], *, num_rows: int, num_sources: int, treatment: Treatment, name: str
) -> tuple[Csr, EdgeCounts]:
    """Sort streamed edges into CSR and treat reversals, self-loops and duplicates as asked.

    Args:
        chunks: runs of (src int64, dst int64, weight float32 or None); all weighted or none.
        num_rows: destination nodes.
        num_sources: source nodes.
        treatment: what to do with direction, self-loops and duplicates; all but "keep" need num_rows == num_sources.
        name: of the edge type, for error messages.

    Returns:
        The CSR and the counts of what was found and done.

    Raises:
        DatasetError: an id outside 0 .. N-1, or a negative one.
    """
    src_E, dst_E, weight_E = _gather(chunks, name)
    given = len(src_E)
    _check_range(src_E, num_sources, "source", name)
    _check_range(dst_E, num_rows, "destination", name)
    square = num_rows == num_sources
    loop_E = src_E == dst_E if square else np.zeros(0, np.bool_)
    loops_found = int(loop_E.sum())
    dropped = 0
    if loops_found and treatment.self_loops == "drop":
        src_E, dst_E = src_E[~loop_E], dst_E[~loop_E]
        weight_E = None if weight_E is None else weight_E[~loop_E]
        dropped = loops_found
    indptr, indices, data = _sorted_csr(src_E, dst_E, weight_E, num_rows, num_sources)
    del src_E, dst_E, weight_E
    reversed_added = 0
    if treatment.undirected:
        mirrored = transpose(Csr(indptr=indptr, indices=indices, data=data, num_sources=num_sources))
        before = len(indices)
        indptr, indices, data = kernels.with_missing_reverses(
            indptr, indices, data, mirrored.indptr, mirrored.indices, mirrored.data
        )
        reversed_added = len(indices) - before
    duplicates = kernels.count_duplicates(indptr, indices)
    removed = 0
    if duplicates and treatment.duplicates != "keep":
        summed = treatment.duplicates == "sum"
        if summed and data is None:
            data = np.ones(len(indices), np.float32)
        indptr, indices, data = kernels.without_duplicates(indptr, indices, data, summed)
        removed = duplicates
    added = 0
    if treatment.self_loops == "add":
        before = len(indices)
        indptr, indices, data = kernels.with_self_loops(indptr, indices, data)
        added = len(indices) - before
    counts = EdgeCounts(
        given=given,
        reversed_added=reversed_added,
        self_loops_found=loops_found,
        self_loops_dropped=dropped,
        self_loops_added=added,
        duplicates_found=duplicates,
        duplicates_removed=removed,
        edges=len(indices),
    )
    return Csr(indptr=indptr, indices=indices, data=data, num_sources=num_sources), counts


def transpose(csr: Csr) -> Csr:
    """The CSR of the reversed edges; columns ascend again since rows are visited in order. O(E + N)."""
    dtype = index_dtype(csr.num_rows)
    indptr, indices, data = kernels.transpose(
        csr.indptr, csr.indices, _data_or_empty(csr.data), csr.num_sources, np.zeros(0, dtype)
    )
    return Csr(indptr=indptr, indices=indices, data=None if csr.data is None else data, num_sources=csr.num_rows)


def is_symmetric(csr: Csr) -> bool:
    """Whether every edge has its reverse, as often as it occurs (weights are not compared)."""
    if csr.num_rows != csr.num_sources:
        return False
    mirrored = transpose(Csr(indptr=csr.indptr, indices=csr.indices, num_sources=csr.num_sources))
    return np.array_equal(mirrored.indptr, csr.indptr) and np.array_equal(mirrored.indices, csr.indices)


def undirected_simple(csr: Csr) -> Csr:
    """The graph that partitioners want: symmetric, without self-loops or duplicates.

    Returns:
        A square CSR whose data is float32: the number of directed edges that stand behind each undirected one
        (2 for an edge given both ways).
    """
    mirrored = transpose(csr)
    indptr, indices, data = kernels.merge_rows(csr.indptr, csr.indices, mirrored.indptr, mirrored.indices)
    return Csr(indptr=indptr, indices=indices, data=data, num_sources=csr.num_sources)


def count_self_loops(csr: Csr) -> int:
    """Edges whose source is their destination."""
    return int(kernels.count_self_loops(csr.indptr, csr.indices)) if csr.num_rows == csr.num_sources else 0


def weighted_in_degree(csr: Csr) -> NDArray[np.float32]:
    """Sum of the weights of each row, added in float64; float32 [N_dst]."""
    if csr.data is None:
        return np.diff(csr.indptr).astype(np.float32)
    sums: NDArray[np.float32] = kernels.row_sums(csr.indptr, csr.data)
    return sums


def fault(csr: Csr) -> str | None:
    """What makes this CSR invalid, in words, or None: offsets, column range, column order."""
    if csr.indptr[0] != 0 or csr.indptr[-1] != csr.num_edges:
        return f"row offsets run from {csr.indptr[0]} to {csr.indptr[-1]}, not from 0 to {csr.num_edges}"
    row = int(kernels.first_bad_row(csr.indptr, csr.indices, csr.num_sources))
    if row < 0:
        return None
    if csr.indptr[row + 1] < csr.indptr[row]:
        return f"row offsets fall at row {row}"
    return f"columns of row {row} are out of range 0 .. {csr.num_sources - 1} or do not ascend"


def sort_rows(indptr: NDArray[np.integer], indices: NDArray[np.integer], data: NDArray[np.float32] | None) -> None:
    """Sort each row by column in place, its weights with it; equal columns keep their order."""
    if data is None:
        kernels.sort_rows(indptr, indices)
    else:
        kernels.sort_weighted_rows(indptr, indices, data)


def _gather(
    chunks: Iterable[EdgeChunk], name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]:
    parts = list(chunks)
    weighted = [part.weight is not None for part in parts]
    if any(weighted) and not all(weighted):
        raise DatasetError(f"edges {name}: some have weights and some have none; give all or none")
    empty = np.zeros(0, np.int64)
    src_E = np.concatenate([part.src for part in parts]) if parts else empty
    dst_E = np.concatenate([part.dst for part in parts]) if parts else empty
    weights = [part.weight for part in parts if part.weight is not None]
    return src_E, dst_E, np.concatenate(weights) if weights else None


def _check_range(ids: NDArray[np.int64], count: int, end: str, name: str) -> None:
    if not len(ids):
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        bad = low if low < 0 else high
        raise DatasetError(f"edges {name}: {end} id {bad} is out of range 0 .. {count - 1}; check the node count")


def _sorted_csr(
    src_E: NDArray[np.int64],
    dst_E: NDArray[np.int64],
    weight_E: NDArray[np.float32] | None,
    num_rows: int,
    num_sources: int,
) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.float32] | None]:
    shift = ROW_BITS
    num_buckets = max(1, -(-num_rows // (1 << shift)))
    row_E = np.empty(len(src_E), np.int32)
    column_E = np.empty(len(src_E), index_dtype(num_sources))
    carried_E = np.empty(0 if weight_E is None else len(src_E), np.float32)
    starts = kernels.scatter_to_buckets(
        src_E, dst_E, _data_or_empty(weight_E), shift, num_buckets, get_num_threads(), row_E, column_E, carried_E
    )
    indptr = np.zeros(num_rows + 1, np.int64)
    indices = np.empty_like(column_E)
    data = np.empty_like(carried_E)
    kernels.sort_buckets(starts, row_E, column_E, carried_E, shift, indptr, indices, data)
    if weight_E is None:
        kernels.sort_rows(indptr, indices)
        return indptr, indices, None
    kernels.sort_weighted_rows(indptr, indices, data)
    return indptr, indices, data


def _data_or_empty(data: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return np.zeros(0, np.float32) if data is None else data
