"""Fewer ranks of the same machines: their links and routes stay as they were."""

from __future__ import annotations

import pytest

from graphprep.errors import TopologyError
from graphprep.topology import Link, Rank, Topology, resolve
from graphprep.topology.first_ranks import first_ranks, smaller_counts


def test_routes_between_the_first_ranks_stay() -> None:
    """Guards against plans with fewer ranks over other links than those that the machine has."""
    whole = resolve("dgx-1-v100")
    for count in (1, 2, 4):
        some = first_ranks(whole, count)
        assert some.ranks == whole.ranks[:count]
        assert all(some.path(p, q) == whole.path(p, q) for p in range(count) for q in range(count))
        assert some.name == f"{whole.name}-first-{count}"
    assert first_ranks(whole, whole.num_ranks) is whole


def test_a_rank_that_joins_others_cannot_be_left_out() -> None:
    """Guards against ranks that nothing joins any more."""
    names = "abc"
    ranks = tuple(Rank(name=name, machine="m") for name in names)
    ends = (("a", "c"), ("c", "b"))
    links = tuple(Link(ends=pair, type="nvlink", gbytes_per_s=1.0, latency_us=1.0) for pair in ends)
    from graphprep.topology.routing import Hop

    chain = Topology.build(name="chain", ranks=ranks, switches=(), links=links, fixed={(0, 1): (Hop(0, 0), Hop(1, 0))})
    with pytest.raises(TopologyError, match="no path of links leads from rank 'a' to rank 'b'"):
        first_ranks(chain, 2)
    with pytest.raises(TopologyError, match="has 3 ranks, not 4"):
        first_ranks(chain, 4)


def test_numbers_of_ranks_are_powers_of_two_and_whole_machines() -> None:
    """Guards against machines of which half the ranks would be used."""
    assert smaller_counts(resolve("2x4")) == [1, 2, 4, 8]
    assert smaller_counts(Topology.flat(6)) == [1, 2, 4, 6]
    assert smaller_counts(Topology.flat(1)) == [1]
