"""Relays: every row arrives once by a way that leads there, and slow links carry less, or there are no relays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.topology import Topology, resolve
from graphprep.traffic import RelayedRows, Traffic, count_traffic, epoch_seconds, link_seconds
from graphprep.traffic.links import SECONDS_A_RELAYED_MESSAGE, SECONDS_A_STAGE
from graphprep.traffic.relay import Relays, choose_relays, fault, sent_rows_of, with_relays
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges
from tests.traffic.slow import Case, cases

ROW_BYTES = 4096


def machines(text: str) -> Topology:
    return Topology.from_text(f"name: test\nmachines:\n{text}")


TWO_OF_THREE = machines("  - {count: 2, gpus: 3, pcie: {gbytes_per_s: 10}, network: {gbytes_per_s: 0.1}}\n")
UNEVEN = machines(
    "  - {count: 1, gpus: 3, pcie: {gbytes_per_s: 10}, network: {gbytes_per_s: 0.1}}\n"
    "  - {count: 1, gpus: 2, pcie: {gbytes_per_s: 10}, network: {gbytes_per_s: 0.1}}\n"
    "  - {count: 1, gpus: 1, pcie: {gbytes_per_s: 10}, network: {gbytes_per_s: 0.1}}\n"
)
THREE_STAGES = machines(
    "  - {count: 2, gpus: 4, nvlink: {gbytes_per_s: 50, pairs: [[0, 1], [2, 3]]},\n"
    "     pcie: {gbytes_per_s: 1, gpus_per_switch: 2}, network: {gbytes_per_s: 0.01}}\n"
)
TOPOLOGIES = {"2 of 3": TWO_OF_THREE, "uneven": UNEVEN, "three stages": THREE_STAGES}


def random_case(topology: Topology, *, num_nodes: int = 400, num_edges: int = 4000, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    matrix = csr_of(random_edges(rng, num_nodes, num_edges, hub=True), num_nodes)
    part_N = rng.integers(0, topology.num_ranks, num_nodes).astype(np.int32)
    return Case(
        edges={},
        csrs={HOMOGENEOUS_EDGE: matrix},
        assignments={HOMOGENEOUS_NODE: part_N},
        num_parts=topology.num_ranks,
    )


def relays_of(case: Case, topology: Topology, row_bytes: int = ROW_BYTES) -> tuple[Traffic, Relays | None]:
    traffic = count_traffic(case.csrs, case.assignments, case.num_parts)
    relays = choose_relays(sent_rows_of(case.csrs, case.assignments, case.num_parts), topology, row_bytes)
    return with_relays(traffic, relays), relays


def seconds_of_stages(topology: Topology, relayed: RelayedRows, row_bytes: int) -> float:
    """The cost model of relayed exchange once more, link by link."""
    total = 0.0
    for stage, (rows_PP, messages_PP) in enumerate(zip(relayed.rows_SPP, relayed.messages_SPP, strict=True)):
        seconds = dict.fromkeys([(link, way) for link in range(len(topology.links)) for way in (0, 1)], 0.0)
        for p in range(topology.num_ranks):
            for q in range(topology.num_ranks):
                for hop in topology.routes[p][q]:
                    link = topology.links[hop.link]
                    seconds[tuple(hop)] += rows_PP[p, q] * row_bytes / (link.gbytes_per_s * 1e9)
                    seconds[tuple(hop)] += messages_PP[p, q] * link.latency_us * 1e-6
        total += max(seconds.values())
        if stage:
            total += SECONDS_A_STAGE + messages_PP.sum(axis=1).max() * SECONDS_A_RELAYED_MESSAGE
    return total


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_what_parts_send_is_what_is_counted(case: Case) -> None:
    """Guards against a node of several edge types that is sent twice to one part, or to its own."""
    sent = sent_rows_of(case.csrs, case.assignments, case.num_parts)
    counts_PP = np.array([sent(part).counts_P for part in range(case.num_parts)])
    assert np.array_equal(counts_PP, count_traffic(case.csrs, case.assignments, case.num_parts).rows_PP)


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_every_row_arrives_once_by_a_way_that_leads_there(topology: Topology) -> None:
    """Guards against a relay that does not have what it passes on, and a row that comes twice or never."""
    case = random_case(topology)
    traffic, relays = relays_of(case, topology)
    assert relays is not None
    assert traffic.relayed is not None
    assert fault(relays, sent_rows_of(case.csrs, case.assignments, case.num_parts)) is None
    assert np.array_equal(traffic.relayed.rows_SPP.sum(axis=(0, 1)), traffic.halo_rows_P)


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_relays_make_the_exchange_faster_in_both_directions(topology: Topology) -> None:
    """Guards against relays that relieve a link forward and burden it backward, and against a cost of their own."""
    traffic, _ = relays_of(random_case(topology), topology)
    for one in (traffic, traffic.reversed()):
        loads, direct = (link_seconds(which, topology, ROW_BYTES) for which in (one, one.without_relays()))
        assert loads.bottleneck_seconds < 0.9 * direct.bottleneck_seconds
        assert one.relayed is not None
        assert loads.bottleneck_seconds == pytest.approx(seconds_of_stages(topology, one.relayed, ROW_BYTES))
    expected = 2 * link_seconds(traffic, topology, ROW_BYTES).bottleneck_seconds
    expected += link_seconds(traffic.reversed(), topology, ROW_BYTES).bottleneck_seconds
    assert epoch_seconds(traffic, topology, [ROW_BYTES, ROW_BYTES]) == pytest.approx(expected)
    assert traffic.relayed is not None
    starts = 3 * len(traffic.relayed.rows_SPP)
    begun = epoch_seconds(traffic, topology, [ROW_BYTES, ROW_BYTES], start_seconds=0.5)
    assert begun == pytest.approx(expected + 0.5 * starts)


def everywhere(num_nodes: int, topology: Topology) -> Case:
    """`num_nodes` nodes of part 0, whose rows all parts need, and one node of each other part."""
    num_parts = topology.num_ranks
    part_N = np.concatenate([np.zeros(num_nodes, np.int32), np.arange(1, num_parts, dtype=np.int32)])
    into = np.repeat(np.arange(num_nodes, num_nodes + num_parts - 1), num_nodes)
    chunk = random_edges(np.random.default_rng(0), 1, 0)
    chunk = type(chunk)(np.tile(np.arange(num_nodes), num_parts - 1), into, None)
    matrix = csr_of(chunk, len(part_N))
    return Case(edges={}, csrs={HOMOGENEOUS_EDGE: matrix}, assignments={HOMOGENEOUS_NODE: part_N}, num_parts=num_parts)


def test_a_row_crosses_the_network_once_and_relays_share_the_work() -> None:
    """Guards against a second crossing, and against one rank that passes on everything."""
    traffic, _ = relays_of(everywhere(3000, TWO_OF_THREE), TWO_OF_THREE, row_bytes=100_000)
    assert traffic.relayed is not None
    first, second = traffic.relayed.rows_SPP
    assert first[0, 3:].sum() == 3000
    assert second[3:, 3:].sum() == 6000
    assert first[0, 3:].min() > 900
    assert np.array_equal(traffic.relayed.messages_SPP[1] > 0, second > 0)


def test_a_row_takes_three_hops_where_groups_are_nested() -> None:
    """Guards against a switch between pairs that carries a row twice, for both of a pair."""
    traffic, _ = relays_of(everywhere(2000, THREE_STAGES), THREE_STAGES, row_bytes=100_000)
    assert traffic.relayed is not None
    between_machines, between_pairs, inside = traffic.relayed.rows_SPP
    assert between_machines[0, 4:].sum() == 2000
    assert between_pairs[4:6, 6:].sum() + between_pairs[6:, 4:6].sum() == 2000
    assert between_pairs[4:6, 4:6].sum() + between_pairs[6:, 6:].sum() == 2000
    assert inside.sum() >= 2000
    assert traffic.relayed.rows_SPP.sum() == 7 * 2000


def test_without_groups_or_gain_there_are_no_relays() -> None:
    """Guards against a detour over links that are as slow, and messages that take longer than what they save."""
    for topology in (Topology.flat(6), resolve("dgx-h100"), Topology.flat(1)):
        assert relays_of(random_case(topology), topology)[1] is None
    alone = machines("  - {count: 4, gpus: 1, pcie: {gbytes_per_s: 10}, network: {gbytes_per_s: 0.1}}\n")
    assert relays_of(random_case(alone), alone)[1] is None
    assert relays_of(random_case(TWO_OF_THREE), TWO_OF_THREE, row_bytes=4)[1] is None


def counts_of(relays: Relays) -> list[NDArray[np.int64]]:
    return [relays.traffic.rows_SPP, relays.traffic.messages_SPP]


def test_the_same_rows_get_the_same_relays() -> None:
    """Guards against a choice that depends on anything but its arguments: it is part of a cache's content."""
    case = random_case(THREE_STAGES, seed=3)
    one, other = (relays_of(case, THREE_STAGES)[1] for _ in range(2))
    assert one is not None
    assert other is not None
    for found, again in zip(
        [*counts_of(one), *one.via, *one.stage], [*counts_of(other), *other.via, *other.stage], strict=True
    ):
        assert np.array_equal(found, again)


def test_faults_are_found() -> None:
    """Guards against a check that passes ways which end nowhere, or counts that are of other ways."""
    case = random_case(TWO_OF_THREE)
    sent = sent_rows_of(case.csrs, case.assignments, case.num_parts)
    _, relays = relays_of(case, TWO_OF_THREE)
    assert relays is not None
    place = int(np.flatnonzero(relays.stage[0] == 2)[0])
    relay = int(relays.via[0][place])
    for via, stage, words in ((0, 1, "counted"), (0, 2, "later from its owner"), (1, 2, "does not have it")):
        relays.via[0][place], relays.stage[0][place] = via, stage
        assert words in str(fault(relays, sent))
    relays.via[0][place], relays.stage[0][place] = relay, 2
    relays.traffic.messages_SPP[1, 3, 4] += 1
    assert "messages" in str(fault(relays, sent))


def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against a stack or a list of members that is one entry too short."""
    bounds_checked(
        "from tests.traffic.test_relay import TOPOLOGIES, random_case, relays_of\n"
        "for topology in TOPOLOGIES.values():\n"
        "    assert relays_of(random_case(topology), topology)[1] is not None\n"
    )
