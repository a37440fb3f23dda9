"""Every candidate obeys one contract, on ordinary and on hostile graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeChunk
from graphprep.errors import PartitionError
from graphprep.partition.candidates import CANDIDATES, assign
from graphprep.partition.request import METHODS, PartitionRequest
from graphprep.topology import Topology
from tests.graphs import csr_of, random_edges
from tests.partition.problems import Case, edges, hostile_cases, ring_of_cliques

pytestmark = pytest.mark.slow

HOSTILE = hostile_cases()
REQUEST = PartitionRequest(seed=3, imbalance=1.05)


def parts_of(method: str, case: Case, scratch: Path, *, request: PartitionRequest = REQUEST) -> NDArray[np.int32]:
    """The method's parts, or a skip where it says why it is not available."""
    topology = case.topology
    reason = CANDIDATES[method].needs(topology.num_ranks, topology)
    if reason and "not installed" in reason:
        pytest.skip(reason)
    return assign(
        method,
        case.clean,
        shares_P=case.shares_P,
        request=request,
        scratch=scratch,
        in_degree_N=case.in_degree_N,
        topology=topology,
    )


@pytest.mark.parametrize("method", CANDIDATES)
@pytest.mark.parametrize("name", HOSTILE)
def test_every_method_places_every_node(method: str, name: str, tmp_path: Path) -> None:
    """Guards against nodes without a part, parts without nodes, libraries that die on graphs that they do not like,
    and files left behind.
    """
    case = HOSTILE[name]
    num_parts = len(case.speed_P)
    if method == "mtkahypar-steiner" and num_parts > 64:
        with pytest.raises(PartitionError, match=r"not installed|at most 64 ranks, and there are 257"):
            assign(
                method, case.clean, shares_P=case.shares_P, request=REQUEST, scratch=tmp_path, topology=case.topology
            )
        return
    parts_N = parts_of(method, case, tmp_path)
    assert parts_N.dtype == np.int32
    assert parts_N.shape == (case.num_nodes,)
    found = np.unique(parts_N)
    assert len(found) == min(num_parts, case.num_nodes)
    assert not len(found) or (found[0] >= 0 and found[-1] < num_parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", CANDIDATES)
def test_shares_follow_speed_and_a_seed_repeats(method: str, tmp_path: Path) -> None:
    """Guards against equal parts for unequal ranks, and against parts that differ from run to run."""
    chunk = random_edges(np.random.default_rng(3), 2000, 8000)
    case = Case(chunk, 2000, np.array([0.8, 0.8, 0.3, 0.1]))
    first = parts_of(method, case, tmp_path)
    assert np.array_equal(first, parts_of(method, case, tmp_path))
    found_P = np.bincount(first, minlength=4) / 2000
    assert (found_P <= case.shares_P * 1.06 + 1 / 2000).all(), found_P


@pytest.mark.parametrize("method", [name for name in CANDIDATES if name not in ("ldg", "random")])
def test_a_library_gets_the_graph_unscrambled(method: str, tmp_path: Path) -> None:
    """Guards against rows, columns or weights that reach a library shifted: on a ring of cliques the cut is known."""
    chunk, num_nodes = ring_of_cliques(8, 20)
    case = Case(chunk, num_nodes, np.ones(4))
    parts_N = parts_of(method, case, tmp_path)
    matrix = case.matrix
    rows = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
    assert int((parts_N[rows] != parts_N[matrix.indices]).sum()) == 4


@pytest.mark.parametrize(
    "method", ["metis", "metis-recursive", "metis-balanced", "metis-hierarchical", "mtkahypar", "kaminpar"]
)
def test_edge_weights_count(method: str, tmp_path: Path) -> None:
    """Guards against weights that a library never sees: a ring of four rows is cut where its edges are one-way."""
    columns, rows = 160, 4
    node = np.arange(rows)[:, None] + rows * np.arange(columns)
    onward = np.roll(node, -1, axis=1)
    one_way = np.arange(columns) % 40 == 17
    pairs = [(node, onward), (onward[:, ~one_way], node[:, ~one_way]), (node[:-1], node[1:]), (node[1:], node[:-1])]
    src, dst = (np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1))
    case = Case(EdgeChunk(src, dst), rows * columns, np.ones(4))
    clean = case.clean
    assert clean.data is not None
    parts_N = parts_of(method, case, tmp_path)
    ends = np.repeat(np.arange(clean.num_rows), np.diff(clean.indptr)), clean.indices
    cut = parts_N[ends[0]] != parts_N[ends[1]]
    # Four cuts through four one-way edges; through edges both ways they cost twice as much.
    assert clean.data[cut].sum() / 2 <= 1.5 * 16


