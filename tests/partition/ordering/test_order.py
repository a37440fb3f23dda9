"""The order inside parts: a permutation, whatever the graph; levels on meshes, the window's greedy walk elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import Csr, EdgeChunk
from graphprep.partition.ordering import order
from graphprep.partition.ordering.levels import level_order
from graphprep.partition.ordering.order import locality_order
from graphprep.partition.ordering.window import score, weights, window_order
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges
from tests.partition.problems import hostile_cases, ring_of_cliques

HOSTILE = hostile_cases()


def clean_graph(chunk: EdgeChunk, num_nodes: int) -> Csr:
    return csr.undirected_simple(csr_of(chunk, num_nodes))


def random_graph(num_nodes: int, num_edges: int, *, hub: bool = False, seed: int = 0) -> Csr:
    return clean_graph(random_edges(np.random.default_rng(seed), num_nodes, num_edges, hub=hub), num_nodes)


def nested_blocks(
    levels: int, branching: int, leaf: int, degrees: tuple[int, ...], rng: np.random.Generator
) -> tuple[Csr, NDArray[np.int64]]:
    """Blocks in blocks, shuffled. `degrees[k]` edges a node are drawn within its block of depth k, leaves last.

    Returns:
        The graph and the place of each node: nodes of a block have consecutive places.
    """
    num_nodes = leaf * branching**levels
    src, dst = [], []
    for depth, degree in enumerate(degrees):
        size = num_nodes // branching**depth
        ends = np.arange(num_nodes).repeat(degree)
        src.append(ends)
        dst.append(ends // size * size + rng.integers(0, size, len(ends)))
    label = rng.permutation(num_nodes)
    place_N = np.empty(num_nodes, np.int64)
    place_N[label] = np.arange(num_nodes)
    return clean_graph(EdgeChunk(label[np.concatenate(src)], label[np.concatenate(dst)]), num_nodes), place_N


def grid(height: int, width: int, rng: np.random.Generator) -> Csr:
    """A grid whose nodes are numbered at random."""
    number = rng.permutation(height * width).reshape(height, width)
    src = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    dst = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    return clean_graph(EdgeChunk(src, dst), height * width)


def gaps(graph: Csr, order: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """How far apart the ends of each edge lie in the order."""
    position = np.empty(graph.num_rows, np.int64)
    position[order] = np.arange(graph.num_rows)
    rows = np.repeat(np.arange(graph.num_rows), np.diff(graph.indptr))
    return np.abs(position[rows] - position[graph.indices])


def assert_orders_every_part(order: list[NDArray[np.int64]], assignment: NDArray[np.int32], num_parts: int) -> None:
    assert len(order) == num_parts
    for part, nodes in enumerate(order):
        assert nodes.dtype == np.int64
        assert np.array_equal(np.sort(nodes), np.flatnonzero(assignment == part))


@st.composite
def graphs_in_parts(draw: st.DrawFn) -> tuple[Csr, NDArray[np.int32], int]:
    num_nodes = draw(st.integers(1, 60))
    num_edges = draw(st.integers(0, 240))
    graph = random_graph(num_nodes, num_edges, hub=draw(st.booleans()), seed=draw(st.integers(0, 2**32)))
    num_parts = draw(st.integers(1, 5))
    assignment = draw(st.lists(st.integers(0, num_parts - 1), min_size=num_nodes, max_size=num_nodes))
    return graph, np.array(assignment, np.int32), num_parts


@pytest.mark.slow
@settings(deadline=None)  # the first case waits for the compiler
@given(graphs_in_parts(), st.integers(1, 80))
def test_the_order_is_a_permutation_of_each_part(case: tuple[Csr, NDArray[np.int32], int], window: int) -> None:
    """Guards against nodes that are lost, doubled or put into another part: empty parts, hubs, isolated nodes."""
    graph, assignment, num_parts = case
    assert_orders_every_part(locality_order(graph, assignment, num_parts, window=window), assignment, num_parts)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graphs_are_ordered(name: str) -> None:
    """Guards against graphs that a step cannot do: no nodes, no edges, stars, cliques, more parts than nodes."""
    case = HOSTILE[name]
    num_parts = len(case.speed_P)
    assignment = (np.arange(case.num_nodes) * 7 % num_parts).astype(np.int32)
    assert_orders_every_part(locality_order(case.clean, assignment, num_parts), assignment, num_parts)


def test_a_path_is_walked_from_end_to_end() -> None:
    """Guards against an order that leaves holes, and against one that looks at edges between parts."""
    rng = np.random.default_rng(2)
    relabel = rng.permutation(400)
    clean = clean_graph(EdgeChunk(relabel[:-1], relabel[1:]), 400)
    assignment = np.zeros(400, np.int32)
    assignment[relabel[200:]] = 1
    order = locality_order(clean, assignment, 3)
    assert_orders_every_part(order, assignment, 3)
    position = np.empty(400, np.int64)
    position[order[0]] = np.arange(200)
    assert np.abs(position[relabel[:199]] - position[relabel[1:200]]).max() == 1


def test_a_mesh_is_ordered_by_levels() -> None:
    """Guards against the walk on meshes, where levels make faster products: ends lie within two levels."""
    graph = grid(30, 120, np.random.default_rng(1))
    (order,) = locality_order(graph, np.zeros(3600, np.int32), 1)
    assert gaps(graph, order).max() <= 2 * 31


@pytest.mark.parametrize("window", [256, 1024])
def test_communities_come_one_after_another(window: int) -> None:
    """Guards against a walk that leaves a community before it is finished, at either level, or never forgets one."""
    graph, place_N = nested_blocks(2, 8, 100, (1, 3, 9), np.random.default_rng(4))
    (order,) = locality_order(graph, np.zeros(6400, np.int32), 1, window=window)
    leaf, block = place_N[order] // 100, place_N[order] // 800
    # A shuffled order changes its block at 7 steps of 8; one block after another needs 7 changes and strays make more.
    assert (np.diff(block) != 0).mean() < 0.08
    assert (np.diff(leaf) != 0).mean() < 0.15
    assert np.median(gaps(graph, order)) < 100


def test_a_hub_does_not_scatter_what_is_round_it() -> None:
    """Guards against a walk that follows a hub, through which everything is near everything."""
    ring, num_nodes = ring_of_cliques(200, 8)
    relabel = np.random.default_rng(5).permutation(num_nodes + 1)
    src = np.concatenate([ring.src, np.arange(num_nodes)])
    dst = np.concatenate([ring.dst, np.full(num_nodes, num_nodes)])
    graph = clean_graph(EdgeChunk(relabel[src], relabel[dst]), num_nodes + 1)
    (order,) = locality_order(graph, np.zeros(num_nodes + 1, np.int32), 1)
    place_N = np.argsort(relabel)
    changes = (np.diff(place_N[order] // 8) != 0).sum()
    assert changes <= 1.1 * 200


def test_scores_weigh_neighbours_against_degree() -> None:
    """Guards against the number of neighbours alone, and against their share: hubs are scattered by it."""
    weight = weights(np.cumsum([0, 1, 8, 64, 1000])).tolist()
    assert score(0, weight[0]) == 0
    assert score(2, weight[1]) > score(2, weight[2])
    assert score(30, weight[2]) > score(1, weight[0])
    assert all(score(count, weight[3]) <= score(count + 1, weight[3]) for count in range(999))


def test_isolated_nodes_come_last_and_cost_little() -> None:
    """Guards against isolated nodes among those that are read together, and against a new search for each of them."""
    graph = random_graph(4000, 20_000)
    num_nodes = 400_000
    isolated = np.full(num_nodes - 4000, graph.num_edges)
    graph = Csr(indptr=np.concatenate([graph.indptr, isolated]), indices=graph.indices, num_sources=num_nodes)
    (order,) = locality_order(graph, np.zeros(num_nodes, np.int32), 1)  # minutes, were it quadratic
    assert (np.diff(graph.indptr)[order[4000:]] == 0).all()


@pytest.mark.slow
def test_the_order_does_not_depend_on_threads_or_index_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against parts that write into each other's numbers, and against other orders for 64-bit graphs."""
    rng = np.random.default_rng(6)
    graph = random_graph(3000, 20000, hub=True)
    assignment = rng.integers(0, 16, 3000).astype(np.int32)
    with monkeypatch.context() as patch:
        patch.setattr(order, "kernel_threads", lambda: 1)
        alone = locality_order(graph, assignment, 16)
    monkeypatch.setattr(order, "kernel_threads", lambda: 4)
    wide = Csr(indptr=graph.indptr, indices=graph.indices.astype(np.int64), num_sources=graph.num_sources)
    for other in (locality_order(graph, assignment, 16), locality_order(wide, assignment, 16)):
        assert all(np.array_equal(one, two) for one, two in zip(alone, other, strict=True))


