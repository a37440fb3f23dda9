"""R-MAT: a graph with the skewed degrees of the web, by choosing a quadrant of the adjacency matrix bit after bit.

Chakrabarti, Zhan, Faloutsos: R-MAT: a recursive model for graph mining, SDM 2004; the probabilities are Graph500's.
Node numbers are shuffled, since otherwise the low ones are the hubs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import EdgeChunk, RawGraph
from graphprep.datasets.generators import GraphRequest, drawn_sections, undirected_graph
from graphprep.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RmatRequest(GraphRequest):
    """The parameters of an R-MAT graph."""

    scale: int
    """there are 2^scale nodes"""
    edges: int
    """undirected edges that are drawn; self-loops and repetitions among them are dropped"""
    a: float = 0.57
    b: float = 0.19
    c: float = 0.19
    """probabilities of the upper left, upper right and lower left quadrant"""

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return 1 << self.scale, self.edges

    def __post_init__(self) -> None:
        if not 1 <= self.scale <= 40:
            raise UsageError(f"--scale {self.scale} must be from 1 to 40; there are 2^scale nodes")
        if not (min(self.a, self.b, self.c) >= 0 and self.a + self.b + self.c <= 1):
            raise UsageError(f"--a {self.a}, --b {self.b} and --c {self.c} are probabilities with a sum of at most 1")
        self.check_classes(1 << self.scale, "the number of nodes")


def generate(request: RmatRequest, *, folder: Path) -> RawGraph:
    """The graph; features go to a file in `folder`. Labels are drawn at random, as nothing in R-MAT suggests any."""
    num_nodes = 1 << request.scale
    order_N = np.random.default_rng([request.seed, 0]).permutation(num_nodes)
    y = np.random.default_rng([request.seed, 4]).integers(0, request.classes, num_nodes)

    return undirected_graph("rmat", request, y, drawn_sections(request.edges, _chunk, request, order_N), folder)


def _chunk(number: int, count: int, request: RmatRequest, order_N: NDArray[np.int64]) -> EdgeChunk:
    draws = np.random.default_rng([request.seed, 3, number]).random((count, request.scale), np.float32)
    src, dst = _descend(draws, request.a, request.a + request.b, request.a + request.b + request.c)
    return EdgeChunk(order_N[src], order_N[dst])


@njit(cache=True)
def _descend(draws, a, ab, abc):  # type: ignore[no-untyped-def]
    """(src, dst) int64 from draws [E', scale]: one quadrant a bit."""
    count, scale = draws.shape
    src, dst = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for e in range(count):
        for bit in range(scale):
            draw = draws[e, bit]
            down, right = draw >= ab, (a <= draw < ab) or draw >= abc
            src[e] = src[e] << 1 | down
            dst[e] = dst[e] << 1 | right
    return src, dst
