"""The probability that a batch needs a row: exact on trees, and near to how often a sampler needs it."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk, EdgeType
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SamplingOptions
from graphprep.traffic.visits import BatchShape, fetched_rows, visit_probabilities
from tests.graphs import csr_of, random_edges
from tests.sampling.samplers.test_neighbour import graph_of


def test_on_a_tree() -> None:
    """Guards against hops left out, and wrong fanouts of them: 0 has the neighbours 1 .. 4, and 1 has 5 and 6."""
    matrix = csr_of(EdgeChunk(np.array([1, 2, 3, 4, 5, 6]), np.array([0, 0, 0, 0, 1, 1])), 7)
    seeds_N = np.array([0.5, 0, 0, 0, 0, 0, 0])
    graph = graph_of(matrix)
    of = {HOMOGENEOUS_NODE: seeds_N}
    one = visit_probabilities(graph.edges, graph.num_nodes, {HOMOGENEOUS_EDGE: (2,)}, of)[HOMOGENEOUS_NODE]
    np.testing.assert_allclose(one, [0.5, *[0.25] * 4, 0, 0])
    two = visit_probabilities(graph.edges, graph.num_nodes, {HOMOGENEOUS_EDGE: (2, 1)}, of)[HOMOGENEOUS_NODE]
    met = 1 - (1 - 0.25) * (1 - 0.125)  # node 0 draws in both hops
    np.testing.assert_allclose(two, [0.5, *[met] * 4, 0.125, 0.125])
    every = visit_probabilities(graph.edges, graph.num_nodes, {HOMOGENEOUS_EDGE: (-1, 5)}, of)[HOMOGENEOUS_NODE]
    np.testing.assert_allclose(every, [0.5, *[0.75] * 4, 0.5, 0.5])


def test_by_node_types() -> None:
    """Guards against rows of one type that are given to another."""
    cites, writes = EdgeType("paper", "cites", "paper"), EdgeType("author", "writes", "paper")
    graph = SamplingGraph(
        num_nodes={"author": 2, "paper": 3},
        edges={
            writes: csr_of(EdgeChunk(np.array([0, 1]), np.array([1, 1])), 3),
            cites: csr_of(EdgeChunk(np.array([1, 2]), np.array([0, 0])), 3),
        },
    )
    found = visit_probabilities(
        graph.edges, graph.num_nodes, {writes: (0, 1), cites: (1, 0)}, {"paper": np.array([1.0, 0, 0])}
    )
    np.testing.assert_allclose(found["paper"], [1, 0.5, 0.5])
    np.testing.assert_allclose(found["author"], [0.25, 0.25])


@pytest.mark.parametrize("fanouts", [(3,), (3, 2)])
def test_as_often_as_a_sampler_needs_it(fanouts: tuple[int, ...]) -> None:
    """Guards against probabilities of something else than what is drawn."""
    nodes, batch, epochs = 1000, 10, 600
    rng = np.random.default_rng(1)
    graph = graph_of(csr_of(random_edges(rng, nodes, 10000), nodes))
    sampler = NeighbourSampler(graph, SamplingOptions(fanouts=fanouts, every_node=True))
    counts_N = np.zeros(nodes)
    for epoch in range(epochs):
        seeds = rng.choice(nodes // 2, batch, replace=False)
        counts_N[sampler.sample({HOMOGENEOUS_NODE: seeds}, epoch=epoch).nodes[HOMOGENEOUS_NODE].ids_n] += 1
    seeds_N = np.where(np.arange(nodes) < nodes // 2, batch / (nodes // 2), 0.0)
    expected_N = visit_probabilities(
        graph.edges, graph.num_nodes, {HOMOGENEOUS_EDGE: fanouts}, {HOMOGENEOUS_NODE: seeds_N}
    )[HOMOGENEOUS_NODE]
    assert abs(counts_N.sum() / epochs / expected_N.sum() - 1) < 0.1
    assert np.corrcoef(counts_N, expected_N)[0, 1] > 0.8


def test_rows_that_parts_fetch() -> None:
    """Guards against seeds of one part that another draws for, and rows counted the wrong way round: part 1 has node 2,
    which leads to the training nodes 0 and 1 of part 0 and to its own, 3."""
    matrix = csr_of(EdgeChunk(np.array([2, 2, 2, 1]), np.array([0, 1, 3, 3])), 4)
    masks = {HOMOGENEOUS_NODE: np.array([True, True, False, True])}
    parts = {HOMOGENEOUS_NODE: np.array([0, 0, 1, 1], np.int32)}
    rows_PP = fetched_rows({HOMOGENEOUS_EDGE: matrix}, parts, masks, 2, BatchShape(fanouts=(1,), batch_size=1))
    np.testing.assert_allclose(rows_PP, [[0, 1 / 6], [1 - (2 / 3) ** 2, 0]])
