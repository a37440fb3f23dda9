"""Ranks fall into the groups that their links make of them, and groups are values that a file can hold."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphprep.topology import Topology, preset_names, resolve
from graphprep.topology.groups import groups_of, pair_bandwidth, pair_seconds, rank_groups
from graphprep.topology.rank_groups import RankGroup, levels, ranks_in

UNEVEN = """\
name: uneven
machines:
  - {count: 2, gpus: 2, pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 12.5}}
  - {count: 1, gpus: 2, pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 3.1}}
  - {count: 1, gpus: 2, pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 1.25}}
"""


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("2x2", [[0, 1], [2, 3]]),
        ("2x4", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
        ("dgx-1-v100", [[[0, 3], [1, 2]], [[4, 7], [5, 6]]]),
        ("dgx-h100", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("pcie-8", [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ],
)
def test_presets_fall_into_machines_switches_and_bridges(name: str, groups: RankGroup) -> None:
    """Guards against a first cut through a machine's fast links, and on a DGX-1 against a quad torn apart for one of
    its double links.
    """
    assert rank_groups(resolve(name)) == groups


def test_the_machine_with_the_slowest_card_is_cut_off_first() -> None:
    """Guards against uneven network cards that are treated alike."""
    assert rank_groups(Topology.from_text(UNEVEN)) == [[[[0, 1], [2, 3]], [4, 5]], [6, 7]]


@pytest.mark.parametrize("name", preset_names())
def test_groups_hold_every_rank_once(name: str) -> None:
    """Guards against a rank that no group holds, or two do, and against groups that no JSON file can hold."""
    topology = resolve(name)
    groups = rank_groups(topology)
    assert ranks_in(groups) == list(range(topology.num_ranks))
    assert json.loads(json.dumps(groups)) == groups


def test_equal_links_make_one_level() -> None:
    """Guards against a binary tree where nothing is to be cut first."""
    assert rank_groups(Topology.flat(1)) == 0
    assert rank_groups(Topology.flat(2)) == [0, 1]
    assert rank_groups(Topology.flat(33)) == list(range(33))
    assert (levels(0), levels([0, 1]), levels([[0, [1, 2]], 3])) == (0, 1, 3)


def test_measured_bandwidths_that_differ_a_little_are_alike() -> None:
    """Guards against a level for every fluctuation of a measurement."""
    rng = np.random.default_rng(0)
    machine = np.arange(12) // 4
    bandwidth_PP = np.where(machine[:, None] == machine, 100.0, 10.0) * rng.uniform(0.95, 1.05, (12, 12))
    assert groups_of((bandwidth_PP + bandwidth_PP.T) / 2) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_bandwidth_is_shared_by_the_pairs_that_are_routed_over_a_link() -> None:
    """Guards against a network card that counts as if one pair had it to itself."""
    topology = Topology.from_text(
        "name: t\nmachines:\n"
        "  - {count: 2, gpus: 3, pcie: {gbytes_per_s: 20, gpus_per_switch: 3}, network: {gbytes_per_s: 18}}\n"
    )
    bandwidth_PP = pair_bandwidth(topology)
    # A card carries 3 * 3 pairs in each direction, a GPU's own link 5.
    assert bandwidth_PP[0, 3] == pytest.approx(18e9 / 9)
    assert bandwidth_PP[0, 1] == pytest.approx(20e9 / 5)
    assert np.array_equal(bandwidth_PP, bandwidth_PP.T)


def test_seconds_of_a_pair_are_the_sum_over_its_route() -> None:
    """Guards against a distance that counts hops instead of their bandwidths."""
    topology = resolve("2x4")
    seconds_PP = pair_seconds(topology)
    for p, q in ((0, 1), (0, 2), (1, 6)):
        expected = sum(1 / (topology.links[hop.link].gbytes_per_s * 1e9) for hop in topology.routes[p][q])
        assert seconds_PP[p, q] == pytest.approx(expected)
    assert not seconds_PP.diagonal().any()
