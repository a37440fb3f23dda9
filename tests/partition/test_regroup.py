"""Fewer parts or more from those that there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import PartitionError
from graphprep.partition.regroup import merged, split
from graphprep.partition.request import PartitionRequest
from graphprep.partition.typed_graph import WholeGraph
from graphprep.topology import Topology, resolve
from tests.graphs import csr_of
from tests.partition.problems import ring_of_cliques


def test_neighbours_on_one_machine_become_one_part() -> None:
    """Guards against parts that are joined over a network."""
    topology = resolve("2x4")
    part_N = np.arange(8, dtype=np.int32)
    assert merged(part_N, topology, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert merged(part_N, topology, 2).tolist() == [0] * 4 + [1] * 4
    with pytest.raises(PartitionError, match="parts 0 to 7 of 2x4 lie on machines m0, m1"):
        merged(part_N, topology, 1)


@pytest.mark.parametrize("number", [0, 3, 8, 16])
def test_numbers_that_do_not_go_are_named(number: int) -> None:
    """Guards against parts of unequal size, made without a word."""
    with pytest.raises(PartitionError, match=f"8 parts cannot be merged into {number}"):
        merged(np.arange(8, dtype=np.int32), Topology.flat(8), number)


@pytest.mark.slow
def test_each_part_is_divided_and_keeps_its_place(tmp_path: Path) -> None:
    """Guards against a split that moves nodes to another part's ranks, or that cuts cliques."""
    chunk, num_nodes = ring_of_cliques(16, 10)
    graph = WholeGraph.of_one_type(csr_of(chunk, num_nodes))
    part_N = (np.arange(num_nodes) * 2 // num_nodes).astype(np.int32)
    new_N = split(graph, part_N, 2, 6, PartitionRequest(imbalance=1.2), tmp_path)
    assert np.array_equal(new_N // 3, part_N)
    assert sorted(set(new_N.tolist())) == list(range(6))
    cliques = new_N.reshape(16, 10)
    assert (cliques == cliques[:, :1]).all()


def test_a_part_that_is_too_small_is_named(tmp_path: Path) -> None:
    """Guards against empty parts."""
    graph = WholeGraph.of_one_type(csr_of(ring_of_cliques(2, 3)[0], 6))
    part_N = np.array([0, 0, 0, 0, 0, 1], np.int32)
    with pytest.raises(PartitionError, match="2 parts for 1 nodes"):
        split(graph, part_N, 2, 4, PartitionRequest(), tmp_path)
    with pytest.raises(PartitionError, match="2 parts cannot be split into 3"):
        split(graph, part_N, 2, 3, PartitionRequest(), tmp_path)
