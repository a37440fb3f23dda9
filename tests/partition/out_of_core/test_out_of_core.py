"""Partitioning by passes over edges in files: exact where it says so, bounded in memory, one result for any threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.core import csr, csr_mmap
from graphprep.core.row_ranges import even_ranges, row_ranges
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, RawGraph
from graphprep.errors import PartitionError
from graphprep.partition.out_of_core import contraction, levels, move_kernels
from graphprep.partition.out_of_core.driver import order_out_of_core, partition_out_of_core
from graphprep.partition.out_of_core.mapped_graph import MappedGraph
from graphprep.partition.out_of_core.passes import Passes
from graphprep.partition.out_of_core.propagation import propagate
from graphprep.partition.out_of_core.refinement import ByRows, ByWeight
from graphprep.partition.refine import link_loads
from graphprep.partition.refine.legs import links_of
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import PartitionResult
from graphprep.partition.typed_graph import WholeGraph
from graphprep.store.store import GraphStore
from graphprep.system.executor import Threads
from graphprep.system.files import scratch
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel, count_in_order, count_traffic
from pipelines.partition import plan_partition, run_partition
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, labelled_graph, random_edges, typed_graph
from tests.partition.problems import hostile_cases
from tests.stores import make_store

SMALL = levels.Settings(coarsest_nodes=30, edges_a_range=200, rows_a_range=100)


def in_files(matrix: Csr, folder: Path) -> MappedGraph:
    """What `MappedGraph.of` makes of a store with this matrix."""
    whole = WholeGraph.of_one_type(matrix)
    simple = Csr(indptr=matrix.indptr, indices=matrix.indices, num_sources=matrix.num_rows)
    raw = csr_source(simple)
    made = MappedGraph.of(raw, folder, memory_limit=None)
    assert np.array_equal(made.whole.matrix.indices, whole.matrix.indices)
    return made


def csr_source(matrix: Csr) -> Any:
    """A matrix as a source that is read by ranges of rows."""

    class Source:
        def __init__(self) -> None:
            self.num_nodes = {HOMOGENEOUS_NODE: matrix.num_rows}
            self.num_edges = {HOMOGENEOUS_EDGE: matrix.num_edges}
            self.directed = not csr.is_symmetric(matrix)

        def node_array(self, node_type: str, name: str) -> None:
            return None

        def indptr(self, kind: object) -> NDArray[np.int64]:
            return matrix.indptr

        def csr_rows(self, kind: object, start: int, stop: int) -> Csr:
            edges = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
            return Csr(
                indptr=matrix.indptr[start : stop + 1] - matrix.indptr[start],
                indices=matrix.indices[edges],
                num_sources=matrix.num_sources,
            )

    return Source()


def communities(num_blocks: int, size: int, seed: int = 0) -> Csr:
    """Blocks of nodes with twelve edges inside for each two between; symmetric."""
    rng = np.random.default_rng(seed)
    num_nodes = num_blocks * size
    src = rng.integers(0, num_nodes, 6 * num_nodes)
    inside = src // size * size + rng.integers(0, size, len(src))
    dst = np.where(rng.random(len(src)) < 12 / 14, inside, rng.integers(0, num_nodes, len(src)))
    place = rng.permutation(num_nodes)
    chunk = random_edges(rng, 1, 0)._replace(src=place[src], dst=place[dst])
    return csr.undirected_simple(csr_of(chunk, num_nodes))


def by_threads(most: int) -> Passes:
    return Passes(executor=Threads(most=most))


def partitioned(
    matrix: Csr,
    topology: Topology,
    folder: Path,
    settings: levels.Settings = SMALL,
    passes: Passes | None = None,
    **options: Any,
) -> PartitionResult:
    folder.mkdir(exist_ok=True)
    request = PartitionRequest(method="multilevel", **options)
    return partition_out_of_core(
        in_files(matrix, folder),
        topology,
        request,
        scratch=folder,
        memory_limit=None,
        settings=settings,
        passes=passes or by_threads(1),
    )


def test_ranges_cover_all_rows() -> None:
    """Guards against rows that no range has, or two, and against a small rest at the end."""
    indptr = np.concatenate([[0], np.cumsum([0, 5, 0, 100, 1, 1, 1, 0, 0])])
    for ranges in (row_ranges(indptr, 3), even_ranges(indptr, 10, 2), even_ranges(indptr, 1, 100)):
        assert np.array_equal(np.concatenate([np.arange(*r) for r in ranges]), np.arange(9))
    assert row_ranges(np.zeros(1, np.int64), 5) == []


@pytest.mark.slow
@pytest.mark.parametrize("edges_a_range", [100, 1 << 20])
def test_clusters_keep_limits_and_groups_for_any_number_of_threads(edges_a_range: int) -> None:
    """Guards against clusters that two ranges fill together beyond their limit, that cross groups, or that depend on
    how many threads there are.
    """
    graph = communities(10, 60)
    weight_XC = np.stack([np.ones(600, np.int64), np.diff(graph.indptr)], axis=1)
    group_X = (np.arange(600) % 2).astype(np.int32)
    ranges = even_ranges(graph.indptr, edges_a_range, 1000)
    found = [
        propagate(
            graph,
            ranges,
            weight_XC,
            most_C=np.array([20.0, 300.0]),
            seed=1,
            passes=by_threads(workers),
            group_X=group_X,
        )
        for workers in (1, 2)
    ]
    (cluster_X, count), (again_X, _) = found
    assert np.array_equal(cluster_X, again_X)
    assert count < 200
    held_XC = np.stack([np.bincount(cluster_X, weights=weight_X) for weight_X in weight_XC.T], axis=1)
    assert (held_XC <= [20, 300]).all()
    for group in (0, 1):
        assert not set(cluster_X[group_X == group]) & set(cluster_X[group_X != group])


@pytest.mark.slow
def test_leaves_of_a_star_and_nodes_without_edges_come_together() -> None:
    """Guards against levels that stop shrinking because a hub's cluster is full, or because nodes have no neighbour."""
    matrix = csr.undirected_simple(csr_of(hostile_cases()["star"].chunk, 600))
    ranges = even_ranges(matrix.indptr, 100, 100)
    cluster_X, count = propagate(
        matrix, ranges, np.ones((600, 1), np.int64), most_C=np.array([10.0]), seed=0, passes=by_threads(1)
    )
    assert count <= 70
    assert np.bincount(cluster_X).max() <= 10


