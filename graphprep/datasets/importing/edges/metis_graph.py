"""METIS graph files (.graph): line v + 1 lists the neighbours of node v, which count from 1.

    % comments
    N M [FMT [NCON]]                      M undirected edges; FMT: three digits for sizes, node weights, edge weights
    [size] [w1 .. wNCON] v1 [e1] v2 [e2] ...

METIS relies on what it does not check: no edge from a node to itself, none twice, every edge in both lines with the
same weight, edge weights above 0, node weights not below it. Here each breach is an error with its line. An empty line
is a node without neighbours.

The graph is held whole, as two CSR of some 4 bytes a number, since both directions have to be compared. It gives both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeOptions, EdgeRows
from graphprep.datasets.importing.edges.number_lines import NumberLines, number_lines
from graphprep.errors import DatasetError

FORMATS = {f"{number:0{width}b}" for width in (1, 2, 3) for number in range(8) if number < 2**width}
MOST_CONSTRAINTS = 64
CHUNK_EDGES = 1 << 20
FAULTS = ("", "itself", "twice", "one way", "two weights")
EXACT_WEIGHTS = 2**24
"""float32 holds whole numbers up to here"""


class Header(NamedTuple):
    num_nodes: int
    num_edges: int
    sizes: bool
    weights: int
    """node weights a line"""
    edge_weights: bool
    line: int


class Adjacency(NamedTuple):
    """Neighbours from 0. weights is empty where there are none."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    weights: NDArray[np.int64]


class MetisGraph(EdgeFile):
    """One file."""

    read_again = True

    def __init__(self, path: Path, options: EdgeOptions) -> None:
        """Read and check all of it.

        Raises:
            DatasetError: with its line, what is not as the format asks.
        """
        self.path, self.options = path, options
        header, lines, self._node_arrays, adjacency = _read(path)
        self.num_sources = self.num_destinations = header.num_nodes
        if options.weights and not header.edge_weights:
            raise DatasetError(f"{path} has no edge weights; its line {header.line} says so")
        if options.times:
            raise DatasetError(f"{path} has no times; the METIS format knows none")
        self.ignored = ("edge weights",) if header.edge_weights and not options.weights else ()
        self._graph = _checked(path, header, lines, adjacency)
        if options.weights and len(self._graph.weights) and int(self._graph.weights.max()) > EXACT_WEIGHTS:
            raise DatasetError(f"{path} has the edge weight {self._graph.weights.max()}, beyond {EXACT_WEIGHTS:,}")

    def read_as(self) -> str:
        return ", ".join([f"METIS, {self.num_sources:,} nodes", *self._node_arrays])

    def node_arrays(self) -> Mapping[str, NDArray[Any]]:
        """vertex_weight int64 [N] or [N, NCON], vertex_size int64 [N], where the file has them."""
        return self._node_arrays

    def rows(self) -> Iterator[EdgeRows]:
        """Every edge in both directions, by destination."""
        indptr, indices, weights = self._graph
        for start in range(0, len(indices), CHUNK_EDGES):
            stop = min(start + CHUNK_EDGES, len(indices))
            dst = np.searchsorted(indptr, np.arange(start, stop), side="right") - 1
            weight = weights[start:stop].astype(np.float32) if self.options.weights else None
            yield EdgeRows(indices[start:stop].astype(np.int64), dst, weight)


def _read(path: Path) -> tuple[Header, NDArray[np.int64], dict[str, NDArray[Any]], Adjacency]:
    """The header, the line of each node, node arrays, and the neighbours as they are in the file."""
    header: Header | None = None
    parts: list[tuple[NDArray[Any], ...]] = []
    seen = 0
    for run in number_lines(path):
        if header is None:
            header, run = _header(path, run)
            if header is None:
                continue
        run = _without_surplus(path, run, header, header.num_nodes - seen)
        seen += len(run.lines)
        parts.append((*_split(path, run, header), run.lines))
    if header is None:
        raise DatasetError(f"{path} has no header; its first line must be the numbers of nodes and edges")
    if seen < header.num_nodes:
        raise DatasetError(
            f"{path} has {seen:,} lines of nodes where line {header.line} says {header.num_nodes:,}; it is cut short"
        )
    indptr = np.zeros(header.num_nodes + 1, np.int64)
    head, counts, near, weights, lines = (np.concatenate(column) for column in zip(*parts, strict=True))
    np.cumsum(counts, out=indptr[1:])
    arrays: dict[str, NDArray[Any]] = {}
    if header.sizes:
        arrays["vertex_size"] = head[:, 0].copy()
    if header.weights:
        arrays["vertex_weight"] = (
            head[:, int(header.sizes) :].squeeze(1) if header.weights == 1 else head[:, -header.weights :]
        )
    return header, lines, arrays, Adjacency(indptr, near, weights)


