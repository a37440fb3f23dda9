"""The numba loops under CSR conversion: count, scatter, sort, treat. None checks its input; `csr` does.

A record is an edge on its way, one uint32 or int64: its row within a bucket or range, shifted left by `key_bits`, and
its key. The key is the column, or, where reverses are made too, column << 1 with the lowest bit set for a reverse, so
that a row sorted by key has each column's own edges before their reverses. A payload is the record's position in its
input, by which weights and edge numbers are found again; an empty payload array means that they are not needed.

Letters: E edges, R records, B buckets, T threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from graphprep.core.merge_sort import sort_stably

SMALL_BUCKET = 1024
"""Buckets up to this size are sorted by comparison: they are smaller than the digit counts of a radix sort."""
DIGIT_BITS = 11
KEEP, DROP, SUM, ADD, MAX, MIN, MEAN = 0, 1, 2, 3, 4, 5, 6
WEIGHT_ONE = np.uint32(0x3F800000)
"""The bits of the float32 1, which every edge weighs where there are no weights."""


@njit(cache=True, nogil=True)
def count_edges(src_E, dst_E, num_sources, num_rows, shift, with_reverses, counts_B):  # type: ignore[no-untyped-def]
    """Add a run's records to the counts by bucket; the first edge with an id out of range, -1 if there is none."""
    for e in range(len(src_E)):
        src, dst = np.int64(src_E[e]), np.int64(dst_E[e])
        if src < 0 or src >= num_sources or dst < 0 or dst >= num_rows:
            return e
        counts_B[dst >> shift] += 1
        if with_reverses and src != dst:
            counts_B[src >> shift] += 1
    return -1


@njit(cache=True)
def starts_of(counts_TB):  # type: ignore[no-untyped-def]
    """Counts by thread and bucket become places to write to, in place; returns bucket starts [B + 1]."""
    threads, num_buckets = counts_TB.shape
    starts = np.zeros(num_buckets + 1, np.int64)
    total = 0
    for bucket in range(num_buckets):
        starts[bucket] = total
        for t in range(threads):
            count = counts_TB[t, bucket]
            counts_TB[t, bucket] = total
            total += count
    starts[num_buckets] = total
    return starts


@njit(cache=True, nogil=True)
def scatter_edges(src_E, dst_E, first, place_B, shift, key_bits, with_reverses, record_R, payload_R):  # type: ignore[no-untyped-def]
    """A run's edges, numbered from `first`, become records, each at the next place of destination >> shift."""
    mask = (np.int64(1) << shift) - 1
    has_payload = len(payload_R) > 0
    for e in range(len(src_E)):
        src, dst = np.int64(src_E[e]), np.int64(dst_E[e])
        at = place_B[dst >> shift]
        place_B[dst >> shift] = at + 1
        record_R[at] = (dst & mask) << key_bits | (src << 1 if with_reverses else src)
        if has_payload:
            payload_R[at] = first + e
        if with_reverses and src != dst:
            at = place_B[src >> shift]
            place_B[src >> shift] = at + 1
            record_R[at] = (src & mask) << key_bits | dst << 1 | 1
            if has_payload:
                payload_R[at] = first + e


@njit(cache=True, nogil=True)
def count_records(given_R, shift, key_bits, counts_B):  # type: ignore[no-untyped-def]
    """Add records to the counts by bucket, row >> shift."""
    for r in range(len(given_R)):
        counts_B[given_R[r] >> key_bits >> shift] += 1


@njit(cache=True, nogil=True)
def scatter_records(given_R, first, place_B, shift, key_bits, record_R, payload_R):  # type: ignore[no-untyped-def]
    """Records of a range, numbered from `first`, each go to the next place of row >> shift, in their order."""
    mask = (np.int64(1) << (shift + key_bits)) - 1
    has_payload = len(payload_R) > 0
    for r in range(len(given_R)):
        bucket = given_R[r] >> key_bits >> shift
        at = place_B[bucket]
        place_B[bucket] = at + 1
        record_R[at] = given_R[r] & mask
        if has_payload:
            payload_R[at] = first + r