def test_contraction_sums_the_edges_between_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against edges that are lost, counted twice, or not thinned alike in both directions."""
    graph = communities(4, 50)
    rng = np.random.default_rng(0)
    coarse_X = rng.integers(0, 30, 200).astype(np.int32)
    ranges = even_ranges(graph.indptr, 100, 50)

    def contracted() -> NDArray[np.float64]:
        coarse = contraction.contract(
            graph,
            ranges,
            coarse_X,
            30,
            passes=by_threads(2),
            level=1,
            folder=tmp_path,
            memory_limit=None,
            memory_bytes=0,
            seed=0,
        )
        dense = np.zeros((30, 30))
        dense[np.repeat(np.arange(30), np.diff(coarse.indptr)), coarse.indices] = coarse.data
        return dense

    expected = np.zeros((30, 30))
    rows = np.repeat(np.arange(200), np.diff(graph.indptr))
    np.add.at(expected, (coarse_X[rows], coarse_X[graph.indices]), graph.data)
    np.fill_diagonal(expected, 0)
    assert np.array_equal(contracted(), expected)
    monkeypatch.setattr(contraction, "DENSITY", 8)
    thinned = contracted()
    assert np.array_equal(thinned, thinned.T)
    assert np.count_nonzero(thinned) <= 1.3 * 8 * 30
    assert 0.7 < thinned.sum() / expected.sum() < 1.3
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_of_by_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a partitioner that says a dataset is being converted."""
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10))
    matrix = csr_of(random_edges(np.random.default_rng(1), 50, 200), 50)
    with pytest.raises(scratch.NoRoomError, match="are needed there for the time of the partitioning"):
        csr_mmap.in_files(
            iter((matrix,)),
            num_rows=50,
            num_sources=50,
            num_edges=matrix.num_edges,
            folder=tmp_path,
            memory_bytes=1,
            stage="partitioning",
        )


@pytest.mark.parametrize("num_parts", [3, 70])
def test_traffic_in_the_order_of_rows_is_the_same(num_parts: int, tmp_path: Path) -> None:
    """Guards against a second count that differs from the first: directed, with loops, of several types, many parts."""
    store = make_store(typed_graph(np.random.default_rng(3)))
    rng = np.random.default_rng(4)
    matrices = {kind: store.csr(kind) for kind in store.num_edges}
    parts = {name: rng.integers(0, num_parts, count).astype(np.int32) for name, count in store.num_nodes.items()}
    one, other = count_traffic(matrices, parts, num_parts), count_in_order(matrices, parts, num_parts)
    assert np.array_equal(one.rows_PP, other.rows_PP)
    assert np.array_equal(one.edges_PP, other.edges_PP)
    assert np.array_equal(one.local_edges_P, other.local_edges_P)


