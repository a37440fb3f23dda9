"""A grid of any number of dimensions: each node is joined to the next along each axis. Cuts and halos are known.

Labels are slabs along the first axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from graphprep.core.types import EdgeChunk, EdgeSections, RawGraph
from graphprep.datasets.generators.chunks import EDGES_AT_A_TIME, undirected_graph
from graphprep.datasets.generators.requests import GridRequest


def generate(request: GridRequest, *, folder: Path) -> RawGraph:
    """The graph, its nodes numbered with the last axis fastest; features go to a file in `folder`."""
    num_nodes, _ = request.size
    y = np.arange(num_nodes) // (num_nodes // request.sides[0]) * request.classes // request.sides[0]
    ranges = [
        (axis, start, min(start + EDGES_AT_A_TIME, num_nodes))
        for axis in range(len(request.sides))
        for start in range(0, num_nodes, EDGES_AT_A_TIME)
    ]
    counts = [_joined(request, axis, stop) - _joined(request, axis, start) for axis, start, stop in ranges]
    sections = EdgeSections(counts=counts, read=_along, shared=(request, ranges))
    return undirected_graph("grid", request, y.astype(np.int64), sections, folder)


def _along(number: int, request: GridRequest, ranges: Sequence[tuple[int, int, int]]) -> Iterator[EdgeChunk]:
    """The edges along an axis from a range of nodes."""
    axis, start, stop = ranges[number]
    side, step = request.sides[axis], math.prod(request.sides[axis + 1 :])
    ids = np.arange(start, stop)
    ids = ids[ids // step % side < side - 1]
    yield EdgeChunk(ids, ids + step)


def _joined(request: GridRequest, axis: int, stop: int) -> int:
    """How many of the nodes below `stop` are joined to the next along an axis: all but the last slab of each block."""
    side, step = request.sides[axis], math.prod(request.sides[axis + 1 :])
    blocks, rest = divmod(stop, side * step)
    return blocks * (side - 1) * step + min(rest, (side - 1) * step)
