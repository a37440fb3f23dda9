"""The floors: what costs nothing and cannot fail."""

from __future__ import annotations

import numpy as np

from graphprep.core import csr
from graphprep.partition.methods import baselines
from tests.graphs import csr_of
from tests.partition.problems import ring_of_cliques


def test_apportion_sums_to_the_total() -> None:
    """Guards against rounding that loses or invents a node."""
    for total in (0, 1, 7, 1000):
        counts = baselines.apportion(total, np.array([0.5, 0.3, 0.2]))
        assert counts.sum() == total
        assert (np.abs(counts - total * np.array([0.5, 0.3, 0.2])) <= 1).all()


def test_ldg_keeps_its_capacity_and_cuts_less_than_chance() -> None:
    """Guards against parts that run over, and against a stream that never looks at neighbours."""
    chunk, num_nodes = ring_of_cliques(20, 20)
    clean = csr.undirected_simple(csr_of(chunk, num_nodes))
    shares_P = np.array([0.4, 0.4, 0.2])
    rows = np.repeat(np.arange(num_nodes), np.diff(clean.indptr))
    by_ldg = baselines.ldg(clean, shares_P=shares_P, seed=0, imbalance=1.05)
    by_chance = baselines.random_assignment(num_nodes, shares_P=shares_P, seed=0)
    assert (np.bincount(by_ldg, minlength=3) <= np.ceil(1.05 * shares_P * num_nodes)).all()
    assert np.bincount(by_chance, minlength=3).tolist() == [160, 160, 80]
    cuts = [int((parts_N[rows] != parts_N[clean.indices]).sum()) for parts_N in (by_ldg, by_chance)]
    assert cuts[0] < 0.5 * cuts[1]
