"""Plain NumPy: what docs/export.md says, read by NumPy alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from graphprep.cache.read import PartitionCache
from graphprep.interop.export.npz import NpzFormat
from tests.interop.export.exported import each_kind, exported


@each_kind
def test_the_parts_are_the_graph(kind: str, tmp_path: Path) -> None:
    """Guards against a name, a column or a halo row that is not where the page says."""
    store, cache, folder = exported(kind, "npz", tmp_path)
    facts = json.loads((folder / "graphprep.json").read_text())
    parts = [np.load(folder / f"part_{part}.npz", allow_pickle=False) for part in range(facts["num_parts"])]
    whole = np.load(folder / "graph.npz")
    assert np.array_equal(whole["assignment"], cache.array("assignment"))
    assert np.array_equal(whole["traffic_rows"], cache.array("traffic_rows"))
    for part, arrays in enumerate(parts):
        for node_type in facts["node_types"]:
            root = f"nodes/{node_type}"
            ids = arrays[f"{root}/global_ids"]
            assert np.array_equal(ids, cache.node_array(part, node_type, "global_ids"))
            for name, array in store.node_table(node_type).arrays().items():
                assert arrays[f"{root}/{name}"].dtype == array.dtype
                np.testing.assert_array_equal(arrays[f"{root}/{name}"], array[ids])
            owners = zip(arrays[f"{root}/halo_part"], arrays[f"{root}/halo_row"], strict=True)
            assert [parts[q][f"{root}/global_ids"][row] for q, row in owners] == arrays[f"{root}/halo_ids"].tolist()
        for edge_type in cache.edge_types:
            matrix, root = store.csr(edge_type), f"edges/{edge_type.key}"
            source = f"nodes/{edge_type.source}"
            ids = np.concatenate([arrays[f"{source}/global_ids"], arrays[f"{source}/halo_ids"]])
            number = arrays[f"{root}/number"]
            assert np.array_equal(ids[arrays[f"{root}/indices"]], matrix.indices[number])
            assert np.diff(arrays[f"{root}/indptr"]).sum() == len(number)
            assert (f"{root}/data" in arrays) == (matrix.data is not None)
            if matrix.data is not None:
                assert np.array_equal(arrays[f"{root}/data"], matrix.data[number])
    assert sum(len(arrays[f"edges/{cache.edge_types[0].key}/number"]) for arrays in parts) == next(
        iter(store.num_edges.values())
    )


def test_the_same_cache_gives_the_same_bytes(tmp_path: Path) -> None:
    """Guards against times of day in the archives, with which no two exports could be compared."""
    _, cache, folder = exported("plain", "npz", tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    NpzFormat().write(PartitionCache(cache.folder), again, lambda: None)
    for path in again.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes()
