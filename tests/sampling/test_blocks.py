"""The layers of a batch: drawn sums estimate those over all edges, and with all edges drawn they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.sampling.blocks import layers_of
from graphprep.sampling.edge_weights import SUMS, EdgeWeights, Sums
from graphprep.sampling.graph import SamplingGraph, without_pairs
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SampledBatch, SamplingOptions
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges
from tests.sampling.samplers.test_neighbour import NODES, drawn_by_node, random_graph, sampled

SEEDS = np.array([3, 0, 150, 41])


def matrix_of(graph: SamplingGraph, sums: Sums) -> NDArray[np.float64]:
    """What every edge counts, by the definitions: dense, rows are destinations."""
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    counts_one = matrix.data is None or sums == "messages"
    weights = np.ones(matrix.num_edges) if counts_one else np.array(matrix.data, np.float64)
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    dense = np.zeros((NODES, NODES))
    np.add.at(dense, (rows, matrix.indices), weights)
    if sums == "gcn":
        has_loop = np.zeros(NODES, bool)
        has_loop[rows[rows == matrix.indices]] = True
        dense += np.diag(~has_loop)
        inverse = 1 / np.sqrt(dense.sum(1))
        dense *= np.outer(inverse, inverse)
    elif sums == "mean":
        dense /= np.where(dense.sum(1) == 0, 1, dense.sum(1))[:, None]
    return dense


def sums_of(batch: SampledBatch, layer: dict[str, Any], ids_n: NDArray[Any], values_N: NDArray[Any]) -> NDArray[Any]:
    """The sums that one layer makes of a value of each node."""
    num_own = len(layer["own_indptr"]) - 1
    found = np.zeros(num_own)
    for side, first in (("own", 0), ("halo", num_own)):
        rows = np.repeat(np.arange(num_own), np.diff(layer[f"{side}_indptr"]))
        np.add.at(found, rows, layer[f"{side}_weights"] * values_N[ids_n[layer[f"{side}_indices"] + first]])
    return found


def first_layer(graph: SamplingGraph, sums: Sums, fanouts: tuple[int, ...], epoch: int) -> tuple[Any, Any]:
    batch = sampled(graph, SEEDS, fanouts=fanouts, every_node=True, epoch=epoch)
    weights = {kind: EdgeWeights.of(matrix, sums) for kind, matrix in graph.edges.items()}
    return batch, layers_of(batch, weights, weighted=True, is_typed=False)


@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_all_neighbours_give_the_sums_of_the_whole_graph(sums: Sums, weighted: bool) -> None:
    """Guards against weights, degrees or loops that are a batch's own, and against rows of another node."""
    graph, values = random_graph(weighted=weighted), np.random.default_rng(0).normal(size=NODES)
    batch, layers = first_layer(graph, sums, (-1, -1), 0)
    per_hop, ids = batch.nodes[HOMOGENEOUS_NODE].per_hop, batch.nodes[HOMOGENEOUS_NODE].ids_n
    expected = matrix_of(graph, sums) @ values
    for layer, count in zip(layers, (per_hop[0] + per_hop[1], per_hop[0]), strict=True):
        assert len(layer["own_indptr"]) == count + 1
        np.testing.assert_allclose(sums_of(batch, layer, ids, values), expected[ids[:count]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sums", SUMS)
def test_drawn_sums_are_unbiased(sums: Sums) -> None:
    """Guards against drawn neighbours that count as if they were all, or as if they were fewer."""
    graph, values = random_graph(weighted=True), np.random.default_rng(1).normal(size=NODES)
    expected = (matrix_of(graph, sums) @ values)[SEEDS]
    drawn = []
    for epoch in range(2000):
        batch, [layer] = first_layer(graph, sums, (3,), epoch)
        drawn.append(sums_of(batch, layer, batch.nodes[HOMOGENEOUS_NODE].ids_n, values))
    error, deviation = np.mean(drawn, 0) - expected, np.std(drawn, 0) / np.sqrt(len(drawn))
    assert deviation.min() > 0
    assert (np.abs(error) < 4.5 * deviation).all()


def test_what_is_drawn_for_a_node_depends_on_no_other_seed() -> None:
    """Guards against batches that differ between numbers of ranks, where a seed has other seeds beside it."""
    graph = random_graph()
    together = sampled(graph, [5, 17, 99], fanouts=(3, 2), every_node=True)
    for seed in (5, 17, 99):
        alone = sampled(graph, [seed], fanouts=(3, 2), every_node=True)
        for hop in (0, 1):
            whole = drawn_by_node(together, hop)
            assert drawn_by_node(alone, hop) == {node: whole[node] for node in drawn_by_node(alone, hop)}
    assert set(drawn_by_node(together, 1)) > {5, 17, 99}  # drawn anew for the seeds too


def test_edges_of_several_types_have_rows_where_they_end() -> None:
    """Guards against columns that count the nodes of another type, and rows of nodes without in-edges."""
    rng, (writes, cites) = np.random.default_rng(2), (EdgeType("a", "writes", "p"), EdgeType("p", "cites", "p"))
    matrices = {kind: csr_of(random_edges(rng, NODES, 300), NODES) for kind in (writes, cites)}
    graph = SamplingGraph(num_nodes={"a": NODES, "p": NODES}, edges=matrices)
    batch = NeighbourSampler(graph, SamplingOptions(fanouts=(-1, -1), every_node=True)).sample({"p": SEEDS}, epoch=0)
    weights = {kind: EdgeWeights.of(matrix, "mean") for kind, matrix in matrices.items()}
    for number, layer in enumerate(layers_of(batch, weights, weighted=True, is_typed=True)):
        own, every = (
            {kind: nodes.ids_n[: sum(nodes.per_hop[: 2 - number + more])] for kind, nodes in batch.nodes.items()}
            for more in (0, 1)
        )
        columns = {
            "own": [("a", node) for node in own["a"]] + [("p", node) for node in own["p"]],
            "halo": [(kind, node) for kind in ("a", "p") for node in every[kind][len(own[kind]) :]],
        }
        row = 0
        for kind, count in zip((writes, cites), layer["rows_per_relation"], strict=True):
            with_edges = []
            for place in layer["rows"][row : row + count]:
                node = own["p"][place - len(own["a"])]
                sources = [
                    columns[side][column]
                    for side in ("own", "halo")
                    for column in layer[f"{side}_indices"][
                        layer[f"{side}_indptr"][row] : layer[f"{side}_indptr"][row + 1]
                    ]
                ]
                matrix = matrices[kind]
                neighbours = matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]
                assert sorted(sources) == [(kind.source, int(other)) for other in neighbours]
                with_edges.append(node)
                row += 1
            assert with_edges == [node for node in own["p"] if np.diff(matrices[kind].indptr)[node]]


def test_edges_between_pairs_are_not_drawn() -> None:
    """Guards against edges that a model is to predict in the graph that it sees, in either direction."""
    matrix = csr_of(random_edges(np.random.default_rng(4), NODES, 3000, weighted=True), NODES)
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    pairs = np.stack([matrix.indices[::5], rows[::5]])
    left = without_pairs(matrix, *pairs[::-1])
    gone = {frozenset(pair) for pair in pairs.T.tolist() if pair[0] != pair[1]}
    stays = [frozenset(ends) not in gone for ends in zip(matrix.indices.tolist(), rows.tolist(), strict=True)]
    np.testing.assert_array_equal(left.indices, matrix.indices[stays])
    np.testing.assert_array_equal(np.repeat(np.arange(NODES), np.diff(left.indptr)), rows[stays])
    assert matrix.data is not None
    assert left.data is not None
    np.testing.assert_array_equal(left.data, matrix.data[stays])


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against edges written behind the end of their arrays."""
    bounds_checked(
        "from tests.sampling.test_blocks import first_layer, random_graph\n"
        "for weighted in (False, True):\n"
        "    for fanouts in ((-1, -1), (2, 0, 3)):\n"
        "        first_layer(random_graph(weighted=weighted), 'gcn', fanouts, 0)\n"
    )
