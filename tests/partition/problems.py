"""Graphs on which partitioners have died, hung or left parts empty, and topologies to go with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import Csr, EdgeChunk
from graphprep.topology import Topology, resolve
from tests.graphs import csr_of, random_edges

MANY = 257


class Case(NamedTuple):
    """A graph and how it is to be shared out."""

    chunk: EdgeChunk
    num_nodes: int
    speed_P: NDArray[np.float64]

    @property
    def matrix(self) -> Csr:
        return csr_of(self.chunk, self.num_nodes)

    @property
    def clean(self) -> Csr:
        return csr.undirected_simple(self.matrix)

    @property
    def in_degree_N(self) -> NDArray[np.int64]:
        return np.diff(self.matrix.indptr).astype(np.int64)

    @property
    def shares_P(self) -> NDArray[np.float64]:
        return self.speed_P / self.speed_P.sum()

    @property
    def topology(self) -> Topology:
        return topology_of(len(self.speed_P))


def edges(src: list[int] | range, dst: list[int] | range) -> EdgeChunk:
    """Edges from two lists of ids."""
    return EdgeChunk(np.array(src, np.int64), np.array(dst, np.int64))


def clique(size: int) -> EdgeChunk:
    """All pairs, both ways."""
    src, dst = np.nonzero(~np.eye(size, dtype=bool))
    return EdgeChunk(src.astype(np.int64), dst.astype(np.int64))


def ring_of_cliques(cliques: int, size: int) -> tuple[EdgeChunk, int]:
    """Cliques in a ring, joined by one edge each to the next; the edges, and how many nodes there are."""
    num_nodes = cliques * size
    inner = clique(size)
    starts = size * np.arange(cliques)
    src = np.concatenate([(inner.src + start) for start in starts] + [starts])
    dst = np.concatenate([(inner.dst + start) for start in starts] + [(starts + size + 1) % num_nodes])
    return EdgeChunk(src, dst), num_nodes


def with_hub(num_nodes: int, *, into: bool) -> EdgeChunk:
    """Node 0 is joined to all others, the others at random by as many edges; edges at the hub enter or leave it."""
    rng = np.random.default_rng(0)
    spokes = np.arange(1, num_nodes)
    hub = np.zeros(num_nodes - 1, np.int64)
    src, dst = (spokes, hub) if into else (hub, spokes)
    others = rng.integers(1, num_nodes, (2, num_nodes - 1))
    return EdgeChunk(np.concatenate([src, others[0]]), np.concatenate([dst, others[1]]))


def topology_of(num_ranks: int) -> Topology:
    """A topology with slow and fast links: 4 ranks in 2 machines, or 257 in 33; else flat."""
    if num_ranks == 4:
        return resolve("2x2")
    if num_ranks == MANY:
        return Topology.from_text(
            "name: many\nmachines:\n"
            "  - {count: 32, gpus: 8, pcie: {gbytes_per_s: 16, gpus_per_switch: 8}, network: {gbytes_per_s: 1}}\n"
            "  - {count: 1, gpus: 1, pcie: {gbytes_per_s: 16, gpus_per_switch: 1}, network: {gbytes_per_s: 1}}\n"
        )
    return Topology.flat(num_ranks)


def hostile_cases() -> dict[str, Case]:
    """What every method has to survive, by name."""
    rng = np.random.default_rng(1)
    four, slow, one, many = np.ones(4), np.array([1.0, 0.1, 1.0, 1.0]), np.ones(1), np.ones(MANY)
    return {
        "empty graph": Case(edges([], []), 0, four),
        "one node": Case(edges([], []), 1, four),
        "fewer nodes than parts": Case(edges([0, 1], [1, 2]), 3, four),
        "as many nodes as parts": Case(edges([0, 1, 2], [1, 2, 3]), 4, four),
        "all isolated": Case(edges([], []), 101, slow),
        "self-loops only": Case(edges(range(12), range(12)), 12, four),
        "mostly isolated": Case(edges([0, 1], [1, 2]), 500, four),
        "parallel edges": Case(edges([0, 0, 0, 1, 2, 3, 4], [1, 1, 1, 2, 3, 4, 5]), 12, four),
        "one-way chain": Case(edges(range(99), range(1, 100)), 100, four),
        "star": Case(edges([0] * 300, range(1, 301)), 301, four),
        "star of edges into its centre": Case(edges(range(1, 1001), [0] * 1000), 1001, slow),
        "clique": Case(clique(40), 40, four),
        "two components": Case(edges([0, 1, 2, 10, 11, 12], [1, 2, 0, 11, 12, 10]), 13, four),
        "pairs only": Case(edges(range(0, 2000, 2), range(1, 2000, 2)), 2000, four),
        "node with half of all edges": Case(with_hub(600, into=True), 600, four),
        "node that half of all edges leave": Case(with_hub(600, into=False), 600, four),
        "slow rank": Case(random_edges(rng, 2000, 8000), 2000, slow),
        "one part": Case(random_edges(rng, 100, 300), 100, one),
        "257 parts": Case(random_edges(rng, 1500, 6000, hub=True), 1500, many),
    }
