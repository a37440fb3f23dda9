"""The slowest link between two ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade_cache import make_cache, random_graph

from trainer.cache import Cache, open_cache
from trainer.errors import CacheError
from trainer.links import slowest_links


def link(one: str, other: str, link_type: str, gbytes_per_s: float, latency_us: float = 1.0) -> dict[str, Any]:
    return {"ends": [one, other], "type": link_type, "gbytes_per_s": gbytes_per_s, "latency_us": latency_us}


def two_sockets(**changes: Any) -> dict[str, Any]:
    """Ranks a and b joined by nvlink and on one PCIe switch, c on another; the switches joined by qpi."""
    return {
        "name": "two-sockets",
        "ranks": [{"name": name, "machine": "m0"} for name in "abc"],
        "switches": ["s", "t"],
        "links": [
            link("a", "b", "nvlink", 50),
            link("a", "s", "pcie", 12),
            link("b", "s", "pcie", 12),
            link("c", "t", "pcie", 12),
            link("s", "t", "qpi", 10),
        ],
        **changes,
    }


def cache_with(folder: Path, topology: dict[str, Any]) -> Cache:
    return open_cache(str(make_cache(folder / "cache", random_graph(), np.arange(60) % 3, 3, topology=topology)))


def test_the_slowest_link_of_the_quickest_path(tmp_path: Path) -> None:
    """The last link of a route is not the slow one, and the path with the fewest hops is not the quick one."""
    assert slowest_links(cache_with(tmp_path, two_sockets())) == [
        ["", "nvlink", "qpi"],
        ["nvlink", "", "qpi"],
        ["qpi", "qpi", ""],
    ]


def test_no_route_relays_through_a_rank(tmp_path: Path) -> None:
    """With a wide link between a and c, b's rows still go over the switches: a rank passes nothing on."""
    links = [*two_sockets()["links"], link("a", "c", "bridge", 100)]
    found = slowest_links(cache_with(tmp_path, two_sockets(links=links)))
    assert found[0][2] == found[2][0] == "bridge"
    assert found[1][2] == "qpi"


def test_a_fixed_route_holds_both_ways(tmp_path: Path) -> None:
    """A route that the topology gives is taken though another is quicker, and backwards unless that is given too."""
    found = slowest_links(cache_with(tmp_path, two_sockets(routes={"a->b": ["a", "s", "b"]})))
    assert found[0][1] == found[1][0] == "pcie"


@pytest.mark.parametrize(
    "changes",
    [{"links": [{"ends": ["a"]}]}, {"links": None}, {"switches": None}, {"links": [link("a", "x", "pcie", 1)]},
     {"links": [link("a", "s", "pcie", 0)]}, {"routes": {"a->b": ["a", "t", "b"]}}],
)  # fmt: skip
def test_a_malformed_topology_is_one_sentence(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A traceback after hours of training, when the table is made, loses the result."""
    with pytest.raises(CacheError, match="topology") as caught:
        slowest_links(cache_with(tmp_path, two_sockets(**changes)))
    assert "\n" not in str(caught.value)