def _header(path: Path, run: NumberLines) -> tuple[Header | None, NumberLines]:
    """The header from the first line that has numbers, and the lines after it."""
    starts = np.r_[0, run.ends[:-1]]
    filled = np.flatnonzero(run.ends > starts)
    if not len(filled):
        return None, run
    at = int(filled[0])
    numbers = run.values[starts[at] : run.ends[at]].tolist()
    line = int(run.lines[at])
    where = f"{path}, line {line}"
    if not 2 <= len(numbers) <= 4 or min(numbers) < 0:
        raise DatasetError(
            f"{where}: a METIS header is N M [FMT [NCON]], but this is {' '.join(map(str, numbers[:9]))}"
        )
    format = str(numbers[2]) if len(numbers) > 2 else "0"
    if format not in FORMATS:
        raise DatasetError(f"{where}: the FMT {format} is none of 0, 1, 10, 11, 100, 101, 110 and 111")
    sizes, has_weights, edge_weights = (digit == "1" for digit in format.zfill(3))
    constraints = numbers[3] if len(numbers) > 3 else int(has_weights)
    if constraints > MOST_CONSTRAINTS or (has_weights and constraints < 1) or (constraints > 0 and not has_weights):
        raise DatasetError(f"{where}: FMT {format} does not go with {constraints} weights a node")
    if numbers[0] < 1:
        raise DatasetError(f"{where}: the graph has no nodes")
    header = Header(numbers[0], numbers[1], sizes, constraints, edge_weights, line)
    used = run.ends[at]
    return header, NumberLines(run.values[used:], run.ends[at + 1 :] - used, run.lines[at + 1 :])


def _without_surplus(path: Path, run: NumberLines, header: Header, left: int) -> NumberLines:
    """Only as many lines as there are nodes left; empty lines may follow them."""
    if len(run.lines) <= left:
        return run
    used = int(run.ends[left - 1]) if left else 0
    surplus = np.flatnonzero(run.ends[left:] > used)
    if len(surplus):
        raise DatasetError(
            f"{path}, line {run.lines[left + surplus[0]]}: there are more lines than the {header.num_nodes:,} nodes of "
            f"line {header.line}"
        )
    return NumberLines(run.values[:used], run.ends[:left], run.lines[:left])


