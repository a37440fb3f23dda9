"""Edges in any order become CSR: rows are destinations, columns ascend within a row.

Each edge becomes one record of 4 or 8 bytes. Records are scattered into buckets of neighbouring destination rows (one
histogram a thread); each bucket, small enough for the cache, is radix-sorted by column and counting-sorted by row; and
where something has to be done about reverses, duplicates or self-loops, each row is treated, once to count and once to
write. Buckets and rows are independent, so the passes run on all threads, and the result does not depend on how many
there are: edges that are equal in row and column keep the order in which they were given.

`graphprep.store.external_sort` does the same for graphs that do not fit in memory, one range of rows at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr_kernels as kernels
from graphprep.core.over_rows import over_rows, threads_for
from graphprep.core.read_only import read_only
from graphprep.core.types import Csr, EdgeChunk, Ids, Treatment
from graphprep.errors import DatasetError

RECORDS_PER_BUCKET = 1 << 16
"""A bucket's records, twice, stay within a core's L2 cache."""
MOST_BUCKETS = 1 << 12
MOST_ROW_BITS = 16
"""A bucket has at most 2^16 rows, whose counters stay within that cache as well."""
SMALL_RECORD_BITS = 32
INT32_LIMIT = 2**31
NUMBERS_AT_A_TIME = 1 << 22
"""of an array that is looked through"""
_DUPLICATES = {
    "keep": kernels.KEEP,
    "drop": kernels.DROP,
    "sum": kernels.SUM,
    "max": kernels.MAX,
    "min": kernels.MIN,
    "mean": kernels.MEAN,
}
_LOOPS = {"keep": kernels.KEEP, "drop": kernels.DROP, "add": kernels.ADD}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCounts:
    """What was found among the edges and what was done about it; kept in the store's attributes."""

    given: int = 0
    """edges that the source listed"""
    reversed_added: int = 0
    """missing reverse edges added to make the graph undirected"""
    self_loops_found: int = 0
    self_loops_dropped: int = 0
    self_loops_added: int = 0
    duplicates_found: int = 0
    """edges equal in source and destination to an earlier one, reverses included"""
    duplicates_removed: int = 0
    listed_both_ways: int = 0
    """where an undirected graph's parallel edges are summed: edges that are listed in both directions, all with equal
    weights, so that a sum counts one of the two"""
    sums_rounded: int = 0
    """sums of weights that are whole numbers beyond those that float32 holds"""
    edges: int = 0
    """edges in the result"""

    def __add__(self, other: EdgeCounts) -> EdgeCounts:
        mine = asdict(self)
        return EdgeCounts(**{name: mine[name] + count for name, count in asdict(other).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRecords:
    """Edges scattered by bucket or range. Letters: R records: edges, and reverses if the graph becomes undirected."""

    starts: NDArray[np.int64]
    """[B + 1]: where each bucket's records begin"""
    record: NDArray[np.integer]
    """[R]: row within the bucket << key_bits | key; uint32 where they fit, else int64"""
    payload: NDArray[np.integer]
    """[R]: position of the edge in its input; empty if it is not needed"""
    row_bits: int
    """a bucket has 2^row_bits rows"""
    key_bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentRules:
    """A treatment in the kernels' own words."""

    undirected: bool
    both_ways: bool = False
    """whether every edge is listed in both directions with equal weights, so that a sum counts one of the two"""
    duplicates: int
    """KEEP, DROP, SUM, MAX, MIN or MEAN"""
    loops: int
    """KEEP, DROP or ADD"""
    square: bool
    """whether sources and destinations are the same nodes, without which there are no self-loops"""

    @classmethod
    def of(cls, treatment: Treatment, *, square: bool, name: str) -> TreatmentRules:
        """Raises:
        DatasetError: reverses or added self-loops are requested between nodes of different types.
        """
        if not square and (treatment.undirected or treatment.self_loops == "add"):
            raise DatasetError(
                f"edges {name} join nodes of different types, so they have no reverses or self-loops to add; "
                "leave out undirected and self_loops"
            )
        return cls(
            undirected=treatment.undirected,
            duplicates=_DUPLICATES[treatment.duplicates],
            loops=_LOOPS[treatment.self_loops],
            square=square,
        )

    @property
    def sums_both_ways(self) -> bool:
        """Whether a sum depends on how the edges are listed: each once, or all in both directions."""
        return self.undirected and self.duplicates == kernels.SUM


def index_dtype(num_sources: int) -> type[np.int32] | type[np.int64]:
    """The dtype of column indices: int32 while there are fewer than 2^31 source nodes."""
    return np.int32 if num_sources < INT32_LIMIT else np.int64


def from_edges(
    chunks: Iterable[EdgeChunk],
    *,
    num_rows: int,
    num_sources: int,
    treatment: Treatment,
    name: str,
    square: bool | None = None,
    numbered: bool = False,
) -> tuple[Csr, EdgeCounts]:
    """Sort edges in memory into CSR and treat reversals, self-loops and duplicates as the treatment says.

    Args:
        chunks: runs of (src, dst, weight float32 or None); all weighted or none. They are read twice and not changed.
        num_rows: destination nodes.
        num_sources: source nodes.
        treatment: what to do with direction, self-loops and duplicates.
        name: of the edge type, for error messages.
        square: whether sources and destinations are the same nodes; by default whether there are as many.
        numbered: whether the result says which edge of the input each of its edges is.

    Returns:
        The CSR and the counts of what was found and done.

    Raises:
        DatasetError: an id outside 0 .. N-1, a treatment that needs sources and destinations of one type, or an edge of
            two weights of which the treatment says no one.
    """
    edges = list(chunks)
    rules = TreatmentRules.of(treatment, square=num_rows == num_sources if square is None else square, name=name)
    for chunk in edges:
        require_same_weights(edges[0].weight is not None, chunk, name)
    if rules.sums_both_ways:
        rules = replace(rules, both_ways=sum(map(edges_fingerprint, edges)) % 2**64 == 0)
    weights = [chunk.weight for chunk in edges if chunk.weight is not None]
    records = scatter(
        edges,
        num_rows=num_rows,
        num_sources=num_sources,
        row_bits=bucket_bits(
            num_rows, sum(len(chunk.src) for chunk in edges), key_bits(num_sources, undirected=rules.undirected)
        ),
        undirected=rules.undirected,
        with_payload=numbered or bool(weights),
        name=name,
    )
    weight = weights[0] if len(weights) == 1 else np.concatenate(weights) if weights else None
    return sort_records(
        records,
        weight=weight,
        num_rows=num_rows,
        num_sources=num_sources,
        first_row=0,
        rules=rules,
        numbered=numbered,
        name=name,
    )


def require_same_weights(weighted: bool, chunk: EdgeChunk, name: str) -> None:
    """Compare a chunk with the ones before it.

    Raises:
        DatasetError: only one of them has weights.
    """
    if (chunk.weight is not None) != weighted:
        raise mixed_weights(name)


def mixed_weights(name: str) -> DatasetError:
    """What to raise where only some edges have weights."""
    return DatasetError(f"edges {name}: some have weights and some have none; give all or none")


def scatter(
    chunks: list[EdgeChunk],
    *,
    num_rows: int,
    num_sources: int,
    row_bits: int,
    undirected: bool,
    with_payload: bool,
    name: str,
) -> EdgeRecords:
    """Edges by bucket of 2^row_bits destination rows, in their order within a bucket; payloads count all chunks.

    The list is empty in the end: each chunk's memory is free as soon as its edges are records.

    Raises:
        DatasetError: an id is negative or beyond the count of its nodes.
    """
    num_edges = sum(len(chunk.src) for chunk in chunks)
    threads = threads_for(num_edges)
    runs_T = _shared_out(chunks, num_edges, threads)
    chunks.clear()
    counts_TB = np.zeros((threads, bucket_count(num_rows, row_bits)), np.int64)

    def count(t: int) -> None:
        for run in runs_T[t]:
            bad = kernels.count_edges(run.src, run.dst, num_sources, num_rows, row_bits, undirected, counts_TB[t])
            if bad >= 0:
                for ids, limit, end in ((run.src, num_sources, "source"), (run.dst, num_rows, "destination")):
                    if not 0 <= ids[bad] < limit:
                        raise DatasetError(
                            f"edges {name}: {end} id {ids[bad]} is out of range 0 .. {limit - 1}; check the node count"
                        )

    def put(t: int) -> None:
        runs = runs_T[t]
        runs.reverse()
        while runs:
            run = runs.pop()
            kernels.scatter_edges(
                run.src, run.dst, run.first, counts_TB[t], row_bits, bits, undirected, record, payload
            )

    bits = key_bits(num_sources, undirected=undirected)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(count, range(threads)))
        starts = kernels.starts_of(counts_TB)
        record: NDArray[np.integer] = np.empty(
            int(starts[-1]), np.uint32 if row_bits + bits <= SMALL_RECORD_BITS else np.int64
        )
        payload = np.empty(len(record) if with_payload else 0, index_dtype(num_edges))
        list(pool.map(put, range(threads)))
    return EdgeRecords(starts=starts, record=record, payload=payload, row_bits=row_bits, key_bits=bits)


class _Run(NamedTuple):
    """Neighbouring edges that one thread takes."""

    src: Ids
    dst: Ids
    first: int
    """number of the first of them among all edges"""


def _shared_out(chunks: Sequence[EdgeChunk], num_edges: int, threads: int) -> list[list[_Run]]:
    """The edges in order, an equal part for each thread."""
    bounds = [num_edges * t // threads for t in range(threads + 1)]
    runs_T: list[list[_Run]] = [[] for _ in range(threads)]
    first = 0
    for chunk in chunks:
        src, dst = np.ascontiguousarray(chunk.src), np.ascontiguousarray(chunk.dst)
        for t in range(threads):
            begin, end = max(bounds[t] - first, 0), min(bounds[t + 1] - first, len(src))
            if begin < end:
                runs_T[t].append(_Run(src[begin:end], dst[begin:end], first + begin))
        first += len(src)
    return runs_T


def key_bits(num_sources: int, *, undirected: bool) -> int:
    """Bits of a key: of a column, and one more to distinguish reverses from edges."""
    return max(1, (num_sources - 1).bit_length()) + int(undirected)


def bucket_bits(num_rows: int, num_records: int, key_bits: int) -> int:
    """The row bits with which a bucket gets about RECORDS_PER_BUCKET records, or fewer if records get 4 bytes by it."""
    buckets = min(MOST_BUCKETS, max(1, num_records // RECORDS_PER_BUCKET))
    if num_rows <= buckets:
        return 0
    row_bits = min(MOST_ROW_BITS, max(0, num_rows - 1).bit_length() - (buckets.bit_length() - 1))
    narrow = SMALL_RECORD_BITS - key_bits
    return narrow if 0 <= narrow < row_bits and bucket_count(num_rows, narrow) <= MOST_BUCKETS else row_bits


def bucket_count(num_rows: int, row_bits: int) -> int:
    """Buckets of 2^row_bits rows, at least one."""
    return max(1, (num_rows + (1 << row_bits) - 1) >> row_bits)


def sort_records(
    records: EdgeRecords,
    *,
    weight: NDArray[np.float32] | None,
    num_rows: int,
    num_sources: int,
    first_row: int,
    rules: TreatmentRules,
    numbered: bool,
    name: str,
) -> tuple[Csr, EdgeCounts]:
    """Records become a CSR of `num_rows` rows, treated.

    Args:
        records: what `scatter` gave; they are used up.
        weight: float32 by payload, or None where every edge weighs 1.
        num_rows, num_sources: of the result.
        first_row: global number of row 0.
        rules: what to do about reverses, duplicates and self-loops.
        numbered: whether payloads are kept as edge numbers.
        name: of the edge type, for error messages.

    Raises:
        DatasetError: an edge has two weights, and the rules do not say which counts; or a sum is beyond float32.
    """
    indptr = np.zeros(num_rows + 1, np.int64)
    keys: NDArray[np.integer] = np.empty(
        len(records.record), np.int64 if rules.undirected else index_dtype(num_sources)
    )
    payloads = np.empty_like(records.payload)
    over_rows(
        kernels.sort_buckets,
        len(records.starts) - 1,
        len(records.record),
        records.starts,
        records.record,
        records.payload,
        records.row_bits,
        records.key_bits,
        indptr,
        keys,
        payloads,
    )
    base = first_row if rules.square else -1
    new_indptr = np.zeros_like(indptr)
    found = over_rows(
        kernels.treat_count,
        num_rows,
        len(keys),
        indptr,
        keys,
        payloads,
        np.empty(0, index_dtype(num_sources)),
        rules.undirected,
        base,
        rules.duplicates,
        rules.loops,
        new_indptr[1:],
    )
    owned, reverses, found_loops, found_duplicates = (sum(column) for column in zip(*found, strict=True))
    np.cumsum(new_indptr, out=new_indptr)
    num_edges = int(new_indptr[-1])
    dropped = int(found_loops) if rules.loops == kernels.DROP else 0
    removed = int(found_duplicates) if rules.duplicates != kernels.KEEP else 0
    counts = EdgeCounts(
        given=int(owned),
        reversed_added=int(reverses),
        self_loops_found=int(found_loops),
        self_loops_dropped=dropped,
        self_loops_added=num_edges - int(owned + reverses) + dropped + removed,
        duplicates_found=int(found_duplicates),
        duplicates_removed=removed,
        listed_both_ways=int(owned - found_loops) if rules.both_ways else 0,
        edges=num_edges,
    )
    untouched = num_edges == len(keys) and not (rules.undirected or dropped or removed or counts.self_loops_added)
    if untouched and keys.dtype == index_dtype(num_sources):
        columns, origins = keys, payloads
        data = None if weight is None else weight[payloads]
    else:
        summed = rules.duplicates == kernels.SUM and (removed > 0 or rules.undirected)
        columns = np.empty(num_edges, index_dtype(num_sources))
        origins = np.empty(num_edges if numbered else 0, np.int64)
        data = np.empty(num_edges, np.float32) if summed or weight is not None else None
        may_be_odd = weight is not None and (rules.undirected or removed > 0)
        odd = np.full(num_rows if may_be_odd else 0, -1, index_dtype(num_sources))
        rounded = over_rows(
            kernels.treat_write,
            num_rows,
            len(keys),
            indptr,
            keys,
            payloads,
            _or_empty(weight),
            rules.undirected,
            rules.both_ways,
            base,
            rules.duplicates,
            rules.loops,
            new_indptr,
            columns,
            origins,
            _or_empty(data),
            odd,
        )
        if weight is not None and len(odd_rows := np.flatnonzero(odd >= 0)):
            row = int(odd_rows[0])
            edge = slice(int(indptr[row]), int(indptr[row + 1]))
            raise _two_weights(name, int(odd[row]), first_row + row, keys[edge], weight[payloads[edge]], rules)
        counts = replace(counts, sums_rounded=int(sum(rounded)))
        if weight is None and data is not None and bool((data == 1).all()):
            data = None
    edge_number = origins.astype(np.int64) if numbered else None
    matrix = Csr(indptr=new_indptr, indices=columns, data=data, num_sources=num_sources, edge_number=edge_number)
    return matrix, counts


def _two_weights(
    name: str, src: int, dst: int, keys: NDArray[np.integer], weights: NDArray[np.float32], rules: TreatmentRules
) -> DatasetError:
    """What to raise where an edge has no one weight that float32 holds.

    Args:
        name: of the edge type.
        src, dst: the rows of its ends.
        keys, weights: of the records of row `dst`.
        rules: of which these are too few.
    """
    edge, others = f"edges {name}: {src} -> {dst}", "--duplicates sum, max, min or mean"
    alike = keys >> 1 == src if rules.undirected else keys == src
    if rules.duplicates == kernels.DROP:
        low, high = weights[alike].min(), weights[alike].max()
        return DatasetError(
            f"{edge} has copies of the weights {low:g} and {high:g}, and --duplicates drop is for copies of one "
            f"weight; say which counts with {others}"
        )
    if rules.duplicates == kernels.KEEP:
        there, back = (Counter(weights[alike & (keys & 1 == way)].tolist()) for way in (0, 1))
        return DatasetError(
            f"{edge} has the weight {min(there - back or there):g} and {dst} -> {src} the weight "
            f"{min(back - there or back):g}, but an undirected edge has one; say which counts with {others}, or "
            "leave --undirected away"
        )
    return DatasetError(
        f"{edge} has weights whose sum is beyond float32; divide all weights by a number, or give --duplicates max, "
        "min or mean"
    )


def transpose(csr: Csr) -> Csr:
    """The CSR of the reversed edges; columns ascend again since rows are visited in order. O(E + N)."""
    dtype = index_dtype(csr.num_rows)
    indptr, indices, data = kernels.transpose(
        csr.indptr, csr.indices, _or_empty(csr.data), csr.num_sources, np.zeros(0, dtype)
    )
    return Csr(indptr=indptr, indices=indices, data=None if csr.data is None else data, num_sources=csr.num_rows)


def is_symmetric(csr: Csr) -> bool:
    """Whether every edge has its reverse of equal weight, as often as it occurs."""
    return csr.num_rows == csr.num_sources and direction_fingerprint(csr, first_row=0) == 0


def is_simple(csr: Csr) -> bool:
    """Whether a square matrix has neither self-loops nor an edge twice."""
    return not sum(over_rows(kernels.count_faults, csr.num_rows, csr.num_edges, csr.indptr, csr.indices))


def direction_fingerprint(csr: Csr, *, first_row: int) -> int:
    """A number modulo 2^64 that is 0 if every edge has its reverse of equal weight, else with a probability of 2^-64.

    Those of row ranges, whose first rows are `first_row`, add up to that of the whole.
    """
    found = over_rows(
        kernels.direction_fingerprint,
        csr.num_rows,
        csr.num_edges,
        csr.indptr,
        csr.indices,
        _bits(csr.data),
        first_row,
    )
    return sum(map(int, found)) % 2**64


def edges_fingerprint(chunk: EdgeChunk) -> int:
    """The same of edges in any order; those of several chunks add up."""
    num_edges = len(chunk.src)
    found = over_rows(kernels.edges_fingerprint, num_edges, num_edges, chunk.src, chunk.dst, _bits(chunk.weight))
    return sum(map(int, found)) % 2**64


def _bits(weight: NDArray[np.float32] | None) -> NDArray[np.uint32]:
    """The bits of weights, of which 0 and -0 are one; empty for None."""
    return (_or_empty(weight) + np.float32(0)).view(np.uint32)


def undirected_simple(csr: Csr) -> Csr:
    """The graph that partitioners want: symmetric, without self-loops or duplicates.

    Returns:
        A square CSR whose data is float32: the number of directed edges that stand behind each undirected one
        (2 for an edge given both ways). If `csr` is such a graph already, its arrays are shared and data is None, since
        that number is 2 for all.
    """
    plain = Csr(indptr=csr.indptr, indices=csr.indices, num_sources=csr.num_sources)
    mirrored = plain if is_symmetric(plain) else transpose(plain)
    if mirrored is plain and is_simple(plain):
        return plain
    both = (csr.indptr, csr.indices, mirrored.indptr, mirrored.indices)
    num_entries = csr.num_edges + mirrored.num_edges
    indptr = np.zeros(csr.num_rows + 1, np.int64)
    over_rows(kernels.merged_lengths, csr.num_rows, num_entries, *both, indptr[1:])
    np.cumsum(indptr, out=indptr)
    indices, data = np.empty(indptr[-1], csr.indices.dtype), np.empty(indptr[-1], np.float32)
    over_rows(kernels.merge_rows, csr.num_rows, num_entries, *both, indptr, indices, data)
    return Csr(indptr=indptr, indices=indices, data=data, num_sources=csr.num_sources)


def self_loops_of_rows(csr: Csr, *, first_row: int) -> int:
    """Edges whose source is their destination, in rows of a square matrix of which `first_row` is the first."""
    return sum(over_rows(kernels.count_self_loops, csr.num_rows, csr.num_edges, csr.indptr, csr.indices, first_row))


def weighted_in_degree(csr: Csr) -> NDArray[np.float32]:
    """Sum of the weights of each row, added in float64; float32 [N_dst]."""
    if csr.data is None:
        return np.diff(csr.indptr).astype(np.float32)
    sums_N = np.empty(csr.num_rows, np.float32)
    over_rows(kernels.row_sums, csr.num_rows, csr.num_edges, csr.indptr, csr.data, sums_N)
    return sums_N


def are_below(numbers: NDArray[np.integer], end: int) -> bool:
    """Whether all of these are in 0 .. end-1; they are read some at a time, so that they may be mapped."""
    pieces = (numbers[start : start + NUMBERS_AT_A_TIME] for start in range(0, len(numbers), NUMBERS_AT_A_TIME))
    return all(piece.min() >= 0 and piece.max() < end for piece in pieces)


def range_fault(csr: Csr) -> str | None:
    """What would be read out of bounds in this CSR, as a sentence, or None: row offsets and column range."""
    if not len(csr.indptr):
        return "there are no row offsets"
    if csr.indptr[0] != 0 or csr.indptr[-1] != csr.num_edges:
        return f"row offsets run from {csr.indptr[0]} to {csr.indptr[-1]}, not from 0 to {csr.num_edges}"
    for start in range(0, csr.num_rows, NUMBERS_AT_A_TIME):
        piece = csr.indptr[start : start + NUMBERS_AT_A_TIME + 1]
        fall = np.flatnonzero(piece[1:] < piece[:-1])
        if len(fall):
            return f"row offsets fall at row {start + fall[0]}"
    if csr.data is not None and len(csr.data) != csr.num_edges:
        return f"there are {len(csr.data)} weights for {csr.num_edges} edges"
    if not are_below(csr.indices, csr.num_sources):
        return f"columns are out of range 0 .. {csr.num_sources - 1}"
    return None


def fault(csr: Csr) -> str | None:
    """What makes this CSR invalid, in words, or None: offsets, column range, column order."""
    if (problem := range_fault(csr)) is not None:
        return problem
    row = int(kernels.first_bad_row(read_only(csr.indptr), read_only(csr.indices), csr.num_sources))
    if row < 0:
        return None
    return f"columns of row {row} do not ascend"


def _or_empty(data: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return np.zeros(0, np.float32) if data is None else data