@njit(cache=True)
def _digit_pass(records_in, records_out, payload_in, payload_out, low, count):  # type: ignore[no-untyped-def]
    """One stable counting pass of a radix sort, over DIGIT_BITS bits from `low` on."""
    mask = (1 << DIGIT_BITS) - 1
    place = np.zeros((1 << DIGIT_BITS) + 1, np.int64)
    for r in range(count):
        place[(records_in[r] >> low & mask) + 1] += 1
    for digit in range(1 << DIGIT_BITS):
        place[digit + 1] += place[digit]
    has_payload = len(payload_out) > 0
    for r in range(count):
        digit = records_in[r] >> low & mask
        at = place[digit]
        place[digit] = at + 1
        records_out[at] = records_in[r]
        if has_payload:
            payload_out[at] = payload_in[r]


@njit(cache=True, nogil=True)
def sort_buckets(first_bucket, end_bucket, starts, record_R, payload_R, shift, key_bits, indptr, keys, payloads):  # type: ignore[no-untyped-def]
    """Sort each bucket of a range by row and key, stably; fills indptr [N + 1] (from 1 on), keys and payloads.

    A least-significant-digit radix sort of the keys, then a counting sort by row that writes the result: all of it
    within the cache, as a bucket is small. `record_R` and `payload_R` are used up.
    """
    num_rows = len(indptr) - 1
    has_payload = len(payload_R) > 0
    key_mask = (np.int64(1) << key_bits) - 1
    for bucket in range(first_bucket, end_bucket):
        begin, end = starts[bucket], starts[bucket + 1]
        count = end - begin
        first = bucket << shift
        last = min(first + (1 << shift), num_rows)
        records_in, payload_in = record_R[begin:end], payload_R[begin:end] if has_payload else payload_R
        if count <= SMALL_BUCKET:
            sort_stably(records_in, payload_in)
        else:
            records_out, payload_out = np.empty_like(records_in), np.empty_like(payload_in)
            for low in range(0, key_bits, DIGIT_BITS):
                _digit_pass(records_in, records_out, payload_in, payload_out, low, count)
                records_in, records_out = records_out, records_in
                payload_in, payload_out = payload_out, payload_in
        place = np.zeros(last - first + 1, np.int64)
        for r in range(count):
            place[(records_in[r] >> key_bits) + 1] += 1
        place[0] = begin
        for row in range(last - first):
            place[row + 1] += place[row]
            indptr[first + row + 1] = place[row + 1]
        for r in range(count):
            row = records_in[r] >> key_bits
            at = place[row]
            place[row] = at + 1
            keys[at] = records_in[r] & key_mask
            if has_payload:
                payloads[at] = payload_in[r]


@njit(cache=True)
def _sort_by_weight(payloads, weight_E, start, stop):  # type: ignore[no-untyped-def]
    """Put payloads start .. stop-1 in ascending order of their weights; equal weights keep their order."""
    if stop - start > 1:
        weights = np.empty(stop - start, weight_E.dtype)
        for e in range(start, stop):
            weights[e - start] = weight_E[payloads[e]]
        sort_stably(weights, payloads[start:stop])


@njit(cache=True)
def _one_weight(payloads, weight_E, start, middle, stop, duplicates, both_ways):  # type: ignore[no-untyped-def]
    """The weight (float64) of the one edge that copies start .. middle-1 and reverses middle .. stop-1 become.

    Sums are over ascending weights, so that the order of the edges does not matter. NaN where DROP has copies of
    different weights.
    """
    if duplicates == SUM and both_ways and middle > start:
        stop = middle
    if not len(weight_E):
        return np.float64(stop - start) if duplicates == SUM else 1.0
    if stop - start > 2 and duplicates in (SUM, MEAN):
        _sort_by_weight(payloads, weight_E, start, stop)
    low = high = np.float64(weight_E[payloads[start]])
    total = 0.0
    for e in range(start, stop):
        weight = np.float64(weight_E[payloads[e]])
        low, high = min(low, weight), max(high, weight)
        total += weight
    if duplicates == SUM:
        return total
    if duplicates == MEAN:
        return total / (stop - start)
    if duplicates == DROP and low != high:
        return np.nan
    return low if duplicates == MIN else high


