"""Routes against a search through all paths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.topology.routing import Hop, Route, Wire, all_routes, along, reverse


@st.composite
def networks(draw: st.DrawFn) -> tuple[int, int, list[Wire]]:
    """Up to 4 ranks and 4 switches, parallel links, few distinct times so that ties are common."""
    num_ranks, num_switches = draw(st.integers(1, 4)), draw(st.integers(0, 4))
    node = st.integers(0, num_ranks + num_switches - 1)
    ends = st.tuples(node, node).filter(lambda pair: pair[0] != pair[1])
    times = st.integers(0, 3)
    wires = draw(st.lists(st.builds(Wire, ends, times), max_size=10)) if num_ranks + num_switches > 1 else []
    return num_ranks, num_ranks + num_switches, wires


def every_path(num_ranks: int, wires: list[Wire], node: int, goal: int, seen: tuple[int, ...] = ()) -> Iterator[Route]:
    """All paths that visit no node twice and no rank on the way."""
    if node == goal:
        yield ()
        return
    if seen and node < num_ranks:
        return
    for number, wire in enumerate(wires):
        for direction in (0, 1):
            if wire.ends[direction] == node and wire.ends[1 - direction] not in seen:
                for rest in every_path(num_ranks, wires, wire.ends[1 - direction], goal, (*seen, node)):
                    yield (Hop(number, direction), *rest)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(networks())
def test_routes_are_the_best_of_all_paths(network: tuple[int, int, list[Wire]]) -> None:
    """Guards against a wrong tie-break, a route that relays through a rank, and a way back that is another way."""
    num_ranks, num_nodes, wires = network
    routes = all_routes(num_ranks, num_nodes, wires, {})
    for p in range(num_ranks):
        for q in range(p + 1, num_ranks):
            labels = [
                (sum(wires[hop.link].ns for hop in route), len(route), [hop.link for hop in route], route)
                for route in every_path(num_ranks, wires, p, q)
            ]
            expected = min(labels)[3] if labels else None
            assert routes.get((p, q)) == expected
            assert routes.get((q, p)) == (None if expected is None else reverse(expected))
    assert all(p != q for p, q in routes)


def test_a_fixed_route_goes_back_the_same_way_unless_that_is_fixed_too() -> None:
    """Guards against a fixed direction that leaves the other one on the route that was to be avoided."""
    wires = [Wire((0, 1), 1), Wire((0, 2), 5), Wire((2, 1), 5), Wire((0, 1), 9)]
    detour = (Hop(1, 0), Hop(2, 0))
    assert all_routes(2, 3, wires, {(0, 1): detour}) == {(0, 1): detour, (1, 0): (Hop(2, 1), Hop(1, 1))}
    assert all_routes(2, 3, wires, {(1, 0): reverse(detour)}) == {(0, 1): detour, (1, 0): reverse(detour)}
    apart = {(0, 1): detour, (1, 0): (Hop(3, 1),)}
    assert all_routes(2, 3, wires, apart) == apart


def test_a_path_of_names_takes_the_quickest_of_parallel_links_and_the_first_among_equals() -> None:
    """Guards against a path that is written down and then takes a slower cable than routing would."""
    wires = [Wire((0, 2), 7), Wire((2, 0), 3), Wire((0, 2), 3), Wire((1, 2), 1)]
    assert along([0, 2, 1], wires) == (Hop(1, 1), Hop(3, 1))
