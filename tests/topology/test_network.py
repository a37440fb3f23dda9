"""The topology as a value: routes in nanoseconds, long form and back, flat topologies."""

from __future__ import annotations

import heapq
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.errors import TopologyError
from graphprep.topology import Hop, Link, Rank, Topology, routing
from graphprep.topology.network import MAX_RANKS
from graphprep.topology.routing import Route
from tests.topology.forms import LONG, SHORT


def ring(num_ranks: int, fixed: dict[tuple[int, int], Route] | None = None) -> Topology:
    """Ranks that each have a switch; the switches form a ring of two parallel cables."""
    ranks = tuple(Rank(name=f"r{p}", machine=f"m{p // 2}", speed=1.0 + p) for p in range(num_ranks))
    switches = tuple(f"s{p}" for p in range(num_ranks))
    own = [Link(ends=(f"r{p}", f"s{p}"), type="own", gbytes_per_s=10.0, latency_us=1.0) for p in range(num_ranks)]
    between = [
        Link(ends=(f"s{p}", f"s{(p + 1) % num_ranks}"), type="ring", gbytes_per_s=gbytes_per_s, latency_us=2.5)
        for p in range(num_ranks)
        for gbytes_per_s in (5.0, 5.0)
    ]
    return Topology.build(name="ring", ranks=ranks, switches=switches, links=(*own, *between), fixed=fixed)


def test_a_link_takes_its_latency_and_the_bytes_of_a_mebibyte_in_whole_nanoseconds() -> None:
    """Guards against 1 MB for 1 MiB, GiB for GB, and routes that depend on the order of float additions."""
    link = Link(ends=("a", "b"), type="x", gbytes_per_s=25.0, latency_us=2.0)
    assert link.routing_ns == 2000 + round(2**20 / 25)
    assert isinstance(link.routing_ns, int)


def test_the_long_example_of_the_design() -> None:
    """Guards against any change of what the documented example means."""
    topology = Topology.from_text(LONG)
    assert topology.ranks[0] == Rank(name="gpu0", machine="m0", speed=1.0, memory_gb=32.0)
    assert [rank.memory_gb for rank in topology.ranks[1:]] == [None, None]
    assert topology.routes[0][1] == (Hop(0, 0),)
    assert topology.routes[1][0] == (Hop(0, 1),)
    assert topology.routes[0][2] == (Hop(1, 0), Hop(4, 0), Hop(3, 1))
    assert topology.path(2, 1) == ("gpu2", "pcie1", "pcie0", "gpu1")
    assert topology.routing_ns(0, 2) == 9000 + 2 * round(2**20 / 12) + round(2**20 / 10)
    assert topology.links[4].direction_name(1) == "pcie1->pcie0"


def test_no_route_relays_through_a_rank_even_where_that_is_quicker() -> None:
    """Guards against NVLink between two GPUs that is counted on for a third that it does not reach."""
    topology = Topology.from_text(LONG)
    slow = Topology.from_text(
        LONG.replace("[gpu1, pcie0], type: pcie, gbytes_per_s: 12", "[gpu1, pcie0], type: pcie, gbytes_per_s: 0.1")
    )
    assert topology.path(1, 2) == slow.path(1, 2) == ("gpu1", "pcie0", "pcie1", "gpu2")


def test_a_route_that_is_written_may_relay_through_a_rank() -> None:
    """Guards against a search that overrules what the file says."""
    text = LONG.replace('{"gpu0->gpu2": [gpu0, pcie0, pcie1, gpu2]}', "{gpu1->gpu2: [gpu1, gpu0, pcie0, pcie1, gpu2]}")
    topology = Topology.from_text(text)
    assert topology.path(1, 2) == ("gpu1", "gpu0", "pcie0", "pcie1", "gpu2")
    assert topology.path(2, 1) == topology.path(1, 2)[::-1]
    assert Topology.from_text(topology.to_yaml()) == topology


@pytest.mark.parametrize("text", [LONG, SHORT])
def test_the_long_form_reads_back_as_an_equal_topology(text: str) -> None:
    """Guards against a cache whose topology, read back, is another one."""
    topology = Topology.from_text(text)
    again = Topology.from_long_form(json.loads(json.dumps(topology.to_long_form())))
    assert again == topology
    assert Topology.from_text(topology.to_yaml()) == topology
    assert hash(again) == hash(topology)
    assert again != Topology.from_text(text.replace("name: ", "name: other-", 1))


