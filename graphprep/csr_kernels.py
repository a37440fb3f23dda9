"""The numba loops under `csr`: scatter, count, sort, merge. None checks its input; `csr` does.

Letters: E edges, B buckets. An empty `data` or `weight_E` stands for weight 1 everywhere.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

SHORT_ROW = 48
"""Rows up to this length are sorted by insertion."""


@njit(cache=True, parallel=True)
def scatter_to_buckets(src_E, dst_E, weight_E, shift, num_buckets, threads, row_E, column_E, carried_E):  # type: ignore[no-untyped-def]
    """Stable scatter by dst >> shift; row_E receives the row within its bucket. Returns bucket starts [B + 1]."""
    num_edges = len(src_E)
    place = np.zeros((threads, num_buckets), np.int64)
    for thread in prange(threads):
        for e in range(num_edges * thread // threads, num_edges * (thread + 1) // threads):
            place[thread, dst_E[e] >> shift] += 1
    starts = np.zeros(num_buckets + 1, np.int64)
    total = 0
    for bucket in range(num_buckets):
        starts[bucket] = total
        for thread in range(threads):
            count = place[thread, bucket]
            place[thread, bucket] = total
            total += count
    starts[num_buckets] = total
    mask = (1 << shift) - 1
    for thread in prange(threads):
        for e in range(num_edges * thread // threads, num_edges * (thread + 1) // threads):
            bucket = dst_E[e] >> shift
            at = place[thread, bucket]
            place[thread, bucket] = at + 1
            row_E[at] = dst_E[e] & mask
            column_E[at] = src_E[e]
            if len(carried_E):
                carried_E[at] = weight_E[e]
    return starts


@njit(cache=True, parallel=True)
def sort_buckets(starts, row_E, column_E, carried_E, shift, indptr, indices, data):  # type: ignore[no-untyped-def]
    """Counting sort of each bucket by row; fills indptr [N + 1], indices and data."""
    num_rows = len(indptr) - 1
    for bucket in prange(len(starts) - 1):
        first = bucket << shift
        last = min(first + (1 << shift), num_rows)
        place = np.zeros(last - first + 1, np.int64)
        for e in range(starts[bucket], starts[bucket + 1]):
            place[row_E[e] + 1] += 1
        place[0] = starts[bucket]
        for row in range(last - first):
            place[row + 1] += place[row]
            indptr[first + row + 1] = place[row + 1]
        for e in range(starts[bucket], starts[bucket + 1]):
            at = place[row_E[e]]
            place[row_E[e]] = at + 1
            indices[at] = column_E[e]
            if len(data):
                data[at] = carried_E[e]


@njit(cache=True, parallel=True)
def sort_rows(indptr, indices):  # type: ignore[no-untyped-def]
    for row in prange(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if stop - start <= SHORT_ROW:
            for i in range(start + 1, stop):
                column = indices[i]
                j = i - 1
                while j >= start and indices[j] > column:
                    indices[j + 1] = indices[j]
                    j -= 1
                indices[j + 1] = column
        else:
            indices[start:stop] = np.sort(indices[start:stop])


@njit(cache=True, parallel=True)
def sort_weighted_rows(indptr, indices, data):  # type: ignore[no-untyped-def]
    for row in prange(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if stop - start <= SHORT_ROW:
            for i in range(start + 1, stop):
                column, weight = indices[i], data[i]
                j = i - 1
                while j >= start and indices[j] > column:
                    indices[j + 1] = indices[j]
                    data[j + 1] = data[j]
                    j -= 1
                indices[j + 1] = column
                data[j + 1] = weight
        else:
            order = np.argsort(indices[start:stop], kind="mergesort")
            indices[start:stop] = indices[start:stop][order]
            data[start:stop] = data[start:stop][order]


@njit(cache=True, parallel=True)
def count_duplicates(indptr, indices):  # type: ignore[no-untyped-def]
    total = 0
    for row in prange(len(indptr) - 1):
        for e in range(indptr[row] + 1, indptr[row + 1]):
            if indices[e] == indices[e - 1]:
                total += 1
    return total


@njit(cache=True)
def without_duplicates(indptr, indices, data, summed):  # type: ignore[no-untyped-def]
    """Keep the first edge of each run of equal columns; with `summed` its weight is the sum of the run."""
    new_indptr = np.zeros_like(indptr)
    kept = 0
    has_data = data is not None
    for row in range(len(indptr) - 1):
        start = kept
        for e in range(indptr[row], indptr[row + 1]):
            if kept > start and indices[kept - 1] == indices[e]:
                if has_data and summed:
                    data[kept - 1] += data[e]
            else:
                indices[kept] = indices[e]
                if has_data:
                    data[kept] = data[e]
                kept += 1
        new_indptr[row + 1] = kept
    if has_data:
        return new_indptr, indices[:kept].copy(), data[:kept].copy()
    return new_indptr, indices[:kept].copy(), None


@njit(cache=True)
def with_missing_reverses(indptr, indices, data, t_indptr, t_indices, t_data):  # type: ignore[no-untyped-def]
    """A row of A gains those entries of the same row of its transpose that it does not have as often itself."""
    has_data = data is not None
    num_rows = len(indptr) - 1
    new_indptr = np.zeros_like(indptr)
    new_indices = np.empty(2 * len(indices), indices.dtype)
    new_data = np.empty(2 * len(indices) if has_data else 0, np.float32)
    at = 0
    for row in range(num_rows):
        i, j = indptr[row], t_indptr[row]
        while i < indptr[row + 1] or j < t_indptr[row + 1]:
            own = i < indptr[row + 1] and (j >= t_indptr[row + 1] or indices[i] <= t_indices[j])
            if own:
                if j < t_indptr[row + 1] and t_indices[j] == indices[i]:
                    j += 1
                new_indices[at] = indices[i]
                if has_data:
                    new_data[at] = data[i]
                i += 1
            else:
                new_indices[at] = t_indices[j]
                if has_data:
                    new_data[at] = t_data[j]
                j += 1
            at += 1
        new_indptr[row + 1] = at
    if has_data:
        return new_indptr, new_indices[:at].copy(), new_data[:at].copy()
    return new_indptr, new_indices[:at].copy(), None


@njit(cache=True)
def with_self_loops(indptr, indices, data):  # type: ignore[no-untyped-def]
    """Add an edge of weight 1 from each node that has no self-loop to itself, in column order."""
    num_rows = len(indptr) - 1
    has_data = data is not None
    new_indptr = np.zeros_like(indptr)
    new_indices = np.empty(len(indices) + num_rows, indices.dtype)
    new_data = np.ones(len(indices) + num_rows if has_data else 0, np.float32)
    at = 0
    for row in range(num_rows):
        placed = False
        for e in range(indptr[row], indptr[row + 1]):
            if not placed and indices[e] >= row:
                if indices[e] != row:
                    new_indices[at] = row
                    at += 1
                placed = True
            new_indices[at] = indices[e]
            if has_data:
                new_data[at] = data[e]
            at += 1
        if not placed:
            new_indices[at] = row
            at += 1
        new_indptr[row + 1] = at
    if has_data:
        return new_indptr, new_indices[:at].copy(), new_data[:at].copy()
    return new_indptr, new_indices[:at].copy(), None


@njit(cache=True)
def transpose(indptr, indices, data, num_sources, like):  # type: ignore[no-untyped-def]
    place = np.zeros(num_sources + 1, np.int64)
    for e in range(len(indices)):
        place[indices[e] + 1] += 1
    for column in range(num_sources):
        place[column + 1] += place[column]
    new_indptr = place.copy()
    new_indices = np.empty(len(indices), like.dtype)
    new_data = np.empty(len(data), np.float32)
    for row in range(len(indptr) - 1):
        for e in range(indptr[row], indptr[row + 1]):
            at = place[indices[e]]
            place[indices[e]] = at + 1
            new_indices[at] = row
            if len(data):
                new_data[at] = data[e]
    return new_indptr, new_indices, new_data


@njit(cache=True)
def merge_row(row, indptr_a, indices_a, indptr_b, indices_b, out, counts, at):  # type: ignore[no-untyped-def]
    """Union of a row of A and of B without the diagonal, written from `at` if `out` is not empty; returns the end."""
    i, j = indptr_a[row], indptr_b[row]
    end_i, end_j = indptr_a[row + 1], indptr_b[row + 1]
    while i < end_i or j < end_j:
        column = np.int64(indices_a[i]) if i < end_i else np.int64(indices_b[j])
        if i < end_i and j < end_j:
            column = min(np.int64(indices_a[i]), np.int64(indices_b[j]))
        count = 0
        while i < end_i and indices_a[i] == column:
            i += 1
            count += 1
        while j < end_j and indices_b[j] == column:
            j += 1
            count += 1
        if column != row:
            if len(out):
                out[at] = column
                counts[at] = count
            at += 1
    return at


@njit(cache=True, parallel=True)
def merge_rows(indptr_a, indices_a, indptr_b, indices_b):  # type: ignore[no-untyped-def]
    num_rows = len(indptr_a) - 1
    indptr = np.zeros(num_rows + 1, np.int64)
    none = np.zeros(0, indices_a.dtype)
    no_counts = np.zeros(0, np.float32)
    for row in prange(num_rows):
        indptr[row + 1] = merge_row(row, indptr_a, indices_a, indptr_b, indices_b, none, no_counts, 0)
    for row in range(num_rows):
        indptr[row + 1] += indptr[row]
    indices = np.empty(indptr[num_rows], indices_a.dtype)
    counts = np.empty(indptr[num_rows], np.float32)
    for row in prange(num_rows):
        if indptr[row + 1] > indptr[row]:
            merge_row(row, indptr_a, indices_a, indptr_b, indices_b, indices, counts, indptr[row])
    return indptr, indices, counts


@njit(cache=True, parallel=True)
def row_sums(indptr, data):  # type: ignore[no-untyped-def]
    sums = np.empty(len(indptr) - 1, np.float32)
    for row in prange(len(sums)):
        total = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            total += data[e]
        sums[row] = total
    return sums


@njit(cache=True, parallel=True)
def count_self_loops(indptr, indices):  # type: ignore[no-untyped-def]
    total = 0
    for row in prange(len(indptr) - 1):
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] == row:
                total += 1
    return total


@njit(cache=True)
def first_bad_row(indptr, indices, num_sources):  # type: ignore[no-untyped-def]
    """The first row whose offsets fall or leave the edges, or whose columns leave the range or fall; -1 if none."""
    for row in range(len(indptr) - 1):
        if indptr[row + 1] < indptr[row] or indptr[row + 1] > len(indices):
            return row
        last = 0
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] < last or indices[e] >= num_sources:
                return row
            last = indices[e]
    return -1