@pytest.mark.slow
@settings(deadline=None)  # the first case waits for the compiler
@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(0, 160), st.integers(1, 50))
def test_every_step_of_the_walk_takes_the_best(seed: int, num_nodes: int, num_edges: int, window: int) -> None:
    """Guards against lists of candidates that are out of step with the window: scores are worked out anew here."""
    graph = random_graph(num_nodes, num_edges, seed=seed)
    starts = np.random.default_rng(seed).permutation(num_nodes).astype(np.int32)
    order = window_order(graph.indptr, graph.indices, starts, window).tolist()
    neighbours = [set(graph.indices[a:b].tolist()) for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]
    weight_n = weights(graph.indptr).tolist()
    for step, node in enumerate(order):
        seen = set(order[max(0, step - window) : step])
        scores = {
            other: score(len(neighbours[other] & seen), weight_n[other])
            for other in set(range(num_nodes)) - set(order[:step])
        }
        assert scores[node] == max(scores.values())
        if scores[node] == 0:
            assert node == next(start for start in starts.tolist() if start not in order[:step])


def test_levels_are_those_of_a_breadth_first_search() -> None:
    """Guards against levels that are mixed, components that are mixed, and starts in the middle of a component."""
    graph = grid(4, 50, np.random.default_rng(7))
    two = Csr(
        indptr=np.concatenate([graph.indptr, graph.num_edges + graph.indptr[1:]]),
        indices=np.concatenate([graph.indices, graph.indices + 200]),
        num_sources=400,
    )
    starts = np.random.default_rng(8).permutation(400).astype(np.int32)
    order, is_thin = level_order(two.indptr, two.indices, starts)
    assert is_thin
    for component in (order[:200], order[200:]):
        assert len(set((component // 200).tolist())) == 1
        depth = {int(component[0]): 0}
        for node in component.tolist():
            for neighbour in two.indices[two.indptr[node] : two.indptr[node + 1]].tolist():
                depth.setdefault(neighbour, depth[node] + 1)
        found = [depth[node] for node in component.tolist()]
        assert found == sorted(found)
        assert found[-1] >= 49


def test_thick_layers_and_small_components_are_thin() -> None:
    """Guards against bounds that leave levels to paths alone: layers of 300 nodes, fifty of them; many cliques."""
    rng = np.random.default_rng(9)
    src = np.arange(49 * 300).repeat(3)
    layers = clean_graph(EdgeChunk(src, (src // 300 + 1) * 300 + rng.integers(0, 300, len(src))), 15_000)
    cliques, num_nodes = ring_of_cliques(100, 20)
    apart = cliques.src // 20 == cliques.dst // 20
    for graph in (layers, clean_graph(EdgeChunk(cliques.src[apart], cliques.dst[apart]), num_nodes)):
        assert level_order(graph.indptr, graph.indices, np.arange(graph.num_rows, dtype=np.int32))[1]


@pytest.mark.parametrize("num_small", [0, 40_000])
def test_round_components_are_not_ordered_by_levels(num_small: int) -> None:
    """Guards against levels on a random graph, alone or as the one large component among many nodes."""
    graph = random_graph(4000, 20_000)
    whole = Csr(
        indptr=np.concatenate([graph.indptr, np.full(num_small, graph.num_edges)]),
        indices=graph.indices,
        num_sources=4000 + num_small,
    )
    _, is_thin = level_order(whole.indptr, whole.indices, np.arange(whole.num_rows, dtype=np.int32))
    assert not is_thin


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range reads and writes in all three kernels, on thin and on round graphs."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.core.types import EdgeChunk\n"
        "from graphprep.core.csr import undirected_simple\n"
        "from graphprep.partition.ordering.order import locality_order\n"
        "from tests.graphs import csr_of, random_edges\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e in ((1, 0), (2, 1), (40, 60), (700, 6000), (3000, 9000)):\n"
        "    for hub in (False, True):\n"
        "        clean = undirected_simple(csr_of(random_edges(rng, n, e, hub=hub), n))\n"
        "        for parts in (1, 3):\n"
        "            assignment = rng.integers(0, parts, n).astype(np.int32)\n"
        "            for window in (1, 20, 5000):\n"
        "                order = locality_order(clean, assignment, parts, window=window)\n"
        "                assert np.array_equal(np.sort(np.concatenate(order)), np.arange(n))\n"
        "path = undirected_simple(csr_of(EdgeChunk(np.arange(999), np.arange(1, 1000)), 1000))\n"
        "locality_order(path, np.zeros(1000, np.int32), 1)\n"
    )
