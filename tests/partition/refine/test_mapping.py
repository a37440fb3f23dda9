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


def bottleneck(rows_PP: NDArray[np.int64], rank_P: NDArray[np.int32], model: LinkModel) -> float:
    placed = np.zeros_like(rows_PP)
    placed[np.ix_(rank_P, rank_P)] = rows_PP
    return float(model.seconds(placed, 1024).max())


def drawn(num_parts: int, seed: int) -> NDArray[np.int64]:
    rows = np.random.default_rng(seed).integers(0, 2000, (num_parts, num_parts)) ** 2 // 1000
    np.fill_diagonal(rows, 0)
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_few_ranks_get_the_best_of_all(seed: int) -> None:
    """Guards against a search that stops early where all permutations can be tried."""
    model = LinkModel.of(resolve("2x2"))
    num_parts = model.num_ranks
    rows = drawn(num_parts, seed)
    found = best_mapping(rows, links_of(model, 1024), np.full(num_parts, 1 / num_parts), seed=0)
    best = min(bottleneck(rows, np.array(order, np.int32), model) for order in itertools.permutations(range(num_parts)))
    assert bottleneck(rows, found, model) == pytest.approx(best, rel=1e-9)


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


def test_many_ranks_are_never_worse_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a local search that accepts what is worse; here it is compared with the exact one as well."""
    model = LinkModel.of(resolve("dgx-1-v100"))
    rows, shares = drawn(8, 5), np.full(8, 1 / 8)
    exact = bottleneck(rows, best_mapping(rows, links_of(model, 1024), shares, seed=0), model)
    monkeypatch.setattr(mapping, "EXACT_RANKS", 1)
    local = bottleneck(rows, best_mapping(rows, links_of(model, 1024), shares, seed=0), model)
    before = bottleneck(rows, np.arange(8, dtype=np.int32), model)
    assert exact <= local * (1 + 1e-9)
    assert local <= before * (1 + 1e-9)
    assert local <= 1.3 * exact


@pytest.mark.parametrize("exact_ranks", [1, 8])
def test_ranks_of_other_speed_keep_their_parts(monkeypatch: pytest.MonkeyPatch, exact_ranks: int) -> None:
    """Guards against a large part on a slow rank."""
    monkeypatch.setattr(mapping, "EXACT_RANKS", exact_ranks)
    model = LinkModel.of(Topology.flat(6))
    shares = np.array([0.1, 0.2, 0.1, 0.2, 0.2, 0.2])
    found = best_mapping(drawn(6, 2), links_of(model, 1024), shares, seed=0)
    assert sorted(found.tolist()) == list(range(6))
    assert np.array_equal(shares[found], shares)


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


@pytest.mark.parametrize("exact_ranks", [0, 8])
def test_the_total_can_be_made_small(monkeypatch: pytest.MonkeyPatch, exact_ranks: int) -> None:
    """Guards against a mapping for the slowest link where the sum of all was asked for."""
    monkeypatch.setattr(mapping, "EXACT_RANKS", exact_ranks)
    model = LinkModel.of(resolve("2x2"))
    rows = drawn(model.num_ranks, 4)

    def total(rank_P: NDArray[np.int32]) -> float:
        placed = np.zeros_like(rows)
        placed[np.ix_(rank_P, rank_P)] = rows
        return float(model.seconds(placed, 1024).sum())

    shares = np.full(model.num_ranks, 1 / model.num_ranks)
    found = best_mapping(rows, links_of(model, 1024), shares, seed=0, by_total=True)
    orders = itertools.permutations(range(model.num_ranks))
    assert total(found) == pytest.approx(min(total(np.array(order, np.int32)) for order in orders), rel=1e-9)
