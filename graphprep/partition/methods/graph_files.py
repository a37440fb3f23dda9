"""Write clean graphs in the file formats of other partitioners, a range of rows at a time.

METIS and hMETIS text (Karypis: METIS 5.1.0 manual, section 4.1; hMETIS 1.5 manual, section 3.2) and ParHIP's binary
format (Sanders, Schulz: KaHIP user guide, section 3.2).

Letters: N nodes, E directed edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import Csr

EDGES_AT_A_TIME = 1 << 20
LONGEST_NUMBER = 20
"""Digits and a space."""
PARHIP_NO_NODE_WEIGHTS, PARHIP_NO_EDGE_WEIGHTS = 2, 1
PARHIP_NARROW_NODES, PARHIP_NARROW_NODE_WEIGHTS, PARHIP_NARROW_EDGE_WEIGHTS = 8, 16, 32
_NONE = np.zeros(0, np.int64)


def write_metis(path: Path, graph: Csr, edge_weights: NDArray[np.int64] | None) -> None:
    """A line for each node: its neighbours, from 1, each with the weight of its edge if edges have weights."""
    with path.open("wb") as file:
        file.write(f"{graph.num_rows} {graph.num_edges // 2}{' 001' if edge_weights is not None else ''}\n".encode())
        for text in _lines(graph, edge_weights, with_self=False):
            file.write(text)


def write_hmetis(path: Path, graph: Csr) -> None:
    """A net for each node: itself and its neighbours, which are the parts that need or hold its row."""
    with path.open("wb") as file:
        file.write(f"{graph.num_rows} {graph.num_rows}\n".encode())
        for text in _lines(graph, None, with_self=True):
            file.write(text)


def write_parhip(path: Path, graph: Csr, edge_weights: NDArray[np.int64] | None) -> None:
    """Header, offsets in bytes from the file's begin, neighbours as 32-bit numbers, 32-bit weights.

    Fewer than 2^32 nodes and weights below 2^31.
    """
    kind = PARHIP_NO_NODE_WEIGHTS | PARHIP_NARROW_NODES | PARHIP_NARROW_NODE_WEIGHTS | PARHIP_NARROW_EDGE_WEIGHTS
    if edge_weights is None:
        kind |= PARHIP_NO_EDGE_WEIGHTS
    first = 8 * (3 + graph.num_rows + 1)
    with path.open("wb") as file:
        np.array([kind, graph.num_rows, graph.num_edges], np.uint64).tofile(file)
        (first + 4 * graph.indptr.astype(np.uint64)).tofile(file)
        for start in range(0, graph.num_edges, EDGES_AT_A_TIME):
            graph.indices[start : start + EDGES_AT_A_TIME].astype(np.uint32).tofile(file)
        if edge_weights is not None:
            for start in range(0, graph.num_edges, EDGES_AT_A_TIME):
                edge_weights[start : start + EDGES_AT_A_TIME].astype(np.int32).tofile(file)


def _lines(graph: Csr, edge_weights: NDArray[np.int64] | None, *, with_self: bool) -> Iterator[memoryview]:
    row = 0
    weights = _NONE if edge_weights is None else edge_weights
    numbers_an_edge = 1 if edge_weights is None else 2
    while row < graph.num_rows:
        end = int(np.searchsorted(graph.indptr, graph.indptr[row] + EDGES_AT_A_TIME, side="right")) - 1
        end = max(row + 1, end)
        edges = int(graph.indptr[end] - graph.indptr[row])
        text = np.empty((edges * numbers_an_edge + (end - row)) * LONGEST_NUMBER + (end - row), np.uint8)
        length = _write_rows(graph.indptr, graph.indices, weights, row, end, with_self, text)
        yield text[:length].data
        row = end


@njit(cache=True)
def _write_rows(indptr: Any, indices: Any, weights: Any, row: int, end: int, with_self: bool, text: Any) -> Any:
    place: Any = np.int64(0)
    for node in range(row, end):
        if with_self:
            place = _write_number(node + 1, text, place)
        for e in range(indptr[node], indptr[node + 1]):
            place = _write_number(indices[e] + 1, text, place)
            if len(weights):
                place = _write_number(weights[e], text, place)
        text[place] = 10  # a line's end
        place += 1
    return place


@njit(cache=True)
def _write_number(number: int, text: Any, place: int) -> int:
    digits, rest = 1, number // 10
    while rest:
        digits += 1
        rest //= 10
    rest = number
    for position in range(place + digits - 1, place - 1, -1):
        text[position] = 48 + rest % 10  # the digit 0 and on
        rest //= 10
    text[place + digits] = 32  # a space
    return place + digits + 1
