"""A graph with its edges in files: read from its source once, by ranges of rows.

    matrices    in-edges of each edge type, as the source has them
    matrix      in-edges of all types in the common numbering, as in `whole_graph`
    into        the same without self-loops and repetitions: whose rows each node needs
    out         its transpose: who needs each node's row
    clean       the two together, symmetric; data count the directed edges behind each one

Where every edge has its reverse, the last three are one, and where there is one edge type without self-loops and
repetitions all five are: then the edges are written once and nothing is sorted.

What lies in files is mapped, read front to back, and no memory of the process's own.

Letters: N nodes, E directed edges.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.csr_mmap import in_files
from graphprep.core.row_ranges import row_ranges
from graphprep.core.source import GraphSource
from graphprep.core.types import Csr, EdgeChunk, EdgeSections, EdgeTable, EdgeType, Ids, Treatment
from graphprep.partition.out_of_core.passes import STAGE, Passes, Range, Ranges
from graphprep.partition.typed_graph import WholeGraph
from graphprep.store.sort import sort_table
from graphprep.system import memory, progress
from graphprep.system.executor import Threads

EDGES_AT_A_TIME = 1 << 21
SHARE_IN_MEMORY = 64
"""An array of up to 1/SHARE_IN_MEMORY of the free memory stays in memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedGraph:
    """The matrices of one graph, mapped from files; see the module's docstring."""

    whole: WholeGraph
    into: Csr
    out: Csr
    clean: Csr

    @classmethod
    def of(
        cls, source: GraphSource, folder: Path, *, memory_limit: int | None, passes: Passes | None = None
    ) -> MappedGraph:
        """Read a source.

        Args:
            source: the graph.
            folder: an existing one, for files.
            memory_limit: bytes that this process may hold; None for half of what is free.
            passes: that are to be made over the graph; None for threads.

        Raises:
            NoRoomError: the disk is full.
            DatasetError: the source is damaged.
        """
        passes = passes or Passes(executor=Threads(memory_limit=memory_limit))
        files = _Files(folder, memory_limit, memory.budget(memory_limit) // SHARE_IN_MEMORY, passes)
        masks = {
            node_type: np.asarray(stored[:])[:, 0]
            for node_type in source.num_nodes
            if (stored := source.node_array(node_type, "train_mask")) is not None
        }
        in_order = {name: source.num_nodes[name] for name in sorted(source.num_nodes)}
        with progress.task("reading edges by ranges of rows", total=sum(source.num_edges.values())) as task:
            matrices = {kind: files.copied(source, kind, task) for kind in source.num_edges}
        matrix = files.joined(matrices, in_order)
        whole = WholeGraph(matrices=matrices, num_nodes=in_order, training_masks=masks, matrix=matrix)
        into = files.simple(matrix)
        if not source.directed:
            return cls(whole=whole, into=into, out=into, clean=into)
        return cls(
            whole=whole,
            into=into,
            out=files.sorted("out", _edges_of(into, _turned), into.num_rows, Treatment()),
            clean=files.sorted(
                "clean", _edges_of(into, _both_ways, ways=2), into.num_rows, Treatment(duplicates="sum")
            ),
        )


@dataclass(frozen=True, slots=True)
class _Files:
    """Where the arrays go."""

    folder: Path
    memory_limit: int | None
    memory_bytes: int
    passes: Passes

    def written(self, pieces: Iterator[Csr], num_rows: int, num_sources: int, num_edges: int) -> Csr:
        return in_files(
            pieces,
            num_rows=num_rows,
            num_sources=num_sources,
            num_edges=num_edges,
            stage=STAGE,
            **self.passes.places(self.folder, self.memory_bytes),
        )

    def copied(self, source: GraphSource, kind: EdgeType, task: progress.Task) -> Csr:
        """One edge type's in-edges, without weights."""
        num_rows, num_sources = source.num_nodes[kind.destination], source.num_nodes[kind.source]

        def pieces() -> Iterator[Csr]:
            for start, stop in row_ranges(source.indptr(kind), EDGES_AT_A_TIME):
                piece = source.csr_rows(kind, start, stop)
                task.advance(piece.num_edges)
                yield Csr(indptr=piece.indptr, indices=piece.indices, num_sources=num_sources)

        return self.written(pieces(), num_rows, num_sources, source.num_edges[kind])

    def joined(self, matrices: Mapping[EdgeType, Csr], num_nodes: Mapping[str, int]) -> Csr:
        """All types as one matrix."""
        if len(num_nodes) == 1 and len(matrices) == 1:
            return next(iter(matrices.values()))
        firsts = dict(zip(num_nodes, np.cumsum([0, *num_nodes.values()]).tolist(), strict=False))
        total = sum(num_nodes.values())

        places = [
            _Place(matrix, rows, firsts[kind.source], firsts[kind.destination])
            for kind, matrix in matrices.items()
            for rows in row_ranges(matrix.indptr, EDGES_AT_A_TIME)
        ]
        counts = [place.num_edges for place in places]
        sections = EdgeSections(counts=counts, read=_moved, shared=(places, index_dtype(total)))
        return self.sorted("all types", sections, total, Treatment())

    def simple(self, matrix: Csr) -> Csr:
        """Without self-loops and repetitions; the matrix itself where there are none."""
        ranges = row_ranges(matrix.indptr, EDGES_AT_A_TIME)
        kept = sum(_simple(matrix, start, stop).num_edges for start, stop in ranges)
        if kept == matrix.num_edges:
            return matrix
        pieces = (_simple(matrix, start, stop) for start, stop in ranges)
        return self.written(pieces, matrix.num_rows, matrix.num_sources, kept)

    def sorted(self, name: str, sections: EdgeSections, num_nodes: int, treatment: Treatment) -> Csr:
        """Edges in any order, sorted in files if need be."""
        work = self.folder / f"{name}.edges"
        table = EdgeTable.of_sections(EdgeType(name, "to", name), sections)
        try:
            edges = sort_table(
                table,
                num_rows=num_nodes,
                num_sources=num_nodes,
                treatment=treatment,
                limit=self.memory_limit,
                work=work,
                executor=self.passes.executor,
            )
            return self.written(edges.pieces(), num_nodes, num_nodes, edges.counts.edges)
        finally:
            shutil.rmtree(work, ignore_errors=True)


class _Place(NamedTuple):
    """Some rows of one edge type, on their way to the common numbering."""

    matrix: Csr
    rows: Range
    first_source: int
    first_destination: int

    @property
    def num_edges(self) -> int:
        start, stop = self.rows
        return int(self.matrix.indptr[stop] - self.matrix.indptr[start])


def _moved(number: int, places: Sequence[_Place], dtype: type[np.int32] | type[np.int64]) -> Iterator[EdgeChunk]:
    matrix, rows, first_source, first_destination = places[number]
    src, dst = _ends(matrix, rows, dtype)
    yield EdgeChunk(src + dtype(first_source), dst + dtype(first_destination))


def _edges_of(matrix: Csr, read: Callable[..., Iterator[EdgeChunk]], *, ways: int = 1) -> EdgeSections:
    """The edges of a square matrix by ranges of rows; `read` gives each of them `ways` times."""
    ranges = row_ranges(matrix.indptr, EDGES_AT_A_TIME)
    counts = [ways * int(matrix.indptr[stop] - matrix.indptr[start]) for start, stop in ranges]
    return EdgeSections(counts=counts, read=read, shared=(matrix, ranges))


def _turned(number: int, matrix: Csr, ranges: Ranges) -> Iterator[EdgeChunk]:
    src, dst = _ends(matrix, ranges[number], index_dtype(matrix.num_rows))
    yield EdgeChunk(dst, src)


def _both_ways(number: int, matrix: Csr, ranges: Ranges) -> Iterator[EdgeChunk]:
    src, dst = _ends(matrix, ranges[number], index_dtype(matrix.num_rows))
    yield EdgeChunk(src, dst)
    yield EdgeChunk(dst, src)


def _ends(matrix: Csr, rows: Range, dtype: type[np.int32] | type[np.int64]) -> tuple[Ids, Ids]:
    """Sources and destinations of a range of rows; new arrays."""
    start, stop = rows
    offsets = np.asarray(matrix.indptr[start : stop + 1])
    destinations: Ids = np.repeat(np.arange(start, stop, dtype=dtype), np.diff(offsets))
    return matrix.indices[offsets[0] : offsets[-1]].astype(dtype), destinations


def _simple(matrix: Csr, start: int, stop: int) -> Csr:
    """Rows of a square matrix without self-loops and repeated columns."""
    offsets = np.asarray(matrix.indptr[start : stop + 1])
    columns = np.empty(int(offsets[-1] - offsets[0]), matrix.indices.dtype)
    indptr = np.zeros(len(offsets), np.int64)
    _copy_simple(offsets, matrix.indices, start, indptr, columns)
    return Csr(indptr=indptr, indices=columns[: indptr[-1]], num_sources=matrix.num_sources)


@njit(cache=True, nogil=True)
def _copy_simple(offsets: NDArray[np.int64], indices: Any, first: int, indptr: Any, columns: Any) -> None:
    at = 0
    for row in range(len(indptr) - 1):
        last = np.int64(-1)
        for e in range(offsets[row], offsets[row + 1]):
            column = np.int64(indices[e])
            if column != last and column != row + first:
                columns[at] = column
                at += 1
            last = column
        indptr[row + 1] = at
