"""Sampled neighbours: they are neighbours, as many as requested, drawn evenly, and the same wherever they are drawn."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.core.csr import from_edges
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeChunk, EdgeType, Treatment
from graphprep.errors import UsageError
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SampledBatch, SamplingOptions
from graphprep.sampling.samplers.neighbour_kernels import LOOKED_THROUGH
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges

NODES = 200


def graph_of(matrix: Csr, **times: Any) -> SamplingGraph:
    """A graph of one type."""
    return SamplingGraph(num_nodes={HOMOGENEOUS_NODE: matrix.num_rows}, edges={HOMOGENEOUS_EDGE: matrix}, **times)


def random_graph(*, weighted: bool = False, edges: int = 3000) -> SamplingGraph:
    """Some nodes with many neighbours, some with none, parallel edges and self-loops."""
    rng = np.random.default_rng(3)
    return graph_of(csr_of(random_edges(rng, NODES, edges, weighted=weighted, hub=True), NODES))


def sampled(graph: SamplingGraph, seeds: Any, *, epoch: int = 0, until: Any = None, **options: Any) -> SampledBatch:
    """The batch of some seeds of the first type."""
    sampler = NeighbourSampler(graph, SamplingOptions(**options))
    return sampler.sample({next(iter(graph.num_nodes)): np.asarray(seeds)}, epoch=epoch, until_B=until)


def drawn_by_node(batch: SampledBatch, hop: int) -> dict[int, list[int]]:
    """The numbers of the edges drawn for each node in a hop."""
    edges, nodes = batch.edges[HOMOGENEOUS_EDGE], batch.nodes[HOMOGENEOUS_NODE]
    first = sum(edges.per_hop[:hop])
    found: dict[int, list[int]] = {}
    for e in range(first, first + edges.per_hop[hop]):
        found.setdefault(int(nodes.ids_n[edges.destination_E[e]]), []).append(int(edges.number_E[e]))
    return found


@pytest.mark.parametrize(
    ("options", "weighted"),
    [({}, False), ({"with_replacement": True}, False), ({"disjoint": True}, False), ({"weighted": True}, True)],
)
def test_a_batch_is_of_edges_of_the_graph(options: dict[str, Any], weighted: bool) -> None:
    """Guards against edges that are not there, nodes numbered twice or wrongly, and wrong counts of any hop."""
    graph = random_graph(weighted=weighted)
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    seeds = np.array([0, 5, 17, 99, 3])
    batch = sampled(graph, seeds, fanouts=(4, 0, 3, -1), **options)
    nodes, edges = batch.nodes[HOMOGENEOUS_NODE], batch.edges[HOMOGENEOUS_EDGE]
    np.testing.assert_array_equal(nodes.ids_n[:5], seeds)
    np.testing.assert_array_equal(matrix.indices[edges.number_E], nodes.ids_n[edges.source_E])
    rows = np.repeat(np.arange(NODES), np.diff(matrix.indptr))
    np.testing.assert_array_equal(rows[edges.number_E], nodes.ids_n[edges.destination_E])
    assert sum(nodes.per_hop) == len(nodes.ids_n)
    assert sum(edges.per_hop) == len(edges.number_E)
    if nodes.tree_n is None:
        assert len(np.unique(nodes.ids_n)) == len(nodes.ids_n)
    else:
        assert len(np.unique(np.stack([nodes.tree_n, nodes.ids_n]), axis=1).T) == len(nodes.ids_n)
        np.testing.assert_array_equal(nodes.tree_n[edges.source_E], nodes.tree_n[edges.destination_E])
    starts = np.concatenate([[0], np.cumsum(nodes.per_hop)])
    for hop, fanout in enumerate((4, 0, 3, -1)):
        new = range(starts[hop], starts[hop + 1])
        first = sum(edges.per_hop[:hop])
        destinations = Counter(edges.destination_E[first : first + edges.per_hop[hop]].tolist())
        for place in new:
            degree = int(np.diff(matrix.indptr)[nodes.ids_n[place]])
            full = (
                degree if fanout < 0 else fanout if options.get("with_replacement") and degree else min(degree, fanout)
            )
            assert destinations[place] == full
        assert set(destinations) <= set(new)
    if not options.get("with_replacement"):
        pairs = np.stack([edges.destination_E, edges.number_E])
        assert len(np.unique(pairs, axis=1).T) == len(edges.number_E)


def test_draws_do_not_depend_on_the_batch() -> None:
    """Guards against draws from the state of a generator, which depend on what was drawn before."""
    graph = random_graph()
    whole = sampled(graph, np.arange(NODES), fanouts=(3,), seed=7)
    half = sampled(graph, np.arange(NODES // 2, NODES), fanouts=(3,), seed=7)
    every, some = drawn_by_node(whole, 0), drawn_by_node(half, 0)
    assert some == {node: every[node] for node in some}
    assert drawn_by_node(sampled(graph, np.arange(NODES), fanouts=(3,), seed=8), 0) != every
    assert drawn_by_node(sampled(graph, np.arange(NODES), fanouts=(3,), seed=7, epoch=1), 0) != every


@pytest.mark.slow
@pytest.mark.parametrize("fanout", [1, 3, 7])
def test_uniform_draws_are_uniform(fanout: int) -> None:
    """Guards against a favoured neighbour: the counts of 20,000 draws of each edge pass a chi-square test."""
    matrix = csr_of(EdgeChunk(np.arange(1, 9), np.zeros(8, np.int64)), 9)
    sampler = NeighbourSampler(graph_of(matrix), SamplingOptions(fanouts=(fanout,)))
    counts, draws = np.zeros(8), 20_000
    for epoch in range(draws):
        batch = sampler.sample({HOMOGENEOUS_NODE: np.zeros(1, np.int64)}, epoch=epoch)
        counts[batch.edges[HOMOGENEOUS_EDGE].number_E] += 1
    chance = fanout / 8
    # Draws without replacement: the sum over the edges of (count - mean)^2 / variance, times (8 - 1) / 8, has
    # 7 degrees of freedom; 1 in 10,000 is above 29.9.
    statistic = ((counts - draws * chance) ** 2 / (draws * chance * (1 - chance))).sum() * 7 / 8
    assert statistic < 29.9


def test_many_draws_of_a_hub_are_different_edges() -> None:
    """Guards against an edge drawn twice where a hash table has those drawn, and against edges never drawn there."""
    matrix = csr_of(EdgeChunk(np.arange(1, 301), np.zeros(300, np.int64)), 301)
    sampler = NeighbourSampler(graph_of(matrix), SamplingOptions(fanouts=(150,)))
    assert LOOKED_THROUGH < 150
    counts, draws = np.zeros(300), 2_000
    for epoch in range(draws):
        number_E = (
            sampler.sample({HOMOGENEOUS_NODE: np.zeros(1, np.int64)}, epoch=epoch).edges[HOMOGENEOUS_EDGE].number_E
        )
        assert len(np.unique(number_E)) == 150
        counts[number_E] += 1
    # As above, of 300 edges with a chance of 1/2: 299 degrees of freedom; 1 in 10,000 is above 398.
    assert ((counts - draws / 2) ** 2 / (draws / 4)).sum() * 299 / 300 < 398


@pytest.mark.slow
def test_weighted_draws_follow_the_weights() -> None:
    """Guards against weights that do not count, and against weight 0 drawn."""
    weights = np.array([1, 2, 4, 0, 1], np.float32)
    matrix = csr_of(EdgeChunk(np.arange(1, 6), np.zeros(5, np.int64), weights), 6)
    sampler = NeighbourSampler(graph_of(matrix), SamplingOptions(fanouts=(1,), weighted=True))
    counts, draws = np.zeros(5), 20_000
    for epoch in range(draws):
        batch = sampler.sample({HOMOGENEOUS_NODE: np.zeros(1, np.int64)}, epoch=epoch)
        counts[batch.edges[HOMOGENEOUS_EDGE].number_E] += 1
    assert counts[3] == 0
    np.testing.assert_allclose(counts / draws, weights / weights.sum(), atol=0.015)
    all_positive = sampled(graph_of(matrix), [0], fanouts=(5,), weighted=True)
    assert sorted(all_positive.edges[HOMOGENEOUS_EDGE].number_E.tolist()) == [0, 1, 2, 4]


@pytest.mark.parametrize("of", ["edges", "nodes"])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_no_neighbour_is_later_than_the_seed(of: str, strategy: str) -> None:
    """Guards against a look into the future, in any hop, and against `last` that does not take the latest."""
    graph = random_graph()
    matrix = graph.edges[HOMOGENEOUS_EDGE]
    rng = np.random.default_rng(1)
    node_times: NDArray[np.int64] = rng.integers(0, 1000, NODES)
    edge_times = rng.integers(0, 1000, matrix.num_edges) if of == "edges" else node_times[matrix.indices]
    times: dict[str, Any] = (
        {"edge_times": {HOMOGENEOUS_EDGE: edge_times}}
        if of == "edges"
        else {"node_times": {HOMOGENEOUS_NODE: node_times}}
    )
    graph = graph_of(matrix, **times)
    seeds, until = np.array([0, 5, 5, 17]), np.array([500, 100, 900, 0])
    batch = sampled(graph, seeds, fanouts=(3, 3), until=until, time_strategy=strategy)
    nodes, edges = batch.nodes[HOMOGENEOUS_NODE], batch.edges[HOMOGENEOUS_EDGE]
    assert nodes.tree_n is not None
    limit_E = until[nodes.tree_n[edges.destination_E]]
    assert (edge_times[edges.number_E] <= limit_E).all()
    for place in range(len(nodes.ids_n)):
        mine = edges.number_E[edges.destination_E == place]
        if place >= sum(nodes.per_hop[:2]):
            assert len(mine) == 0
            continue
        row = np.arange(matrix.indptr[nodes.ids_n[place]], matrix.indptr[nodes.ids_n[place] + 1])
        possible = row[edge_times[row] <= until[nodes.tree_n[place]]]
        assert len(mine) == min(3, len(possible))
        if strategy == "last":
            np.testing.assert_array_equal(np.sort(edge_times[mine]), np.sort(edge_times[possible])[-3:])


def test_several_types() -> None:
    """Guards against nodes numbered among those of another type, and fanouts of another edge type."""
    rng = np.random.default_rng(2)
    writes, cites = EdgeType("author", "writes", "paper"), EdgeType("paper", "cites", "paper")
    counts = {"author": 30, "paper": 50}
    edges = {}
    for kind, number in ((writes, 120), (cites, 200)):
        chunk = EdgeChunk(rng.integers(0, counts[kind.source], number), rng.integers(0, 50, number))
        edges[kind], _ = from_edges(
            [chunk], num_rows=50, num_sources=counts[kind.source], treatment=Treatment(), name=kind.key
        )
    graph = SamplingGraph(num_nodes=counts, edges=edges)
    sampler = NeighbourSampler(graph, SamplingOptions(fanouts={writes.key: (2, 1), tuple(cites): (3, 0)}))
    batch = sampler.sample({"paper": np.array([4, 8, 15])}, epoch=0)
    assert batch.nodes["author"].per_hop[0] == 0
    for kind, matrix in edges.items():
        mine = batch.edges[kind]
        np.testing.assert_array_equal(
            matrix.indices[mine.number_E], batch.nodes[kind.source].ids_n[mine.source_E], strict=False
        )
        assert mine.per_hop[0] == np.minimum(np.diff(matrix.indptr)[[4, 8, 15]], 2 if kind == writes else 3).sum()
    assert batch.edges[cites].per_hop[1] == 0
    assert batch.edges[writes].per_hop[1] > 0
    with pytest.raises(UsageError, match="num_neighbors has no edge type paper__cites__paper"):
        NeighbourSampler(graph, SamplingOptions(fanouts={writes.key: (2,)}))
    with pytest.raises(UsageError, match="different numbers of hops"):
        NeighbourSampler(graph, SamplingOptions(fanouts={writes.key: (2,), cites.key: (1, 1)}))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fanouts": ()}, r"num_neighbors of node__to__node is \[\]; give whole numbers"),
        ({"fanouts": (-2,)}, r"num_neighbors of node__to__node is \[-2\]"),
        ({"fanouts": (2.5,)}, r"num_neighbors of node__to__node is \[2.5\]"),
        ({"fanouts": (2,), "weighted": True}, "the edges have no weights to draw by"),
        ({"fanouts": (2,), "time_strategy": "last"}, "needs times"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], sentence: str) -> None:
    """Guards against a traceback, and against an option without effect."""
    with pytest.raises(UsageError, match=sentence):
        NeighbourSampler(random_graph(), SamplingOptions(**options))


def test_a_sampler_can_be_used_after_an_error() -> None:
    """Guards against numbers of nodes that stay behind when a batch fails."""
    sampler = NeighbourSampler(random_graph(), SamplingOptions(fanouts=(3, 2)))
    first = sampler.sample({HOMOGENEOUS_NODE: np.array([4, 5])}, epoch=0)
    with pytest.raises(TypeError):
        sampler.sample({HOMOGENEOUS_NODE: np.array([6, 7])}, epoch="one")  # type: ignore[arg-type]
    again = sampler.sample({HOMOGENEOUS_NODE: np.array([4, 5])}, epoch=0)
    np.testing.assert_array_equal(first.nodes[HOMOGENEOUS_NODE].ids_n, again.nodes[HOMOGENEOUS_NODE].ids_n)


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against edges and nodes written behind the end of their arrays."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.sampling.rows import ArrayRows\n"
        "from graphprep.sampling.schedule import Schedule\n"
        "from graphprep.core.types import HOMOGENEOUS_EDGE\n"
        "from tests.sampling.samplers.test_neighbour import graph_of, random_graph, sampled\n"
        "seeds = np.arange(0, 200, 7)\n"
        "for weighted in (False, True):\n"
        "    graph = random_graph(weighted=weighted)\n"
        "    sampled(graph, seeds, fanouts=(70,))\n"
        "    for options in ({}, {'disjoint': True}, {'weighted': True} if weighted else {'with_replacement': True}):\n"
        "        sampled(graph, seeds, fanouts=(4, -1, 300), **options)\n"
        "matrix = graph.edges[HOMOGENEOUS_EDGE]\n"
        "timed = graph_of(matrix, edge_times={HOMOGENEOUS_EDGE: np.arange(matrix.num_edges)})\n"
        "for strategy in ('uniform', 'last'):\n"
        "    sampled(timed, seeds, fanouts=(4, -1), until=np.arange(len(seeds)) * 50, time_strategy=strategy)\n"
        "Schedule(num_seeds=20, batch_size=3, seed=1, shuffle=True).batches(0)\n"
        "pieces, piece, row = [np.ones((3, 2)), np.ones((2, 2))], [0, 1, 0, 1, 0], [0, 0, 1, 1, 2]\n"
        "rows = ArrayRows(pieces, np.array(piece, np.int32), np.array(row))\n"
        "rows.gather(np.array([4, 3, 3, 0]))\n"
    )
