"""The edges of a store grouped by part: one pass over the store, one bucket of a file a part.

A part's rows are scattered over the store, and reading the store once for each part would take P passes. So rows are
read in order, in pieces of bounded size, and each is appended to the bucket of its part. A bucket holds the part's rows
ascending, so that it is a CSR matrix of the part, which is mapped and not read. Memory holds one piece, the layout, and
a float32 a node for the degrees that are summed in the same pass; the buckets take as much disk as the edges, until the
parts are written.

Letters: N destination nodes, E edges, P parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.cache.blocks import NodeLayout
from graphprep.core import csr
from graphprep.core.row_ranges import row_ranges
from graphprep.core.source import EdgeSource
from graphprep.core.types import Csr, EdgeType, row_bytes
from graphprep.system import progress
from graphprep.system.files.atomic import reserve

Array = NDArray[Any]
ARRAY_PREFIX = "array-"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeBuckets:
    """The edges of one type, by part. The large arrays are mapped from named files, which worker processes map too."""

    first_row_P: NDArray[np.int64]
    """[P + 1]: where each part's rows begin"""
    first_edge_P: NDArray[np.int64]
    """[P + 1]: where each part's edges begin"""
    length_N: NDArray[np.int32]
    """in-edges of each row, by part"""
    indices_E: NDArray[np.integer[Any]]
    """sources, global ids"""
    weight_E: NDArray[np.float32] | None
    arrays: dict[str, Array]
    """what else the edges have, [E, ...] by name"""
    num_sources: int
    degree_N: NDArray[np.float32]
    """weighted in-degree, in the store's node order"""
    num_self_loops: int

    def matrix(self, part: int) -> Csr:
        """The in-edges of a part; rows are its nodes, ascending by global id. Indices and weights are mapped."""
        edges = self._edges(part)
        lengths = self.length_N[self.first_row_P[part] : self.first_row_P[part + 1]]
        indptr = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        return Csr(
            indptr=indptr,
            indices=self.indices_E[edges],
            data=None if self.weight_E is None else self.weight_E[edges],
            num_sources=self.num_sources,
        )

    def array(self, part: int, name: str) -> Array:
        """One of the other arrays, the part's edges in the order of `matrix`; mapped."""
        return self.arrays[name][self._edges(part)]

    def _edges(self, part: int) -> slice:
        return slice(int(self.first_edge_P[part]), int(self.first_edge_P[part + 1]))


def bucket_by_part(
    source: EdgeSource, kind: EdgeType, layout: NodeLayout, folder: Path, *, piece_bytes: int
) -> EdgeBuckets:
    """Read the edges of one type once and group them by part.

    Args:
        source: of the whole graph.
        kind: the edge type.
        layout: of its destination nodes.
        folder: an existing one, for the files of the buckets.
        piece_bytes: the most memory of a piece of the source's edges.

    Raises:
        OSError: the disk is full.
    """
    part_N, num_edges = layout.part_N, source.num_edges[kind]
    num_nodes, num_parts = len(part_N), layout.num_parts
    rows_P = np.array([len(nodes) for nodes in layout.nodes_P], np.int64)
    first_row_P = np.concatenate([[0], np.cumsum(rows_P)])
    indptr = source.indptr(kind)
    edges_P = np.zeros(num_parts, np.int64)
    length_N = np.empty(num_nodes, np.int32)
    _count(part_N, indptr, first_row_P[:-1].copy(), length_N, edges_P)
    first_edge_P = np.concatenate([[0], np.cumsum(edges_P)])

    def bucket_file(name: str, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> Array:
        if num_edges == 0 or 0 in shape:
            return np.empty((num_edges, *shape), dtype)
        path = folder / f"{kind.key}.{name}"
        array: Array = np.memmap(path, dtype=dtype, mode="w+", shape=(num_edges, *shape))
        reserve(path)
        return array

    extra = {name: source.edge_array(kind, name) for name in source.edge_arrays(kind)}
    sources = source.num_nodes[kind.source]
    indices_E = bucket_file("indices", np.dtype(csr.index_dtype(sources)))
    weight_E = bucket_file("weights", np.dtype(np.float32)) if source.is_weighted(kind) else None
    arrays = {name: bucket_file(f"{ARRAY_PREFIX}{name}", array.dtype, array.shape[1:]) for name, array in extra.items()}
    edge_bytes = 16 + 8 + sum(map(row_bytes, extra.values()))
    degree_N = np.zeros(num_nodes, np.float32)
    num_self_loops, place_P = 0, first_edge_P[:-1].copy()
    with progress.task(f"grouping edges {kind.key} by part", total=num_edges, unit="edges") as task:
        for start, stop in row_ranges(indptr, max(1, piece_bytes // edge_bytes)):
            piece = source.csr_rows(kind, start, stop)
            place_E = np.empty(piece.num_edges, np.int64)
            _place(part_N[start:stop], piece.indptr, place_P, place_E)
            indices_E[place_E] = piece.indices
            if weight_E is not None:
                weight_E[place_E] = piece.data
            first = int(indptr[start])
            for name, array in extra.items():
                arrays[name][place_E] = array[first : first + piece.num_edges]
            degree_N[start:stop] = csr.weighted_in_degree(piece)
            if kind.source == kind.destination:
                num_self_loops += csr.self_loops_of_rows(piece, first_row=start)
            task.advance(piece.num_edges)
    return EdgeBuckets(
        first_row_P=first_row_P,
        first_edge_P=first_edge_P,
        length_N=length_N,
        indices_E=indices_E,
        weight_E=weight_E,
        arrays=arrays,
        num_sources=sources,
        degree_N=degree_N,
        num_self_loops=num_self_loops,
    )


@njit(cache=True, nogil=True)
def _count(part_N, indptr, row_P, length_N, edges_P):  # type: ignore[no-untyped-def]
    """In-edges of each row by part, and of each part; `row_P` is where each part's rows begin."""
    for row in range(len(part_N)):
        part = part_N[row]
        length = indptr[row + 1] - indptr[row]
        length_N[row_P[part]] = length
        row_P[part] += 1
        edges_P[part] += length


@njit(cache=True, nogil=True)
def _place(part_n, indptr, place_P, place_E):  # type: ignore[no-untyped-def]
    """Where each edge of a piece goes; `place_P` is the end of each part's bucket."""
    for row in range(len(part_n)):
        part = part_n[row]
        place = place_P[part]
        for e in range(indptr[row], indptr[row + 1]):
            place_E[e] = place
            place += 1
        place_P[part] = place
