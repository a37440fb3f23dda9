"""Refinement lowers the bottleneck that is judged, keeps limits, and counts exactly on the way."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeChunk
from graphprep.partition.constraints import node_loads
from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.refine import parallel, refine, refine_kernels
from graphprep.partition.refine.coarsen import cluster
from graphprep.partition.refine.hypergraph import edge_nets, row_nets
from graphprep.partition.refine.legs import links_of
from graphprep.partition.refine.refine import EFFORTS, OBJECTIVES, Refinement, weights_and_limits
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel, count_traffic, link_seconds
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges
from tests.partition.problems import ring_of_cliques


def refined(
    matrix: Csr,
    part_N: NDArray[np.int32],
    topology: Topology,
    *,
    effort: str = "default",
    balance: str = "rows",
    imbalance: float = 1.05,
    seed: int = 0,
    minimise: str = "slowest",
    other_N: NDArray[np.int32] | None = None,
    threads: Executor | None = None,
) -> tuple[NDArray[np.int32], Refinement]:
    loads = node_loads(np.diff(matrix.indptr), None, imbalance=imbalance)
    shares_P = np.array([rank.speed for rank in topology.ranks])
    weight_NC, most_PC = weights_and_limits(loads, shares_P / shares_P.sum())
    refinement = Refinement(
        links_of(LinkModel.of(topology), 1024),
        most_PC,
        effort=EFFORTS[effort],
        objective=OBJECTIVES[minimise],
        seed=seed,
        threads=threads,
    )
    clean = csr.undirected_simple(matrix) if csr.is_symmetric(matrix) else None
    nets = row_nets(matrix, clean) if balance == "rows" else edge_nets(matrix)
    return refinement.run(nets, part_N, weight_NC, other_N=other_N), refinement


def bottleneck(matrix: Csr, part_N: NDArray[np.int32], topology: Topology, balance: str = "rows") -> float:
    traffic = count_traffic({HOMOGENEOUS_EDGE: matrix}, {HOMOGENEOUS_NODE: part_N}, topology.num_ranks)
    return link_seconds(traffic, topology, 1024, balance=balance).bottleneck_seconds  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.integers(4, 60),
    st.integers(0, 300),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["2x2", "flat"]),
    st.sampled_from(["rows", "edges"]),
    st.sampled_from(["fast", "default"]),
)
def test_what_is_counted_on_the_way_is_what_is_judged(
    num_nodes: int, num_edges: int, seed: int, name: str, balance: str, effort: str
) -> None:
    """Guards against rows, seconds and loads that drift from the truth move by move; directed graphs too."""
    topology = resolve("2x2") if name == "2x2" else Topology.flat(3)
    rng = np.random.default_rng(seed)
    matrix = csr_of(random_edges(rng, num_nodes, num_edges, weighted=False, hub=True), num_nodes)
    num_parts = topology.num_ranks
    part_N = rng.permutation(np.arange(num_nodes) % num_parts).astype(np.int32)
    before = part_N.copy()
    found, refinement = refined(matrix, part_N, topology, effort=effort, balance=balance)
    assert np.array_equal(part_N, before)
    assert found.dtype == np.int32
    assert set(found.tolist()) <= set(range(num_parts))
    assert set(found.tolist()) == set(part_N.tolist())  # no part gives its last node away
    traffic = count_traffic({HOMOGENEOUS_EDGE: matrix}, {HOMOGENEOUS_NODE: found}, num_parts)
    counted = traffic.rows_PP if balance == "rows" else traffic.edges_PP
    assert np.array_equal(refinement.links.rows_PL, counted)
    seconds_D = link_seconds(traffic, topology, 1024, balance=balance).seconds_D  # type: ignore[arg-type]
    assert np.allclose(refinement.links.load_D, seconds_D, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("balance", ["rows", "edges"])
def test_the_number_of_threads_does_not_matter(balance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against threads that share work arrays, and against pieces and batches that depend on their number."""
    for name in ("LEAST_NODES", "LEAST_NETS", "LEAST_BATCH"):
        monkeypatch.setattr(parallel, name, 8)
    rng = np.random.default_rng(3)
    matrix = csr_of(random_edges(rng, 1500, 9000, weighted=False, hub=True), 1500)
    part_N = rng.integers(0, 6, 1500).astype(np.int32)
    with ThreadPoolExecutor(4) as threads:
        found = [
            refined(matrix, part_N, Topology.flat(6), balance=balance, effort="default", threads=some)[0].tolist()
            for some in (None, threads, threads)
        ]
    assert found[0] == found[1] == found[2]