@njit(cache=True)
def _keep_both(payloads, weight_E, start, middle, stop, column, at, columns, origins, data):  # type: ignore[no-untyped-def]
    """Write, from `at` on and by ascending weight, copies start .. middle-1 of an edge and its reverses middle ..
    stop-1, of which one is the same as a copy of equal weight.

    Returns whether one of the two directions has all weights of the other; else the edge has two different weights.
    """
    _sort_by_weight(payloads, weight_E, start, middle)
    _sort_by_weight(payloads, weight_E, middle, stop)
    own, other = start, middle
    own_alone = other_alone = False
    while own < middle or other < stop:
        if own < middle and other < stop and weight_E[payloads[own]] == weight_E[payloads[other]]:
            payload = payloads[own]
            own += 1
            other += 1
        elif own < middle and (other == stop or weight_E[payloads[own]] < weight_E[payloads[other]]):
            payload = payloads[own]
            own += 1
            own_alone = True
        else:
            payload = payloads[other]
            other += 1
            other_alone = True
        if own_alone and other_alone:
            return False
        columns[at] = column
        data[at] = weight_E[payload]
        if len(origins):
            origins[at] = payload
        at += 1
    return True


@njit(cache=True)
def _treat_row(  # type: ignore[no-untyped-def]
    row, start, stop, keys, payloads, weight_E, tagged, both_ways, duplicates, loops, at, columns, origins, data
):
    """What becomes of one sorted row; written from `at` on unless `at` is negative, which uses up its payloads.

    Returns (edges, own edges, reverses added, self-loops found, duplicates found, the first column whose edge has no
    one weight or -1, sums that are whole numbers and were rounded). `row` is -1 where columns are of another type than
    rows, so that there are no self-loops.
    """
    shift = 1 if tagged else 0
    write = at >= 0
    edges = owned = reverses = found_loops = found_duplicates = rounded = 0
    odd = np.int64(-1)
    wants_loop = loops == ADD
    i = start
    while i < stop or wants_loop:
        column = np.int64(keys[i] >> shift) if i < stop else np.int64(row + 1)
        if wants_loop and column >= row:
            wants_loop = False
            if column != row:
                if write:
                    columns[at + edges] = row
                    if len(origins):
                        origins[at + edges] = -1
                    if len(data):
                        data[at + edges] = 1
                edges += 1
                continue
        j = i
        while j < stop and keys[j] >> shift == column and not (tagged and keys[j] & 1):
            j += 1
        k = j
        while k < stop and keys[k] >> shift == column:
            k += 1
        own = j - i
        extra = max(0, (k - j) - own)
        owned += own
        if column == row:
            found_loops += own
            if loops == DROP:
                i = k
                continue
        reverses += extra
        found_duplicates += own + extra - 1
        if duplicates == KEEP:
            if write and tagged and k - i > 1 and len(weight_E):
                if not _keep_both(payloads, weight_E, i, j, k, column, at + edges, columns, origins, data) and odd < 0:
                    odd = column
            elif write:
                for n in range(own + extra):
                    e = i + n if n < own else k - extra + n - own
                    columns[at + edges + n] = column
                    if len(origins):
                        origins[at + edges + n] = payloads[e]
                    if len(data):
                        data[at + edges + n] = weight_E[payloads[e]]
            edges += own + extra
        else:
            if write:
                columns[at + edges] = column
                if len(origins):  # the first of all, in both directions, so that both get the same edge's attributes
                    first = payloads[i]
                    if own and j < k:
                        first = min(first, payloads[j])
                    origins[at + edges] = first
                if len(data):
                    weight = _one_weight(payloads, weight_E, i, j, k, duplicates, both_ways)
                    data[at + edges] = weight
                    stored = np.float64(data[at + edges])
                    if not np.isfinite(stored):
                        odd = column if odd < 0 else odd
                    elif stored != weight and weight == np.floor(weight):
                        rounded += 1
            edges += 1
        i = k
    return edges, owned, reverses, found_loops, found_duplicates, odd, rounded


