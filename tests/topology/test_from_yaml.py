"""The long form's mistakes, each with its line."""

from __future__ import annotations

import pytest

from graphprep.errors import TopologyError
from graphprep.topology import Topology
from tests.topology.forms import LONG, replaced

QPI = "  - {ends: [pcie0, pcie1], type: qpi, gbytes_per_s: 10, latency_us: 3}\n"
ROUTE = '"gpu0->gpu2": [gpu0, pcie0, pcie1, gpu2]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[gpu0, gpu1]",
            "[gpu0, gpu7]",
            "line 8: links[0].ends[1]: no rank or switch is called 'gpu7' (did you mean 'gpu2'?)",
        ),
        ("[gpu0, gpu1]", "[gpu0, gpu0]", "line 8: links[0].ends: a link cannot join 'gpu0' to itself"),
        ("[gpu0, gpu1]", "[gpu0]", "line 8: links[0].ends lacks item 1"),
        (
            "[gpu0, gpu1]",
            "[gpu0, gpu1, gpu2]",
            "line 8: links[0].ends must have at most 2 items, not 3, found a list of 3",
        ),
        ("name: gpu1", "name: gpu0", "line 4: ranks[1].name: another rank or switch is already called 'gpu0'"),
        (
            "switches: [pcie0, pcie1]",
            "switches:\n  - pcie0\n  - gpu2",
            "line 8: switches[1]: another rank or switch is already called 'gpu2'",
        ),
        (
            "switches: [pcie0, pcie1]",
            "switches: [0, pcie1]",
            "line 6: switches[0] must be a valid string, found 0; put it in quotes",
        ),
        (
            "speed: 1.0",
            "speed: .inf",
            "line 3: ranks[0].speed must be less than or equal to 1000000, found inf",
        ),
        ("speed: 1.0", "speed: 0", "line 3: ranks[0].speed must be greater than 0, found 0"),
        ("speed: 1.0", "speed: on", "line 3: ranks[0].speed: a number is needed, not the truth value true"),
        ("speed: 1.0", "sped: 1.0", "line 3: unknown key 'sped' in ranks[0] (did you mean 'speed'?)"),
        ("memory_gb: 32", "memory_gb: 0", "line 3: ranks[0].memory_gb must be greater than 0, found 0"),
        ("memory_gb: 32", "device: -1", "line 3: ranks[0].device must be greater than or equal to 0, found -1"),
        ("machine: m0, speed: 1.0", "speed: 1.0", "line 3: ranks[0] lacks the key 'machine'"),
        ("gbytes_per_s: 10", "gbytes_per_s: -3", "line 12: links[4].gbytes_per_s must be greater than 0, found -3"),
        ("gbytes_per_s: 10", "gbytes_per_s: .nan", "line 12: links[4].gbytes_per_s must be greater than 0, found nan"),
        (
            "latency_us: 2}",
            "latency_us: -2}",
            "line 8: links[0].latency_us must be greater than or equal to 0, found -2",
        ),
        (
            "latency_us: 2}",
            "latency_us: .nan}",
            "line 8: links[0].latency_us must be greater than or equal to 0, found nan",
        ),
        (
            "latency_us: 2}",
            "latency_us: .inf}",
            "line 8: links[0].latency_us must be less than or equal to 1000000000, found inf",
        ),
        (
            "gbytes_per_s: 10",
            "gbytes_per_s: ten",
            "line 12: links[4].gbytes_per_s must be a valid number, unable to parse string as a number, found 'ten'",
        ),
        (
            "gbytes_per_s: 10",
            "gbytes_per_s: .inf",
            "line 12: links[4].gbytes_per_s must be less than or equal to 1000000, found inf",
        ),
        (
            "gbytes_per_s: 10",
            "gbytes_per_s: 1.0e+400",
            "line 12: links[4].gbytes_per_s must be less than or equal to 1000000, found inf",
        ),
        ("type: qpi", "type: ''", "line 12: links[4].type: '' is not one word without spaces and without '->'"),
        ("type: qpi, ", "", "line 12: links[4] lacks the key 'type'"),
        (QPI, "", "line 12: routes.gpu0->gpu2: no link joins 'pcie0' and 'pcie1'"),
        (
            f"{QPI}routes: {{{ROUTE}}}\n",
            "",
            "line 1: no path of links leads from rank 'gpu0' to rank 'gpu2'; "
            "join them through a switch, or give a route that relays through another rank",
        ),
        (
            "gpu0->gpu2",
            "gpu0-gpu2",
            "line 13: routes.gpu0-gpu2: a route is named after its ranks, as in 'gpu0->gpu2'",
        ),
        ("gpu0->gpu2", "gpu0->gpu0", "line 13: routes.gpu0->gpu0: 'gpu0' needs no route to itself"),
        (
            "gpu0->gpu2",
            "gpu0->gpu3",
            "line 13: routes.gpu0->gpu3: no rank is called 'gpu3' (did you mean 'gpu2'?)",
        ),
        ("gpu0->gpu2", "gpu0->pcie0", "line 13: routes.gpu0->pcie0: no rank is called 'pcie0'"),
        (
            ROUTE,
            '"gpu0->gpu2": [pcie0, pcie1, gpu2]',
            "line 13: routes.gpu0->gpu2: the path must begin with 'gpu0' and end with 'gpu2'",
        ),
        (
            ROUTE,
            '"gpu0->gpu2": []',
            "line 13: routes.gpu0->gpu2: the path must begin with 'gpu0' and end with 'gpu2'",
        ),
        (
            ROUTE,
            '"gpu0->gpu2": [gpu0, pcie0, gpu1, pcie0, pcie1, gpu2]',
            "line 13: routes.gpu0->gpu2[3]: the path passes 'pcie0' twice",
        ),
        (
            ROUTE,
            '"gpu0->gpu2": [gpu0, pcie9, gpu2]',
            "line 13: routes.gpu0->gpu2[1]: no rank or switch is called 'pcie9' (did you mean 'pcie1'?)",
        ),
        (
            ROUTE,
            f'{ROUTE}, "gpu0 -> gpu2": [gpu0, pcie0, pcie1, gpu2]',
            "line 13: routes.gpu0 -> gpu2: this route is given twice",
        ),
        ("name: two-sockets", "name: 3", "line 1: name must be a valid string, found 3; put it in quotes"),
        (
            "name: two-sockets",
            "name: ../up",
            "line 1: name: '../up' cannot name a cache's folder: use up to 100 letters, digits, '-', '_' and '.', "
            "and begin with a letter, a digit or '_'",
        ),
        (
            "{name: gpu1, machine: m0}",
            "{name: gpu1, machine: m0, host: a.x}\n  - {name: gpu9, machine: m0, host: a.y}",
            "line 5: ranks[2].host: machine 'm0' is on host 'a.x' for 'gpu1' and on 'a.y' here",
        ),
        (
            "{name: gpu1, machine: m0}",
            "{name: gpu1, machine: m0, device: 3}\n  - {name: gpu9, machine: m0, device: 3}",
            "line 5: ranks[2].device: device 3 of machine 'm0' is already that of 'gpu1'",
        ),
        ("ranks:\n", "machines: []\nranks:\n", "line 2: machines must have at least 1 item, not 0, found a list of 0"),
        ("ranks:\n", "swtches: []\nranks:\n", "line 2: unknown key 'swtches' (did you mean 'switches'?)"),
    ],
)
def test_mistakes_are_named_with_their_line(old: str, new: str, message: str) -> None:
    """Guards against a topology that is accepted and is not what the person meant."""
    with pytest.raises(TopologyError) as caught:
        Topology.from_text(replaced(LONG, old, new), origin="t.yaml")
    assert str(caught.value) == f"t.yaml, {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "line 1: the file lacks the key 'ranks' (or 'machines', the short form)"),
        ("name: x\nranks: []\n", "line 2: ranks must have at least 1 item, not 0, found a list of 0"),
        ("", "line 1: expected a mapping with the keys name, machines, ranks, switches, links, routes, found nothing"),
    ],
)
def test_files_that_hold_no_topology(text: str, message: str) -> None:
    """Guards against a topology without ranks."""
    with pytest.raises(TopologyError) as caught:
        Topology.from_text(text, origin="t.yaml")
    assert str(caught.value) == f"t.yaml, {message}"


@pytest.mark.parametrize("name", ["2x4", "p3.16xlarge", "_private", "zwölf-knoten"])
def test_names_that_can_be_folders(name: str) -> None:
    """Guards against a rule on names that refuses the usual ones."""
    assert Topology.from_text(LONG.replace("two-sockets", name)).name == name


@pytest.mark.parametrize("name", ["''", ".hidden", "a/b", "'a b'", "..", "-x", "x" * 101])
def test_names_that_cannot_be_folders(name: str) -> None:
    """Guards against a cache that is written outside its folder, or that no listing shows."""
    with pytest.raises(TopologyError, match="cannot name a cache's folder"):
        Topology.from_text(LONG.replace("two-sockets", name))


def test_a_short_host_name_stands_for_the_full_one() -> None:
    """Guards against a check of hosts that refuses the same host, written as two tools print it."""
    text = LONG.replace("{name: gpu1, machine: m0}", "{name: gpu1, machine: m0, host: a}")
    topology = Topology.from_text(text.replace("{name: gpu2, machine: m0}", "{name: gpu2, machine: m0, host: a.x}"))
    assert [rank.host for rank in topology.ranks] == [None, "a", "a.x"]
