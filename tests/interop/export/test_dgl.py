"""DGL's partition folder: numbers that fit together here, and in a process of their own the real dgl.

GRAPHPREP_DGL_PYTHON names an interpreter with dgl 2; dgl 2.1 needs torch 2.2, which is older than what graphprep needs.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.nn import SAGEConv

from tests.interop.export.exported import each_kind, exported
from tests.sage import sage_layer

READER = Path(__file__).with_name("dgl_reader.py")


@each_kind
def test_ranges_count_every_node_and_edge_once(kind: str, tmp_path: Path) -> None:
    """Guards against ranges that overlap, leave a gap, or are not in the order that DGL's partition book asserts."""
    store, cache, folder = exported(kind, "dgl", tmp_path)
    config = json.loads((folder / "part_config.json").read_text())
    assert config["num_parts"] == cache.num_parts
    assert config["num_nodes"] == sum(store.num_nodes.values())
    assert config["num_edges"] == sum(store.num_edges.values())
    for found, total in ((config["node_map"], config["num_nodes"]), (config["edge_map"], config["num_edges"])):
        flat = np.array(list(found.values())).transpose(1, 0, 2).ravel()
        assert flat[0] == 0
        assert flat[-1] == total
        assert np.array_equal(flat[1:-1:2], flat[2::2])
    for part in range(cache.num_parts):
        for file in config[f"part-{part}"].values():
            assert (folder / file).is_file()


@each_kind
def test_the_real_dgl_computes_the_same(kind: str, tmp_path: Path) -> None:
    """Guards against everything that only DGL can tell: its own checks, every edge's ends, features, and one layer."""
    python = os.environ.get("GRAPHPREP_DGL_PYTHON")
    if not python:
        pytest.skip("GRAPHPREP_DGL_PYTHON is not set: dgl 2.1 needs an interpreter of its own")
    store, cache, folder = exported(kind, "dgl", tmp_path)
    torch.manual_seed(0)
    conv = SAGEConv(5, 6)
    weights = {"neighbours": conv.lin_l.weight, "itself": conv.lin_r.weight, "bias": conv.lin_l.bias}
    np.savez(tmp_path / "weights.npz", **{name: tensor.detach().numpy() for name, tensor in weights.items()})
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [python, READER, folder, tmp_path / "weights.npz", tmp_path / "result.npz"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = dict(np.load(tmp_path / "result.npz"))
    for edge_type in cache.edge_types:
        matrix = store.csr(edge_type)
        rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
        name = "_N___E___N" if cache.is_homogeneous else edge_type.key
        numbers = []
        for part in range(cache.num_parts):
            number = result[f"e_id/{part}/{name}"]
            ends = np.stack([matrix.indices[number], rows[number]])
            assert np.array_equal(result[f"ends/{part}/{name}"], ends)
            if matrix.data is not None:
                feats = "_N:_E:_N" if cache.is_homogeneous else ":".join(edge_type)
                assert np.array_equal(result[f"feats/{part}/{feats}/weight"], matrix.data[number])
            numbers.append(number)
        assert np.array_equal(np.sort(np.concatenate(numbers)), np.arange(matrix.num_edges))
    for part in range(cache.num_parts):
        own, total, _ = result[f"counts/{part}"]
        assert own == sum(cache.part_sizes(part).values())
        halo = sum(
            len(cache.node_array(part, node_type, f"recv_{peer}"))
            for node_type in cache.node_types
            for peer in range(cache.num_parts)
            if peer != part
        )
        assert total == own + halo
        for node_type in cache.node_types:
            prefix = "_N" if cache.is_homogeneous else node_type
            for name in cache.node_arrays(part, node_type):
                array = cache.node_array(part, node_type, name)
                expected = array[:, 0] if name.endswith("_mask") else array
                assert np.array_equal(result[f"feats/{part}/{prefix}/{name}"], expected)
        if cache.is_homogeneous:
            expected = sage_layer(store, conv)[result[f"n_id/{part}"]]
            np.testing.assert_allclose(result[f"layer/{part}"], expected, rtol=1e-4, atol=1e-5)
