"""Parts go to the ranks that suit them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.partition.refine import mapping
from graphprep.partition.refine.legs import links_of
from graphprep.partition.refine.mapping import best_mapping
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel

UNEVEN = Topology.from_text(
    "name: uneven\nranks:\n"
    + "".join(f"  - {{name: r{rank}, machine: m}}\n" for rank in range(4))
    + "links:\n"
    + "".join(
        f"  - {{ends: [r{one}, r{other}], type: nvlink, gbytes_per_s: {speed}, latency_us: 1}}\n"
        for speed, (one, other) in enumerate(itertools.combinations(range(4), 2), 1)
    )
)
"""four ranks of which no two can be swapped without a difference"""


def drawn(num_parts: int, seed: int) -> NDArray[np.int64]:
    rows = np.random.default_rng(seed).integers(0, 2000, (num_parts, num_parts)) ** 2 // 1000
    np.fill_diagonal(rows, 0)
    return rows


def seconds(rows_PP: NDArray[np.int64], rank_P: NDArray[np.int32], model: LinkModel) -> tuple[float, float]:
    """Of the slowest link direction, and the sum of all."""
    placed = np.zeros_like(rows_PP)
    placed[np.ix_(rank_P, rank_P)] = rows_PP
    of_all = model.seconds(placed, 1024)
    return float(of_all.max()), float(of_all.sum())


@pytest.mark.parametrize("by_total", [False, True])
def test_few_ranks_get_the_best_of_all(by_total: bool) -> None:
    """Guards against a search that leaves permutations out, or forgets the second figure where the first is equal."""
    model = LinkModel.of(UNEVEN)
    orders = [np.array(order, np.int32) for order in itertools.permutations(range(4))]
    for seed in range(20):
        rows = drawn(4, seed)
        found = best_mapping(rows, links_of(model, 1024), np.full(4, 1 / 4), seed=0, by_total=by_total)
        first, second = (1, 0) if by_total else (0, 1)
        of_orders = [seconds(rows, order, model) for order in orders]
        least = min(pair[first] for pair in of_orders)
        expected = least, min(pair[second] for pair in of_orders if pair[first] <= least * (1 + 1e-9))
        of_found = seconds(rows, found, model)
        assert (of_found[first], of_found[second]) == pytest.approx(expected, rel=1e-6), seed


def test_a_chain_of_parts_follows_the_nvlinks() -> None:
    """Guards against a mapping blind to direct links: the neighbours of a chain find NVLinks in a cube mesh."""
    topology = resolve("dgx-1-v100")
    model = LinkModel.of(topology)
    rows = np.zeros((8, 8), np.int64)
    scrambled = np.random.default_rng(1).permutation(8)
    for one, other in itertools.pairwise(scrambled):
        rows[one, other] = rows[other, one] = 1000
    found = best_mapping(rows, links_of(model, 1024), np.full(8, 1 / 8), seed=0)
    types = {
        topology.links[hop.link].type
        for one, other in itertools.pairwise(scrambled)
        for hop in topology.routes[found[one]][found[other]]
    }
    assert types == {"nvlink"}


@pytest.mark.slow
def test_many_ranks_are_never_worse_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a local search that accepts what is worse; here it is compared with the exact one as well."""
    model = LinkModel.of(resolve("dgx-1-v100"))
    rows, shares = drawn(8, 5), np.full(8, 1 / 8)
    exact = seconds(rows, best_mapping(rows, links_of(model, 1024), shares, seed=0), model)[0]
    monkeypatch.setattr(mapping, "EXACT_RANKS", 1)
    local = seconds(rows, best_mapping(rows, links_of(model, 1024), shares, seed=0), model)[0]
    before = seconds(rows, np.arange(8, dtype=np.int32), model)[0]
    assert exact <= local * (1 + 1e-9)
    assert local <= before * (1 + 1e-9)
    assert local <= 1.3 * exact


@pytest.mark.parametrize("exact_ranks", [1, 8])
def test_ranks_of_other_speed_keep_their_parts(monkeypatch: pytest.MonkeyPatch, exact_ranks: int) -> None:
    """Guards against a large part on a slow rank, where the links would favour it."""
    monkeypatch.setattr(mapping, "EXACT_RANKS", exact_ranks)
    model = LinkModel.of(resolve("dgx-1-v100"))
    shares = np.array([1, 2, 1, 2, 3, 3, 1, 3]) / 16
    found = best_mapping(drawn(8, 2), links_of(model, 1024), shares, seed=0)
    assert sorted(found.tolist()) == list(range(8))
    assert np.array_equal(shares[found], shares)
    assert found.tolist() != list(range(8))


def test_nothing_to_send() -> None:
    """Guards against a division by the seconds of idle links."""
    for num_parts in (1, 2, 12):
        found = best_mapping(
            np.zeros((num_parts, num_parts), np.int64),
            links_of(LinkModel.of(Topology.flat(num_parts)), 1024),
            np.full(num_parts, 1 / num_parts),
            seed=0,
        )
        assert sorted(found.tolist()) == list(range(num_parts))


def test_a_local_search_makes_the_total_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a mapping for the slowest link where the sum of all was asked for."""
    monkeypatch.setattr(mapping, "EXACT_RANKS", 0)
    model = LinkModel.of(resolve("2x2"))
    rows = drawn(4, 4)
    found = best_mapping(rows, links_of(model, 1024), np.full(4, 1 / 4), seed=0, by_total=True)
    orders = [np.array(order, np.int32) for order in itertools.permutations(range(4))]
    assert seconds(rows, found, model)[1] == pytest.approx(min(seconds(rows, order, model)[1] for order in orders))
