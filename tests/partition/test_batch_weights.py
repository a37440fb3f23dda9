"""Parts for mini-batches: edges weigh what is fetched over them, and parts made by them fetch fewer rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.core.csr import undirected_simple
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk, EdgeType
from graphprep.errors import PartitionError, UsageError
from graphprep.partition.batch_weights import BatchWeights, edge_weights
from graphprep.partition.evaluation import evaluate_assignment
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.report.pages import cache_page
from graphprep.report.summary.cache_summary import cache_summary
from graphprep.topology import Topology
from graphprep.traffic.visits import BatchShape
from pipelines.partition import plan_partition, run_partition
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, labelled_graph, random_edges
from tests.stores import make_store


def hub_graph(nodes: int = 1500, edges: int = 9000) -> WholeGraph:
    """Edges between nodes that are near to each other, or to hubs; a tenth of the nodes train, most of them early."""
    rng = np.random.default_rng(7)
    src = rng.integers(0, nodes, edges)
    dst = np.where(rng.random(edges) < 0.6, (src + rng.integers(1, 40, edges)) % nodes, rng.integers(0, 60, edges))
    matrix = csr_of(EdgeChunk(np.concatenate([src, dst]), np.concatenate([dst, src])), nodes)
    train_N = np.zeros(nodes, np.bool_)
    train_N[rng.choice(nodes, nodes // 10, replace=False, p=np.arange(nodes, 0, -1) / (nodes * (nodes + 1) / 2))] = True
    return WholeGraph.of_one_type(matrix, train_N)


def test_weights_on_a_tree() -> None:
    """Guards against hops that count twice, and subtrees that do not count: 0, which trains, has the neighbours 1 .. 4,
    and 1 has 5 and 6."""
    matrix = csr_of(EdgeChunk(np.array([1, 2, 3, 4, 5, 6]), np.array([0, 0, 0, 0, 1, 1])), 7)
    graph = WholeGraph.of_one_type(matrix, np.arange(7) == 0)
    found = edge_weights(graph, BatchShape(fanouts=(2, 1), batch_size=1))[HOMOGENEOUS_EDGE]
    second = 1 / 4  # in hop 2 node 0 draws one of 4 again; node 1 then draws no more
    expected = {1: 0.5 * (1 + 1) + second, 2: 0.5 + second, 5: 0.5 * 0.5}
    for source, weight in expected.items():
        assert found[np.flatnonzero(matrix.indices == source)[0]] == pytest.approx(weight)


def test_weights_of_both_directions_are_added() -> None:
    """Guards against weights that get to other edges, where some have no reverse, are there twice, or are loops; and
    against several types whose numbers are mixed up."""
    rng = np.random.default_rng(3)
    cites, writes = EdgeType("paper", "cites", "paper"), EdgeType("author", "writes", "paper")
    chunk = random_edges(rng, 40, 300)
    matrices = {
        cites: csr_of(chunk, 40),
        writes: csr_of(EdgeChunk(np.concatenate([chunk.src, [3, 3]]), np.concatenate([chunk.dst, [5, 5]])), 40),
    }
    masks = {"paper": rng.random(40) < 0.5}
    graph = WholeGraph.of(matrices, {"author": 40, "paper": 40}, training_masks=masks)
    weights = BatchWeights.of(graph, BatchShape(fanouts=(2, 2), batch_size=10))
    dense = np.zeros((80, 80))
    rows = np.repeat(np.arange(80), np.diff(weights.matrix.indptr))
    np.add.at(dense, (rows, weights.matrix.indices), weights.matrix.data)
    clean = weights.undirected(undirected_simple(graph.matrix))
    both = dense + dense.T
    np.fill_diagonal(both, 0)
    rows = np.repeat(np.arange(80), np.diff(clean.indptr))
    np.testing.assert_allclose(clean.data, both[rows, clean.indices])
    assert np.count_nonzero(both) == clean.num_edges
    of_types = edge_weights(graph, weights.shape)
    drawn = sum(float(each.sum()) for each in of_types.values())
    assert weights.matrix.data.sum() / weights.units_a_row == pytest.approx(drawn, rel=0.01)


def test_parts_for_sampling_fetch_fewer_rows(tmp_path: Path) -> None:
    """Guards against weights that the partitioner does not use, and limits that it gives up for them."""
    graph, topology = hub_graph(), Topology.flat(3)
    shape = BatchShape(fanouts=(4, 3), batch_size=12)
    sampling = PartitionRequest(purpose="sampling", fanouts=shape.fanouts, batch_size=shape.batch_size, effort="fast")
    made, _ = partition(graph, topology, sampling, scratch=tmp_path)
    for_full, _ = partition(graph, topology, PartitionRequest(effort="fast"), scratch=tmp_path)
    other = evaluate_assignment(for_full.assignment, graph, topology, sampling)
    assert made.quality.batches is not None
    assert other.quality.batches is not None
    assert made.quality.batches.rows < 0.95 * other.quality.batches.rows
    assert all(limit.met for limit in made.quality.limits)
    assert for_full.quality.batches is None
    assert sum(rank.seeds for rank in made.quality.batches.ranks) == pytest.approx(12)
    assert made.tried[0]["batch_rows"] >= made.quality.batches.rows


def test_a_graph_without_training_nodes_is_refused(tmp_path: Path) -> None:
    """Guards against parts for batches that there are none of."""
    graph = WholeGraph.of_one_type(hub_graph(60, 200).matrix)
    with pytest.raises(UsageError, match="--for sampling needs training nodes"):
        partition(graph, Topology.flat(2), PartitionRequest(purpose="sampling"), scratch=tmp_path)


def test_a_cache_says_what_it_was_made_for(tmp_path: Path) -> None:
    """Guards against caches of both kinds taken for each other, and reports that do not show what batches fetch."""
    store = make_store(labelled_graph(np.random.default_rng(1), 120, 900))
    words = ["--parts", "2", "--effort", "fast", "--for", "sampling", "--fanouts", "3,-1", "--batch-size", "8"]
    words += ["--out", str(tmp_path / "cache")]
    done = CliRunner().invoke(main, ["partition", str(store.location), *words])
    assert done.exit_code == 0, done.output
    assert "mini-batches of 8 training nodes with fanouts 3,-1" in done.stdout
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "cache"), "--json"])
    summary = json.loads(shown.stdout)
    figures = summary["quality"]["batches"]
    assert figures["fanouts"] == [3, -1]
    assert figures["rows"] == pytest.approx(sum(rank["rows_fetched"] for rank in figures["ranks"]))
    assert figures["row_bytes"] == 4 * store.node_array(HOMOGENEOUS_NODE, "x").shape[1]  # type: ignore[union-attr]
    assert "fetches about" in summary["beside_metis"]["verdict"][0]
    text = CliRunner().invoke(main, ["inspect", str(tmp_path / "cache")]).stdout
    assert "what mini-batches fetch over types of links" in text
    assert "training nodes a step" in cache_page(cache_summary(PartitionCache(tmp_path / "cache")))
    again = CliRunner().invoke(main, ["partition", str(store.location), *words[:4], *words[-2:]])
    assert again.exit_code != 0
    assert "purpose sampling there" in again.stderr


def test_edges_in_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against parts for the full graph where others were requested."""
    store = make_store(labelled_graph(np.random.default_rng(1), 120, 900), name="large")
    request = PartitionRequest(purpose="sampling", effort="fast")
    monkeypatch.setattr("pipelines.partition.needs_out_of_core", lambda *_, **__: True)
    plan = plan_partition(store, parts=2, topology=None, request=request, out=tmp_path / "cache")
    with pytest.raises(PartitionError, match="--for sampling needs all edges in memory"):
        run_partition(plan)


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against edges behind the end of their arrays."""
    bounds_checked(
        "from graphprep.core.csr import undirected_simple\n"
        "from graphprep.partition.batch_weights import BatchWeights\n"
        "from graphprep.partition.refine.hypergraph import edge_nets\n"
        "from graphprep.traffic.visits import BatchShape\n"
        "from tests.partition.test_batch_weights import hub_graph\n"
        "graph = hub_graph(300, 900)\n"
        "weights = BatchWeights.of(graph, BatchShape(fanouts=(2, -1), batch_size=10))\n"
        "weights.undirected(undirected_simple(graph.matrix))\n"
        "edge_nets(weights.matrix, weighted=True)\n"
    )
