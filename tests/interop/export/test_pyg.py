"""PyG's partition folder, loaded by PyG's own classes, and the Data object of each part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage
from torch_geometric.distributed import LocalFeatureStore, LocalGraphStore
from torch_geometric.nn import SAGEConv

from graphprep.interop.export.pyg import save
from tests.interop.export.exported import each_kind, exported
from tests.sage import sage_layer

OF_DATA = [BaseStorage, DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage]
"""What a saved Data or HeteroData names beside PyG's own safe list."""
pytestmark = pytest.mark.filterwarnings("ignore:.*distributed:DeprecationWarning")


@pytest.mark.slow
@each_kind
def test_local_graph_stores_hold_every_edge_once(kind: str, tmp_path: Path) -> None:
    """Guards against edge ids that are another edge's, unsorted columns that `is_sorted` denies, and wrong maps."""
    store, cache, folder = exported(kind, "pyg", tmp_path)
    counts = dict.fromkeys(cache.edge_types, 0)
    for part in range(cache.num_parts):
        graphs = LocalGraphStore.from_partition(str(folder), part)
        assert (graphs.num_partitions, graphs.partition_idx) == (cache.num_parts, part)
        for edge_type in cache.edge_types:
            matrix = store.csr(edge_type)
            rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
            name = None if cache.is_homogeneous else tuple(edge_type)
            key = {"edge_type": name, "layout": "coo"}
            edge_index, number = graphs.get_edge_index(**key), graphs.get_edge_id(**key)
            assert np.array_equal(edge_index, np.stack([matrix.indices[number], rows[number]]))
            assert (edge_index[1].diff() >= 0).all()
            assert (graphs.get_partition_ids_from_eids(number, name) == part).all()
            counts[edge_type] += len(number)
            node_type = None if cache.is_homogeneous else edge_type.destination
            assert (graphs.get_partition_ids_from_nids(edge_index[1], node_type) == part).all()
    assert counts == store.num_edges


@pytest.mark.slow
@each_kind
def test_local_feature_stores_find_rows_by_global_id(kind: str, tmp_path: Path) -> None:
    """Guards against features, labels or weights of another node or edge, and against labels that are left out."""
    store, cache, folder = exported(kind, "pyg", tmp_path)
    for part in range(cache.num_parts):
        feats = LocalFeatureStore.from_partition(str(folder), part)
        for node_type in cache.node_types:
            ids = torch.tensor(cache.node_array(part, node_type, "global_ids"))
            table = store.node_table(node_type).arrays()
            group = None if cache.is_homogeneous else node_type
            if not len(ids):
                assert feats.get_global_id(group) is None
                continue
            assert np.array_equal(feats.get_global_id(group), ids)
            for name, array in table.items():
                found = feats.get_tensor_from_global_id(group_name=group, attr_name=name, index=ids.flip(0))
                expected = array[:, 0] if name.endswith("_mask") else array
                assert np.array_equal(found, expected[ids.flip(0)])
        graphs = LocalGraphStore.from_partition(str(folder), part)
        for edge_type in cache.edge_types:
            weights = store.csr(edge_type).data
            name = None if cache.is_homogeneous else tuple(edge_type)
            number = graphs.get_edge_id(edge_type=name, layout="coo")
            if weights is not None and len(number):
                group = (None, None) if cache.is_homogeneous else tuple(edge_type)
                found = feats.get_tensor_from_global_id(group_name=group, attr_name="edge_attr", index=number)
                assert np.array_equal(found[:, 0], weights[number])


@pytest.mark.slow
@each_kind
def test_data_objects_compute_the_same(kind: str, tmp_path: Path) -> None:
    """Guards against a Data that needs an unsafe load, and against a layer over the parts that is not the whole's."""
    store, cache, folder = exported(kind, "pyg", tmp_path)
    torch.manual_seed(0)
    conv = SAGEConv(5, 6)
    edges = 0
    for part in range(cache.num_parts):
        with torch.serialization.safe_globals(OF_DATA):
            data = torch.load(folder / f"part_{part}" / "data.pt", weights_only=True)
        assert data.validate()
        edges += data.num_edges
        if cache.is_homogeneous:
            own = data.own_mask
            assert np.array_equal(data.n_id[own], cache.node_array(part, "node", "global_ids"))
            found = conv(data.x, data.edge_index)[own].detach()
            np.testing.assert_allclose(found, sage_layer(store, conv)[data.n_id[own]], rtol=1e-4, atol=1e-5)
    assert edges == sum(store.num_edges.values())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is where a disk that is always full can be had")
@pytest.mark.parametrize("rows", [10, 10_000_000])
def test_a_full_disk_is_called_one(rows: int) -> None:
    """Guards against torch's own words for it, which nobody understands."""
    with pytest.raises(OSError, match="No space left"):
        save({"x": torch.zeros(rows)}, Path("/dev/full"))