def test_routes_that_would_be_found_anyway_are_not_written() -> None:
    """Guards against long forms, and so cache keys, that differ between equal topologies."""
    assert "routes" not in Topology.from_text(LONG).to_long_form()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_fixed_routes_survive_the_long_form(data: st.DataObject) -> None:
    """Guards against a written route lost where only one direction, or the way back, is special."""
    num_ranks = 4

    def around(p: int, q: int) -> Route:
        """The long way round the ring, over the first cable of each pair."""
        nodes = [p]
        step = -1 if (q - p) % num_ranks <= num_ranks // 2 else 1
        while nodes[-1] != q:
            nodes.append((nodes[-1] + step) % num_ranks)
        cables = [(a, 0) if (a + 1) % num_ranks == b else (b, 1) for a, b in pairwise(nodes)]
        return (Hop(p, 0), *(Hop(num_ranks + 2 * cable, direction) for cable, direction in cables), Hop(q, 1))

    pairs = [(p, q) for p in range(num_ranks) for q in range(num_ranks) if p != q]
    chosen = data.draw(st.sets(st.sampled_from(pairs)))
    topology = ring(num_ranks, {(p, q): around(p, q) for p, q in chosen})
    assert Topology.from_text(topology.to_yaml()) == topology


def test_the_slowest_link_of_a_route_is_named_by_type() -> None:
    """Guards against the last link of a route, or the one of the least bandwidth, that is taken for the slow one."""
    topology = Topology.from_text(LONG)
    assert topology.slowest_links() == [["", "nvlink", "qpi"], ["nvlink", "", "qpi"], ["qpi", "qpi", ""]]
    late = [
        Link(ends=("a", "s"), type="slow", gbytes_per_s=100.0, latency_us=9000.0),
        Link(ends=("s", "b"), type="narrow", gbytes_per_s=1.0, latency_us=0.0),
    ]
    ranks = tuple(Rank(name=name, machine="m") for name in "ab")
    two = Topology.build(name="two", ranks=ranks, switches=("s",), links=tuple(late))
    assert two.slowest_links() == [["", "slow"], ["slow", ""]]


def test_flat_is_equal_ranks_of_one_machine_on_one_switch() -> None:
    """Guards against `--parts K` that means other links than the documentation says."""
    topology = Topology.flat(3)
    assert topology.name == "flat-3"
    assert {(rank.machine, rank.speed) for rank in topology.ranks} == {("m0", 1.0)}
    assert {(link.type, link.gbytes_per_s, link.latency_us) for link in topology.links} == {("network", 12.5, 10.0)}
    assert topology.routes[2][0] == (Hop(2, 0), Hop(0, 1))
    assert Topology.from_text(topology.to_yaml()) == topology


def test_one_rank_needs_no_links() -> None:
    """Guards against a single GPU that is an error or a division by zero."""
    assert Topology.flat(1).routes == (((),),)
    assert Topology.from_text("name: alone\nranks: [{name: gpu0, machine: m0}]\n").routes == (((),),)


@pytest.mark.parametrize("num_ranks", [0, -1, MAX_RANKS + 1])
def test_flat_refuses_what_is_no_topology(num_ranks: int) -> None:
    """Guards against an empty topology, and against minutes and gigabytes spent on a slip of the pen."""
    with pytest.raises(TopologyError, match="rank"):
        Topology.flat(num_ranks)


@pytest.mark.parametrize("machines", [4, 8, 32])
def test_a_rank_is_searched_from_once(machines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a search that is run anew for every pair of ranks: each rank's crosses each link twice at most."""
    pushes = 0

    def counted(queue: list[Any], label: Any) -> None:
        nonlocal pushes
        pushes += 1
        heapq.heappush(queue, label)

    monkeypatch.setattr(routing, "heapq", SimpleNamespace(heappush=counted, heappop=heapq.heappop))
    topology = Topology.from_text(
        f"name: big\nmachines: [{{count: {machines}, gpus: 8, nvlink: {{gbytes_per_s: 300, switch: true}}, "
        "pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 25}}]\n"
    )
    assert 0 < pushes <= topology.num_ranks * 2 * len(topology.links)


def test_ranks_that_nothing_joins_are_named() -> None:
    """Guards against a rank that waits for ever for rows that have no way to it."""
    text = LONG.replace("ends: [pcie0, pcie1]", "ends: [pcie0, gpu0]").split("routes:")[0]
    with pytest.raises(TopologyError, match="rank 'gpu0' to rank 'gpu2'"):
        Topology.from_text(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Guards against tracebacks from the file system and from the decoder."""
    with pytest.raises(TopologyError, match="No such file"):
        Topology.from_file(tmp_path / "none.yaml")
    with pytest.raises(TopologyError, match="directory"):
        Topology.from_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("name: zwölf".encode("latin-1"))
    with pytest.raises(TopologyError, match="UTF-8"):
        Topology.from_file(tmp_path / "latin.yaml")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + LONG.replace("\n", "\r\n").encode())
    assert Topology.from_file(tmp_path / "bom.yaml") == Topology.from_text(LONG)


def test_importing_topologies_does_not_import_numba() -> None:
    """Guards against a command line that takes seconds to answer."""
    code = "import sys, graphprep.topology; assert 'numba' not in sys.modules and 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
