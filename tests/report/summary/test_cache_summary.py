"""What is said of a cache: its own figures, bounds that hold, the same parts elsewhere, METIS beside, one node."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csgraph

from graphprep.cache.read import PartitionCache
from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.errors import UsageError
from graphprep.report.summary.cache_summary import cache_summary, what_if
from graphprep.report.summary.components import count_components
from graphprep.report.summary.one_node import node_summary
from graphprep.store.store import GraphStore
from graphprep.topology import Topology, resolve
from graphprep.traffic import assess
from pipelines.metis_reference import metis_reference
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def store() -> GraphStore:
    return make_store(labelled_graph(np.random.default_rng(1), 90, 150, undirected=True))


@pytest.fixture
def cache(store: GraphStore, tmp_path: Path) -> PartitionCache:
    return make_cache(store, resolve("2x2"), tmp_path / "cache")


def test_the_bottleneck_is_the_slowest_link(cache: PartitionCache) -> None:
    """Guards against a mark at another link, and against figures that are no JSON."""
    summary = json.loads(json.dumps(cache_summary(cache), allow_nan=False))
    quality = summary["quality"]
    assert summary["bottleneck"]["seconds"] == quality["bottleneck_seconds"]
    assert summary["bottleneck"] in quality["links"]
    assert summary["cut_share"] == quality["cut_edges"] / summary["num_edges"]


def test_one_part_has_no_bottleneck(store: GraphStore, tmp_path: Path) -> None:
    """Guards against a link that is called slow where nothing moves."""
    summary = cache_summary(make_cache(store, Topology.flat(1), tmp_path / "one"))
    assert summary["bottleneck"] is None
    assert [row["at_least"] for row in summary["bounds"]] == [0, 0]


@pytest.mark.slow
def test_components_are_those_of_the_graph(store: GraphStore, cache: PartitionCache, tmp_path: Path) -> None:
    """Guards against columns of a block that are joined to the wrong rows of their owner."""
    number, _ = csgraph.connected_components(store.to_scipy(), directed=False)
    assert count_components(cache) == number > 1
    typed = make_store(typed_graph(np.random.default_rng(3), num_edges=30), name="typed")
    whole = make_cache(typed, Topology.flat(1), tmp_path / "whole")
    assert count_components(make_cache(typed, Topology.flat(3), tmp_path / "three")) == count_components(whole) > 1


def test_no_assignment_is_below_the_bounds(tmp_path: Path) -> None:
    """Guards against a bound that some partition beats: a path cut in two has two cut edges, one each way."""
    from graphprep.core.types import EdgeChunk, EdgeTable, NodeTable, RawGraph, Treatment
    from graphprep.partition.request import PartitionRequest
    from pipelines.partition import PartitionPlan, run_partition

    chunk = EdgeChunk(np.arange(19), np.arange(1, 20))
    raw = RawGraph(
        nodes={"node": NodeTable(num_nodes=20)},
        edges=(EdgeTable(type=HOMOGENEOUS_EDGE, chunks=lambda: iter([chunk]), num_edges=19),),
        treatment=Treatment(undirected=True),
    )
    path = make_store(raw, name="path")
    request = PartitionRequest(method="metis", effort="none")
    plan = PartitionPlan(store=path, topology=Topology.flat(2), request=request, target=tmp_path / "path")
    bounds = cache_summary(run_partition(plan).cache)["bounds"]
    assert [(row["of"], row["found"], row["at_least"]) for row in bounds[:2]] == [
        ("cut_edges", 2, 2),
        ("halo_rows", 2, 2),
    ]
    for row in bounds:
        assert row["at_least"] <= row["found"] * (1 + 1e-12)


@pytest.mark.parametrize(("name", "row_bytes"), [("2x2", 1024), ("workstation-4", 64)])
def test_what_if_is_what_a_partitioner_would_say(
    store: GraphStore, cache: PartitionCache, name: str, row_bytes: int
) -> None:
    """Guards against a what-if that computes another cost than the one parts are made by."""
    topology = resolve(name)
    again = what_if(cache, topology, row_bytes)
    train = store.node_array("node", "train_mask")
    assert train is not None
    judged = assess(
        {HOMOGENEOUS_EDGE: store.csr(HOMOGENEOUS_EDGE)},
        {"node": cache.assignment("node")},
        topology,
        row_bytes=row_bytes,
        training_masks={"node": np.asarray(train[:])[:, 0]},
    ).to_json()
    for key in ("bottleneck_seconds", "sum_seconds", "cut_edges", "halo_rows", "links", "link_types", "ranks"):
        assert again[key] == judged[key]
    assert again["ratio"] == judged["bottleneck_seconds"] / cache.quality["bottleneck_seconds"]


def test_what_if_needs_a_rank_a_part(cache: PartitionCache) -> None:
    """Guards against parts that are silently laid on too many ranks or too few."""
    with pytest.raises(UsageError, match="cache split"):
        what_if(cache, resolve("2x4"), None)
    with pytest.raises(UsageError, match="cache merge"):
        what_if(cache, resolve("workstation-2"), None)
    with pytest.raises(UsageError, match="--row-bytes 0"):
        what_if(cache, None, 0)


@pytest.mark.slow
def test_metis_in_its_own_order(store: GraphStore, tmp_path: Path) -> None:
    """Guards against a comparison with METIS whose parts were laid on ranks or refined."""
    from graphprep.partition.request import PartitionRequest
    from pipelines.partition import PartitionPlan, run_partition

    request = PartitionRequest(method="metis", effort="none")
    plan = PartitionPlan(store=store, topology=resolve("2x2"), request=request, target=tmp_path / "metis")
    cache = run_partition(plan).cache
    metis = metis_reference(cache)
    for key in ("bottleneck_seconds", "sum_seconds", "cut_edges", "halo_rows"):
        assert metis[key] == cache.quality[key]
    assert metis["ratio"] == 1.0


@pytest.mark.slow
def test_every_node_is_found_where_it_lies(store: GraphStore, cache: PartitionCache) -> None:
    """Guards against local rows and neighbours that are numbered in another order."""
    matrix = store.csr(HOMOGENEOUS_EDGE)
    y = np.asarray(store.node_array("node", "y")[:])  # type: ignore[index]
    for node in range(matrix.num_rows):
        found = node_summary(cache, str(node))
        part = found["part"]
        assert part == cache.assignment("node")[node]
        assert cache.node_array(part, "node", "global_ids")[found["local_row"]] == node
        assert found["y"] == y[node]
        sources = matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]
        assert sorted(other for row in found["neighbours"] for other in row["first"]) == sorted(sources.tolist())
        assert found["in_edges"] == len(sources)
        needed_by = {int(cache.assignment("node")[v]) for v in range(90) if node in _row(matrix, v)} - {part}
        assert set(found["row_goes_to"]) == needed_by


def _row(matrix: object, row: int) -> list[int]:
    return matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist()  # type: ignore[attr-defined]


def test_nodes_of_several_types(tmp_path: Path) -> None:
    """Guards against a number that is taken for a node of the first type."""
    store = make_store(typed_graph(np.random.default_rng(3)))
    cache = make_cache(store, Topology.flat(3), tmp_path / "typed")
    found = node_summary(cache, "paper:7")
    assert found["node_type"] == "paper"
    assert all(":" in node for row in found["neighbours"] for node in row["first"])
    for asked, words in (("7", "TYPE:NUMBER"), ("book:7", "no node type 'book'"), ("paper:50", "from 0 to 49")):
        with pytest.raises(UsageError, match=words):
            node_summary(cache, asked)
    for asked in ("-1", "x", "", "paper:", "1.5"):
        with pytest.raises(UsageError):
            node_summary(cache, f"paper:{asked}")
