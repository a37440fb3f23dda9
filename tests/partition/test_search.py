"""The best candidate wins by the cost model; one that dies is named, and another takes its place."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from graphprep.core.csr import from_edges
from graphprep.core.types import EdgeChunk, EdgeType, Treatment
from graphprep.errors import PartitionError, TopologyError
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.topology import Topology
from graphprep.traffic import count_traffic
from tests.graphs import csr_of, random_edges
from tests.partition.problems import Case, edges, hostile_cases, ring_of_cliques


def test_metis_cuts_less_than_the_floors(tmp_path: Path) -> None:
    """Guards against a graph that reaches METIS scrambled: on a ring of cliques the good cut is known."""
    chunk, num_nodes = ring_of_cliques(8, 20)
    matrix = csr_of(chunk, num_nodes)
    result, _ = partition(WholeGraph.of_one_type(matrix), Topology.flat(4), PartitionRequest(), scratch=tmp_path)
    assert result.quality.cut_edges == 4
    assert [row["method"] for row in result.tried] == ["metis", "metis #2", "metis, refined", "metis #2, refined"]


@pytest.mark.slow
def test_few_training_nodes_do_not_tear_the_parts_apart(tmp_path: Path) -> None:
    """Guards against annealing that runs out of visits while it is hot, where the start breaks the limit on training
    nodes, so that whatever keeps it passes for better: a cut of 1.7 times METIS's on this mesh, and 6 times on others.
    """
    side = 24
    node_N = np.arange(side**3)
    axes = [node_N // side**axis % side for axis in range(3)]
    pairs = [node_N[at < side - 1] for at in axes]
    source = np.concatenate(pairs)
    target = np.concatenate([node + side**axis for axis, node in enumerate(pairs)])
    matrix = csr_of(edges(np.concatenate([source, target]), np.concatenate([target, source])), side**3)
    train_N = np.zeros(side**3, np.bool_)
    train_N[np.random.default_rng(0).choice(side**3, 160, replace=False)] = True
    graph = WholeGraph.of_one_type(matrix, train_N)
    result, _ = partition(graph, Topology.flat(4), PartitionRequest(), scratch=tmp_path)
    assert all(limit.met for limit in result.quality.limits)
    assert result.quality.halo_rows < result.tried[0]["halo_rows"]


def test_more_parts_than_nodes_is_refused(tmp_path: Path) -> None:
    """Guards against empty parts that nobody asked for."""
    matrix = csr_of(edges([0, 1], [1, 2]), 3)
    with pytest.raises(PartitionError, match="4 parts for 3 nodes"):
        partition(WholeGraph.of_one_type(matrix), Topology.flat(4), PartitionRequest(), scratch=tmp_path)


@pytest.mark.parametrize(
    ("effort", "methods"), [("none", ["assignment"]), ("fast", ["assignment", "assignment, refined"])]
)
def test_a_given_assignment_is_the_only_start(tmp_path: Path, effort: str, methods: list[str]) -> None:
    """Guards against parts that move to other ranks, or are made anew, though somebody said where they go."""
    chunk, num_nodes = ring_of_cliques(8, 20)
    given = np.random.default_rng(3).permutation(num_nodes).astype(np.int32) % 4
    request = PartitionRequest(effort=effort)
    graph = WholeGraph.of_one_type(csr_of(chunk, num_nodes))
    result, _ = partition(graph, Topology.flat(4), request, scratch=tmp_path, external_N=given)
    assert [row["method"] for row in result.tried] == methods
    if effort == "none":
        assert np.array_equal(result.assignment, given)
    else:
        assert result.quality.cut_edges < result.tried[0]["cut_edges"]


def test_one_part_needs_no_method(tmp_path: Path) -> None:
    """Guards against calling METIS for one part."""
    matrix = csr_of(edges([0, 1], [1, 2]), 3)
    result, _ = partition(WholeGraph.of_one_type(matrix), Topology.flat(1), PartitionRequest(), scratch=tmp_path)
    assert result.assignment.tolist() == [0, 0, 0]
    assert result.quality.cut_edges == 0


def test_a_dead_metis_is_survived_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a crash in native code that ends the run, and against a fallback that hides the reason."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    matrix = csr_of(random_edges(np.random.default_rng(0), 100, 400), 100)
    result, _ = partition(WholeGraph.of_one_type(matrix), Topology.flat(2), PartitionRequest(), scratch=tmp_path)
    assert result.method == "ldg, refined"
    words = capsys.readouterr().err
    assert "failed: exit status 1" in words
    assert "falling back to the streaming partitioner LDG" in words
    assert [row["method"] for row in result.tried] == ["metis-balanced", "metis-balanced #2", "ldg", "ldg, refined"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "effort"),
    [(name, "default") for name in hostile_cases()]
    + [("star", "best"), ("slow rank", "best"), ("two components", "none"), ("clique", "fast"), ("257 parts", "none")],
)
def test_hostile_graphs_the_whole_way(name: str, effort: str, tmp_path: Path) -> None:
    """Guards against a start, a mapping or a refinement that dies, loops or leaves ranks empty on an odd graph."""
    case = hostile_cases()[name]
    matrix, topology = case.matrix, topology_with_speeds(case)
    mask = np.random.default_rng(0).random(case.num_nodes) < 0.3
    request = PartitionRequest(effort=effort)
    if len(case.speed_P) > case.num_nodes:
        with pytest.raises(PartitionError, match=f"parts for {case.num_nodes} nodes"):
            partition(WholeGraph.of_one_type(matrix, mask), topology, request, scratch=tmp_path)
        return
    result, _ = partition(WholeGraph.of_one_type(matrix, mask), topology, request, scratch=tmp_path)
    assert result.assignment.shape == (case.num_nodes,)
    assert sorted(set(result.assignment.tolist())) == list(range(len(case.speed_P)))
    if name != "257 parts" and effort != "none":
        assert "nodes" in {limit.what for limit in result.quality.limits if limit.met}
    assert list(tmp_path.iterdir()) == []


def topology_with_speeds(case: Case) -> Topology:
    """The case's topology, its ranks as fast as its shares say."""
    if len(set(case.speed_P.tolist())) == 1:
        return case.topology
    return Topology.from_text(
        "name: uneven\nranks:\n"
        + "".join(f"  - {{name: r{p}, machine: m0, speed: {speed}}}\n" for p, speed in enumerate(case.speed_P))
        + "switches: [s]\nlinks:\n"
        + "".join(
            f"  - {{ends: [r{p}, s], type: pcie, gbytes_per_s: 12, latency_us: 3}}\n" for p in range(len(case.speed_P))
        )
    )