@pytest.mark.slow
@pytest.mark.parametrize("num_parts", [4, 70])
@pytest.mark.parametrize("mutual", [True, False])
def test_masks_know_what_a_move_changes(num_parts: int, mutual: bool, tmp_path: Path) -> None:
    """Guards against a gain that is not the change of all rows times their prices, and against rows counted wrongly."""
    rng = np.random.default_rng(5)
    matrix = csr_of(random_edges(rng, 150, 600), 150)
    graph = in_files(csr.undirected_simple(matrix) if mutual else matrix, tmp_path)
    assert (graph.out is graph.into) == mutual
    view = ByRows(graph.out, graph.into, out_ranges=[(0, 70), (70, 150)], in_ranges=[(0, 90), (90, 150)])
    part_N = rng.integers(0, num_parts, 150).astype(np.int32)

    def rows(parts: NDArray[np.int32]) -> NDArray[np.int64]:
        return count_traffic(graph.whole.matrices, {HOMOGENEOUS_NODE: parts}, num_parts).rows_PP

    assert np.array_equal(view.count(part_N, num_parts), rows(part_N))
    links = links_of(LinkModel.of(Topology.flat(num_parts)), 1024)
    link_loads.set_loads(links, rows(part_N))
    link_loads.scale(links, 1.0, 0)
    limits = link_loads.limits_of(part_N, np.ones((150, 1), np.int64), np.full((num_parts, 1), 150.0))
    nodes, targets, gains = view.propose(part_N, links, limits, 0)
    assert len(nodes) > 20
    move_kernels._price(links)
    for node, target, gain in zip(nodes.tolist(), targets.tolist(), gains.tolist(), strict=True):
        moved_N = part_N.copy()
        moved_N[node] = target
        change = ((rows(part_N) - rows(moved_N)) * links.price_PL).sum()
        assert change == pytest.approx(gain), (node, target)


@pytest.mark.slow
def test_weights_know_what_a_move_changes() -> None:
    """Guards against the same on coarse levels, whose edges have weights."""
    graph = communities(4, 40)
    view = ByWeight(graph=graph, ranges=[(0, 100), (100, 160)])
    part_X = np.random.default_rng(0).integers(0, 4, 160).astype(np.int32)
    links = links_of(LinkModel.of(resolve("2x2")), 1024)
    link_loads.set_loads(links, view.count(part_X, 4))
    link_loads.scale(links, 1.0, 0)
    limits = link_loads.limits_of(part_X, np.ones((160, 1), np.int64), np.full((4, 1), 160.0))
    nodes, targets, gains = view.propose(part_X, links, limits, 0)
    move_kernels._price(links)
    before_PP = view.count(part_X, 4)
    for node, target, gain in zip(nodes.tolist(), targets.tolist(), gains.tolist(), strict=True):
        moved_X = part_X.copy()
        moved_X[node] = target
        assert ((before_PP - view.count(moved_X, 4)) * links.price_PL).sum() == pytest.approx(gain)


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile_cases())
def test_hostile_graphs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against levels, moves or counts that die or leave parts empty on odd graphs, with several ranges."""
    monkeypatch.setattr(levels, "LEAST_NODES", 2)
    case = hostile_cases()[name]
    if len(case.speed_P) > case.num_nodes:
        with pytest.raises(PartitionError, match="parts for"):
            partitioned(case.matrix, case.topology, tmp_path)
        return
    result = partitioned(case.matrix, case.topology, tmp_path)
    assert sorted(set(result.assignment.tolist())) == list(range(len(case.speed_P)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_threads_do_not_change_the_parts_and_blocks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against parts that depend on the number of threads, and against levels that lose the communities."""
    monkeypatch.setattr(levels, "LEAST_NODES", 10)
    graph = communities(8, 150)
    settings = levels.Settings(coarsest_nodes=100, edges_a_range=3000, rows_a_range=400)
    one, two = (partitioned(graph, Topology.flat(4), tmp_path, settings, by_threads(most), seed=3) for most in (1, 2))
    assert np.array_equal(one.assignment, two.assignment)
    assert all(limit.met for limit in one.quality.limits)
    # Two of every fourteen edges lead between blocks, six of seven of them to another part.
    assert one.quality.cut_edges < 0.25 * graph.num_edges


def test_edges_can_be_what_counts(tmp_path: Path) -> None:
    """Guards against --balance edges that fails or is not looked at."""
    graph = communities(4, 60)
    result = partitioned(graph, Topology.flat(4), tmp_path, balance="edges", minimise="total")
    assert result.quality.cut_edges < 0.25 * graph.num_edges


