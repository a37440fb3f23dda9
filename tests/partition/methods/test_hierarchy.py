"""A graph is divided along nested groups of ranks; every rank keeps its share, and slow links are cut first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk
from graphprep.partition.candidates import assign
from graphprep.partition.methods.hierarchy import divide_along, limits_of_division
from graphprep.partition.methods.metis_ctypes import MetisGraph
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from graphprep.topology.rank_groups import RankGroup
from graphprep.traffic import count_traffic
from tests.partition.problems import Case, clique

NESTED: RankGroup = [[0, [1, 2]], 3, [4, 5]]


def path_graph(num_nodes: int) -> MetisGraph:
    """A chain with the weight 2 on every edge, nodes of weight 1 and their degree."""
    middle = np.arange(1, num_nodes - 1)
    adjncy = np.concatenate([[1], np.stack([middle - 1, middle + 1], axis=1).ravel(), [num_nodes - 2]])
    xadj = np.concatenate([[0], 1 + 2 * np.arange(num_nodes - 1), [len(adjncy)]])
    weights_NC = np.stack([np.ones(num_nodes, np.int64), np.diff(xadj)], axis=1)
    return MetisGraph(xadj, adjncy, np.full(len(adjncy), 2), weights_NC)


def test_every_node_gets_a_rank_of_its_share_and_every_division_a_whole_graph() -> None:
    """Guards against nodes lost between levels, ranks mixed up with places in a group, and edges that lead outside."""
    shares_P = np.array([0.1, 0.2, 0.2, 0.3, 0.1, 0.1])
    seen: list[int] = []

    def in_order(graph: MetisGraph, shares_G: NDArray[np.float64], limits_C: NDArray[np.float64]) -> NDArray[np.int64]:
        seen.append(graph.num_nodes)
        assert shares_G.sum() == pytest.approx(1)
        assert len(graph.adjncy) == graph.xadj[-1] == 2 * (graph.num_nodes - 1)
        assert graph.edge_weights is not None
        assert (graph.edge_weights == 2).all()
        assert graph.adjncy.max() < graph.num_nodes == len(graph.weights_NC)
        bounds = np.rint(np.cumsum(shares_G) * graph.num_nodes)
        return np.searchsorted(bounds, np.arange(graph.num_nodes), side="right")

    rank_N = divide_along(NESTED, path_graph(1000), shares_P, np.array([1.05, 1.05]), in_order)
    assert rank_N.tolist() == np.repeat(np.arange(6), [100, 200, 200, 300, 100, 100]).tolist()
    assert seen == [1000, 500, 400, 200]


def test_a_division_may_use_what_repeated_below_arrives_at_the_limit() -> None:
    """Guards against three levels of 5 % that make 16 %."""
    limit, target = np.array([1.05]), np.array([800.0])
    assert limits_of_division(limit, target, target, 3) ** 3 == pytest.approx(1.05)
    overdrawn = limits_of_division(limit, np.array([820.0]), target, 2)
    assert overdrawn**2 * 820 / 800 == pytest.approx(1.05)
    assert limits_of_division(limit, np.array([700.0]), target, 1) == pytest.approx(1.05 * 8 / 7)
    assert limits_of_division(limit, np.array([900.0]), target, 1) == pytest.approx(1.001)


def test_fewer_nodes_than_groups_go_to_the_largest() -> None:
    """Guards against a library that is asked for more parts than nodes."""

    def never(graph: MetisGraph, shares_G: object, limits_C: object) -> NDArray[np.int64]:
        raise AssertionError

    rank_N = divide_along([0, 1, 2], path_graph(2), np.array([0.2, 0.3, 0.5]), np.array([1.05, 1.05]), never)
    assert rank_N.tolist() == [2, 1]


def test_the_slow_links_are_cut_where_the_graph_is_thin(tmp_path: Path) -> None:
    """Guards against machines that are joined by many edges while a thin place of the graph lies inside one of them."""
    # Two halves of four cliques each; within a half, cliques are joined by 30 edges each to each, the halves by 2.
    rng = np.random.default_rng(0)
    size, chunks = 40, []
    for number in range(8):
        inner = clique(size)
        chunks.append((inner.src + size * number, inner.dst + size * number))
    for a in range(8):
        for b in range(a + 1, 8):
            count = 30 if a // 4 == b // 4 else int((a, b) in ((0, 4), (3, 7)))
            chunks.append((size * a + rng.integers(0, size, count), size * b + rng.integers(0, size, count)))
    shuffled = rng.permutation(8 * size)
    src, dst = (np.concatenate([chunk[end] for chunk in chunks]) for end in (0, 1))
    case = Case(EdgeChunk(shuffled[src], shuffled[dst]), 8 * size, np.ones(8))
    topology = Topology.from_text(
        "name: two\nmachines:\n"
        "  - {count: 2, gpus: 4, pcie: {gbytes_per_s: 16, gpus_per_switch: 4}, network: {gbytes_per_s: 1}}\n"
    )
    parts_N = assign(
        "metis-hierarchical",
        case.clean,
        shares_P=case.shares_P,
        request=PartitionRequest(),
        scratch=tmp_path,
        in_degree_N=case.in_degree_N,
        topology=topology,
    )
    traffic = count_traffic({HOMOGENEOUS_EDGE: case.clean}, {HOMOGENEOUS_NODE: parts_N}, 8)
    machine_P = np.arange(8) // 4
    assert int(traffic.edges_PP[machine_P[:, None] != machine_P].sum()) == 4
    assert np.bincount(parts_N).max() <= 1.05 * size + 1


def test_the_final_balance_keeps_the_limit(tmp_path: Path) -> None:
    """Guards against an imbalance that grows with every level."""
    rng = np.random.default_rng(1)
    case = Case(EdgeChunk(rng.zipf(1.6, 60_000) % 6000, rng.integers(0, 6000, 60_000)), 6000, np.ones(8))
    topology = Topology.from_text(
        "name: deep\nmachines:\n"
        "  - {count: 2, gpus: 4, nvlink: {gbytes_per_s: 50, pairs: [[0, 1], [2, 3]]},\n"
        "     pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 2}}\n"
    )
    parts_N = assign(
        "metis-hierarchical",
        case.clean,
        shares_P=case.shares_P,
        request=PartitionRequest(),
        scratch=tmp_path,
        in_degree_N=case.in_degree_N,
        topology=topology,
    )
    for amount_N in (np.ones(6000, np.int64), case.in_degree_N):
        load_P = np.bincount(parts_N, weights=amount_N, minlength=8)
        assert load_P.max() <= 1.05 * load_P.mean() + amount_N.max()
