"""Weighted draws for sums: so many neighbours, the heavy ones more often, and sums that are right on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.errors import UsageError
from graphprep.sampling.blocks import layers_of
from graphprep.sampling.edge_weights import SUMS, EdgeWeights, Sums
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SamplingOptions
from graphprep.sampling.samplers.weighted import WeightedSampler
from tests.conftest import BoundsChecked
from tests.sampling.samplers.test_neighbour import NODES, random_graph
from tests.sampling.test_blocks import SEEDS, matrix_of, sums_of

OPTIONS = SamplingOptions(fanouts=(3,), weighted=True, every_node=True)


def test_edges_are_those_of_the_weighted_draws_of_the_loader() -> None:
    """Guards against another edge left out than that of the greatest value."""
    graph = random_graph(weighted=True)
    seeds = {HOMOGENEOUS_NODE: SEEDS}
    for epoch in range(20):
        mine, its = (
            sampler(graph, OPTIONS).sample(seeds, epoch=epoch) for sampler in (WeightedSampler, NeighbourSampler)
        )
        edges, expected = mine.edges[HOMOGENEOUS_EDGE], its.edges[HOMOGENEOUS_EDGE]
        np.testing.assert_array_equal(edges.number_E, expected.number_E)
        np.testing.assert_array_equal(edges.destination_E, expected.destination_E)
        assert edges.factor_E is not None
        assert bool((edges.factor_E >= 1).all())


@pytest.mark.parametrize("sums", SUMS)
def test_sums_are_right_on_average(sums: Sums) -> None:
    """Guards against a bias towards heavy edges, which are drawn more often."""
    graph = random_graph(weighted=True)
    sampler = WeightedSampler(graph, OPTIONS)
    weights = {kind: EdgeWeights.of(matrix, sums) for kind, matrix in graph.edges.items()}
    values_N = np.random.default_rng(2).normal(size=NODES)
    found: list[Any] = []
    for epoch in range(3000):
        batch = sampler.sample({HOMOGENEOUS_NODE: SEEDS}, epoch=epoch)
        [layer] = layers_of(batch, weights, weighted=True, is_typed=False)
        found.append(sums_of(batch, layer, batch.nodes[HOMOGENEOUS_NODE].ids_n, values_N))
    drawn = np.array(found)
    exact = (matrix_of(graph, sums) @ values_N)[SEEDS]
    error = np.abs(drawn.mean(0) - exact)
    assert bool((error < 4.5 * drawn.std(0) / np.sqrt(len(drawn)) + 1e-6).all())
    assert bool((drawn.std(0) > 1e-3).any())


def test_what_cannot_be_drawn_is_refused() -> None:
    """Guards against draws that ignore weights which are absent or negative."""
    with pytest.raises(UsageError, match="--draw weighted needs weights"):
        WeightedSampler(random_graph(), OPTIONS)
    graph = random_graph(weighted=True)
    weight_M = graph.edges[HOMOGENEOUS_EDGE].data
    assert weight_M is not None
    weight_M[0] = -1
    with pytest.raises(UsageError, match="negative weight"):
        WeightedSampler(graph, OPTIONS)


@pytest.mark.slow
def test_bounds_are_kept(bounds_checked: BoundsChecked) -> None:
    """Guards against a kernel that reads or writes beside its arrays."""
    bounds_checked(
        "from tests.sampling.samplers.test_weighted import *\n"
        "for fanout in (0, 3, 300, -1):\n"
        "    options = SamplingOptions(fanouts=(fanout,), weighted=True, every_node=True)\n"
        "    WeightedSampler(random_graph(weighted=True), options).sample({HOMOGENEOUS_NODE: SEEDS}, epoch=1)\n"
    )
