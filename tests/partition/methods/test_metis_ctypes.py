"""METIS's own interface: its numbers are of the width that we think, and its limits hold."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import HOMOGENEOUS_NODE, Csr
from graphprep.datasets.generators.requests import RmatRequest
from graphprep.datasets.generators.rmat import generate
from graphprep.errors import PartitionError
from graphprep.partition.candidates import CANDIDATES, assign
from graphprep.partition.methods import metis_ctypes
from graphprep.partition.methods.metis_constraints import excess, partition_within
from graphprep.partition.methods.metis_ctypes import MetisGraph, MetisLibrary
from graphprep.partition.request import PartitionRequest
from tests.graphs import random_edges
from tests.partition.problems import Case

EIGHT = np.full(8, 1 / 8)


class PowerLaw(NamedTuple):
    """An R-MAT graph as METIS gets it, and whole."""

    graph: MetisGraph
    clean: Csr


@pytest.fixture(scope="module")
def power_law(tmp_path_factory: pytest.TempPathFactory) -> PowerLaw:
    """2^16 nodes, hubs of ten thousand edges, two fifths of the nodes isolated."""
    raw = generate(RmatRequest(scale=16, edges=500_000, classes=2), folder=tmp_path_factory.mktemp("rmat"))
    num_nodes = raw.nodes[HOMOGENEOUS_NODE].num_nodes
    matrix, _ = csr.from_edges(
        raw.edges[0].chunks(), num_rows=num_nodes, num_sources=num_nodes, treatment=raw.treatment, name="rmat"
    )
    clean = csr.undirected_simple(matrix)
    connected_N = np.diff(clean.indptr) > 0
    new_id_N = np.cumsum(connected_N) - 1
    xadj = np.concatenate([clean.indptr[:-1][connected_N], clean.indptr[-1:]])
    weights_NC = np.stack([np.ones(len(xadj) - 1, np.int64), np.diff(xadj)], axis=1)
    return PowerLaw(MetisGraph(xadj, new_id_N[clean.indices], None, weights_NC), clean)


def imbalance(part_N: NDArray[np.int64], weight_N: NDArray[np.int64]) -> float:
    """Greatest over mean load of 8 parts."""
    load_P = np.bincount(part_N, weights=weight_N, minlength=8)
    return float(load_P.max() / load_P.mean())


@pytest.mark.slow
def test_both_limits_hold_on_a_power_law_graph(power_law: PowerLaw) -> None:
    """Guards against limits that are handed over in the wrong width: METIS says nothing and leaves 1.88."""
    graph = power_law.graph
    part_N, cut = MetisLibrary().partition(graph, EIGHT, np.array([1.05, 1.05]), seed=0)
    nodes, in_edges = (imbalance(part_N, weight_N) for weight_N in graph.weights_NC.T)
    assert nodes <= 1.09
    assert in_edges <= 1.09
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.xadj))
    assert cut == int((part_N[rows] != part_N[graph.adjncy]).sum()) // 2
    one, _ = MetisLibrary().partition(
        graph._replace(weights_NC=graph.weights_NC[:, :1]), EIGHT, np.array([1.05]), seed=0
    )
    assert imbalance(one, graph.weights_NC[:, 1]) > 2


def test_another_width_of_reals_would_be_noticed(power_law: PowerLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a probe that accepts every width: with the wrong one, shares of a chain are not kept."""
    library = MetisLibrary()
    assert library._keeps_shares()
    right = library._real
    library._real = np.float64 if right is np.float32 else np.float32
    assert not library._keeps_shares()


@pytest.mark.slow
def test_asking_for_less_keeps_the_limits(power_law: PowerLaw) -> None:
    """Guards against limits that are overdrawn by a few per cent, which METIS alone does."""
    graph, limits_C = power_law.graph, np.array([1.05, 1.05])
    found = partition_within(MetisLibrary(), graph, EIGHT, limits_C, seed=0)
    assert found.faults == (1.0, 0)
    assert max(imbalance(found.part_N, weight_N) for weight_N in graph.weights_NC.T) <= 1.05 + 0.08


def test_excess_is_load_over_limit_with_one_node_of_slack() -> None:
    """Guards against a limit that no five nodes on two ranks could keep, and against one that everything keeps."""
    weights_NC, halves = np.ones((5, 1), np.int64), np.array([0.5, 0.5])
    assert excess(np.array([0, 0, 0, 1, 1]), weights_NC, halves, np.array([1.0])) == 1.0
    assert excess(np.array([0, 0, 0, 0, 1]), weights_NC, halves, np.array([1.0])) == pytest.approx(4 / 3.5)


@pytest.mark.slow
def test_nodes_and_in_edges_of_a_directed_power_law_graph(power_law: PowerLaw, tmp_path: Path) -> None:
    """Guards against a balance of undirected degrees that passes for one of in-edges."""
    clean = power_law.clean
    rng = np.random.default_rng(0)
    in_degree_N = (np.diff(clean.indptr) * rng.choice([0.0, 0.1, 2.0], clean.num_rows)).astype(np.int64)
    parts_N = assign(
        "metis-balanced",
        clean,
        shares_P=EIGHT,
        request=PartitionRequest(imbalance=1.05),
        scratch=tmp_path,
        in_degree_N=in_degree_N,
    )
    assert imbalance(parts_N.astype(np.int64), np.ones(clean.num_rows, np.int64)) <= 1.001
    assert imbalance(parts_N.astype(np.int64), in_degree_N) <= 1.05 + in_degree_N.max() * 8 / in_degree_N.sum()


def test_without_its_symbols_the_candidate_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards against a pymetis of another make that ends in an AttributeError."""
    monkeypatch.setattr(metis_ctypes, "FUNCTIONS", ("METIS_PartGraphKway", "METIS_PartGraphSideways"))
    reason = "pymetis's shared library does not export METIS_PartGraphSideways"
    assert CANDIDATES["metis-balanced"].needs(4, None) == reason
    assert CANDIDATES["metis-hierarchical"].needs(4, None) == reason
    assert CANDIDATES["metis"].needs(4, None) is None
    case = Case(random_edges(np.random.default_rng(0), 100, 300), 100, np.ones(4))
    with pytest.raises(PartitionError, match=f"METIS with several constraints is not available: {reason}"):
        assign("metis-balanced", case.clean, shares_P=case.shares_P, request=PartitionRequest(), scratch=tmp_path)
    monkeypatch.setattr(metis_ctypes, "LIBRARY", "pymetis.nowhere")
    assert "pymetis's shared library cannot be used: No module named" in str(metis_ctypes.missing())
