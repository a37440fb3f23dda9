"""Nets cost what the cost model counts, on the graph's own nodes and on coarse ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.partition.refine.hypergraph import Hypergraph, contract, edge_nets, renumbered, row_nets
from graphprep.traffic import count_traffic
from tests.graphs import csr_of, random_edges


def cost_PP(nets: Hypergraph, part_X: NDArray[np.int32], num_parts: int) -> NDArray[np.int64]:
    """What a net costs, net by net."""
    found = np.zeros((num_parts, num_parts), np.int64)
    root_M = nets.root_M()
    for net in range(nets.num_nets):
        home = part_X[root_M[net]]
        pins = nets.pins[nets.pin_ptr[net] : nets.pin_ptr[net + 1]]
        assert root_M[net] not in pins
        assert len(set(pins.tolist())) == len(pins)
        for part in set(part_X[pins].tolist()) - {int(home)}:
            found[home, part] += nets.weight_M[net]
    return found


def drawn(size: tuple[int, int, int]) -> tuple[Csr, np.random.Generator]:
    num_nodes, num_edges, seed = size
    rng = np.random.default_rng(seed)
    return csr_of(random_edges(rng, num_nodes, num_edges, weighted=False), num_nodes), rng


sizes = st.tuples(st.integers(1, 30), st.integers(0, 120), st.integers(0, 2**32 - 1))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 5), st.integers(1, 8))
def test_nets_count_what_traffic_counts(size: tuple[int, int, int], num_parts: int, num_coarse: int) -> None:
    """Guards against a refinement that lowers another cost than the one that is judged; coarse levels included."""
    matrix, rng = drawn(size)
    coarse_X = rng.integers(0, num_coarse, matrix.num_rows).astype(np.int32)
    part_of_coarse = rng.integers(0, num_parts, num_coarse).astype(np.int32)
    part_N = part_of_coarse[coarse_X]
    traffic = count_traffic({HOMOGENEOUS_EDGE: matrix}, {HOMOGENEOUS_NODE: part_N}, num_parts)
    for nets, expected_PP in ((row_nets(matrix), traffic.rows_PP), (edge_nets(matrix), traffic.edges_PP)):
        assert np.array_equal(cost_PP(nets, part_N, num_parts), expected_PP)
        coarse = contract(nets, coarse_X, num_coarse)
        assert coarse.num_nodes == num_coarse
        assert np.array_equal(cost_PP(coarse, part_of_coarse, num_parts), expected_PP)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(sizes)
def test_a_node_knows_the_nets_that_it_is_a_pin_of(size: tuple[int, int, int]) -> None:
    """Guards against moves that change nets of other nodes."""
    matrix, _ = drawn(size)
    clean = csr.undirected_simple(matrix)
    for nets in (row_nets(matrix), edge_nets(matrix), row_nets(clean, clean)):
        pins = {
            (int(pin), net) for net in range(nets.num_nets) for pin in nets.pins[slice(*nets.pin_ptr[net : net + 2])]
        }
        inc_ptr, inc = nets.incidence()
        found = {(node, int(net)) for node in range(nets.num_nodes) for net in inc[slice(*inc_ptr[node : node + 2])]}
        assert found == pins


def test_an_undirected_graph_shares_its_arrays() -> None:
    """Guards against twice the memory where sources and destinations are the same."""
    matrix, _ = drawn((20, 80, 3))
    clean = csr.undirected_simple(matrix)
    shared, own = row_nets(clean, clean), row_nets(clean)
    assert np.shares_memory(shared.pins, clean.indices)
    assert shared.incidence().inc is shared.pins
    for name in ("first_X", "weight_M", "pin_ptr", "pins"):
        assert np.array_equal(getattr(shared, name), getattr(own, name))
    for one, other in zip(shared.incidence(), own.incidence(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(sizes, st.integers(1, 5))
def test_renumbered_nets_are_the_same_nets(size: tuple[int, int, int], num_parts: int) -> None:
    """Guards against nets that are laid together and then cost something else, or pins out of order where shared."""
    matrix, rng = drawn(size)
    clean = csr.undirected_simple(matrix)
    order_X = rng.permutation(matrix.num_rows)
    part_N = rng.integers(0, num_parts, matrix.num_rows).astype(np.int32)
    for nets in (row_nets(matrix), edge_nets(matrix), row_nets(clean, clean)):
        found = renumbered(nets, order_X)
        assert np.array_equal(cost_PP(found, part_N[order_X], num_parts), cost_PP(nets, part_N, num_parts))
        assert np.array_equal(np.bincount(found.incidence().inc, minlength=found.num_nets), np.diff(found.pin_ptr))
        if found.is_mirrored:
            assert csr.fault(Csr(indptr=found.pin_ptr, indices=found.pins, num_sources=found.num_nodes)) is None


@pytest.mark.slow
def test_offsets_are_as_wide_as_pins_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against offsets that wrap around in graphs of more than 2^31 edges, and against other nets there."""
    matrix, rng = drawn((25, 100, 7))
    coarse_X = rng.integers(0, 5, 25).astype(np.int32)
    clean = csr.undirected_simple(matrix)
    ways = (lambda: row_nets(matrix), lambda: edge_nets(matrix), lambda: row_nets(clean, clean))
    narrow = [(way(), contract(renumbered(way(), np.arange(25)[::-1]), coarse_X, 5)) for way in ways]
    monkeypatch.setattr("graphprep.core.csr.INT32_LIMIT", 10)
    for way, before in zip(ways, narrow, strict=True):
        after = (way(), contract(renumbered(way(), np.arange(25)[::-1]), coarse_X, 5))
        for one, other in zip(before, after, strict=True):
            assert (one.pin_ptr.dtype, other.pin_ptr.dtype) == (np.int32, np.int64)
            for name in ("first_X", "weight_M", "pin_ptr", "pins"):
                assert np.array_equal(getattr(one, name), getattr(other, name))


def test_equal_nets_become_one() -> None:
    """Guards against coarse levels that are as large as the graph: 2 cliques drawn to 2 nodes have 2 nets."""
    src = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2])
    dst = np.array([1, 2, 0, 4, 5, 3, 3, 4, 5])
    nets = contract(row_nets(csr_of_edges(src, dst, 6)), np.array([0, 0, 0, 1, 1, 1], np.int32), 2)
    assert nets.num_nets == 1  # three equal nets from the first clique to the second
    assert nets.weight_M.tolist() == [3]
    assert nets.pins.tolist() == [1]


def csr_of_edges(src: NDArray[np.int64], dst: NDArray[np.int64], num_nodes: int) -> Csr:
    from graphprep.core.types import EdgeChunk

    return csr_of(EdgeChunk(src, dst), num_nodes)
