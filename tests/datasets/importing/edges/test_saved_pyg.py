"""Saved Data and HeteroData: what is read, and that nothing in the file is run."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from graphprep.core.types import EdgeType
from graphprep.datasets.importing.edges import saved_pyg
from graphprep.errors import DatasetError, UsageError
from tests.datasets.user_graphs import edges_of, graph, written

INDEX = torch.tensor([[0, 2, 1], [1, 0, 1]])


def saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


def small(**more: Any) -> Data:
    return Data(edge_index=INDEX, **more)


def test_data(tmp_path: Path) -> None:
    """Guards against attributes that are lost: features in their dtype, labels, masks of several splits."""
    masks = torch.tensor([[True, False], [False, True], [False, False]])
    data = small(
        x=torch.ones(3, 2, dtype=torch.float16), y=torch.tensor([[1], [0], [-1]]), train_mask=masks, test_mask=~masks
    )
    raw = graph(saved(tmp_path / "d.pt", data))
    nodes = raw.nodes["node"]
    assert edges_of(raw.edges[0]) == [(0, 1), (2, 0), (1, 1)]
    assert nodes.num_nodes == 3
    assert nodes.x.dtype == np.float16  # type: ignore[union-attr]
    assert nodes.y.tolist() == [1, 0, -1]  # type: ignore[union-attr]
    assert np.array_equal(nodes.train_mask, masks.numpy())  # type: ignore[arg-type]
    assert nodes.val_mask is None


def test_features_are_not_loaded(tmp_path: Path) -> None:
    """Guards against a file that has to fit in memory."""
    raw = graph(saved(tmp_path / "d.pt", small(x=torch.ones(3, 4))))
    maps = Path("/proc/self/maps").read_text()
    assert raw.nodes["node"].x.tolist() == [[1] * 4] * 3  # type: ignore[union-attr]
    assert str(tmp_path / "d.pt") in maps


def test_weights_and_times(tmp_path: Path) -> None:
    """Guards against a time of edges that is taken for one of nodes, and the other way round."""
    weight, time = torch.tensor([1.0, 2, 3]), torch.tensor([3, 2, 1])
    data = small(x=torch.ones(4, 1), edge_weight=weight, time=time, edge_attr=torch.ones(3, 5))
    raw = graph(saved(tmp_path / "d.pt", data), weights=True, edge_times=True)
    assert edges_of(raw.edges[0]) == [(0, 1, 1), (2, 0, 2), (1, 1, 3)]
    assert raw.edges[0].attributes["time"].tolist() == [3, 2, 1]
    assert raw.notes["ignored"] == {"d.pt": ["node__to__node edge_attr"]}
    raw = graph(saved(tmp_path / "e.pt", small(x=torch.ones(4, 1), time=torch.arange(4))))
    assert raw.nodes["node"].more["time"].tolist() == [0, 1, 2, 3]
    with pytest.raises(DatasetError, match="have no times"):
        graph(tmp_path / "e.pt", edge_times=True)


def test_number_of_nodes(tmp_path: Path) -> None:
    """Guards against isolated nodes that are lost."""
    data = small()
    assert graph(saved(tmp_path / "a.pt", data)).nodes["node"].num_nodes == 3
    data.num_nodes = 7
    assert graph(saved(tmp_path / "b.pt", data)).nodes["node"].num_nodes == 7


def test_hetero_data(tmp_path: Path) -> None:
    """Guards against types that are mixed up."""
    data = HeteroData()
    data["paper"].x = torch.ones(3, 2)
    data["paper"].y = torch.tensor([0, 1, 0])
    data["author"].num_nodes = 5
    data["paper", "by", "author"].edge_index = torch.tensor([[0, 2], [4, 3]])
    data["author", "rev_by", "paper"].edge_index = torch.tensor([[4, 3], [0, 2]])
    data["paper", "about", "topic"].edge_index = torch.tensor([[0], [1]])
    data.title = "not read"
    raw = graph(saved(tmp_path / "h.pt", data))
    assert {name: table.num_nodes for name, table in raw.nodes.items()} == {"paper": 3, "author": 5, "topic": 2}
    found = {table.type: edges_of(table) for table in raw.edges}
    assert found == {
        EdgeType("paper", "by", "author"): [(0, 4), (2, 3)],
        EdgeType("author", "rev_by", "paper"): [(4, 0), (3, 2)],
        EdgeType("paper", "about", "topic"): [(0, 1)],
    }
    assert raw.notes["ignored"] == {"h.pt": ["title"]}


class Evil:
    def __reduce__(self) -> Any:
        return (os.system, ("touch evil-was-here",))


def test_code_in_the_file_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against torch.load as an interpreter of strangers' programs."""
    monkeypatch.chdir(tmp_path)
    data = small()
    data.x = Evil()
    for value in (Evil(), data, {"a": Evil()}):
        with pytest.raises(DatasetError, match=r"asks for (posix|nt|os)\.system"):
            graph(saved(tmp_path / "d.pt", value))
    torch.save(small(x=Evil()), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(DatasetError, match=r"old\.pt"):
        graph(tmp_path / "old.pt")
    assert not (tmp_path / "evil-was-here").exists()


def test_classes_of_the_package_never_see_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against setters of Data that trust the state in a file."""
    path = saved(tmp_path / "d.pt", small())

    def trap(self: Any, state: Any) -> None:
        raise AssertionError("Data was built")

    monkeypatch.setattr(Data, "__setstate__", trap, raising=False)
    allowed = torch.serialization.get_safe_globals()
    assert graph(path).nodes["node"].num_nodes == 3
    assert set(torch.serialization.get_safe_globals()) == set(allowed)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "it holds a list, not a Data"),
        (torch.ones(3), "it holds a Tensor, not a Data"),
        ({"edge_index": INDEX}, "it holds a dict"),
        (Data(x=torch.ones(3, 1)), "no edge_index"),
        (Data(edge_index=torch.ones(2, 3)), "edge_index of node__to__node has shape"),
        (Data(edge_index=INDEX.T), r"shape \(3, 2\)"),
        (Data(edge_index=torch.tensor([[0], [-1]]), num_nodes=2), "the node id -1"),
        (Data(edge_index=INDEX, x=torch.ones(2, 1)), "the node id 2 does not fit 2 nodes"),
        (Data(edge_index=INDEX, x=torch.tensor([[1.0], [np.nan], [0]])), "array 'x': row 1"),
        (Data(edge_index=INDEX, x=torch.ones(3, 1), y=torch.tensor([0, 1])), "must agree"),
        (Data(edge_index=INDEX, y=torch.tensor([0, 1, 9])), "array 'y': row 2 has the class 9"),
        (Data(edge_index=INDEX, x=torch.ones(3, 1).to_sparse()), "not a plain tensor"),
        (Data(edge_index=INDEX, x="words"), "is a str, not a plain tensor"),
        (Data(edge_index=INDEX, num_nodes=-4), "num_nodes of node is -4"),
    ],
)
def test_what_is_no_graph(tmp_path: Path, value: Any, words: str) -> None:
    """Guards against any saved thing being taken for a graph."""
    with pytest.raises(DatasetError, match=words) as caught:
        graph(saved(tmp_path / "d.pt", value))
    assert str(tmp_path / "d.pt") in str(caught.value)


def test_names_of_types(tmp_path: Path) -> None:
    """Guards against a type whose name leads out of the store."""
    for name in ("../x", "a__b", "", ".hidden", "a/b"):
        data = HeteroData()
        data[name].num_nodes = 2
        data[name, "to", name].edge_index = INDEX[:, 1:]
        with pytest.raises(DatasetError, match="type name"):
            graph(saved(tmp_path / "h.pt", data))


def test_damage(tmp_path: Path) -> None:
    """Guards against a flipped bit in a tensor, which torch itself does not notice, and a cut file."""
    path = saved(tmp_path / "d.pt", small(x=torch.arange(3000.0).reshape(3, 1000)))
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        info = next(info for info in archive.infolist() if info.file_size == 12_000)
    flipped = bytearray(whole)
    flipped[info.header_offset + 5000] ^= 4
    for data in (bytes(flipped), whole[: len(whole) // 2], whole[:-10], whole[:3], b"", b"<html>"):
        with pytest.raises(DatasetError, match=r"d\.pt"):
            graph(written(path, data))


def test_alone(tmp_path: Path) -> None:
    """Guards against files beside it that nobody reads."""
    path = saved(tmp_path / "d.pt", small())
    with pytest.raises(UsageError, match="import it alone"):
        graph(path, written(tmp_path / "e.txt", "0 1\n"))
    with pytest.raises(UsageError, match="features cannot be given beside it"):
        graph(path, features=tmp_path / "x.npy")


def test_every_name_that_is_written_is_known(tmp_path: Path) -> None:
    """Guards against a release of PyTorch Geometric that writes a name which is not in the list."""
    import pickletools

    for value in (small(), HeteroData({"a": {"x": INDEX}, ("a", "b", "a"): {"edge_index": INDEX}})):
        with zipfile.ZipFile(saved(tmp_path / "d.pt", value)) as archive:
            program = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
        for operation, argument, _ in pickletools.genops(program):
            if operation.name == "GLOBAL" and str(argument).startswith("torch_geometric."):
                assert str(argument).replace(" ", ".").removeprefix("torch_geometric.") in saved_pyg.NAMES


MASKS = torch.tensor([[True, False], [False, True], [False, False]])


def test_lists_of_nodes_are_the_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a random split in place of train_idx, val_idx and test_idx, by which the test nodes train."""
    index = {"train_idx": torch.tensor([0]), "valid_idx": torch.tensor([[1]]), "test_index": torch.tensor([2])}
    nodes = graph(saved(tmp_path / "d.pt", small(y=torch.tensor([0, 1, 0]), **index))).nodes["node"]
    for mask, node in ((nodes.train_mask, 0), (nodes.val_mask, 1), (nodes.test_mask, 2)):
        assert mask is not None
        assert np.flatnonzero(mask).tolist() == [node]
    assert "left out" not in capsys.readouterr().err
    arrays = {name: value.numpy().ravel() for name, value in index.items()}
    np.savez(tmp_path / "d.npz", edge_index=INDEX.numpy(), y=np.array([0, 1, 0]), **arrays)
    again = graph(tmp_path / "d.npz").nodes["node"]
    for name in ("train_mask", "val_mask", "test_mask"):
        assert np.array_equal(getattr(again, name), getattr(nodes, name))


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([0, 3], "names the node 3, but nodes are 0 .. 2"),
        ([-1], "names the node -1"),
        ([1, 1], "names a node twice"),
        ([0.5], "not one row number a node"),
        ([[0, 1]], "not one row number a node"),
        ([True, False], "a mask has a row for each of 3 nodes"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, nodes: Any, words: str) -> None:
    """Guards against an index that wraps around, and against a mask of another graph."""
    with pytest.raises(DatasetError, match=rf"train_idx'? .*{words}"):
        graph(saved(tmp_path / "d.pt", small(y=torch.tensor([0, 1, 0]), train_idx=torch.tensor(nodes))))
    if np.ndim(nodes) == 1 and words != "not one row number a node":
        np.savez(tmp_path / "d.npz", edge_index=INDEX.numpy(), y=np.array([0, 1, 0]), train_idx=np.array(nodes))
        with pytest.raises(DatasetError, match=rf"train_idx'? .*{words}"):
            graph(tmp_path / "d.npz")


def test_what_is_left_out_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against attributes that are dropped without a word, and against names of attributes that are None."""
    data = small(x=torch.ones(3, 1), train_mask=MASKS, train_idx=torch.tensor([0]), y=torch.tensor([0, 1, 0]), pos=None)
    path = saved(tmp_path / "d.pt", data)
    data.edge_weight, data.names = torch.ones(3), ["a"]
    path = saved(tmp_path / "d.pt", data)
    raw = graph(path)
    left_out = ["node__to__node edge_weight", "node train_idx", "node names"]
    assert raw.notes["ignored"] == {"d.pt": left_out}
    assert f"{path}: left out: {', '.join(left_out)}" in capsys.readouterr().err


def test_one_mask_beside_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against PyG's own layout of WikiCS, whose test nodes are the same in all splits, being refused."""
    test = torch.tensor([False, False, True])
    data = small(y=torch.tensor([0, 1, 0]), train_mask=MASKS, test_mask=test)
    nodes = graph(saved(tmp_path / "d.pt", data)).nodes["node"]
    assert nodes.test_mask is not None
    assert nodes.test_mask.tolist() == [[False, False], [False, False], [True, True]]
    assert "test_mask is one mask, taken for all 2 splits" in capsys.readouterr().err
    data.test_mask = torch.tensor([True, False, False])
    with pytest.raises(DatasetError, match="share the node 0"):
        graph(saved(tmp_path / "e.pt", data))


class Kept(InMemoryDataset):
    """A user's dataset."""


def test_datasets_of_one_graph(tmp_path: Path) -> None:
    """Guards against processed/data.pt, the file that people have at hand, being refused; old layouts and new."""
    data = small(x=torch.ones(3, 2), y=torch.tensor([0, 1, 0]))
    hetero = HeteroData()
    hetero["u"].x = torch.ones(3, 1)
    hetero["u", "to", "u"].edge_index = INDEX
    Kept.save([data], str(tmp_path / "new.pt"))
    Kept.save([hetero], str(tmp_path / "hetero.pt"))
    slices = {name: torch.tensor([0, 3]) for name in ("x", "y", "edge_index")}
    saved(tmp_path / "old.pt", (data, slices))
    saved(tmp_path / "older.pt", ({**data.to_dict(), "num_nodes": [3]}, {**slices, "num_nodes": torch.tensor([0, 1])}))
    saved(tmp_path / "list.pt", [data])
    for name in ("new.pt", "old.pt", "older.pt", "list.pt"):
        raw = graph(tmp_path / name)
        assert edges_of(raw.edges[0]) == [(0, 1), (2, 0), (1, 1)]
        assert raw.nodes["node"].num_nodes == 3
        assert raw.nodes["node"].y.tolist() == [0, 1, 0]  # type: ignore[union-attr]
    raw = graph(tmp_path / "hetero.pt")
    assert (raw.edges[0].type, raw.nodes["u"].num_nodes) == (EdgeType("u", "to", "u"), 3)


def test_datasets_of_several_graphs(tmp_path: Path) -> None:
    """Guards against several graphs that are read as one, with edges between nodes of others."""
    data = small(x=torch.ones(3, 2))
    hetero = HeteroData()
    hetero["u"].x = torch.ones(3, 1)
    hetero["u", "to", "u"].edge_index = INDEX
    Kept.save([data, data], str(tmp_path / "two.pt"))
    Kept.save([hetero, hetero], str(tmp_path / "two-hetero.pt"))
    saved(tmp_path / "two-list.pt", [data, data])
    for name in ("two.pt", "two-hetero.pt", "two-list.pt"):
        with pytest.raises(DatasetError, match=r"holds 2 graphs, and one is imported; save .*torch\.save"):
            graph(tmp_path / name)
    with pytest.raises(DatasetError, match="it holds a dict, not a Data"):
        graph(saved(tmp_path / "other.pt", ({"x": torch.ones(3)}, None)))
