"""Steps of nodes that are drawn evenly, with all edges among them: even, independent, and right on average."""

from __future__ import annotations

import numpy as np

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.sampling.samplers.ladies import shares_of_rows
from graphprep.sampling.samplers.vertices import VertexSampler, VertexSchedule
from tests.sampling.samplers.test_neighbour import NODES, random_graph


def test_nodes_are_drawn_evenly_and_independently() -> None:
    """Guards against nodes that are drawn more often, together, or again in the next step or epoch. Bounds are of four
    and five deviations."""
    sampler = VertexSampler(random_graph(), share=0.2, seed=1)
    is_in = np.zeros((4000, NODES), np.bool_)
    for number in range(len(is_in)):
        is_in[number, sampler.nodes(HOMOGENEOUS_NODE, epoch=number // 40, step=number % 40)] = True
    deviation = np.sqrt(0.2 * 0.8 / len(is_in))
    squares = ((is_in.mean(axis=0) - 0.2) / deviation) ** 2
    assert abs(squares.sum() - NODES) < 4 * np.sqrt(2 * NODES)
    between_nodes = np.corrcoef(is_in, rowvar=False)[np.triu_indices(NODES, 1)]
    between_steps = [np.corrcoef(is_in[:-shift].ravel(), is_in[shift:].ravel())[0, 1] for shift in (1, 2, 40)]
    assert np.abs(between_nodes).max() < 5.5 / np.sqrt(len(is_in))
    assert np.abs(between_steps).max() < 5 / np.sqrt(is_in.size)


def test_a_step_has_all_edges_among_its_nodes() -> None:
    """Guards against edges left out or numbered wrongly; the seeds come first."""
    graph = random_graph(weighted=True)
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    sampler = VertexSampler(graph, share=0.3, seed=1)
    chosen = sampler.nodes(HOMOGENEOUS_NODE, epoch=2, step=5)
    batch = sampler.sample({HOMOGENEOUS_NODE: chosen[[7, 3]]}, epoch=2, step=5)
    ids_n, edges = batch.nodes[HOMOGENEOUS_NODE].ids_n, batch.edges[HOMOGENEOUS_EDGE]
    assert ids_n[:2].tolist() == chosen[[7, 3]].tolist()
    assert sorted(ids_n.tolist()) == chosen.tolist()
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    is_there = np.isin(rows, chosen) & np.isin(matrix.indices, chosen)
    assert sorted(edges.number_E.tolist()) == np.flatnonzero(is_there).tolist()
    np.testing.assert_array_equal(ids_n[edges.source_E], matrix.indices[edges.number_E])
    np.testing.assert_array_equal(ids_n[edges.destination_E], rows[edges.number_E])


def test_sums_are_right_on_average() -> None:
    """Guards against a bias: of the steps that a node is in, the mean of its sum is that over all its neighbours."""
    graph = random_graph(weighted=True)
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    sampler = VertexSampler(graph, share=0.3, seed=4)
    values_N = np.random.default_rng(2).normal(size=NODES)
    sums, squares, count = np.zeros(NODES), np.zeros(NODES), np.zeros(NODES)
    for step in range(2500):
        batch = sampler.sample({}, epoch=0, step=step)
        ids_n, edges = batch.nodes[HOMOGENEOUS_NODE].ids_n, batch.edges[HOMOGENEOUS_EDGE]
        drawn = edges.weight_E * values_N[ids_n[edges.source_E]]  # type: ignore[operator]
        of_step = np.bincount(edges.destination_E, weights=drawn, minlength=len(ids_n))
        sums[ids_n] += of_step
        squares[ids_n] += of_step**2
        count[ids_n] += 1
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    expected = np.bincount(rows, weights=shares_of_rows(matrix) * values_N[matrix.indices], minlength=NODES)
    error = np.sqrt((squares / count - (sums / count) ** 2) / count)
    scores = (sums / count - expected)[error > 0] / error[error > 0]
    assert len(scores) > 100
    assert abs((scores**2).sum() - len(scores)) < 4.5 * np.sqrt(2 * len(scores))


def test_ranks_share_the_steps_of_one() -> None:
    """Guards against steps that depend on the number of ranks, and against seeds that are not in the step."""
    sampler = VertexSampler(random_graph(), share=0.1, seed=1)
    seeds_B = np.arange(50, 120)
    common = {"sampler": sampler, "node_type": HOMOGENEOUS_NODE, "ids_B": seeds_B, "num_steps": 10}
    alone = VertexSchedule(**common).batches(3)  # type: ignore[arg-type]
    assert len(alone) == 10
    for step, places in enumerate(alone):
        chosen = sampler.nodes(HOMOGENEOUS_NODE, epoch=3, step=step)
        assert seeds_B[places].tolist() == np.intersect1d(chosen, seeds_B).tolist()
    ranks = [VertexSchedule(**common, rank=rank, world_size=3) for rank in range(3)]  # type: ignore[arg-type]
    assert {rank.num_batches for rank in ranks} == {4}
    together = [batch.tolist() for step in zip(*(rank.batches(3) for rank in ranks), strict=True) for batch in step]
    assert together[:10] == [batch.tolist() for batch in alone]
