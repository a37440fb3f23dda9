"""The short form and what it stands for."""

from __future__ import annotations

import pytest

from graphprep.errors import TopologyError
from graphprep.topology import Topology
from tests.topology.forms import SHORT, replaced


def links(topology: Topology) -> list[tuple[str, str, str, float, float]]:
    return [(*link.ends, link.type, link.gbytes_per_s, link.latency_us) for link in topology.links]


def test_the_short_example_of_the_design() -> None:
    """Guards against any change of names, order or figures, all of which other files and tie-breaks rely on."""
    topology = Topology.from_text(SHORT)
    assert [(rank.name, rank.machine) for rank in topology.ranks] == [
        (f"m{machine}.gpu{gpu}", f"m{machine}") for machine in (0, 1) for gpu in range(4)
    ]
    assert topology.switches == ("m0.pcie0", "m0.pcie1", "m0.host", "m1.pcie0", "m1.pcie1", "m1.host", "net")
    assert links(topology)[:9] == [
        ("m0.gpu0", "m0.gpu1", "nvlink", 50.0, 2.0),
        ("m0.gpu2", "m0.gpu3", "nvlink", 50.0, 2.0),
        ("m0.gpu0", "m0.pcie0", "pcie", 16.0, 3.0),
        ("m0.gpu1", "m0.pcie0", "pcie", 16.0, 3.0),
        ("m0.gpu2", "m0.pcie1", "pcie", 16.0, 3.0),
        ("m0.gpu3", "m0.pcie1", "pcie", 16.0, 3.0),
        ("m0.pcie0", "m0.host", "qpi", 16.0, 3.0),
        ("m0.pcie1", "m0.host", "qpi", 16.0, 3.0),
        ("m0.host", "net", "network", 12.5, 10.0),
    ]
    assert topology.path(0, 1) == ("m0.gpu0", "m0.gpu1")
    assert topology.path(1, 2) == ("m0.gpu1", "m0.pcie0", "m0.host", "m0.pcie1", "m0.gpu2")
    assert topology.path(3, 4) == (
        "m0.gpu3",
        "m0.pcie1",
        "m0.host",
        "net",
        "m1.host",
        "m1.pcie0",
        "m1.gpu0",
    )


def test_defaults_and_switch_and_several_links_a_pair() -> None:
    """Guards against a bandwidth that is not multiplied, and against defaults other than the documented ones."""
    topology = Topology.from_text(
        "name: mixed\n"
        "machines:\n"
        "  - {gpus: 2, nvlink: {gbytes_per_s: 25, pairs: [[0, 1, 2]]}, pcie: {gbytes_per_s: 12}, speed: 2,\n"
        "     memory_gb: 16, qpi: {gbytes_per_s: 9, latency_us: 1}, network: {gbytes_per_s: 1}}\n"
        "  - {gpus: 1, nvlink: {gbytes_per_s: 300, switch: true}, pcie: {gbytes_per_s: 5, latency_us: 4},\n"
        "     qpi: {latency_us: 7}, network: {gbytes_per_s: 2}}\n"
    )
    assert links(topology) == [
        ("m0.gpu0", "m0.gpu1", "nvlink", 50.0, 2.0),
        ("m0.gpu0", "m0.pcie0", "pcie", 12.0, 3.0),
        ("m0.gpu1", "m0.pcie0", "pcie", 12.0, 3.0),
        ("m0.pcie0", "m0.host", "qpi", 9.0, 1.0),
        ("m0.host", "net", "network", 1.0, 10.0),
        ("m1.gpu0", "m1.nvswitch", "nvlink", 300.0, 2.0),
        ("m1.gpu0", "m1.pcie0", "pcie", 5.0, 4.0),
        ("m1.pcie0", "m1.host", "qpi", 5.0, 7.0),
        ("m1.host", "net", "network", 2.0, 10.0),
    ]
    assert [(rank.speed, rank.memory_gb) for rank in topology.ranks] == [(2.0, 16.0), (2.0, 16.0), (1.0, None)]
    assert topology.switches == ("m0.pcie0", "m0.host", "m1.pcie0", "m1.host", "m1.nvswitch", "net")


