"""Link seconds by hand on the design's example, and against a slow count on random traffic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.errors import PartitionError
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel, Traffic, epoch_seconds, link_seconds
from tests.topology.forms import LONG
from tests.traffic.slow import slow_seconds

TOPOLOGIES = [Topology.from_text(LONG), Topology.flat(1), Topology.flat(3), resolve("2x2"), resolve("dgx-1-v100")]


def traffic_of(rows: list[list[int]], edges: list[list[int]] | None = None) -> Traffic:
    rows_PP = np.array(rows, np.int64)
    edges_PP = rows_PP * 3 if edges is None else np.array(edges, np.int64)
    return Traffic(rows_PP=rows_PP, edges_PP=edges_PP, local_edges_P=np.zeros(len(rows), np.int64))


DESIGN = traffic_of([[0, 100, 40], [7, 0, 0], [0, 60, 0]])
"""gpu0 sends 100 rows over NVLink and 40 over pcie0, qpi, pcie1; gpu1 sends 7 over NVLink; gpu2 sends 60 to gpu1."""


def test_the_design_s_example_by_hand() -> None:
    """Guards against any change of the formula: bytes over bandwidth, plus one latency a message."""
    loads = link_seconds(DESIGN, TOPOLOGIES[0], 1024)
    us = 1e-6
    expected = [
        100 * 1024 / 25e9 + 2 * us,  # gpu0->gpu1
        7 * 1024 / 25e9 + 2 * us,  # gpu1->gpu0
        40 * 1024 / 12e9 + 3 * us,  # gpu0->pcie0
        0.0,  # pcie0->gpu0
        0.0,  # gpu1->pcie0
        60 * 1024 / 12e9 + 3 * us,  # pcie0->gpu1
        60 * 1024 / 12e9 + 3 * us,  # gpu2->pcie1
        40 * 1024 / 12e9 + 3 * us,  # pcie1->gpu2
        40 * 1024 / 10e9 + 3 * us,  # pcie0->pcie1
        60 * 1024 / 10e9 + 3 * us,  # pcie1->pcie0
    ]
    assert loads.seconds_D == pytest.approx(expected, rel=1e-12)
    assert loads.rows_D.tolist() == [100, 7, 40, 0, 0, 60, 60, 40, 40, 60]
    assert loads.edges_D.tolist() == [300, 21, 120, 0, 0, 180, 180, 120, 120, 180]
    assert loads.bytes_D.tolist() == [1024 * rows for rows in loads.rows_D.tolist()]
    assert loads.messages_D.tolist() == [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
    assert loads.bottleneck_seconds == pytest.approx(60 * 1024 / 10e9 + 3 * us, rel=1e-12)
    assert loads.sum_seconds == pytest.approx(sum(expected), rel=1e-12)


def test_link_types_of_the_design_s_example_by_hand() -> None:
    """Guards against a mean over idle links that no route uses, and rows counted at every link of their path."""
    nvlink, pcie, qpi = link_seconds(DESIGN, TOPOLOGIES[0], 1024).types
    assert [nvlink.type, pcie.type, qpi.type] == ["nvlink", "pcie", "qpi"]
    assert (nvlink.rows, nvlink.edges) == (107, 321)
    assert (pcie.rows, pcie.edges) == (100, 300)
    assert (qpi.rows, qpi.edges) == (100, 300)
    large, small = 60 * 1024 / 12e9 + 3e-6, 40 * 1024 / 12e9 + 3e-6
    assert pcie.seconds_max == pytest.approx(large, rel=1e-12)
    assert pcie.seconds_mean == pytest.approx((2 * large + 2 * small) / 6, rel=1e-12)
    assert pcie.imbalance == pytest.approx(large / ((2 * large + 2 * small) / 6), rel=1e-12)


def test_balance_by_edges_counts_edges_in_seconds_and_bytes() -> None:
    """Guards against an option that changes the report and not what is minimised."""
    by_rows, by_edges = (link_seconds(DESIGN, TOPOLOGIES[0], 1024, balance=b) for b in ("rows", "edges"))
    assert by_edges.seconds_D[0] == pytest.approx(300 * 1024 / 25e9 + 2e-6, rel=1e-12)
    assert by_edges.bytes_D[0] == 300 * 1024
    assert np.array_equal(by_rows.rows_D, by_edges.rows_D)
    assert np.array_equal(by_rows.messages_D, by_edges.messages_D)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_seconds_equal_a_slow_count(data: st.DataObject) -> None:
    """Guards against a wrong pair number, direction or route in the sparse product."""
    topology = data.draw(st.sampled_from(TOPOLOGIES))
    parts = range(topology.num_ranks)
    counts = st.integers(0, 3) | st.integers(0, 10**9)
    rows = [[data.draw(counts) if p != q else 0 for q in parts] for p in parts]
    row_bytes = data.draw(st.integers(1, 4096))
    loads = link_seconds(traffic_of(rows), topology, row_bytes)
    expected = slow_seconds(rows, topology, row_bytes)
    assert loads.seconds_D == pytest.approx(list(expected.values()), rel=1e-9)
    for type_load in loads.types:
        on_type = [d for d, (link, _) in enumerate(expected) if topology.links[link].type == type_load.type]
        pairs = [(p, q) for p in parts for q in parts]
        used = {(hop.link, hop.direction) for p, q in pairs for hop in topology.routes[p][q]}
        seconds = [expected[divmod(d, 2)] for d in on_type if divmod(d, 2) in used]
        crossing = [
            rows[p][q]
            for p, q in pairs
            if any(topology.links[h.link].type == type_load.type for h in topology.routes[p][q])
        ]
        assert type_load.rows == sum(crossing)
        assert type_load.edges == 3 * sum(crossing)
        assert type_load.seconds_max == pytest.approx(max(seconds, default=0.0), rel=1e-9)
        mean = sum(seconds) / len(seconds) if seconds else 0.0
        assert type_load.imbalance == pytest.approx(type_load.seconds_max / mean if mean else 1.0, rel=1e-9)


def test_nothing_to_send_takes_no_time_and_is_even() -> None:
    """Guards against 0/0 in an idle link type and against latency that is paid for no message."""
    loads = link_seconds(traffic_of([[0] * 8] * 8), TOPOLOGIES[4], 1024)
    assert loads.bottleneck_seconds == loads.sum_seconds == 0.0
    assert {load.imbalance for load in loads.types} == {1.0}


def test_one_rank_without_links() -> None:
    """Guards against reductions over nothing."""
    topology = Topology.from_text("name: alone\nranks: [{name: gpu0, machine: m0}]\n")
    loads = link_seconds(traffic_of([[0]]), topology, 1024)
    assert (loads.bottleneck_seconds, loads.types) == (0.0, ())
    assert epoch_seconds(traffic_of([[0]]), topology, [1024, 512]) == 0.0


def test_an_epoch_goes_back_through_all_layers_but_the_first() -> None:
    """Guards against a backward exchange of layer 1, and a backward exchange over the forward direction."""
    topology = Topology.from_text(LONG)
    traffic = traffic_of([[0, 1000, 0], [0, 0, 0], [0, 0, 0]])

    def exchange(row_bytes: int) -> float:
        return 1000 * row_bytes / 25e9 + 2e-6

    assert epoch_seconds(traffic, topology, [400]) == pytest.approx(exchange(400))
    expected = exchange(400) + 2 * exchange(64) + 2 * exchange(28)
    assert epoch_seconds(traffic, topology, [400, 64, 28]) == pytest.approx(expected)
    kept = 2 * exchange(64)
    assert epoch_seconds(traffic, topology, [0, 64]) == pytest.approx(kept)
    assert epoch_seconds(traffic, topology, [0, 64], start_seconds=0.5) == pytest.approx(kept + 2 * 0.5)
    assert epoch_seconds(traffic_of([[0] * 3] * 3), topology, [0, 64], start_seconds=0.5) == 0
    by_edges = 3000 * 400 / 25e9 + 2e-6
    assert epoch_seconds(traffic, topology, [400], balance="edges") == pytest.approx(by_edges)


def test_the_way_back_takes_its_own_route() -> None:
    """Guards against backward seconds computed on the forward routes where `routes` makes them differ."""
    text = LONG.replace("routes: {", 'routes: {"gpu1->gpu0": [gpu1, pcie0, gpu0], "gpu0->gpu1": [gpu0, gpu1], ')
    traffic = traffic_of([[0, 1000, 0], [0, 0, 0], [0, 0, 0]])
    expected = (0 / 1) + (1000 * 8 / 25e9 + 2e-6) + (1000 * 8 / 12e9 + 3e-6)
    assert epoch_seconds(traffic, Topology.from_text(text), [0, 8]) == pytest.approx(expected)


def test_as_many_parts_as_ranks() -> None:
    """Guards against traffic laid silently on another topology's pairs."""
    with pytest.raises(PartitionError, match="3 parts cannot be placed on a topology of 4 ranks"):
        link_seconds(DESIGN, Topology.flat(4), 1024)


def test_a_kept_model_gives_the_same_seconds() -> None:
    """Guards against a refinement that optimises other seconds than those that are reported."""
    model = LinkModel.of(TOPOLOGIES[0])
    loads = link_seconds(DESIGN, model, 512)
    assert np.array_equal(loads.seconds_D, link_seconds(DESIGN, TOPOLOGIES[0], 512).seconds_D)
    assert np.array_equal(loads.seconds_D, model.seconds(DESIGN.rows_PP, 512))
