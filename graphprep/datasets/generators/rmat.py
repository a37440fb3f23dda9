"""R-MAT: a graph with the skewed degrees of the web, by choosing a quadrant of the adjacency matrix bit after bit.

Chakrabarti, Zhan, Faloutsos: R-MAT: a recursive model for graph mining, SDM 2004; the probabilities are Graph500's.
Node numbers are shuffled, since otherwise the low ones are the hubs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import EdgeChunk, RawGraph
from graphprep.datasets.generators.chunks import drawn_sections, undirected_graph
from graphprep.datasets.generators.requests import RmatRequest


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