@njit(cache=True)
def _count_row(row, start, stop, keys, duplicates, loops):  # type: ignore[no-untyped-def]
    """What `_treat_row` returns for a row without reverses, found in one plain loop."""
    looped = doubled = 0
    for e in range(start, stop):
        looped += keys[e] == row
    for e in range(start + 1, stop):
        doubled += keys[e] == keys[e - 1]
    if loops == DROP and looped > 1:
        doubled -= looped - 1
    edges = stop - start
    if loops == DROP:
        edges -= looped
    if duplicates != KEEP:
        edges -= doubled
    if loops == ADD and looped == 0:
        edges += 1
    return edges, stop - start, 0, looped, doubled


@njit(cache=True, nogil=True)
def treat_count(  # type: ignore[no-untyped-def]
    begin_row, end_row, indptr, keys, payloads, columns, tagged, first_row, duplicates, loops, length_N
):
    """First pass, of a range of rows: fills length_N; returns (own edges, reverses added, loops, duplicates found).

    `first_row` is the global number of row 0, or negative where there are no self-loops. `payloads` and `columns` are
    not used: they have the types that `treat_write` gets, so that both passes share one compiled `_treat_row`.
    """
    no_origins, no_data, nowhere, one_way = (
        np.zeros(0, np.int64),
        np.zeros(0, np.float32),
        np.int64(-1),
        np.bool_(False),
    )
    owned = reverses = found_loops = found_duplicates = 0
    for row in range(begin_row, end_row):
        own = first_row + row if first_row >= 0 else np.int64(-1)
        start, stop = indptr[row], indptr[row + 1]
        if tagged:
            edges, mine, more, looped, doubled, _, _ = _treat_row(
                own,
                start,
                stop,
                keys,
                payloads,
                no_data,
                tagged,
                one_way,
                duplicates,
                loops,
                nowhere,
                columns,
                no_origins,
                no_data,
            )
        else:
            edges, mine, more, looped, doubled = _count_row(own, start, stop, keys, duplicates, loops)
        length_N[row] = edges
        owned += mine
        reverses += more
        found_loops += looped
        found_duplicates += doubled
    return owned, reverses, found_loops, found_duplicates


@njit(cache=True, nogil=True)
def treat_write(  # type: ignore[no-untyped-def]
    begin_row,
    end_row,
    indptr,
    keys,
    payloads,
    weight_E,
    tagged,
    both_ways,
    first_row,
    duplicates,
    loops,
    new_indptr,
    columns,
    origins,
    data,
    odd_N,
):
    """Second pass, of a range of rows: fills columns [E'], origins [E'] and data [E'], where not empty.

    Origins are payloads, -1 for an added loop. `odd_N` gets the first column of each row whose edge has no one weight,
    where it is not empty; returns how many sums are whole numbers and were rounded. `payloads` are used up.
    """
    rounded = 0
    for row in range(begin_row, end_row):
        own = first_row + row if first_row >= 0 else np.int64(-1)
        if not tagged and loops != ADD and new_indptr[row + 1] - new_indptr[row] == indptr[row + 1] - indptr[row]:
            move = new_indptr[row] - indptr[row]
            for e in range(indptr[row], indptr[row + 1]):
                columns[e + move] = keys[e]
                if len(origins):
                    origins[e + move] = payloads[e]
                if len(data):
                    data[e + move] = weight_E[payloads[e]] if len(weight_E) else 1
            continue
        _, _, _, _, _, odd, of_row = _treat_row(
            own,
            indptr[row],
            indptr[row + 1],
            keys,
            payloads,
            weight_E,
            tagged,
            both_ways,
            duplicates,
            loops,
            new_indptr[row],
            columns,
            origins,
            data,
        )
        rounded += of_row
        if len(odd_N):
            odd_N[row] = odd
    return rounded


@njit(cache=True)
def transpose(indptr, indices, data, num_sources, like):  # type: ignore[no-untyped-def]
    """Counting sort by column; `like` is an empty array of the new columns' dtype."""
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
def _merge_row(row, indptr_a, indices_a, indptr_b, indices_b, out, counts, at):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def merged_lengths(begin_row, end_row, indptr_a, indices_a, indptr_b, indices_b, length_N):  # type: ignore[no-untyped-def]
    """How many columns `merge_rows` finds in each row of a range."""
    none, no_counts = np.zeros(0, indices_a.dtype), np.zeros(0, np.float32)
    for row in range(begin_row, end_row):
        length_N[row] = _merge_row(row, indptr_a, indices_a, indptr_b, indices_b, none, no_counts, np.int64(0))


