"""Contraction: clusters become nodes, and the edges between two clusters are sorted and summed, in files if need be.

A graph without much structure hardly loses edges in contraction: twenty random neighbours of each
of sixteen nodes are three hundred neighbours of the cluster. Levels would then cost as much as the graph itself, and
METIS would run out of memory on the coarsest. So a level keeps DENSITY edges a node, chosen by weight: an edge lighter
than a threshold is kept with a probability of its weight over the threshold, and then counts for the threshold, so
that every cut keeps its expected weight (edge sparsification between levels: Rosch, Seemaier 2025).

Letters: X nodes of the finer level, E directed edges.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.csr_mmap import in_files
from graphprep.core.csr_pieces import EdgePieces
from graphprep.core.types import Csr, EdgeChunk, EdgeSections, EdgeTable, EdgeType, Ids, Treatment
from graphprep.partition.out_of_core.passes import STAGE, Passes, Range, Ranges, edges_of
from graphprep.partition.out_of_core.propagation_kernels import Edges, spread
from graphprep.store.sort import SortedEdges, sort_table
from graphprep.system.executor import Threads

DENSITY = 48
"""directed edges a node that a level keeps, on average"""
MOST_WEIGHT = 1 << 12
"""the heaviest edges of the histogram by which the threshold is found; heavier ones are always kept"""
DRAW_BITS = 30
BYTES_PER_EDGE = 12
"""while some are chosen: a column, a weight, and a weight of 1 where there are none"""
Result = TypeVar("Result")
TREATMENT = Treatment(duplicates="sum", self_loops="drop")


def contract(
    graph: Csr,
    ranges: Ranges,
    coarse_X: Ids,
    count: int,
    *,
    passes: Passes,
    level: int,
    folder: Path,
    memory_limit: int | None,
    memory_bytes: int,
    seed: int,
) -> Csr:
    """The graph of the clusters: symmetric, no self-loops; data are whole numbers.

    Args:
        graph: of the finer level.
        ranges: of its rows.
        coarse_X: the cluster of each node.
        count: how many clusters there are.
        passes: over the ranges; their executor also sorts.
        level: number of the new level, for messages.
        folder: for temporary files, which are removed with the arrays.
        memory_limit: bytes that this process may hold; None for half of what is free.
        memory_bytes: an array that is larger than this goes to a file and is mapped.
        seed: of the choice of light edges.

    Raises:
        NoRoomError: the disk is full.
    """
    name = f"level{level}"
    table = EdgeTable(
        type=EdgeType(name, "to", name),
        chunks=lambda: _between(graph, ranges, coarse_X, passes),
        sections=_sections(graph, ranges, coarse_X, passes) if passes.executor.is_elsewhere else None,
    )
    work = folder / f"{name}.edges"
    try:
        edges = sort_table(
            table,
            num_rows=count,
            num_sources=count,
            treatment=TREATMENT,
            limit=memory_limit,
            work=work,
            executor=passes.executor,
        )
        return _thinned(edges, count, passes=passes, folder=folder, memory_bytes=memory_bytes, seed=seed)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _between(graph: Csr, ranges: Ranges, coarse_X: Ids, passes: Passes) -> Iterator[EdgeChunk]:
    """The edges between clusters, range by range."""
    longest = max((int(graph.indptr[stop] - graph.indptr[start]) for start, stop in ranges), default=0)
    needed = longest * (2 * coarse_X.itemsize + (0 if graph.data is None else graph.data.itemsize))
    for _, chunk in passes.over(ranges, _crossing, graph, passes.shared(coarse_X), needed=needed):
        yield chunk


def _sections(graph: Csr, ranges: Ranges, coarse_X: Ids, passes: Passes) -> EdgeSections:
    """The same for other processes, which do not send the edges here if they are to go to the disk."""
    most = [int(graph.indptr[stop] - graph.indptr[start]) for start, stop in ranges]
    return EdgeSections(counts=most, exact=False, read=_section, shared=(ranges, graph, passes.shared(coarse_X)))


def _section(number: int, ranges: Ranges, graph: Csr, coarse_X: Ids) -> Iterator[EdgeChunk]:
    yield _crossing(ranges[number], graph, coarse_X)


def _crossing(rows: Range, graph: Csr, coarse_X: Ids) -> EdgeChunk:
    """The edges of a range between clusters."""
    num_edges = int(graph.indptr[rows[1]] - graph.indptr[rows[0]])
    src, dst = np.empty(num_edges, coarse_X.dtype), np.empty(num_edges, coarse_X.dtype)
    weight = np.empty(0 if graph.data is None else num_edges, np.float32)
    count = _cross(rows, edges_of(graph), coarse_X, src, dst, weight)
    return EdgeChunk(src[:count], dst[:count], None if graph.data is None else weight[:count])


def _thinned(edges: SortedEdges, count: int, *, passes: Passes, folder: Path, memory_bytes: int, seed: int) -> Csr:
    """The sorted edges as arrays, of the light ones no more than DENSITY allows."""
    threshold = _threshold(edges, DENSITY * count, passes)
    kept = sum(_over_pieces(edges, passes, _num_kept, threshold, seed))
    return in_files(
        _over_pieces(edges, passes, _kept, threshold, seed),
        num_rows=count,
        num_sources=count,
        num_edges=kept,
        stage=STAGE,
        **passes.places(folder, memory_bytes),
    )


def _over_pieces(
    edges: SortedEdges, passes: Passes, function: Callable[..., Result], *shared: object
) -> Iterator[Result]:
    """What a function gives of each piece, in order; called with its number, the pieces, and what is shared."""
    pieces = edges.arrays
    executor = passes.executor if pieces.in_files or not passes.executor.is_elsewhere else Threads(most=1)
    needed = int(np.diff(pieces.edge_starts).max(initial=0)) * BYTES_PER_EDGE
    return executor.map(function, range(len(pieces.row_starts) - 1), pieces, *shared, needed=needed)


def _threshold(edges: SortedEdges, most: int, passes: Passes) -> int:
    """The least whole number by which no more than `most` edges are kept, as far as can be expected; at least 1."""
    if edges.counts.edges <= most:
        return 1
    histogram = np.sum(list(_over_pieces(edges, passes, _weights_found)), axis=0)
    weight = np.arange(len(histogram))
    expected = [
        float(histogram[at:].sum() + (histogram[:at] * weight[:at]).sum() / at) for at in range(1, len(histogram))
    ]
    fits = np.flatnonzero(np.array(expected) <= most)
    return int(fits[0]) + 1 if len(fits) else MOST_WEIGHT


def _weights_found(number: int, pieces: EdgePieces) -> NDArray[np.int64]:
    """How many edges of a piece have each weight, int64 [MOST_WEIGHT + 1]; the last one counts all from there on."""
    weights = _data_of(pieces.piece(number))
    return np.bincount(np.minimum(weights, MOST_WEIGHT).astype(np.int64), minlength=MOST_WEIGHT + 1)


def _num_kept(number: int, pieces: EdgePieces, threshold: int, seed: int) -> int:
    return _kept(number, pieces, threshold, seed).num_edges


def _kept(number: int, pieces: EdgePieces, threshold: int, seed: int) -> Csr:
    """What is kept of a piece; weighted."""
    piece, first = pieces.piece(number), int(pieces.row_starts[number])
    indptr = np.zeros(piece.num_rows + 1, np.int64)
    columns, weights = np.empty_like(piece.indices), np.empty(piece.num_edges, np.float32)
    count = _choose(piece.indptr, piece.indices, _data_of(piece), first, threshold, seed, indptr[1:], columns, weights)
    np.cumsum(indptr, out=indptr)
    return Csr(indptr=indptr, indices=columns[:count], data=weights[:count], num_sources=piece.num_sources)


def _data_of(piece: Csr) -> NDArray[np.float32]:
    return np.ones(piece.num_edges, np.float32) if piece.data is None else piece.data


@njit(cache=True, nogil=True)
def _cross(rows: Any, edges: Edges, coarse_X: Any, src: Any, dst: Any, weight: Any) -> Any:
    """Fill in the edges of some rows whose ends lie in two clusters; how many they are."""
    (start, stop), (indptr, indices, data) = rows, edges
    count = 0
    for row in range(start, stop):
        home = coarse_X[row]
        for e in range(indptr[row], indptr[row + 1]):
            other = coarse_X[indices[e]]
            if other != home:
                src[count], dst[count] = other, home
                if len(weight):
                    weight[count] = data[e]
                count += 1
    return count


@njit(cache=True, nogil=True)
def _choose(
    indptr: Any, indices: Any, data: Any, first: Any, threshold: Any, seed: Any, length: Any, columns: Any, weights: Any
) -> Any:
    """Fill in the kept edges; both directions of an edge share one random number."""
    count = 0
    for row in range(len(indptr) - 1):
        before = count
        for e in range(indptr[row], indptr[row + 1]):
            column, weight = indices[e], data[e]
            if weight < threshold:
                low, high = min(row + first, column), max(row + first, column)
                draw = spread(low, spread(high, seed)) & ((1 << DRAW_BITS) - 1)
                if draw * np.float64(threshold) >= weight * np.float64(1 << DRAW_BITS):
                    continue
                weight = threshold
            columns[count], weights[count] = column, weight
            count += 1
        length[row] = count - before
    return count
