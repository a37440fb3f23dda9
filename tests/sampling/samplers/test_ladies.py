"""Layers whose nodes are drawn together: so many, the probable ones more often, and sums that are right on average."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk, EdgeType
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.ladies import LayerSampler, shares_of_rows
from graphprep.sampling.samplers.neighbour import SampledBatch, SamplingOptions
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges
from tests.sampling.samplers.test_neighbour import NODES, graph_of, random_graph

SEEDS = np.array([4, 9, 31, 60])


def sampled(graph: SamplingGraph, *fanouts: int, epoch: int = 0) -> SampledBatch:
    """The batch of SEEDS."""
    sampler = LayerSampler(graph, SamplingOptions(fanouts=fanouts))
    return sampler.sample({HOMOGENEOUS_NODE: SEEDS}, epoch=epoch)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_layer_has_so_many_nodes_and_all_edges_of_these(weighted: bool) -> None:
    """Guards against edges left out between drawn nodes and those of the hop before, and against other counts."""
    graph = random_graph(weighted=weighted)
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    batch = sampled(graph, 6, 5)
    nodes, edges = batch.nodes[HOMOGENEOUS_NODE], batch.edges[HOMOGENEOUS_EDGE]
    np.testing.assert_array_equal(nodes.ids_n[:4], SEEDS)
    np.testing.assert_array_equal(matrix.indices[edges.number_E], nodes.ids_n[edges.source_E])
    drawn = set(nodes.ids_n[edges.source_E[: edges.per_hop[0]]].tolist())
    assert len(drawn) == 6
    expected = [
        e for node in SEEDS for e in range(matrix.indptr[node], matrix.indptr[node + 1]) if matrix.indices[e] in drawn
    ]
    assert edges.number_E[: edges.per_hop[0]].tolist() == expected
    new = nodes.ids_n[4 : 4 + nodes.per_hop[1]]
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    assert set(rows[edges.number_E[edges.per_hop[0] :]].tolist()) <= set(new.tolist())
    assert len(set(edges.source_E[edges.per_hop[0] :].tolist())) <= 5
    assert batch.edges[HOMOGENEOUS_EDGE].weight_E is not None


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_right_on_average(weighted: bool) -> None:
    """Guards against a bias: sums over the edges of a batch, over many epochs, beside the means over all neighbours."""
    graph = random_graph(weighted=weighted)
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    values_N = np.random.default_rng(2).normal(size=NODES)
    sampler = LayerSampler(graph, SamplingOptions(fanouts=(8,)))
    sums = []
    for epoch in range(3000):
        batch = sampler.sample({HOMOGENEOUS_NODE: SEEDS}, epoch=epoch)
        edges, ids_n = batch.edges[HOMOGENEOUS_EDGE], batch.nodes[HOMOGENEOUS_NODE].ids_n
        drawn = edges.weight_E * values_N[ids_n[edges.source_E]]  # type: ignore[operator]
        sums.append(np.bincount(edges.destination_E, weights=drawn, minlength=4))
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    means = np.bincount(rows, weights=shares_of_rows(matrix) * values_N[matrix.indices], minlength=NODES)[SEEDS]
    error = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (error > 0).all()
    assert (np.abs(np.mean(sums, axis=0) - means) < 4 * error).all()


def test_who_counts_more_is_drawn_more_often() -> None:
    """Guards against nodes drawn evenly: 0 is a neighbour of both seeds, 1 .. 9 of one of them."""
    source = np.array([0, *range(1, 6), 0, *range(6, 10)])
    destination = np.array([10] * 6 + [11] * 5)
    sampler = LayerSampler(graph_of(csr_of(EdgeChunk(source, destination), 12)), SamplingOptions(fanouts=(2,)))
    counts = np.zeros(12)
    for epoch in range(2000):
        batch = sampler.sample({HOMOGENEOUS_NODE: np.array([10, 11])}, epoch=epoch)
        counts[np.unique(batch.nodes[HOMOGENEOUS_NODE].ids_n[2:])] += 1
    assert counts.sum() == 4000
    assert counts[0] > 1.5 * counts[1:10].max()


def test_draws_are_the_same_in_every_process_and_others_in_every_epoch() -> None:
    """Guards against draws by the state of a generator; and -1 takes all, with the weights of the mean."""
    graph = random_graph()
    one, again, other = sampled(graph, 6), sampled(graph, 6), sampled(graph, 6, epoch=1)
    np.testing.assert_array_equal(one.edges[HOMOGENEOUS_EDGE].number_E, again.edges[HOMOGENEOUS_EDGE].number_E)
    assert one.edges[HOMOGENEOUS_EDGE].number_E.tolist() != other.edges[HOMOGENEOUS_EDGE].number_E.tolist()
    every = sampled(graph, -1).edges[HOMOGENEOUS_EDGE]
    assert len(every.number_E) == sum(np.diff(graph.edges[HOMOGENEOUS_EDGE].indptr)[SEEDS])
    np.testing.assert_allclose(np.bincount(every.destination_E, weights=every.weight_E, minlength=4), 1, rtol=1e-6)


def test_several_types_are_drawn_each_for_itself() -> None:
    """Guards against a type that takes the nodes of another."""
    rng = np.random.default_rng(4)
    cites, writes = EdgeType("paper", "cites", "paper"), EdgeType("author", "writes", "paper")
    graph = SamplingGraph(
        num_nodes={"author": 100, "paper": 100},
        edges={cites: csr_of(random_edges(rng, 100, 900), 100), writes: csr_of(random_edges(rng, 100, 900), 100)},
    )
    sampler = LayerSampler(graph, SamplingOptions(fanouts={cites: [3], writes: [5]}))
    batch = sampler.sample({"paper": np.arange(4)}, epoch=0)
    assert len(set(batch.edges[cites].source_E.tolist())) == 3
    assert len(set(batch.edges[writes].source_E.tolist())) == 5
    assert batch.nodes["author"].per_hop == (0, 5)


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against nodes behind the end of their arrays, in both ways to draw them."""
    bounds_checked(
        "from graphprep.sampling.samplers.vertices import VertexSampler\n"
        "from tests.sampling.samplers.test_ladies import *\n"
        "for weighted in (False, True):\n"
        "    sampled(random_graph(weighted=weighted), 6, -1, 300)\n"
        "    for share in (0.01, 0.4, 1.0):\n"
        "        vertices = VertexSampler(random_graph(weighted=weighted), share=share, seed=0)\n"
        "        first = vertices.nodes(HOMOGENEOUS_NODE, epoch=0, step=3)[:3]\n"
        "        vertices.sample({HOMOGENEOUS_NODE: first}, epoch=0, step=3)\n"
    )
