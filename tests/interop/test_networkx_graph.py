"""Small graphs for NetworkX: every node, every edge, and a limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_NODE
from graphprep.errors import UsageError
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.partition.problems import edges
from tests.stores import make_cache, make_store


def test_nodes_and_parallel_edges(tmp_path: Path) -> None:
    """Guards against parallel edges that become one, and attributes of another node."""
    raw = labelled_graph(np.random.default_rng(1), 20, 200, weighted=True)
    store = make_store(raw)
    cache = make_cache(store, Topology.flat(2), tmp_path / "cache")
    chunk = next(raw.edges[0].chunks())
    expected = sorted(zip(chunk.src.tolist(), chunk.dst.tolist(), chunk.weight.tolist(), strict=True))  # type: ignore[union-attr]
    for graph in (store.to_networkx(), cache.to_networkx()):
        assert graph.is_multigraph()
        assert sorted(graph.edges(data="weight")) == expected
        labels = raw.nodes[HOMOGENEOUS_NODE].y
        assert labels is not None
        assert [graph.nodes[node]["y"] for node in range(20)] == labels.tolist()
    parts = [cache.to_networkx(part) for part in range(2)]
    assert sorted(edge for part in parts for edge in part.edges(data="weight")) == expected


def test_a_graph_without_parallels_is_simple() -> None:
    """Guards against a MultiDiGraph that algorithms refuse."""
    raw = labelled_graph(np.random.default_rng(1), 3, 0)
    chunk = edges([0, 1, 1], [1, 0, 2])
    table = type(raw.edges[0])(type=raw.edges[0].type, chunks=lambda: iter([chunk]), num_edges=3)
    graph = make_store(type(raw)(nodes=raw.nodes, edges=(table,))).to_networkx()
    assert not graph.is_multigraph()
    assert sorted(graph.edges) == [(0, 1), (1, 0), (1, 2)]


@pytest.mark.slow
def test_several_types(tmp_path: Path) -> None:
    """Guards against authors and papers of the same number that become one node."""
    store = make_store(typed_graph(np.random.default_rng(2)))
    graph = make_cache(store, Topology.flat(2), tmp_path / "cache").to_networkx()
    assert graph.number_of_nodes() == 80
    assert graph.number_of_edges() == 600
    assert {kind for _, _, kind in graph.edges(data="type")} == {kind.key for kind in store.num_edges}


def test_a_large_graph_is_refused(tmp_path: Path) -> None:
    """Guards against a machine that swaps because somebody wanted to look."""
    store = make_store(labelled_graph(np.random.default_rng(1), 20, 200))
    cache = make_cache(store, Topology.flat(2), tmp_path / "cache")
    for refused in (lambda: store.to_networkx(limit=219), lambda: cache.to_networkx(limit=219)):
        with pytest.raises(UsageError, match="20 nodes and 200 edges is above the limit of 219"):
            refused()
    assert store.to_networkx(limit=220).number_of_edges() == 200
    with pytest.raises(UsageError, match="above the limit"):
        cache.to_networkx(0, limit=10)