def test_clusters_stay_in_their_parts_whatever_the_threads() -> None:
    """Guards against pieces that cut a part in two, and against parts without nodes."""
    rng = np.random.default_rng(4)
    nets = row_nets(csr_of(random_edges(rng, 500, 4000, weighted=False), 500))
    for part_N in (np.zeros(500), rng.integers(0, 3, 500) * 7, np.arange(500), rng.integers(0, 60, 500)):
        part_X, clusters = part_N.astype(np.int32), list[list[int]]()
        for workers in (1, 4):
            with ThreadPoolExecutor(workers) as threads:
                coarse_X, count = cluster(
                    nets, part_X, np.ones((500, 1)), most_C=np.array([9.0]), nodes_a_cluster=8, seed=1, threads=threads
                )
            clusters.append(coarse_X.tolist())
        assert clusters[0] == clusters[1]
        assert set(clusters[0]) == set(range(count))
        assert len({(part, coarse) for part, coarse in zip(part_X, coarse_X, strict=True)}) == count
        assert np.bincount(coarse_X).max() <= 8


@pytest.mark.parametrize(("effort", "left"), [("fast", 0.9), ("default", 0.5), ("best", 0.4)])
def test_scattered_cliques_come_together(effort: str, left: float) -> None:
    """Guards against a refinement that does nothing: a random assignment of a ring of cliques gets far better."""
    chunk, num_nodes = ring_of_cliques(16, 12)
    matrix, topology = csr_of(chunk, num_nodes), resolve("2x2")
    part_N = np.random.default_rng(0).permutation(np.arange(num_nodes) % 4).astype(np.int32)
    found, _ = refined(matrix, part_N, topology, effort=effort, imbalance=1.2)
    assert bottleneck(matrix, found, topology) <= left * bottleneck(matrix, part_N, topology)


def test_limits_that_were_broken_are_kept_in_the_end() -> None:
    """Guards against parts that stay too heavy: all nodes begin on one of four ranks, one of which is slow."""
    rng = np.random.default_rng(2)
    matrix = csr_of(random_edges(rng, 400, 3000, weighted=False), 400)
    topology = Topology.flat(4)
    found, _ = refined(matrix, np.zeros(400, np.int32), topology)
    assert set(found.tolist()) == {0, 1, 2, 3}
    in_degree_N = np.diff(matrix.indptr)
    assert np.bincount(found).max() <= 1.05 * 100
    assert np.bincount(found, weights=in_degree_N).max() <= 1.05 * 3000 / 4


