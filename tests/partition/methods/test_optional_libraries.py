"""Mt-KaHyPar and KaMinPar, where they are installed, optimise what they are asked to; where not, they say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.datasets.generators.grid import generate
from graphprep.datasets.generators.requests import GridRequest
from graphprep.errors import PartitionError
from graphprep.partition.candidates import CANDIDATES, assign
from graphprep.partition.methods import kaminpar, mtkahypar
from graphprep.partition.methods.mtkahypar import GREATEST_DISTANCE, distances
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology, resolve
from graphprep.traffic import count_traffic
from tests.graphs import random_edges
from tests.partition.problems import Case

REQUEST = PartitionRequest(seed=1)


@pytest.fixture(scope="module")
def slab(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A long grid, whose eight parts form a chain."""
    request = GridRequest(sides=(160, 6, 6), classes=2)
    raw = generate(request, folder=tmp_path_factory.mktemp("grid"))
    (chunk,) = [
        type(first)(*(np.concatenate(columns) for columns in zip(*((c.src, c.dst) for c in chunks), strict=True)))
        for chunks in [list(raw.edges[0].chunks())]
        for first in chunks[:1]
    ]
    return Case(chunk, request.size[0], np.ones(8))


def rows_and_seconds(case: Case, method: str, topology: Topology, scratch: Path) -> tuple[int, float]:
    """Rows sent, and link seconds of a byte for each."""
    parts_N = assign(method, case.clean, shares_P=case.shares_P, request=REQUEST, scratch=scratch, topology=topology)
    rows_PP = count_traffic({HOMOGENEOUS_EDGE: case.clean}, {HOMOGENEOUS_NODE: parts_N}, 8).rows_PP
    return int(rows_PP.sum()), float((rows_PP * distances(topology)).sum())


@pytest.mark.slow
def test_a_mapping_lays_neighbouring_parts_along_fast_links(slab: Case, tmp_path: Path) -> None:
    """Guards against a target graph whose distances are upside down or never arrive."""
    pytest.importorskip("mtkahypar", reason="Mt-KaHyPar is not installed")
    topology = resolve("dgx-1-v100")
    _, plain = rows_and_seconds(slab, "mtkahypar", topology, tmp_path)
    _, mapped = rows_and_seconds(slab, "mtkahypar-steiner", topology, tmp_path)
    assert mapped < 0.7 * plain


@pytest.mark.slow
def test_by_rows_fewer_rows_are_sent(tmp_path: Path) -> None:
    """Guards against nets that do not count rows: where edges at one node are many, rows and cut differ."""
    pytest.importorskip("mtkahypar", reason="Mt-KaHyPar is not installed")
    case = Case(random_edges(np.random.default_rng(0), 1500, 9000, hub=True), 1500, np.ones(8))
    by_cut, _ = rows_and_seconds(case, "mtkahypar", Topology.flat(8), tmp_path)
    by_rows, _ = rows_and_seconds(case, "mtkahypar-rows", Topology.flat(8), tmp_path)
    assert by_rows < by_cut


def test_distances_are_whole_and_positive() -> None:
    """Guards against a distance of 0, which makes a link free, and against tables that are not symmetric."""
    distance_PP = distances(resolve("2x4"))
    off_diagonal = distance_PP[~np.eye(8, dtype=bool)]
    assert off_diagonal.min() >= 1
    assert off_diagonal.max() == GREATEST_DISTANCE
    assert np.array_equal(distance_PP, distance_PP.T)
    assert distance_PP[0, 1] < distance_PP[0, 2] < distance_PP[0, 4]


@pytest.mark.parametrize(
    ("module", "method", "words"),
    [
        (kaminpar, "kaminpar", r"KaMinPar is not installed; pip install 'graphprep\[kaminpar\]'"),
        (mtkahypar, "mtkahypar", r"Mt-KaHyPar is not installed; pip install 'graphprep\[mtkahypar\]'"),
    ],
)
def test_what_is_not_installed_says_so(
    module: object, method: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Guards against an ImportError from a package that is optional."""
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert CANDIDATES[method].needs(4, None) is not None
    case = Case(random_edges(np.random.default_rng(0), 100, 300), 100, np.ones(4))
    with pytest.raises(PartitionError, match=words):
        assign(method, case.clean, shares_P=case.shares_P, request=REQUEST, scratch=tmp_path)


def test_a_mapping_needs_a_topology_of_not_too_many_ranks() -> None:
    """Guards against minutes of work that the library refuses at its end."""
    pytest.importorskip("mtkahypar", reason="Mt-KaHyPar is not installed")
    steiner = CANDIDATES["mtkahypar-steiner"]
    assert steiner.needs(4, None) == "it maps onto a topology, and there is none"
    assert steiner.needs(65, Topology.flat(65)) == "it maps onto at most 64 ranks, and there are 65"
    assert steiner.needs(64, Topology.flat(64)) is None