def test_order_is_that_of_the_graph_in_memory(tmp_path: Path) -> None:
    """Guards against nodes that are lost or ordered otherwise when the edges come by way of files."""
    from graphprep.partition.ordering.order import locality_order

    matrix = communities(4, 60)
    graph = in_files(matrix, tmp_path)
    part_N = np.random.default_rng(0).integers(0, 5, 240).astype(np.int32)
    found = order_out_of_core(graph, part_N, 5, scratch=tmp_path, memory_limit=None)
    for one, other in zip(found, locality_order(graph.clean, part_N, 5), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("several_types", [False, True])
def test_the_whole_way_past_memory(
    several_types: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a run that loads all edges, a cache that is not whole, and an estimate of another run."""
    rng = np.random.default_rng(0)
    raw: RawGraph = typed_graph(rng) if several_types else labelled_graph(rng, 300, 1500)
    store = make_store(raw)
    monkeypatch.setattr("graphprep.partition.estimates.memory.full_budget", lambda limit: 1000)
    monkeypatch.setattr(GraphStore, "csr", lambda *_: pytest.fail("all edges were loaded"))
    plan = plan_partition(store.location, parts=3, topology=None, request=PartitionRequest(), out=tmp_path / "cache")
    told = plan.expectations()
    assert told["method"] == "multilevel"
    assert told["memory_bytes"] > 0
    cache = run_partition(plan).cache
    assert "by passes over its edges" in capsys.readouterr().err
    assert cache.attributes["options"]["method_chosen"] == "multilevel"
    assert np.bincount(np.asarray(cache.array("assignment"))).min() > 0


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against reads and writes beyond the arrays, which numba does not notice unless asked."""
    bounds_checked(
        """
import tempfile
from pathlib import Path
from graphprep.partition.out_of_core import contraction, levels
from graphprep.topology import Topology
from tests.partition.problems import hostile_cases
from tests.partition.out_of_core.test_out_of_core import communities, partitioned
levels.LEAST_NODES = 2
contraction.DENSITY = 6
with tempfile.TemporaryDirectory() as folder:
    for name in ("star", "pairs only", "one-way chain", "mostly isolated", "257 parts"):
        case = hostile_cases()[name]
        partitioned(case.matrix, case.topology, Path(folder))
    partitioned(communities(8, 60), Topology.flat(4), Path(folder))
"""
    )


@pytest.mark.slow
def test_edges_stay_out_of_memory(tmp_path: Path) -> None:
    """Guards against arrays of all edges in memory: 34 MB of edges, where what sorts them all at once has no room."""
    script = f"""
import resource
from pathlib import Path
import numpy as np
from graphprep.system import memory
from graphprep.core.types import Csr
from graphprep.partition.out_of_core import levels, mapped_graph
from graphprep.topology import Topology
from tests.partition.out_of_core.test_out_of_core import communities, csr_source, partitioned
from graphprep.partition.out_of_core.driver import partition_out_of_core
from graphprep.partition.request import PartitionRequest
folder = Path({str(tmp_path)!r})
partitioned(communities(4, 100), Topology.flat(2), folder / "warm")
count, degree = 150_000, 56
memory.return_freed_blocks()

class Ring:
    num_nodes = {{"node": count}}
    num_edges = {{mapped_graph.EdgeType("node", "to", "node"): count * degree}}
    directed = False
    def node_array(self, *_): return None
    def indptr(self, _): return np.arange(count + 1, dtype=np.int64) * degree
    def csr_rows(self, _, start, stop):
        steps = np.concatenate([np.arange(-degree // 2, 0), np.arange(1, degree // 2 + 1)])
        columns = np.sort((np.arange(start, stop)[:, None] + steps) % count, axis=1)
        return Csr(indptr=np.arange(stop - start + 1) * degree, indices=columns.astype(np.int32).ravel(),
                   num_sources=count)

mapped_graph.EDGES_AT_A_TIME = 1 << 17
held = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmData")) * 1024
limit = held + 260_000_000
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
room = memory.resident() + 220_000_000
graph = mapped_graph.MappedGraph.of(Ring(), folder, memory_limit=room)
assert isinstance(graph.clean.indices, np.memmap)
result = partition_out_of_core(graph, Topology.flat(4), PartitionRequest(method="multilevel"), scratch=folder,
    memory_limit=room, settings=levels.Settings(coarsest_nodes=2000, edges_a_range=1 << 18))
assert result.quality.cut_edges < 0.05 * count * degree, result.quality.cut_edges
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