def test_what_leaves_a_part_that_is_far_too_heavy_hangs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against nodes that leave a rank which has become slow one by one, from all over its part."""
    rng = np.random.default_rng(5)
    blocks, size = 16, 300
    block = np.repeat(rng.permutation(blocks), 3000)
    inner = block * size + rng.integers(0, size, (2, len(block)))
    outer = rng.integers(0, blocks * size, (2, 1500))
    src, dst = np.concatenate([inner, outer], axis=1)
    matrix = csr_of(EdgeChunk(np.concatenate([src, dst]), np.concatenate([dst, src])), blocks * size)
    part_N = (np.arange(blocks * size) // (blocks * size // 2)).astype(np.int32)
    even = Topology.flat(2)
    uneven = replace(even, ranks=(even.ranks[0], replace(even.ranks[1], speed=0.5)))
    found, _ = refined(matrix, part_N, uneven, effort="fast")
    assert np.bincount(found)[1] <= 1.05 * blocks * size / 3
    cut = bottleneck(matrix, found, uneven)
    monkeypatch.setattr(refine, "FAR_OVER", 10**9)
    one_by_one, _ = refined(matrix, part_N, uneven, effort="fast")
    assert cut < 0.8 * bottleneck(matrix, one_by_one, uneven)
    of_blocks = np.bincount(np.arange(blocks * size) // size, weights=found)
    assert np.count_nonzero((of_blocks > 0.1 * size) & (of_blocks < 0.9 * size)) <= 2


def test_limits_that_are_kept_stay_kept() -> None:
    """Guards against a bottleneck that is bought with balance."""
    chunk, num_nodes = ring_of_cliques(10, 20)
    matrix = csr_of(chunk, num_nodes)
    part_N = (np.arange(num_nodes) % 5).astype(np.int32)
    found, _ = refined(matrix, part_N, Topology.flat(5), effort="best")
    assert np.bincount(found).max() <= 1.05 * num_nodes / 5
    assert np.bincount(found, weights=np.diff(matrix.indptr)).max() <= 1.05 * matrix.num_edges / 5


def test_a_combination_moves_what_two_assignments_agree_on() -> None:
    """Guards against combining that ignores the second assignment: each of two has found other cliques."""
    chunk, num_nodes = ring_of_cliques(64, 16)
    matrix = csr_of(chunk, num_nodes)
    rng = np.random.default_rng(0)
    one_N, other_N = (rng.permutation(num_nodes).astype(np.int32) % np.int32(4) for _ in range(2))
    topology = Topology.flat(4)
    one_N, other_N = (refined(matrix, start_N, topology, effort="fast")[0] for start_N in (one_N, other_N))
    alone, _ = refined(matrix, one_N, topology, effort="fast")
    combined, _ = refined(matrix, one_N, topology, effort="fast", other_N=other_N)
    assert not np.array_equal(combined, alone)
    assert bottleneck(matrix, combined, topology) <= bottleneck(matrix, one_N, topology)
    same, _ = refined(matrix, one_N, topology, effort="fast", other_N=one_N)
    assert np.array_equal(same, alone)


@pytest.mark.parametrize("balance", ["rows", "edges"])
def test_each_objective_improves_on_the_result_of_the_other(balance: str) -> None:
    """Guards against a total that is minimised by way of the slowest link, or the other way round."""
    rng = np.random.default_rng(3)
    matrix = csr_of(random_edges(rng, 600, 3000), 600)
    part_N, topology = rng.permutation(600).astype(np.int32) % np.int32(4), resolve("2x2")

    def result(start_N: NDArray[np.int32], minimise: str) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        found, refinement = refined(matrix, start_N, topology, effort="fast", minimise=minimise, balance=balance)
        return found, refinement.links.load_D.copy()

    one_N, one_D = result(part_N, "slowest")
    two_N, two_D = result(one_N, "total")
    assert two_D.sum() < one_D.sum()
    _, three_D = result(two_N, "slowest")
    assert three_D.max() < two_D.max()


def test_neighbours_whose_gains_rise_are_visited_again() -> None:
    """Guards against moves that are never found, and against visits to all neighbours of whatever moves.

    With the sum of all links prices are constant. Neighbours in a bipartite graph share no net with the node, so that
    nothing but its own nets and theirs changes their gains.
    """
    rng, topology = np.random.default_rng(7), Topology.flat(4)
    num_nodes, woken, neighbours = 60, 0, 0
    for _ in range(60):
        left, right = rng.integers(0, 30, 250), rng.integers(30, 60, 250)
        matrix = csr.undirected_simple(csr_of(EdgeChunk(left, right), num_nodes))
        refinement = Refinement(
            links_of(LinkModel.of(topology), 1024),
            np.full((4, 1), 1e9),
            effort=EFFORTS["fast"],
            objective=OBJECTIVES["total"],
            seed=0,
        )
        part_N = rng.integers(0, 4, num_nodes).astype(np.int32)
        state = refinement._state(row_nets(matrix, matrix), part_N, np.ones((num_nodes, 1)))
        refinement._rescale(0)
        everyone = np.arange(num_nodes)
        node = int(rng.integers(num_nodes))
        source, target = int(part_N[node]), int(part_N[node] + 1) % 4
        is_active = np.zeros(num_nodes, np.bool_)
        before = parallel.move_gains(everyone, state, None)
        refine_kernels.move(node, target, state)
        refine_kernels._wake(node, source, target, state.pins, state.part_X, is_active)
        after = parallel.move_gains(everyone, state, None)
        is_neighbour = np.isin(everyone, matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]])
        assert is_active[is_neighbour & (after > before + 1e-9)].all()
        assert is_neighbour[is_active].all()
        woken, neighbours = woken + is_active.sum(), neighbours + is_neighbour.sum()
    assert 0 < woken < 0.8 * neighbours


def test_a_level_without_moves_is_left_after_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against visits to all nodes of levels on which nothing is to be gained."""
    node_N = np.arange(32 * 32 * 16)
    steps = [node_N[node_N % (stride * side) < stride * (side - 1)] for stride, side in ((1, 32), (32, 32), (1024, 16))]
    src = np.concatenate(steps)
    dst = np.concatenate([nodes + stride for nodes, stride in zip(steps, (1, 32, 1024), strict=True)])
    mesh = csr_of(EdgeChunk(np.concatenate([src, dst]), np.concatenate([dst, src])), len(node_N))
    slabs = (node_N // 4096).astype(np.int32)
    settled, _ = refined(mesh, slabs, Topology.flat(4), effort="fast", minimise="total")
    same, sampled = refined(mesh, settled, Topology.flat(4), effort="fast", minimise="total")
    assert np.count_nonzero(same != settled) < 100
    monkeypatch.setattr(refine, "SAMPLE", 1.0)
    _, whole = refined(mesh, settled, Topology.flat(4), effort="fast", minimise="total")
    assert 0 < sampled.visits < 0.7 * whole.visits


def test_a_seed_gives_the_same_parts() -> None:
    """Guards against results that nobody can reproduce."""
    rng = np.random.default_rng(4)
    matrix = csr_of(random_edges(rng, 300, 2500, weighted=False), 300)
    part_N = rng.integers(0, 4, 300).astype(np.int32)
    runs = [refined(matrix, part_N, resolve("2x2"), seed=seed)[0] for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_the_direct_links_get_the_traffic() -> None:
    """Guards against a refinement blind to routes: in a hybrid cube mesh most rows can stay off PCIe."""
    topology = resolve("dgx-1-v100")
    rng = np.random.default_rng(1)
    num_nodes = 1600
    ring = np.arange(num_nodes)
    src = np.concatenate([ring, rng.integers(0, num_nodes, 3000)])
    dst = np.concatenate([(ring + 1) % num_nodes, (src[num_nodes:] + rng.integers(-60, 60, 3000)) % num_nodes])
    from graphprep.core.types import EdgeChunk

    matrix = csr_of(EdgeChunk(src, dst), num_nodes)
    order = np.random.default_rng(3).permutation(8)
    part_N = order[ring * 8 // num_nodes].astype(np.int32)
    found, _ = refined(matrix, part_N, topology, effort="best")
    assert bottleneck(matrix, found, topology) < 0.7 * bottleneck(matrix, part_N, topology)


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range reads and writes, which corrupt the heap and hang the process later."""
    bounds_checked(
        "import numpy as np\n"
        "from tests.partition.refine import test_refine as t\n"
        "from graphprep.partition.refine.mapping import best_mapping\n"
        "from graphprep.partition.refine.legs import links_of\n"
        "from graphprep.core.csr import undirected_simple\n"
        "from graphprep.traffic import LinkModel\n"
        "from graphprep.topology import Topology, resolve\n"
        "from tests.graphs import csr_of, random_edges\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "rng, threads = np.random.default_rng(0), ThreadPoolExecutor(2)\n"
        "for nodes, edges in ((4, 0), (4, 6), (60, 900), (700, 3000)):\n"
        "    matrix = csr_of(random_edges(rng, nodes, edges, weighted=False, hub=True), nodes)\n"
        "    for topology in (Topology.flat(3), resolve('2x2')):\n"
        "        for balance in ('rows', 'edges'):\n"
        "            for effort in ('fast', 'default'):\n"
        "                for graph in (matrix, undirected_simple(matrix)):\n"
        "                    t.refined(graph, rng.integers(0, topology.num_ranks, nodes).astype(np.int32), topology,\n"
        "                              effort=effort, balance=balance, threads=threads)\n"
        "for parts in (3, 12):\n"
        "    rows = rng.integers(0, 9, (parts, parts)) * (1 - np.eye(parts, dtype=int))\n"
        "    best_mapping(rows, links_of(LinkModel.of(Topology.flat(parts)), 8), np.full(parts, 1 / parts), seed=0)\n"
    )


def test_annealing_leaves_visits_for_improving_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against annealing that uses the budget up while it is hot, so that the result is worse than the start."""
    visits, anneal = 60_000, Refinement._anneal
    after: list[int] = []

    def noted(self: Refinement, *arguments: Any) -> None:
        anneal(self, *arguments)
        after.append(self.visits)

    monkeypatch.setattr(Refinement, "_anneal", noted)
    effort = replace(EFFORTS["default"], visits=0, least_visits=visits, annealing_rounds=10_000)
    monkeypatch.setitem(EFFORTS, "default", effort)
    matrix = csr_of(random_edges(np.random.default_rng(1), 300, 2000), 300)
    _, refinement = refined(matrix, (np.arange(300) % 4).astype(np.int32), resolve("2x2"))
    assert 0.6 * visits < max(after) < 0.9 * visits
    assert refinement.visits > max(after)


def test_limits_that_stand_in_each_others_way_are_eased() -> None:
    """Guards against relief that wants a move to break nothing: here all parts are full, and two kinds of nodes lie in
    two parts each, so that only moves which overfill a part for a while lead out."""
    rng = np.random.default_rng(1)
    matrix = csr_of(random_edges(rng, 400, 2000), 400)
    kind_N = (np.arange(400) < 200).astype(np.int64)
    part_N = np.where(kind_N == 1, rng.integers(0, 2, 400), rng.integers(2, 4, 400)).astype(np.int32)
    amounts = {"nodes": np.ones(400, np.int64), "a": kind_N, "b": 1 - kind_N}
    loads = [NodeLoad(what=what, amount_N=amount_N, limit=1.02) for what, amount_N in amounts.items()]
    weight_NC, most_PC = weights_and_limits(loads, np.full(4, 0.25))
    topology = Topology.flat(4)
    refinement = Refinement(
        links_of(LinkModel.of(topology), 1024),
        most_PC,
        effort=EFFORTS["fast"],
        objective=OBJECTIVES["slowest"],
        seed=0,
    )
    found = refinement.run(row_nets(matrix), part_N, weight_NC)
    for amount_N in amounts.values():
        assert np.bincount(found, weights=amount_N, minlength=4).max() <= np.ceil(1.02 * amount_N.sum() / 4)
