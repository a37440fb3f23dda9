"""Known networks, measured with noise: what is inferred must behave like them."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from graphprep.topology import Rank, Topology, resolve
from graphprep.topology.probe.build import build
from graphprep.topology.probe.survey import Survey, survey
from tests.topology.probe.simulated import Simulated, fair_rates


def network(name: str, machines: Iterable[int], links: Iterable[tuple[str, str, float]]) -> Topology:
    """Ranks g0, g1 ... on the machines of these numbers; every other end of a link is a switch."""
    links = list(links)
    ranks = [f"  - {{name: g{rank}, machine: m{machine}}}" for rank, machine in enumerate(machines)]
    switches = sorted({end for a, b, _ in links for end in (a, b) if not end.startswith("g")})
    lines = [f"  - {{ends: [{a}, {b}], type: t, gbytes_per_s: {rate}, latency_us: 5}}" for a, b, rate in links]
    text = "\n".join([f"name: {name}", "ranks:", *ranks, f"switches: [{', '.join(switches)}]", "links:", *lines])
    return Topology.from_text(text)


CABLES = network(
    "cables",
    [0] * 4,
    [*((f"g{a}", f"g{b}", 100) for a in range(4) for b in range(a)), *((f"g{a}", "s", 24) for a in range(4))],
)
NIC_A_GPU = network(
    "nic-a-gpu",
    [0] * 4 + [1] * 4,
    [*((f"g{a}", f"s{a // 4}", 200) for a in range(8)), *((f"g{a}", "net", 25) for a in range(8))],
)
RACKS = network(
    "racks",
    [0, 0, 1, 1, 2, 2, 3, 3],
    [
        *((f"g{a}", f"h{a // 2}", 12) for a in range(8)),
        *((f"h{h}", f"r{h // 2}", 3) for h in range(4)),
        ("r0", "r1", 3),
    ],
)
UNEVEN = network(
    "uneven", [0, 0, 0, 1], [("g0", "h", 20), ("g1", "h", 10), ("g2", "h", 10), ("h", "net", 6), ("g3", "net", 2)]
)
SMALL = [resolve(name) for name in ("2x2", "workstation-2", "workstation-4", "dgx-a100")]
KNOWN = [
    *SMALL, Topology.flat(3), Topology.flat(6), CABLES, NIC_A_GPU, RACKS, UNEVEN,
    *(resolve(name) for name in ("2x4", "2x4-10gbe", "2x4-ib-ndr", "4x8", "dgx-1-v100", "p3.16xlarge", "pcie-8")),
]  # fmt: skip


def surveyed(truth: Topology, *, noise: float = 0.0, most_trials: int | None = None) -> tuple[Survey, Topology]:
    """A survey of a known network, and the topology that is made of it."""
    hosts = {rank: truth.ranks[rank].machine for rank in range(truth.num_ranks)}
    found = survey(hosts, Simulated(truth, noise=noise, most_trials=most_trials))
    ranks = [Rank(name=rank.name, machine=rank.machine) for rank in truth.ranks]
    return found, build(found, ranks, name="found")


def worst_error(truth: Topology, found: Topology) -> float:
    """Of the speed of every pair alone, and of the slowest of several disjoint pairs at once; relative."""
    num_ranks, dice = truth.num_ranks, random.Random(1)
    sets = [[(p, q)] for p in range(num_ranks) for q in range(p + 1, num_ranks)]
    for _ in range(60):
        order = dice.sample(range(num_ranks), num_ranks)
        pairs = [(min(pair), max(pair)) for pair in zip(order[::2], order[1::2], strict=False)]
        sets.append(pairs[: dice.randint(1, len(pairs))])
    errors = (min(fair_rates(found, pairs)) / min(fair_rates(truth, pairs)) - 1 for pairs in sets)
    return max(map(abs, errors))


@pytest.mark.parametrize("truth", KNOWN, ids=lambda truth: truth.name)
def test_exact_figures_give_a_network_that_behaves_the_same(truth: Topology) -> None:
    """Guards against shared links that are missed or made up: the latter slow pairs down that are fast together."""
    _, found = surveyed(truth)
    assert worst_error(truth, found) < (0.08 if "v100" in truth.name else 0.02)
    assert Topology.from_text(found.to_yaml()) == found


@pytest.mark.parametrize("truth", KNOWN, ids=lambda truth: truth.name)
def test_noise_of_five_per_cent_does_no_more_harm_than_that(truth: Topology) -> None:
    """Guards against noise that is taken for a switch, and against the largest of many figures standing for all."""
    _, found = surveyed(truth, noise=0.05)
    assert worst_error(truth, found) < 0.17


def test_the_cube_mesh_is_found_with_its_switches() -> None:
    """Guards against NVLinks that are taken for switches, and PCIe switches that nobody sees behind them."""
    truth = resolve("dgx-1-v100")
    seen, found = surveyed(truth, noise=0.03)
    mesh = [link for link in truth.links if link.type == "nvlink"]
    assert seen.direct == {tuple(truth.nodes[end] for end in link.ends) for link in mesh}
    direct = {link.ends: link.gbytes_per_s for link in found.links if link.type == "direct"}
    assert direct == {link.ends: pytest.approx(link.gbytes_per_s, rel=0.15) for link in mesh}
    assert {frozenset((2 * pair, 2 * pair + 1)) for pair in range(4)} <= set(seen.tree.groups)
    assert frozenset(range(4, 8)) in seen.tree.groups
    sockets = [link.gbytes_per_s for link in found.links if link.type == "uplink"]
    assert max(sockets) == pytest.approx(19.2, rel=0.1)


def test_hosts_are_groups_and_share_the_network() -> None:
    """Guards against a machine boundary that looks like a port of each rank."""
    _, found = surveyed(resolve("2x4"))
    network_links = {link.ends: link.gbytes_per_s for link in found.links if link.type == "network"}
    assert network_links == {("m0.host", "net"): 12.5, ("m1.host", "net"): 12.5}


def test_a_nic_a_gpu_is_no_shared_link() -> None:
    """Guards against rails that are put together as one fat cable, from which one pair alone would get all."""
    _, found = surveyed(NIC_A_GPU)
    assert sum(link.type == "network" for link in found.links) == 8
    assert {link.gbytes_per_s for link in found.links if link.type == "network"} == {25.0}


def test_racks_are_found_without_being_told() -> None:
    """Guards against sharing that is looked for inside of machines only."""
    seen, _ = surveyed(RACKS)
    assert seen.tree.groups[-1] in (frozenset(range(4)), frozenset(range(4, 8)))


def test_latencies_add_up_to_those_of_the_pairs() -> None:
    """Guards against a latency that is counted once a link, or all of it on one of two equal links."""
    _, found = surveyed(Topology.flat(4))
    assert [link.latency_us for link in found.links] == [pytest.approx(10, abs=0.05)] * 4
    truth = resolve("2x4")
    _, found = surveyed(truth)
    for p in range(8):
        for q in range(p + 1, 8):
            wanted, got = (
                sum(topology.links[hop.link].latency_us for hop in topology.routes[p][q]) for topology in (truth, found)
            )
            assert got == pytest.approx(wanted, rel=0.05)


class Busy(Simulated):
    """Ranks of one processor: all that run at once share it, whoever sends to whom."""

    def together(self, groups, *, share, purpose):  # type: ignore[no-untyped-def]
        found = super().together(groups, share=share, purpose=purpose)
        return [
            type(trial)(pairs=trial.pairs, alone=trial.alone, kept=tuple(1 / len(trial.pairs) for _ in trial.pairs))
            for trial in found
        ]


def test_a_processor_that_all_share_is_no_switch() -> None:
    """Guards against switches made up on a machine where any two pairs slow each other down."""
    truth = Topology.flat(6)
    found = survey(dict.fromkeys(range(6), "here"), Busy(truth))
    assert found.tree.groups == ()
    assert found.direct == frozenset()
    ranks = [Rank(name=rank.name, machine="m0") for rank in truth.ranks]
    # Three pairs at once get a third each, and so the ports are a third as fast.
    ports = [link.gbytes_per_s for link in build(found, ranks, name="busy").links]
    assert ports == [pytest.approx(12.5 / 3, rel=0.01)] * 6


def test_time_that_runs_out_still_gives_a_topology() -> None:
    """Guards against a probe that fails, or a link of no bandwidth, where only the pairs alone could be measured."""
    for truth in (resolve("2x4"), NIC_A_GPU, CABLES):
        _, found = surveyed(truth, most_trials=0)
        for p in range(truth.num_ranks):
            for q in range(p + 1, truth.num_ranks):
                assert fair_rates(found, [(p, q)])[0] > 0


@pytest.mark.slow
def test_sixty_four_ranks_take_no_time_beside_the_measurements() -> None:
    """Guards against an inference that takes longer than the probe."""
    truth = Topology.from_text(
        "name: big\nmachines: [{count: 8, gpus: 8, nvlink: {gbytes_per_s: 300, switch: true}, "
        "pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 25}}]\n"
    )
    seen, found = surveyed(truth, noise=0.03)
    assert sum(len(group) == 8 for group in seen.tree.groups) == 8
    assert worst_error(truth, found) < 0.6  # PCIe switches behind NVSwitch stay hidden
