"""A hierarchical stochastic block model: communities in communities, with labels and features that follow them.

Nodes lie in branching^levels equal leaf blocks. An edge starts at a random node; with probability `inside` its other
end is in the same leaf block, else the question is asked again of the block one level up, and so on to the whole graph.
Node numbers are shuffled, so that their order says nothing. (Holland, Laskey, Leinhardt: Stochastic blockmodels: first
steps, Social Networks 1983; levels after Clauset, Moore, Newman, Nature 2008.)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeChunk, RawGraph
from graphprep.datasets.generators import GraphRequest, drawn_sections, undirected_graph
from graphprep.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SbmRequest(GraphRequest):
    """The parameters of a block model."""

    nodes: int
    edges: int
    """undirected edges that are drawn; self-loops and repetitions among them are dropped"""
    branching: int = 8
    """blocks in a block"""
    levels: int = 2
    inside: float = 0.8
    """probability to stay in the block, at each level"""

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return self.nodes, self.edges

    def __post_init__(self) -> None:
        blocks = self.branching**self.levels
        if self.branching < 2 or self.levels < 1 or blocks > self.nodes:
            raise UsageError(
                f"{self.branching} blocks on each of {self.levels} levels make {blocks} blocks for {self.nodes} nodes; "
                "give --branching of at least 2, --levels of at least 1, and no more blocks than nodes"
            )
        if not 0 <= self.inside <= 1:
            raise UsageError(f"--inside {self.inside} is a probability, from 0 to 1")
        self.check_classes(blocks, "the number of blocks")


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
