"""Which namespaces and cables a topology becomes."""

from __future__ import annotations

import pytest

from benchmarks.network.cabling import cabling_of
from benchmarks.network.cases import links_of
from graphprep.errors import TopologyError
from graphprep.topology import Topology, resolve


def topology(ranks: str, switches: str, *links: tuple[str, str, str]) -> Topology:
    """`ranks`: a letter a rank, its machine."""
    listed = "".join(f"  - {{name: r{number}, machine: {machine}}}\n" for number, machine in enumerate(ranks))
    joined = "".join(
        f"  - {{ends: [{a}, {b}], type: {kind}, gbytes_per_s: 0.01, latency_us: 100}}\n" for a, b, kind in links
    )
    return Topology.from_text(f"name: t\nranks:\n{listed}switches: [{switches}]\nlinks:\n{joined}")


def test_a_machine_is_what_other_links_join() -> None:
    """Guards against ranks of one machine that talk over a throttled cable, or of two that talk over none."""
    cabling = cabling_of(resolve("2x4"))
    assert [(node.name, node.ranks, node.host) for node in cabling.nodes] == [
        ("m0.gpu0", (0, 1, 2, 3), "m0"),
        ("m1.gpu0", (4, 5, 6, 7), "m1"),
        ("net", (), ""),
    ]
    assert [cable.ends for cable in cabling.cables] == [(0, 2), (1, 2)]
    assert {cable.bits_per_s for cable in cabling.cables} == {100e9}


def test_a_cable_has_its_own_machines_bandwidth() -> None:
    """Guards against unequal links that are laid in another order than the machines'."""
    cabling = cabling_of(links_of(4, 8, "unequal").topology)
    rates = [cabling.cables[cabling.cable_of(node)].bits_per_s for node in range(4)]
    assert rates == pytest.approx([20e6, 20e6, 5e6, 2e6])


def test_ranks_of_one_machine_may_have_cables_between_them() -> None:
    """Guards against probes that are told of other machines than a case has."""
    cabling = cabling_of(topology("aab", "s", *((f"r{rank}", "s", "network") for rank in range(3))))
    assert [(node.ranks, node.host) for node in cabling.machines] == [((0,), "a"), ((1,), "a"), ((2,), "b")]


def test_one_machine_needs_no_cable() -> None:
    """Guards against a topology without a network that is refused."""
    cabling = cabling_of(topology("aa", "", ("r0", "r1", "pcie")))
    assert (len(cabling.nodes), cabling.cables) == (1, ())


@pytest.mark.parametrize(
    ("refused", "word"),
    [
        (topology("ab", "", ("r0", "r1", "pcie")), "machines a, b by links of other types"),
        (
            topology(
                "aba", "h, s", ("r0", "h", "pcie"), ("r2", "h", "pcie"), ("h", "s", "network"), ("r1", "s", "network")
            ),
            "ranks of other machines between those of a",
        ),
        (
            topology("abc", "", ("r0", "r1", "network"), ("r1", "r2", "network"), ("r0", "r2", "network")),
            "3 cables between 3 namespaces",
        ),
        (
            topology(
                "abc",
                "h, s, t",
                *(("r0", "h", "pcie"), ("h", "s", "network"), ("h", "t", "network")),
                *(("r1", "s", "network"), ("r2", "t", "network")),
            ),
            "gives the machine of r0 2 cables",
        ),
    ],
)
def test_what_is_no_tree_of_machines_is_refused(refused: Topology, word: str) -> None:
    """Guards against bridges in a circle, and against ranks that gloo cannot reach."""
    with pytest.raises(TopologyError, match=word):
        cabling_of(refused)