def test_huge_edge_counts_do_not_overflow(tmp_path: Path) -> None:
    """Guards against sums of weights beyond the integers of a library, which turn negative there."""
    case = Case(random_edges(np.random.default_rng(5), 300, 1500), 300, np.ones(4))
    clean = case.clean
    huge = np.where(np.arange(clean.num_edges) % 2 == 0, 1e30, 3e38).astype(np.float32)
    rows = np.repeat(np.arange(300), np.diff(clean.indptr))
    symmetric = np.where((rows + clean.indices) % 2 == 0, huge[0], huge[1])
    heavy = Csr(indptr=clean.indptr, indices=clean.indices, data=symmetric, num_sources=300)
    for method in ("metis", "metis-balanced", "metis-recursive"):
        parts_N = assign(method, heavy, shares_P=case.shares_P, request=REQUEST, scratch=tmp_path)
        assert np.bincount(parts_N, minlength=4).min() > 0
        degree_N = np.full(300, 2**62)
        parts_N = assign(method, clean, shares_P=case.shares_P, request=REQUEST, scratch=tmp_path, in_degree_N=degree_N)
        assert np.bincount(parts_N, minlength=4).min() > 60


def test_training_nodes_are_balanced_where_they_are_known(tmp_path: Path) -> None:
    """Guards against training nodes that all lie on one rank, when they all lie in one half of the graph."""
    chunk, num_nodes = ring_of_cliques(40, 25)
    case = Case(chunk, num_nodes, np.ones(4))
    train_mask = np.arange(num_nodes) < num_nodes // 2
    parts_N = assign(
        "metis-balanced",
        case.clean,
        shares_P=case.shares_P,
        request=REQUEST,
        scratch=tmp_path,
        in_degree_N=case.in_degree_N,
        train_mask=train_mask,
    )
    training_P = np.bincount(parts_N[train_mask], minlength=4)
    assert training_P.max() <= 1.10 * train_mask.sum() / 4 + 1
    without = assign("metis-balanced", case.clean, shares_P=case.shares_P, request=REQUEST, scratch=tmp_path)
    assert np.bincount(without[train_mask], minlength=4).max() > 1.5 * train_mask.sum() / 4


def test_isolated_nodes_even_out_what_a_method_left(tmp_path: Path) -> None:
    """Guards against a balance of nodes that counts only those with neighbours."""
    case = Case(random_edges(np.random.default_rng(2), 1000, 8000), 2000, np.array([1.0, 2.0, 1.0, 1.0]))
    parts_N = parts_of("metis-balanced", case, tmp_path)
    found_P = np.bincount(parts_N, minlength=4)
    assert (np.abs(found_P - 2000 * case.shares_P) <= 1).all(), found_P


def test_every_method_that_can_be_asked_for_is_there() -> None:
    """Guards against a --method that is accepted and then not found."""
    assert set(METHODS) - {"auto"} <= set(CANDIDATES)
    assert all(method.name == name for name, method in CANDIDATES.items())


@pytest.mark.parametrize("method", CANDIDATES)
def test_memory_grows_with_the_graph(method: str) -> None:
    """Guards against an expectation that does not depend on what it is for."""
    expected = CANDIDATES[method].expected_bytes
    assert 0 < expected(1000, 10_000) < expected(10**6, 10**7)


def test_a_topology_of_other_ranks_is_refused(tmp_path: Path) -> None:
    """Guards against a hierarchy of eight ranks for four parts."""
    clean = csr_of(edges([0], [1]), 2)
    with pytest.raises(PartitionError, match="4 parts do not match the 8 ranks of flat-8"):
        assign("metis", clean, shares_P=np.full(4, 0.25), request=REQUEST, scratch=tmp_path, topology=Topology.flat(8))


def test_a_hierarchy_needs_a_topology_with_levels() -> None:
    """Guards against the same partition being made twice under two names."""
    hierarchical = CANDIDATES["metis-hierarchical"]
    assert hierarchical.needs(4, None) == "it follows a topology, and there is none"
    assert "all links of the topology are alike" in str(hierarchical.needs(4, Topology.flat(4)))
    assert hierarchical.needs(4, HOSTILE["star"].topology) is None