def test_ranks_that_cannot_reach_each_other() -> None:
    """Guards against traffic that is planned over no link: two machines without a network are refused, with names."""
    with pytest.raises(TopologyError, match="no path"):
        Topology.from_text(
            "name: apart\nranks:\n  - {name: a, machine: m0}\n  - {name: b, machine: m1}\nswitches: []\nlinks: []\n"
        )


@pytest.mark.slow
@pytest.mark.parametrize("balance", ["rows", "edges"])
def test_a_better_start_is_never_lost(balance: str, tmp_path: Path) -> None:
    """Guards against a refinement whose result is taken though the start was better, for rows and for edges."""
    matrix = csr_of(random_edges(np.random.default_rng(5), 800, 6000, weighted=False), 800)
    request = PartitionRequest(effort="best", balance=balance)  # type: ignore[arg-type]
    result, _ = partition(WholeGraph.of_one_type(matrix), Topology.flat(4), request, scratch=tmp_path)
    rows = [row for row in result.tried if "bottleneck_seconds" in row]
    assert result.method in {row["method"] for row in rows}
    assert any(row["method"].endswith("refined") for row in rows)
    starts = [row["bottleneck_seconds"] for row in rows if not row["method"].endswith("refined")]
    if all(limit.met for limit in result.quality.limits):
        assert result.quality.bottleneck_seconds <= max(starts)
    refined = min(row["bottleneck_seconds"] for row in rows if row["method"].endswith("refined"))
    assert result.quality.bottleneck_seconds <= refined


def test_several_types_are_shared_out_each(tmp_path: Path) -> None:
    """Guards against a rank without a node of some type while another has them all."""
    rng = np.random.default_rng(0)
    kinds = {EdgeType("author", "writes", "paper"): (400, 900), EdgeType("paper", "cites", "paper"): (900, 900)}
    matrices = {
        kind: from_edges(
            [EdgeChunk(rng.integers(0, sources, 4000), np.sort(rng.integers(0, rows, 4000)))],
            num_rows=rows,
            num_sources=sources,
            treatment=Treatment(),
            name=kind.key,
        )[0]
        for kind, (sources, rows) in kinds.items()
    }
    graph = WholeGraph.of(matrices, {"author": 400, "paper": 900})
    result, _ = partition(graph, Topology.flat(4), PartitionRequest(), scratch=tmp_path)
    assert all(limit.met for limit in result.quality.limits), result.quality.limits
    for part_N in graph.assignments(result.assignment).values():
        sizes_P = np.bincount(part_N, minlength=4)
        assert sizes_P.max() <= np.ceil(1.05 * len(part_N) / 4) + 1
    traffic = count_traffic(matrices, graph.assignments(result.assignment), 4)
    assert np.array_equal(traffic.rows_PP, result.traffic.rows_PP)


def test_memory_that_is_too_small_for_metis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against METIS that eats all memory, and against a way around it that says nothing."""
    monkeypatch.setattr("graphprep.system.memory.available", lambda: 30_000_000)
    chunk, num_nodes = ring_of_cliques(8, 20)
    graph = WholeGraph.of_one_type(csr_of(chunk, num_nodes))
    result, _ = partition(graph, Topology.flat(4), PartitionRequest(), scratch=tmp_path)
    assert "metis" not in result.method
    words = capsys.readouterr().err
    assert "metis would need about 40.4 MB of memory, and 30.0 MB are free; it is left out" in words
    assert "is used instead" in words
    named, _ = partition(graph, Topology.flat(4), PartitionRequest(method="metis"), scratch=tmp_path)
    assert named.method.startswith("metis")
    assert "metis would need about 40.4 MB of memory, and 30.0 MB are free; it may run out" in capsys.readouterr().err


def test_a_rank_with_little_memory_gets_little(tmp_path: Path) -> None:
    """Guards against `memory_gb` that is read and then ignored."""
    chunk, num_nodes = ring_of_cliques(64, 20)
    graph = WholeGraph.of_one_type(csr_of(chunk, num_nodes))
    ranks = ["{name: a, machine: m, memory_gb: 0.001}", "{name: b, machine: m}", "{name: c, machine: m}"]
    links = [f"{{ends: [{name}, s], type: pcie, gbytes_per_s: 12, latency_us: 3}}" for name in "abc"]
    topology = Topology.from_text(
        "\n  - ".join(["name: small\nranks:", *ranks]) + "\nswitches: [s]\n" + "\n  - ".join(["links:", *links])
    )
    result, _ = partition(graph, topology, PartitionRequest(), scratch=tmp_path)
    memory = {limit.what: limit for limit in result.quality.limits}["memory"]
    assert memory.met, memory
    assert result.quality.ranks[0].memory_bytes <= 1_000_000
    assert result.quality.ranks[0].nodes < 250 < result.quality.ranks[1].nodes
