"""A hierarchical stochastic block model: communities in communities, with labels and features that follow them.

Nodes lie in branching^levels equal leaf blocks. An edge starts at a random node; with probability `inside` its other
end is in the same leaf block, else the question is asked again of the block one level up, and so on to the whole graph.
Node numbers are shuffled, so that their order says nothing. (Holland, Laskey, Leinhardt: Stochastic blockmodels: first
steps, Social Networks 1983; levels after Clauset, Moore, Newman, Nature 2008.)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeChunk, RawGraph
from graphprep.datasets.generators.chunks import drawn_sections, undirected_graph
from graphprep.datasets.generators.requests import SbmRequest


def generate(request: SbmRequest, *, folder: Path) -> RawGraph:
    """The graph; features go to a file in `folder`."""
    order_N = np.random.default_rng([request.seed, 0]).permutation(request.nodes)
    blocks = request.branching**request.levels
    y = np.empty(request.nodes, np.int64)
    y[order_N] = np.arange(request.nodes) * blocks // request.nodes * request.classes // blocks

    return undirected_graph("sbm", request, y, drawn_sections(request.edges, _chunk, request, order_N), folder)


def _chunk(number: int, count: int, request: SbmRequest, order_N: NDArray[np.int64]) -> EdgeChunk:
    rng = np.random.default_rng([request.seed, 3, number])
    place = rng.integers(0, request.nodes, count)
    # The level at which an edge stays: 0 is the leaf block, `levels` the whole graph.
    level = (
        np.minimum(rng.geometric(request.inside, count) - 1, request.levels)
        if request.inside > 0
        else np.full(count, request.levels)
    )
    blocks = request.branching ** (request.levels - level)
    block = place * blocks // request.nodes
    first, last = -(-block * request.nodes // blocks), -(-(block + 1) * request.nodes // blocks)
    other = first + (rng.random(count) * (last - first)).astype(np.int64)
    return EdgeChunk(order_N[place], order_N[other])
