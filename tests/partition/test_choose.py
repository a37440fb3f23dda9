"""The best candidate wins by the cost model; one that dies is named, and another takes its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import PartitionError
from graphprep.partition import native
from graphprep.partition.choose import partition
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from tests.graphs import csr_of, random_edges
from tests.partition.problems import edges, ring_of_cliques


def test_metis_cuts_less_than_the_floors(tmp_path: Path) -> None:
    """Guards against a graph that reaches METIS scrambled: on a ring of cliques the good cut is known."""
    chunk, num_nodes = ring_of_cliques(8, 20)
    matrix = csr_of(chunk, num_nodes)
    result, _ = partition(matrix, Topology.flat(4), PartitionRequest(), train_mask=None, scratch=tmp_path)
    assert result.quality.cut_edges == 4
    assert [row["method"] for row in result.tried] == ["metis", "metis, refined"]


def test_more_parts_than_nodes_is_refused(tmp_path: Path) -> None:
    """Guards against empty parts that nobody asked for."""
    matrix = csr_of(edges([0, 1], [1, 2]), 3)
    with pytest.raises(PartitionError, match="4 parts for 3 nodes"):
        partition(matrix, Topology.flat(4), PartitionRequest(), train_mask=None, scratch=tmp_path)


def test_one_part_needs_no_method(tmp_path: Path) -> None:
    """Guards against calling METIS for one part."""
    matrix = csr_of(edges([0, 1], [1, 2]), 3)
    result, _ = partition(matrix, Topology.flat(1), PartitionRequest(), train_mask=None, scratch=tmp_path)
    assert result.assignment.tolist() == [0, 0, 0]
    assert result.quality.cut_edges == 0


def test_a_dead_metis_is_survived_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a crash in native code that ends the run, and against a fallback that hides the reason."""
    monkeypatch.setattr(native.sys, "executable", "/bin/false")
    matrix = csr_of(random_edges(np.random.default_rng(0), 100, 400), 100)
    result, _ = partition(matrix, Topology.flat(2), PartitionRequest(), train_mask=None, scratch=tmp_path)
    assert result.method == "ldg, refined"
    words = capsys.readouterr().err
    assert "failed: exit status 1" in words
    assert "falling back to the streaming partitioner LDG" in words
    assert [row["method"] for row in result.tried] == ["metis-balanced", "ldg", "ldg, refined"]
