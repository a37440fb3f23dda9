"""The 24 protein graphs in one: each part is PyTorch Geometric's, and what contradicts is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.datasets import readers
from graphprep.errors import DatasetError
from tests.datasets.published import PUBLISHED, ordered, spoiled, treated, write_files
from tests.datasets.published_files import Files


@pytest.mark.parametrize("directed", [True, False])
def test_every_graph_is_pyg_s(tmp_path: Path, no_network: None, directed: bool) -> None:
    """Numbers that are shifted between the graphs would join proteins of two tissues."""
    import torch_geometric.datasets as datasets

    files = PUBLISHED["ppi"].files()
    for name in files:
        if name.endswith(".json"):
            files[name]["directed"] = directed
    write_files(tmp_path / "raw", files)
    entry = PUBLISHED["ppi"].write(tmp_path, files)
    raw = readers.read(tmp_path, entry)
    nodes, edges = raw.nodes["node"], treated(raw, raw.edges[0])
    assert nodes.x is not None
    assert nodes.y is not None
    first = graph = 0
    for split, mask in (("train", nodes.train_mask), ("val", nodes.val_mask), ("test", nodes.test_mask)):
        assert mask is not None
        for data in datasets.PPI(str(tmp_path), split=split):
            here = slice(first, first + data.num_nodes)
            inside = edges[(edges[:, 0] >= here.start) & (edges[:, 0] < here.stop)] - first
            assert np.array_equal(inside, ordered(data.edge_index.t().numpy()))
            assert np.array_equal(nodes.x[here], data.x.numpy())
            assert np.array_equal(nodes.y[here], data.y.numpy())
            assert mask[here].all()
            assert (nodes.more["graph_id"][here] == graph).all()
            first, graph = here.stop, graph + 1
    assert first == nodes.num_nodes
    assert raw.notes["graphs"] == graph == 6


def test_links_between_graphs_are_left_out_and_counted(tmp_path: Path) -> None:
    """PyTorch Geometric drops them without a word; the store says how many there were."""

    def cross(files: Files) -> None:
        files["train_graph.json"]["links"].append({"source": 0, "target": 27})

    entry = spoiled("ppi", tmp_path / "raw", cross)
    assert readers.read(tmp_path / "raw", entry).notes["links_between_graphs_left_out"] == 1


def link(value: Any) -> Callable[[Files], None]:
    return lambda files: files["valid_graph.json"]["links"].append(value)


def array(name: str, change: Callable[[Any], Any]) -> Callable[[Files], None]:
    return lambda files: files.update({name: change(files[name])})


def without_first_node(files: Files) -> None:
    del files["valid_graph.json"]["nodes"][0]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (link({"source": 0, "target": 21}), "names the node 21"),
        (link({"source": -1, "target": 0}), "names the node -1"),
        (link({"source": 0.5, "target": 0}), "dtype float64"),
        (link({"source": "a", "target": 0}), "no table of numbers|dtype"),
        (link({"source": 0}), "not the nodes and links"),
        (without_first_node, "does not list the nodes 0 .. 20"),
        (array("valid_graph.json", lambda _: {"nodes": []}), "not the nodes and links"),
        (array("valid_graph.json", lambda _: [1]), "not the nodes and links"),
        (array("valid_graph.json", lambda _: b"{"), "no JSON"),
        (array("valid_labels.npy", lambda y: y[:-1]), "shape"),
        (array("valid_labels.npy", lambda y: y + 1), "something else than 0 and 1"),
        (array("valid_labels.npy", lambda y: y[:, :-1]), "3, 2, 3 columns"),
        (array("valid_feats.npy", lambda x: np.where(x > 0.5, np.nan, x)), "not finite"),
        (array("valid_feats.npy", lambda x: x.astype(str)), "not numbers"),
        (array("valid_graph_id.npy", lambda ids: ids.astype(float)), "not integers"),
        (lambda files: files.pop("test_feats.npy"), "no member test_feats.npy"),
    ],
)
def test_files_that_contradict(tmp_path: Path, spoil: Callable[[Files], None], words: str) -> None:
    """One sentence with the archive's name for each thing that would become a wrong graph or a traceback."""
    entry = spoiled("ppi", tmp_path / "raw", spoil)
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path / "raw", entry)
    assert "ppi.zip" in str(caught.value)
