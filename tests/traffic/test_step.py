"""The predicted step: by hand, against a slow count, and as candidates are ranked by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.topology import Topology
from graphprep.topology.gpu_specs import gpu_called
from graphprep.traffic import EDGE_COST, NODE_COST, RowSeconds, StepModel, Traffic, assess, count_traffic, link_seconds
from tests.traffic.slow import Case, cases, slow_rows_and_edges

SECONDS = RowSeconds(edge=1.0, node=10.0, packing=2.0, unpacking=3.0)
TRAFFIC = Traffic(
    rows_PP=np.array([[0, 4], [1, 0]]), edges_PP=np.array([[0, 6], [5, 0]]), local_edges_P=np.array([100, 20])
)


def with_ranks(topology: Topology, **values: list[object]) -> Topology:
    """The topology with these fields of its ranks."""
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return replace(
        topology,
        ranks=tuple(replace(rank, **row) for rank, row in zip(topology.ranks, rows, strict=True)),  # type: ignore[arg-type]
    )


def test_what_overlaps_and_what_does_not_by_hand() -> None:
    """Guards against an exchange that is added to the local product, and against a rank that waits for no other."""
    model = StepModel.of(Topology.flat(2), 1024, SECONDS)
    short = model.step(TRAFFIC, np.array([3, 2]), 30.0)
    # rank 0: nodes 30, packing 8, then 100 of local edges, unpacking 3, halo 5; rank 1: 20, 2, 20, 12, 6
    assert short.seconds == 30 + 8 + 100 + 3 + 5
    assert short.seconds_without_links == short.seconds
    long = model.step(TRAFFIC, np.array([3, 2]), 200.0)
    # both ranks get their halo 200 after rank 0, the slower one, has packed; rank 1 has more to unpack
    assert long.seconds == 30 + 8 + 200 + 12 + 6
    edges = model.step(TRAFFIC, np.array([3, 2]), 200.0, balance="edges")
    assert (edges.packing_P.tolist(), edges.unpacking_P.tolist()) == ([12, 10], [15, 18])


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 4096))
def test_a_step_equals_a_slow_count(case: Case, row_bytes: int) -> None:
    """Guards against rows that are counted at the wrong end, and against figures of ranks that are not the step's."""
    topology = Topology.flat(case.num_parts)
    rows, edges = slow_rows_and_edges(case)
    quality = assess(case.csrs, case.assignments, topology, row_bytes=row_bytes)
    width, parts = row_bytes / 4, range(case.num_parts)
    node = max(2 * width**2 / 13e12, 2 * row_bytes / 1e12)
    edge, copy = (row_bytes + 8) / 1e12, 2 * row_bytes / 1e12
    before = [rank.nodes * node + sum(rows[rank.rank]) * copy for rank in quality.ranks]
    local = [edges[p][p] * edge for p in parts]
    after = [sum(line[p] for line in rows) * copy for p in parts]
    halo = [sum(edges[q][p] for q in parts if q != p) * edge for p in parts]
    arrived = max(before) + quality.bottleneck_seconds
    expected = max(max(arrived, before[p] + local[p]) + after[p] + halo[p] for p in parts)
    assert quality.step_seconds == pytest.approx(expected, rel=1e-12)
    for rank in quality.ranks:
        assert rank.sent_rows == sum(rows[rank.rank])
        assert rank.node_seconds + rank.packing_seconds == pytest.approx(before[rank.rank])
        assert rank.local_seconds == pytest.approx(local[rank.rank])
        assert rank.unpacking_seconds == pytest.approx(after[rank.rank])
        assert rank.halo_seconds == pytest.approx(halo[rank.rank])


def test_every_halo_row_costs_both_ends() -> None:
    """Guards against halo rows over an idle link that seem to cost nothing."""
    more = replace(TRAFFIC, rows_PP=np.array([[0, 6], [1, 0]]))
    model = StepModel.of(Topology.flat(2), 1024)
    before, after = (model.step(each, np.array([3, 2]), 1e-3) for each in (TRAFFIC, more))
    assert after.seconds > before.seconds
    assert after.packing_P[0] > before.packing_P[0]
    assert after.unpacking_P[1] > before.unpacking_P[1]


def test_rates_are_those_of_the_gpus_that_a_topology_names() -> None:
    """Guards against an H100 that is as slow as a T4, and against a speed that is counted twice."""
    topology = with_ranks(Topology.flat(4), gpu=["NVIDIA H100 80GB HBM3", "T4", "T4", "Abacus"], speed=[5, 1, 0.5, 0.5])
    model = StepModel.of(topology, 1024)
    t4 = gpu_called("T4", where="here")
    assert model.edge_P[1] == pytest.approx(1032 / (t4.gbytes_per_s * 1e9 * 0.5))
    assert model.edge_P[2] == pytest.approx(2 * model.edge_P[1])
    assert model.edge_P[1] / model.edge_P[0] == pytest.approx(3350 / 300)
    assert model.edge_P[3] == pytest.approx(2 * 1032 / 1e12)


def test_measured_rates_hold_for_the_fastest_rank() -> None:
    """Guards against published rates beside measured ones, and a speed that is not relative to the fastest rank."""
    model = StepModel.of(with_ranks(Topology.flat(2), gpu=["T4", "A100"], speed=[2, 4]), 1024, SECONDS)
    assert model.edge_P.tolist() == [2.0, 1.0]
    assert model.node_P.tolist() == [20.0, 10.0]


def test_unknown_devices_take_what_the_balance_of_work_counts() -> None:
    """Guards against a step that contradicts the weights of edges and nodes in the limits on work."""
    seconds = RowSeconds.of_gpu(None, 1024)
    assert seconds.edge == pytest.approx(EDGE_COST * 1e-9, rel=0.05)
    assert seconds.node == pytest.approx(NODE_COST * 1e-9, rel=0.05)
    narrow = RowSeconds.of_gpu(None, 4)
    assert narrow.node == pytest.approx(8 / 1e12)  # too narrow for operations to matter


@settings(max_examples=30, deadline=None)
@given(cases())
def test_no_step_is_shorter_than_its_slowest_link(case: Case) -> None:
    """Guards against an overlap that hides the links themselves."""
    topology = Topology.flat(case.num_parts)
    traffic = count_traffic(case.csrs, case.assignments, case.num_parts)
    quality = assess(case.csrs, case.assignments, topology, traffic=traffic)
    assert quality.step_seconds >= link_seconds(traffic, topology, 1024).bottleneck_seconds