@njit(cache=True, nogil=True)
def merge_rows(begin_row, end_row, indptr_a, indices_a, indptr_b, indices_b, indptr, indices, counts):  # type: ignore[no-untyped-def]
    """Union of A and B without the diagonal, of a range of rows; `counts` are the edges behind each."""
    for row in range(begin_row, end_row):
        if indptr[row + 1] > indptr[row]:
            _merge_row(row, indptr_a, indices_a, indptr_b, indices_b, indices, counts, indptr[row])


@njit(cache=True, nogil=True)
def count_faults(begin_row, end_row, indptr, indices):  # type: ignore[no-untyped-def]
    """Columns of a range of rows that are their row or occur twice in it; columns ascend."""
    faults = 0
    for row in range(begin_row, end_row):
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] == row or (e > indptr[row] and indices[e] == indices[e - 1]):
                faults += 1
    return faults


@njit(cache=True, nogil=True)
def row_sums(begin_row, end_row, indptr, data, sums_N):  # type: ignore[no-untyped-def]
    """Sums of a range of rows, float32, added in float64."""
    for row in range(begin_row, end_row):
        total = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            total += data[e]
        sums_N[row] = total


@njit(cache=True, nogil=True)
def lacks_loop(indptr, indices):  # type: ignore[no-untyped-def]
    """Which rows have no edge from themselves; bool [n]."""
    lacks_n = np.ones(len(indptr) - 1, np.bool_)
    for row in range(len(lacks_n)):
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] == row:
                lacks_n[row] = False
                break
    return lacks_n


@njit(cache=True, nogil=True)
def count_self_loops(begin_row, end_row, indptr, indices, first_row):  # type: ignore[no-untyped-def]
    """Edges of a range of rows whose column is their row, counted from `first_row`."""
    total = 0
    for row in range(begin_row, end_row):
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] == first_row + row:
                total += 1
    return total


@njit(cache=True)
def mixed(a, b):  # type: ignore[no-untyped-def]
    """A 64-bit hash of an ordered pair (the finaliser of splitmix64, twice)."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    for _ in range(2):
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        x += np.uint64(b) * np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return x


@njit(cache=True)
def _one_way(src, dst, bits):  # type: ignore[no-untyped-def]
    """hash(src, dst, weight) - hash(dst, src, weight), modulo 2^64."""
    there, back = mixed(np.uint64(src), np.uint64(dst)), mixed(np.uint64(dst), np.uint64(src))
    return mixed(there, np.uint64(bits)) - mixed(back, np.uint64(bits))


@njit(cache=True, nogil=True)
def direction_fingerprint(begin_row, end_row, indptr, indices, bits_E, first_row):  # type: ignore[no-untyped-def]
    """Sum over the edges u -> v of weight w of hash(u, v, w) - hash(v, u, w), modulo 2^64: 0 if every edge has its
    reverse of equal weight as often as it occurs, and otherwise 0 with a probability of 2^-64. Sums of row ranges add
    up to that of the whole. `bits_E` are the weights' bits; empty where all weigh 1."""
    total = np.uint64(0)
    for row in range(begin_row, end_row):
        for e in range(indptr[row], indptr[row + 1]):
            total += _one_way(np.int64(indices[e]), first_row + row, bits_E[e] if len(bits_E) else WEIGHT_ONE)
    return total


@njit(cache=True, nogil=True)
def edges_fingerprint(edge, end_edge, src_E, dst_E, bits_E):  # type: ignore[no-untyped-def]
    """`direction_fingerprint` of a range of edges in any order."""
    total = np.uint64(0)
    for e in range(edge, end_edge):
        total += _one_way(np.int64(src_E[e]), np.int64(dst_E[e]), bits_E[e] if len(bits_E) else WEIGHT_ONE)
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