def _split(
    path: Path, run: NumberLines, header: Header
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Of each line: its head [L, sizes + weights], how many neighbours; and all neighbours and edge weights."""
    width = int(header.sizes) + header.weights
    starts = np.concatenate([[0], run.ends[:-1]]).astype(np.int64) if len(run.ends) else run.ends
    counts = run.ends - starts
    rest = counts - width
    bad: NDArray[np.int64]
    if len(bad := np.flatnonzero(rest < 0)):
        raise DatasetError(
            f"{path}, line {run.lines[bad[0]]}: {counts[bad[0]]} numbers, but a node begins with {width}"
        )
    if header.edge_weights and len(bad := np.flatnonzero(rest % 2)):
        raise DatasetError(
            f"{path}, line {run.lines[bad[0]]}: a neighbour without a weight, or a weight without a neighbour"
        )
    places: NDArray[np.int64] = starts[:, None] + np.arange(width)
    head = run.values[places]
    if len(bad := np.argwhere(head < 0)):
        row, column = bad[0]
        what = "size" if header.sizes and not column else "node weight"
        raise DatasetError(f"{path}, line {run.lines[row]}: the {what} {head[row, column]} is negative")
    keep = np.ones(len(run.values), np.bool_)
    keep[places.ravel()] = False
    tail = run.values[keep]
    step = 2 if header.edge_weights else 1
    near: NDArray[np.int64] = tail[::step]
    weight: NDArray[np.int64] = tail[1::2] if header.edge_weights else tail[:0]
    checks: tuple[tuple[NDArray[Any], NDArray[np.bool_], str], ...] = (
        (near, (near < 1) | (near > header.num_nodes), f"the neighbour {{}} is outside 1 .. {header.num_nodes:,}"),
        (weight, weight < 1, "the edge weight {} is not above 0"),
    )
    for values, wrong, words in checks:
        if wrong.any():
            place = int(np.argmax(wrong))
            row = int(np.searchsorted(np.cumsum(rest // step), place, side="right"))
            raise DatasetError(f"{path}, line {run.lines[row]}: {words.format(values[place])}")
    dtype = np.int32 if header.num_nodes < 2**31 else np.int64
    return head, rest // step, (near - 1).astype(dtype), weight.copy()


def _checked(path: Path, header: Header, lines: NDArray[np.int64], adjacency: Adjacency) -> Adjacency:
    """The graph with ascending neighbours, if every edge is there in both directions and once."""
    mirrored = _transposed(adjacency)
    graph = _transposed(mirrored)
    fault, row, other = _first_fault(*graph, *mirrored)
    if fault:
        node, neighbour = row + 1, other + 1
        at = f"{path}, line {lines[row]}"
        match FAULTS[fault]:
            case "itself":
                raise DatasetError(f"{at}: node {node} is its own neighbour, which the METIS format forbids")
            case "twice":
                raise DatasetError(f"{at}: node {node} has the neighbour {neighbour} twice")
            case "one way":
                raise DatasetError(
                    f"{at}: node {node} has the neighbour {neighbour}, but line {lines[other]} of node {neighbour} "
                    f"does not have {node}"
                )
            case _:
                raise DatasetError(
                    f"{at}: the edge from node {node} to {neighbour} has another weight than on line {lines[other]}"
                )
    if len(graph.indices) != 2 * header.num_edges:
        raise DatasetError(
            f"{path} has {len(graph.indices) // 2:,} edges where its header on line {header.line} says "
            f"{header.num_edges:,}"
        )
    return graph


def _transposed(graph: Adjacency) -> Adjacency:
    """The same edges the other way round, neighbours ascending."""
    num_nodes = len(graph.indptr) - 1
    weights = graph.weights if len(graph.weights) else np.ones(len(graph.indices), np.int8)
    matrix = csr_array((weights, graph.indices, graph.indptr), shape=(num_nodes, num_nodes)).tocsc()
    return Adjacency(
        matrix.indptr.astype(np.int64), matrix.indices, matrix.data if len(graph.weights) else graph.weights
    )


@njit(cache=True)
def _first_fault(indptr, indices, weights, other_indptr, other_indices, other_weights):  # type: ignore[no-untyped-def]
    """(number in FAULTS, row, column) of the first row that is wrong; (0, 0, 0) if none is."""
    for row in range(len(indptr) - 1):
        for edge in range(indptr[row], indptr[row + 1]):
            if indices[edge] == row:
                return 1, row, row
            if edge > indptr[row] and indices[edge] == indices[edge - 1]:
                return 2, row, np.int64(indices[edge])
    for row in range(len(indptr) - 1):
        mine, other = indptr[row], other_indptr[row]
        while mine < indptr[row + 1] or other < other_indptr[row + 1]:
            if other == other_indptr[row + 1] or (mine < indptr[row + 1] and indices[mine] < other_indices[other]):
                return 3, row, np.int64(indices[mine])
            if mine == indptr[row + 1] or other_indices[other] < indices[mine]:
                return 3, np.int64(other_indices[other]), row
            if len(weights) and weights[mine] != other_weights[other]:
                return 4, row, np.int64(indices[mine])
            mine += 1
            other += 1
    return 0, 0, 0