def test_routes_may_stand_in_the_short_form() -> None:
    """Guards against hybrid meshes that can only be relayed by writing out the whole long form."""
    topology = Topology.from_text(
        SHORT + "routes:\n  m0.gpu0->m0.gpu2: [m0.gpu0, m0.gpu1, m0.pcie0, m0.host, m0.pcie1, m0.gpu2]\n"
    )
    assert topology.path(2, 0)[-2:] == ("m0.gpu1", "m0.gpu0")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("count: 2", "count: 0", "line 3: machines[0].count must be greater than or equal to 1, found 0"),
        ("count: 2", "count: yes", "line 3: machines[0].count must be a valid integer, found the truth value true"),
        ("count: 2", "count: 400", "line 2: machines: 1,600 GPUs are more than 1,024 ranks"),
        ("gpus: 4", f"gpus: {10**30}", f"line 2: machines: {2 * 10**30:,} GPUs are more than 1,024 ranks"),
        ("gpus: 4", "gpus: 4.5", "line 3: machines[0].gpus must be a valid integer, found 4.5"),
        ("gpus: 4", "gpus: 0", "line 3: machines[0].gpus must be greater than or equal to 1, found 0"),
        (
            "gpus: 4",
            "gpus: 5",
            "line 4: machines[0].pcie.gpus_per_switch: 5 GPUs cannot be shared out in groups of 2; "
            "write a machine with unequal switches in the long form",
        ),
        (
            "[2, 3]",
            "[2, 4]",
            "line 3: machines[0].nvlink.pairs[1]: there is no GPU 4; the machine has GPUs 0 to 3",
        ),
        (
            "[2, 3]",
            "[-1, 3]",
            "line 3: machines[0].nvlink.pairs[1]: there is no GPU -1; the machine has GPUs 0 to 3",
        ),
        ("[2, 3]", "[3, 3]", "line 3: machines[0].nvlink.pairs[1]: GPU 3 cannot be joined to itself"),
        ("[2, 3]", "[2, 3, 0]", "line 3: machines[0].nvlink.pairs[1]: a pair has 1 to 100 links, not 0"),
        (
            "[2, 3]",
            "[1, 0]",
            "line 3: machines[0].nvlink.pairs[1]: GPUs 1 and 0 are joined twice; "
            "a third number says how many links they have",
        ),
        (
            "[2, 3]",
            "[2]",
            "line 3: machines[0].nvlink.pairs[1] must have at least 2 items, not 1, found a list of 1",
        ),
        (
            "pairs: [[0, 1], [2, 3]]",
            "switch: false",
            "line 3: machines[0].nvlink: give either the pairs that NVLink joins or 'switch: true'",
        ),
        (
            "pairs: [[0, 1], [2, 3]]",
            "pairs: [], switch: true",
            "line 3: machines[0].nvlink: give either the pairs that NVLink joins or 'switch: true'",
        ),
        ("pairs:", "pair:", "line 3: unknown key 'pair' in machines[0].nvlink (did you mean 'pairs'?)"),
        (
            ", network: {gbytes_per_s: 12.5, latency_us: 10}",
            "",
            "line 3: machines[0]: 'network' is needed to join 2 machines",
        ),
        (
            "pcie: {gbytes_per_s: 16",
            "pcie: {gbytes_per_s: 0",
            "line 4: machines[0].pcie.gbytes_per_s must be greater than 0, found 0",
        ),
        ("gpus: 4", "gpus: 4, speed: -1", "line 3: machines[0].speed must be greater than 0, found -1"),
        ("gpus: 4", "gpus: 4, memory_gb: 0", "line 3: machines[0].memory_gb must be greater than 0, found 0"),
        (
            "machines:",
            "switches: [a]\nmachines:",
            "line 2: switches: 'machines' already says which ranks, switches and links there are",
        ),
        ("machines:", "machine:", "line 2: unknown key 'machine' (did you mean 'machines'?)"),
    ],
)
def test_mistakes_are_named_with_their_line(old: str, new: str, message: str) -> None:
    """Guards against a machine that is silently another one than the person meant."""
    with pytest.raises(TopologyError) as caught:
        Topology.from_text(replaced(SHORT, old, new), origin="2x4.yaml")
    assert str(caught.value) == f"2x4.yaml, {message}"
