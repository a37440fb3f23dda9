"""Data and HeteroData: what PyTorch Geometric computes with them is what the graph says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv

from graphprep.core.types import HOMOGENEOUS_NODE
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.sage import sage_layer
from tests.stores import make_cache, make_store


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sage_layer_over_the_parts_is_that_over_the_whole(tmp_path: Path, weighted: bool) -> None:
    """Guards against lost edges, halo rows of other nodes, and reversed edges."""
    store = make_store(labelled_graph(np.random.default_rng(4), 70, 600, weighted=weighted))
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    torch.manual_seed(0)
    conv = SAGEConv(5, 6)
    expected = sage_layer(store, conv)
    for data in (store.to_pyg(), cache.to_pyg()):
        assert isinstance(data, Data)
        assert data.validate()
        np.testing.assert_allclose(conv(data.x, data.edge_index).detach(), expected, rtol=1e-4, atol=1e-5)
        assert ("edge_weight" in data) == weighted
    for part in range(3):
        data = cache.to_pyg(part)
        own = data.own_mask
        found = conv(data.x, data.edge_index)[own].detach()
        np.testing.assert_allclose(found, expected[data.n_id[own]], rtol=1e-4, atol=1e-5)


def test_arrays_as_pyg_has_them(tmp_path: Path) -> None:
    """Guards against lost labels, lost dtypes, and masks that index as matrices."""
    raw = labelled_graph(np.random.default_rng(5), 30, 100, dtype="float16")
    table = raw.nodes[HOMOGENEOUS_NODE]
    data = make_store(raw).to_pyg()
    assert data.num_nodes == 30
    assert data.x.dtype == torch.float16
    assert np.array_equal(data.y, table.y)  # type: ignore[arg-type]
    assert data.train_mask.shape == (30,)
    assert np.array_equal(data.train_mask, table.train_mask[:, 0])  # type: ignore[index]
    assert data.is_sorted(sort_by_row=False)


@pytest.mark.slow
def test_several_types(tmp_path: Path) -> None:
    """Guards against a node type without features that is dropped, and against edges between wrong types."""
    store = make_store(typed_graph(np.random.default_rng(6)))
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    whole = store.to_pyg()
    assert isinstance(whole, HeteroData)
    assert whole.validate()
    assert whole["author"].num_nodes == 30
    assert set(whole.edge_types) == {
        ("author", "writes", "paper"),
        ("paper", "by", "author"),
        ("paper", "cites", "paper"),
    }
    again = cache.to_pyg()
    edges: dict[tuple[str, str, str], int] = dict.fromkeys(whole.edge_types, 0)
    for kind in whole.edge_types:
        assert torch.equal(whole[kind].edge_index, again[kind].edge_index)
    for part in range(3):
        data = cache.to_pyg(part)
        for kind in data.edge_types:
            edge_index = data[kind].edge_index
            source, destination = data[kind[0]].n_id[edge_index[0]], data[kind[2]].n_id[edge_index[1]]
            assert torch.equal(torch.stack([source, destination]), whole[kind].edge_index[:, data[kind].e_id])
            edges[kind] += edge_index.shape[1]
    assert edges == {kind: whole[kind].num_edges for kind in whole.edge_types}
