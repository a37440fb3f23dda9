"""A grid of any number of dimensions: each node is joined to the next along each axis. Cuts and halos are known.

Labels are slabs along the first axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphprep.errors import UsageError
from graphprep.generators import EDGES_AT_A_TIME, GraphRequest, undirected_graph
from graphprep.graph import EdgeChunk, RawGraph

MOST_NODES = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRequest(GraphRequest):
    """The parameters of a grid."""

    sides: tuple[int, ...]
    """nodes along each axis"""

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return math.prod(self.sides), sum(math.prod(self.sides) // side * (side - 1) for side in self.sides)

    def __post_init__(self) -> None:
        if self.sides and math.prod(self.sides) > MOST_NODES:
            raise UsageError(f"--sides {'x'.join(map(str, self.sides))} are more than {MOST_NODES:,} nodes")
        if not self.sides or min(self.sides) < 1:
            raise UsageError(f"--sides {'x'.join(map(str, self.sides))} must be positive, e.g. 80x80x80")
        self.check_classes(self.sides[0], "the first side")


def generate(request: GridRequest, *, folder: Path) -> RawGraph:
    """The graph, its nodes numbered with the last axis fastest; features go to a file in `folder`."""
    num_nodes, num_edges = request.size
    y = np.arange(num_nodes) // (num_nodes // request.sides[0]) * request.classes // request.sides[0]

    def chunks() -> Iterator[EdgeChunk]:
        for axis, side in enumerate(request.sides):
            step = math.prod(request.sides[axis + 1 :])
            for start in range(0, num_nodes, EDGES_AT_A_TIME):
                ids = np.arange(start, min(start + EDGES_AT_A_TIME, num_nodes))
                ids = ids[ids // step % side < side - 1]
                yield EdgeChunk(ids, ids + step)

    return undirected_graph("grid", request, y.astype(np.int64), chunks, num_edges, folder)
