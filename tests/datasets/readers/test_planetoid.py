"""Planetoid's files: the same graph as PyTorch Geometric reads, and an error wherever it would read a wrong one."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from graphprep.core.types import NodeTable, RawGraph
from graphprep.datasets import readers, registry
from graphprep.datasets.readers import planetoid
from graphprep.errors import DatasetError
from tests.datasets import planetoid_files
from tests.datasets.entries import entry

Parts = dict[str, Any]


def mini(**options: object) -> Any:
    return entry(
        "planetoid",
        options={"val_nodes": 3, **options},
        treatment={"duplicates": "drop", "self_loops": "drop"},
    )


def cleaned(raw: RawGraph) -> set[tuple[int, int]]:
    """The edges after the treatment that the entry asks for."""
    assert raw.treatment.duplicates == raw.treatment.self_loops == "drop"
    assert not raw.treatment.undirected
    (chunk,) = raw.edges[0].chunks()
    return {(one, other) for one, other in zip(chunk.src.tolist(), chunk.dst.tolist(), strict=True) if one != other}


def same_as_pyg(raw: RawGraph, folder: Path, name: str) -> None:
    from torch_geometric.io import read_planetoid_data

    data = read_planetoid_data(str(folder), name)
    nodes = raw.nodes["node"]
    edges = list(map(tuple, data.edge_index.t().tolist()))
    assert len(edges) == len(set(edges))
    assert cleaned(raw) == set(edges)
    assert nodes.x is not None
    assert nodes.y is not None
    assert nodes.x.dtype == np.float32
    assert np.array_equal(nodes.x, data.x.numpy())
    labelled = nodes.y >= 0
    assert np.array_equal(nodes.y[labelled], data.y.numpy()[labelled])


def test_cora_is_what_pyg_reads(test_data: Path) -> None:
    """Accuracies are comparable only if features, labels, masks and every edge are the same."""
    from torch_geometric.io import read_planetoid_data

    folder = test_data / "mirror/github.com/kimiyoung/planetoid/raw/master/data"
    raw = readers.read(folder, registry.entry("cora"))
    same_as_pyg(raw, folder, "cora")
    data = read_planetoid_data(str(folder), "cora")
    nodes = raw.nodes["node"]
    for name in ("train_mask", "val_mask", "test_mask"):
        mask = getattr(nodes, name)
        assert mask.shape == (2708, 1)
        assert np.array_equal(mask[:, 0], data[name].numpy())
    assert (nodes.y >= 0).all()  # type: ignore[operator]
    registry.entry("cora").expected.check(
        {
            "nodes": nodes.num_nodes,
            "edges": len(cleaned(raw)),
            "features": nodes.x.shape[1],  # type: ignore[union-attr]
            "classes": int(nodes.y.max()) + 1,  # type: ignore[union-attr, operator]
            **{part: int(getattr(nodes, f"{part}_mask").sum()) for part in ("train", "val", "test")},
        },
        dataset="cora",
    )


def test_test_rows_go_to_their_nodes(tmp_path: Path) -> None:
    """The rows of tx are in the order of test.index, not of the node numbers; a reader that forgets this still runs."""
    parts = planetoid_files.parts()
    planetoid_files.write(tmp_path, parts)
    nodes = readers.read(tmp_path, mini()).nodes["node"]
    for row, node in enumerate(parts["test.index"]):
        assert np.array_equal(nodes.x[node], parts["tx"].toarray()[row])  # type: ignore[index]
        assert nodes.y[node] == parts["ty"][row].argmax()  # type: ignore[index]
    assert np.flatnonzero(nodes.train_mask).tolist() == [0, 1, 2, 3]  # type: ignore[arg-type]
    assert np.flatnonzero(nodes.val_mask).tolist() == [4, 5, 6]  # type: ignore[arg-type]
    assert np.flatnonzero(nodes.test_mask).tolist() == sorted(parts["test.index"])  # type: ignore[arg-type]


def test_isolated_test_nodes_become_zero_rows(tmp_path: Path) -> None:
    """CiteSeer skips nodes in test.index; without rows for them, all later nodes would be shifted."""
    parts = planetoid_files.parts(known=510, skipped=(511, 514))
    planetoid_files.write(tmp_path, parts, "citeseer")
    options = {"isolated_test_nodes": True}
    raw = readers.read(tmp_path, entry("planetoid", "citeseer", options=options, treatment=mini().treatment))
    same_as_pyg(raw, tmp_path, "citeseer")
    nodes = raw.nodes["node"]
    assert nodes.num_nodes == 517
    for node in (511, 514):
        assert not nodes.x[node].any()  # type: ignore[index]
        assert nodes.y[node] == -1  # type: ignore[index]
        assert not nodes.test_mask[node].any()  # type: ignore[index]


def test_gaps_are_an_error_elsewhere(tmp_path: Path) -> None:
    """In Cora a gap in test.index is a damaged file."""
    planetoid_files.write(tmp_path, planetoid_files.parts(skipped=(13,)))
    with pytest.raises(DatasetError, match="skips 1 nodes"):
        readers.read(tmp_path, mini())


def shortened_index(parts: Parts) -> None:
    parts["test.index"] = parts["test.index"][:-1]


def repeated_index(parts: Parts) -> None:
    parts["test.index"][0] = parts["test.index"][1]


def shifted_index(parts: Parts) -> None:
    parts["test.index"] = [node - 1 for node in parts["test.index"]]


def index_too_high(parts: Parts) -> None:
    for node in range(15, 17):
        del parts["graph"][node]


def neighbour_too_high(parts: Parts) -> None:
    parts["graph"][0].append(17)


def neighbour_negative(parts: Parts) -> None:
    parts["graph"][0].append(-1)


def node_too_high(parts: Parts) -> None:
    parts["graph"][10**30] = [1]


def neighbour_no_number(parts: Parts) -> None:
    parts["graph"][0].append(1.0)


def node_no_number(parts: Parts) -> None:
    parts["graph"]["a"] = [1]


def list_no_list(parts: Parts) -> None:
    parts["graph"][0] = (1, 2)


def graph_no_mapping(parts: Parts) -> None:
    parts["graph"] = [[1], [0]]


def fewer_rows(parts: Parts) -> None:
    parts["tx"] = parts["tx"][:-1]


def fewer_labels(parts: Parts) -> None:
    parts["ally"] = parts["ally"][:-1]


def other_columns(parts: Parts) -> None:
    parts["tx"] = sp.hstack([parts["tx"], parts["tx"]]).tocsr()


def other_classes(parts: Parts) -> None:
    parts["ty"] = np.hstack([parts["ty"], 0 * parts["ty"]])


def two_classes(parts: Parts) -> None:
    parts["ally"] = np.ones_like(parts["ally"])


def class_numbers(parts: Parts) -> None:
    parts["ally"] = parts["ally"].argmax(axis=1)


def unlabelled_training_node(parts: Parts) -> None:
    parts["ally"] = parts["ally"].copy()
    parts["ally"][0] = 0


def dense_features(parts: Parts) -> None:
    parts["allx"] = parts["allx"].toarray()


def not_finite(parts: Parts) -> None:
    parts["allx"] = parts["allx"].copy()
    parts["allx"].data[0] = np.inf


def words_in_index(parts: Parts) -> None:
    parts["test.index"][2] = "1o"


def empty_index(parts: Parts) -> None:
    parts["test.index"] = []


def binary_index(parts: Parts) -> None:
    parts["test.index"] = b"\xff\xfe"


def cut_pickle(parts: Parts) -> None:
    parts["graph"] = pickle.dumps(parts["graph"], 2)[:-10]


def hostile_pickle(parts: Parts) -> None:
    parts["y"] = b"cos\nsystem\n(S'exit 1'\ntR."


def too_few_for_validation(parts: Parts) -> None:
    for name in ("allx", "ally"):
        parts[name] = parts[name][:6]
    parts["test.index"] = [node - 6 for node in parts["test.index"]]
    parts["graph"] = {node: [] for node in range(11)}


@pytest.mark.parametrize(
    ("spoil", "file", "words"),
    [
        (shortened_index, "test.index", "has 4 rows but ind.mini.tx has 5"),
        (repeated_index, "test.index", "lists a node twice"),
        (shifted_index, "test.index", "begins at node 11"),
        (index_too_high, "test.index", "names the node 16, which ind.mini.graph does not have"),
        (neighbour_too_high, "graph", "names the node 17, but there are only the nodes 0 .. 16"),
        (neighbour_negative, "graph", "names the node -1"),
        (node_too_high, "graph", "names the node 1000"),
        (neighbour_no_number, "graph", "a neighbour that is not an integer"),
        (node_no_number, "graph", "something that is no node"),
        (list_no_list, "graph", "no list"),
        (graph_no_mapping, "graph", "a list instead of a mapping"),
        (fewer_rows, "ty", "has 5 rows but ind.mini.tx has 4"),
        (fewer_labels, "ally", "has 11 rows but ind.mini.allx has 12"),
        (other_columns, "tx", "the numbers of columns differ"),
        (other_classes, "ty", "the numbers of columns differ"),
        (two_classes, "ally", "does not mark one class"),
        (class_numbers, "ally", "instead of a table of integers"),
        (unlabelled_training_node, "ally", "a training node without a class"),
        (dense_features, "allx", "instead of a sparse matrix"),
        (not_finite, "allx", "not finite"),
        (words_in_index, "test.index", "line 3 is '1o'"),
        (empty_index, "test.index", "empty"),
        (binary_index, "test.index", "not a text of node numbers"),
        (cut_pickle, "graph", "cut short"),
        (hostile_pickle, "y", "it asks for os.system"),
        (too_few_for_validation, "allx", "fewer than the 4 training nodes and 3 validation nodes"),
    ],
)
def test_files_that_contradict(tmp_path: Path, spoil: Callable[[Parts], None], file: str, words: str) -> None:
    """What PyG reads into wrong rows without a word, or fails on with a traceback, is one sentence with the file."""
    parts = planetoid_files.parts()
    spoil(parts)
    planetoid_files.write(tmp_path, parts)
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path, mini())
    assert f"ind.mini.{file}" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    """A file that someone removed is named."""
    planetoid_files.write(tmp_path, planetoid_files.parts())
    (tmp_path / "ind.mini.ty").unlink()
    with pytest.raises(DatasetError, match=r"ind\.mini\.ty cannot be read"):
        readers.read(tmp_path, mini())


@pytest.mark.parametrize("part", planetoid.PARTS)
def test_each_file_has_a_check_that_reads_it(tmp_path: Path, part: str) -> None:
    """CiteSeer and PubMed have no checksums: a cut file must not get its name."""
    parts = planetoid_files.parts()
    planetoid_files.write(tmp_path, parts)
    path = tmp_path / f"ind.mini.{part}"
    check = planetoid.file_check(mini(), path.name)
    assert check is not None
    check(path)
    other = tmp_path / f"ind.mini.{'x' if part in planetoid.CLASSES else 'y'}"
    for wrong in (path.read_bytes()[:-1] if part != "test.index" else b"12\n13x", other.read_bytes(), b""):
        (tmp_path / "wrong").write_bytes(wrong)
        with pytest.raises(DatasetError):
            check(tmp_path / "wrong")


def test_hostile_file_does_not_run(tmp_path: Path) -> None:
    """The whole way from the registry: a pickle that runs a command must be refused before it does."""
    parts = planetoid_files.parts()
    mark = tmp_path / "ran"

    class Runs:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.system, (f"touch {mark}",)

    parts["graph"] = pickle.dumps({0: [Runs()]}, 2)
    planetoid_files.write(tmp_path, parts)
    with pytest.raises(DatasetError, match=r"posix\.system"):
        readers.read(tmp_path, mini())
    assert not mark.exists()


def test_unknown_files_have_no_check() -> None:
    """Only ind.NAME.PART is Planetoid's."""
    assert planetoid.file_check(mini(), "readme.txt") is None


def test_nodes_are_frozen_values(tmp_path: Path) -> None:
    """A table is a value; changing one after it was checked must fail."""
    planetoid_files.write(tmp_path, planetoid_files.parts())
    nodes = readers.read(tmp_path, mini()).nodes["node"]
    assert isinstance(nodes, NodeTable)
    with pytest.raises(AttributeError):
        nodes.num_nodes = 3  # type: ignore[misc]
