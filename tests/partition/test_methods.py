"""Every method obeys one contract, on ordinary and on hostile graphs; METIS may die without taking the run along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep import csr
from graphprep.errors import PartitionError, UsageError
from graphprep.graph import Csr, EdgeChunk
from graphprep.partition import floors, metis, placement
from graphprep.partition.candidates import assign
from graphprep.partition.choose import partition
from graphprep.partition.order import locality_order
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges

METHODS = ("metis", "metis-recursive", "ldg", "random")


def edges(src: list[int], dst: list[int]) -> EdgeChunk:
    return EdgeChunk(np.array(src, np.int64), np.array(dst, np.int64))


def clique(size: int) -> EdgeChunk:
    src, dst = np.nonzero(~np.eye(size, dtype=bool))
    return EdgeChunk(src.astype(np.int64), dst.astype(np.int64))


HOSTILE = {
    "no edges": (edges([], []), 12),
    "one edge": (edges([0], [5]), 12),
    "self-loops only": (edges(list(range(12)), list(range(12))), 12),
    "parallel edges": (edges([0, 0, 0, 1, 2], [1, 1, 1, 2, 3]), 12),
    "a star": (edges([0] * 30, list(range(1, 31))), 31),
    "a clique": (clique(13), 13),
    "two components": (edges([0, 1, 2, 10, 11, 12], [1, 2, 0, 11, 12, 10]), 13),
    "one-way chain": (edges(list(range(19)), list(range(1, 20))), 20),
    "as many nodes as parts": (edges([0, 1, 2], [1, 2, 3]), 4),
    "mostly isolated": (edges([0, 1], [1, 2]), 500),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", HOSTILE)
def test_every_method_places_every_node(method: str, case: str, tmp_path: Path) -> None:
    """Guards against nodes without a part, parts without nodes, and METIS dying on graphs it does not like."""
    chunk, num_nodes = HOSTILE[case]
    clean = csr.undirected_simple(csr_of(chunk, num_nodes))
    shares_P = np.full(4, 0.25)
    assignment = assign(method, clean, shares_P=shares_P, request=PartitionRequest(method=method), scratch=tmp_path)
    assert assignment.dtype == np.int32
    assert assignment.shape == (num_nodes,)
    assert set(assignment.tolist()) == {0, 1, 2, 3}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", METHODS)
def test_shares_follow_speed_and_a_seed_repeats(method: str, tmp_path: Path) -> None:
    """Guards against equal parts for unequal ranks, and against assignments that differ from run to run."""
    rng = np.random.default_rng(3)
    clean = csr.undirected_simple(csr_of(random_edges(rng, 2000, 8000), 2000))
    shares_P = np.array([0.4, 0.4, 0.15, 0.05])
    request = PartitionRequest(method=method, seed=11, imbalance=1.05)
    first = assign(method, clean, shares_P=shares_P, request=request, scratch=tmp_path)
    again = assign(method, clean, shares_P=shares_P, request=request, scratch=tmp_path)
    assert np.array_equal(first, again)
    found_P = np.bincount(first, minlength=4) / 2000
    assert (found_P <= shares_P * 1.06 + 1 / 2000).all(), found_P


def test_metis_cuts_less_than_the_floors(tmp_path: Path) -> None:
    """Guards against a graph that reaches METIS scrambled: on a ring of cliques the good cut is known."""
    src, dst = [], []
    for block in range(8):
        inner = clique(20)
        src += (inner.src + 20 * block).tolist()
        dst += (inner.dst + 20 * block).tolist()
        src.append(20 * block)
        dst.append((20 * block + 21) % 160)
    matrix = csr_of(edges(src, dst), 160)
    result, _ = partition(matrix, Topology.flat(4), PartitionRequest(), train_mask=None, scratch=tmp_path)
    assert result.quality.cut_edges == 4
    assert {row["method"] for row in result.tried} == {"metis", "metis-recursive"}


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
    monkeypatch.setattr(metis.sys, "executable", "/bin/false")  # type: ignore[attr-defined]
    matrix = csr_of(random_edges(np.random.default_rng(0), 100, 400), 100)
    result, _ = partition(matrix, Topology.flat(2), PartitionRequest(), train_mask=None, scratch=tmp_path)
    assert result.method == "ldg"
    words = capsys.readouterr().err
    assert "METIS failed: exit status 1" in words
    assert "falling back to the streaming partitioner LDG" in words
    assert [row["method"] for row in result.tried] == ["metis", "metis-recursive", "ldg"]


def test_what_metis_cannot_take_is_reported(tmp_path: Path) -> None:
    """Guards against a child that dies by a signal and looks like success."""
    broken = Csr(indptr=np.array([0, 1, 2]), indices=np.array([9_999_999, -5], np.int32), num_sources=2)
    with pytest.raises(PartitionError, match="METIS"):
        metis.metis(broken, shares_P=np.full(2, 0.5), recursive=False, seed=0, imbalance=1.05, scratch=tmp_path)


def test_isolated_nodes_fill_the_gaps() -> None:
    """Guards against isolated nodes that all land in one part."""
    connected_N = np.array([True] * 6 + [False] * 6)
    inner = np.array([0, 0, 0, 0, 1, 1], np.int32)
    assignment = placement.place_isolated(inner, connected_N, np.full(3, 1 / 3))
    assert np.bincount(assignment).tolist() == [4, 4, 4]


def test_apportion_sums_to_the_total() -> None:
    """Guards against rounding that loses or invents a node."""
    for total in (0, 1, 7, 1000):
        counts = floors.apportion(total, np.array([0.5, 0.3, 0.2]))
        assert counts.sum() == total
        assert (np.abs(counts - total * np.array([0.5, 0.3, 0.2])) <= 1).all()


def test_order_is_a_permutation_and_local() -> None:
    """Guards against an order that loses a node, and against one that is no better than random on a path."""
    rng = np.random.default_rng(2)
    relabel = rng.permutation(400)
    clean = csr.undirected_simple(csr_of(EdgeChunk(relabel[:-1], relabel[1:]), 400))
    assignment = np.zeros(400, np.int32)
    assignment[relabel[200:]] = 1
    order = locality_order(clean, assignment, 3)
    assert sorted(np.concatenate(order).tolist()) == list(range(400))
    assert [len(nodes) for nodes in order] == [200, 200, 0]
    position = np.empty(400, np.int64)
    position[order[0]] = np.arange(200)
    gaps = np.abs(position[relabel[:199]] - position[relabel[1:200]])
    assert gaps.max() == 1


@pytest.mark.parametrize(
    "wrong", [{"method": "metsi"}, {"imbalance": 0.9}, {"row_bytes": 0}, {"seed": -1}, {"imbalance": float("nan")}]
)
def test_wrong_options_are_named(wrong: dict[str, object]) -> None:
    """Guards against options that reach native code unchecked."""
    with pytest.raises(UsageError, match=f"--{next(iter(wrong)).replace('_', '-')}"):
        PartitionRequest(**wrong)  # type: ignore[arg-type]


def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range writes in LDG."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.csr import undirected_simple\n"
        "from graphprep.partition import floors\n"
        "from tests.graphs import csr_of, random_edges\n"
        "clean = undirected_simple(csr_of(random_edges(np.random.default_rng(0), 300, 900, hub=True), 300))\n"
        "for parts in (1, 2, 300, 400):\n"
        "    floors.ldg(clean, shares_P=np.full(parts, 1 / parts), seed=0, imbalance=1.05)\n"
    )
