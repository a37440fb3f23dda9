"""Zachary's karate club: written out here, so it must be compared with another copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphprep.datasets import readers, registry
from tests.datasets.published import ordered, same, treated


def test_the_graph_is_pyg_s(tmp_path: Path) -> None:
    """A slip in a table typed by hand."""
    from torch_geometric.datasets import KarateClub

    entry = registry.entry("karate-club")
    raw = readers.read(tmp_path, entry)
    data = KarateClub()[0]
    same(raw, data)
    edges = treated(raw, raw.edges[0])
    assert np.array_equal(edges, ordered(edges[:, ::-1]))
    nodes = raw.nodes["node"]
    assert nodes.train_mask is not None
    assert nodes.test_mask is not None
    assert (nodes.train_mask ^ nodes.test_mask).all()
    entry.expected.check({"nodes": nodes.num_nodes, "edges": len(edges)}, dataset="karate")
