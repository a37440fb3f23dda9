"""A user's own graph: what ids mean, what goes with what, and the figures of real edge lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.core.splits import SplitRule, seeded_split
from graphprep.core.types import RawGraph, Treatment
from graphprep.datasets import readers
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import NodeData
from graphprep.datasets.importing.user_files import read_files
from graphprep.datasets.readers import edge_list
from graphprep.errors import DatasetError, UsageError
from tests.datasets.entries import entry


def edges_of(raw: RawGraph) -> list[tuple[int, int]]:
    chunks = list(raw.edges[0].chunks())
    found = [pair for chunk in chunks for pair in zip(chunk.src.tolist(), chunk.dst.tolist(), strict=True)]
    assert len(found) == raw.edges[0].num_edges
    return found


def graph(folder: Path, text: str = "0 1\n1 2\n2 0\n", **options: Any) -> RawGraph:
    """Read `text` with arrays given by name, which are saved first."""
    path = folder / "e.txt"
    path.write_text(text)
    for name in ("features", "labels", "train", "val", "test"):
        if isinstance(options.get(name), np.ndarray | list):
            np.save(folder / f"{name}.npy", options[name])
            options[name] = folder / f"{name}.npy"
    return read_files(ImportRequest.of_one_type((path,), **options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "loops", "degree"),
    [
        ("ego-twitter.txt.gz", 81_306, 1_342_310, 14, 3_383),
        ("cit-hep-ph.txt", 34_546, 421_578, 44, None),
        ("CollegeMsg.txt", 1_899, 59_835, 0, None),
    ],
)
def test_real_edge_lists(test_data: Path, name: str, nodes: int, edges: int, loops: int, degree: int | None) -> None:
    """The published figures of SNAP's graphs."""
    raw = read_files(ImportRequest.of_one_type((test_data / "edges" / name,)))
    found = np.array(edges_of(raw))
    assert raw.nodes["node"].num_nodes == nodes
    assert len(found) == edges
    assert (found[:, 0] == found[:, 1]).sum() == loops
    assert found.max() == nodes - 1
    if degree is not None:
        assert np.bincount(found.ravel()).max() == degree


def test_ids_from_one_are_renumbered(test_data: Path) -> None:
    """CollegeMsg counts from 1; the ids of its file must be kept."""
    raw = read_files(ImportRequest.of_one_type((test_data / "edges" / "CollegeMsg.txt",)))
    original = raw.nodes["node"].original_id
    assert original is not None
    assert original.tolist() == list(range(1, 1900))
    assert original[np.array(edges_of(raw)[0])].tolist() == [1, 2]
    assert raw.notes["ignored"] == {"CollegeMsg.txt": ["column 3"]}


def test_dense_ids_stay(tmp_path: Path) -> None:
    """Ids 0 .. N-1 are row numbers already, in whatever order they come."""
    raw = graph(tmp_path, "2 0\n1 2\n")
    assert raw.nodes["node"].original_id is None
    assert edges_of(raw) == [(2, 0), (1, 2)]


@pytest.mark.parametrize("ids", [(5, 7, 100), (0, 10, 2**40), (1, 2**62, 2**63 - 2)])
def test_gaps_are_closed(tmp_path: Path, ids: tuple[int, int, int]) -> None:
    """Gaps would be rows of nothing, and hashes as ids would be terabytes of them."""
    low, middle, high = ids
    raw = graph(tmp_path, f"{high} {low}\n{middle} {high}\n")
    assert raw.nodes["node"].num_nodes == 3
    assert raw.nodes["node"].original_id.tolist() == [low, middle, high]  # type: ignore[union-attr]
    assert edges_of(raw) == [(2, 0), (1, 2)]
    assert edges_of(raw) == [(2, 0), (1, 2)]


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**40) | st.integers(0, 30)), min_size=1, max_size=40)
)
def test_edges_survive_renumbering(tmp_path: Path, pairs: list[tuple[int, int]]) -> None:
    """Through original_id, the edges are the file's, in its order."""
    raw = graph(tmp_path, "".join(f"{one}\t{other}\n" for one, other in pairs))
    nodes = raw.nodes["node"]
    original = np.arange(nodes.num_nodes) if nodes.original_id is None else nodes.original_id
    assert (np.diff(original) > 0).all()
    assert [(original[one], original[other]) for one, other in edges_of(raw)] == pairs


def test_ids_are_rows_where_the_number_of_nodes_is_known(tmp_path: Path) -> None:
    """With features, node 2 is row 2, even if some row has no edge; an id without a row is an error with its line."""
    for known in ({"num_nodes": 5}, {"features": np.zeros((5, 2))}, {"labels": [0, 1, 0, 1, -1]}):
        raw = graph(tmp_path, "2 4\n", **known)
        assert raw.nodes["node"].num_nodes == 5
        assert raw.nodes["node"].original_id is None
        assert edges_of(raw) == [(2, 4)]
        with pytest.raises(DatasetError, match="line 2: the node id 5 does not fit 5 nodes"):
            graph(tmp_path, "2 4\n1 5\n", **known)


def test_counts_that_contradict(tmp_path: Path) -> None:
    """Features of another graph must not be attached to this one."""
    with pytest.raises(DatasetError, match=r"labels\.npy has 2 nodes but .*features\.npy has 3"):
        graph(tmp_path, features=np.zeros((3, 1)), labels=[0, 1])
    with pytest.raises(DatasetError, match=r"features\.npy has 3 nodes but num_nodes has 4"):
        graph(tmp_path, features=np.zeros((3, 1)), num_nodes=4)
    with pytest.raises(DatasetError, match="has no nodes"):
        NodeData(counts={"num_nodes": 0}).known_count()
    with pytest.raises(UsageError, match="--num-nodes 0 must be at least 1"):
        graph(tmp_path, num_nodes=0)


def test_several_files_are_one_list(tmp_path: Path) -> None:
    """A graph may come in pieces, which share their ids."""
    for number, text in enumerate(("10 20\n", "20,30\n")):
        (tmp_path / f"{number}.txt").write_text(text)
    raw = read_files(ImportRequest.of_one_type((tmp_path / "0.txt", tmp_path / "1.txt")))
    assert edges_of(raw) == [(0, 1), (1, 2)]


def test_edges_without_a_file() -> None:
    """Nothing to read is wrong use."""
    with pytest.raises(UsageError):
        read_files(ImportRequest.of_one_type(()))


def test_graph_without_edges(tmp_path: Path) -> None:
    """Nodes with features and no edges are a graph."""
    raw = graph(tmp_path, "# none\n", features=np.zeros((3, 1)))
    assert raw.nodes["node"].num_nodes == 3
    assert edges_of(raw) == []


def test_weights_and_treatment(tmp_path: Path) -> None:
    """Options reach the stream and the conversion."""
    raw = graph(tmp_path, "0 1 0.5\n", weights=True, undirected=True, duplicates="sum", self_loops="add")
    (chunk,) = raw.edges[0].chunks()
    assert chunk.weight is not None
    assert chunk.weight.tolist() == [0.5]
    assert raw.treatment == Treatment(undirected=True, duplicates="sum", self_loops="add")


def test_seeded_split_is_drawn_and_noted(tmp_path: Path) -> None:
    """Labels without masks: the split must be reproducible and the store must say how it was drawn."""
    y = np.arange(300) % 3
    raw = graph(tmp_path, labels=y, split=SplitRule(seed=7, splits=2))
    nodes = raw.nodes["node"]
    for name, mask in seeded_split(y, seed=7, num_splits=2)._asdict().items():
        assert np.array_equal(getattr(nodes, name), mask)
    assert raw.notes["seeded_split"] == {"train": 20, "val": 30, "seed": 7, "splits": 2}


def test_given_masks(tmp_path: Path) -> None:
    """Masks that are given are used, and no split is drawn beside them."""
    raw = graph(tmp_path, labels=[0, 1, -1], train=[0], test=[1, 2])
    nodes = raw.nodes["node"]
    assert nodes.train_mask.tolist() == [[True], [False], [False]]  # type: ignore[union-attr]
    assert nodes.val_mask is None
    assert nodes.test_mask.tolist() == [[False], [True], [True]]  # type: ignore[union-attr]
    assert "seeded_split" not in raw.notes


def test_several_labels_get_drawn_splits(tmp_path: Path) -> None:
    """Guards against labels of several classes whose --splits are left out without a word, and training that fails."""
    rule = SplitRule(seed=7, splits=2)
    raw = graph(tmp_path, labels=np.eye(3, dtype=bool), split=rule)
    for name, mask in rule.draw(np.eye(3, dtype=bool))._asdict().items():
        assert np.array_equal(getattr(raw.nodes["node"], name), mask)
    assert raw.notes["seeded_split"] == {"train_share": 0.6, "val_share": 0.2, "seed": 7, "splits": 2}


def test_masks_that_contradict(tmp_path: Path) -> None:
    """Overlap, training without a label, masks without labels."""
    with pytest.raises(DatasetError, match=r"test\.npy and .*train\.npy share the node 1"):
        graph(tmp_path, labels=[0, 1, 0], train=[0, 1], test=[1])
    with pytest.raises(DatasetError, match=r"trains on the node 2, which has no label"):
        graph(tmp_path, labels=[0, 1, -1], train=[2])
    with pytest.raises(UsageError, match="there are no labels"):
        graph(tmp_path, train=[0])


def test_inputs_and_options_make_a_key(tmp_path: Path) -> None:
    """A store is reused if neither the files' content nor an option has changed; where they lie does not matter."""
    (tmp_path / "a").write_text("0 1\n")
    (tmp_path / "b").write_text("0 1\n")
    one, other = (ImportRequest.of_one_type((tmp_path / name,), weights=False) for name in "ab")
    assert one.files() == [("edges", tmp_path / "a")]
    assert one.to_json() == other.to_json()
    assert one.to_json() != ImportRequest.of_one_type((tmp_path / "a",), labels=tmp_path / "b").to_json()
    assert one.to_json() != ImportRequest.of_one_type((tmp_path / "a",), undirected=True).to_json()
    assert one.to_json() != ImportRequest.of_one_type((tmp_path / "a",), split=SplitRule(splits=2)).to_json()
    import json

    json.dumps(one.to_json())


def test_registry_entry(tmp_path: Path) -> None:
    """The registry names files by role, and each role has its own check."""
    (tmp_path / "edges.txt").write_text("0 1 9\n1 2 9\n")
    (tmp_path / "y.csv").write_text("class\n0\n1\n0\n")
    np.save(tmp_path / "x.npy", np.zeros((3, 4), np.float16))
    made = entry(
        "edge_list",
        files=[{"url": f"https://h/{name}"} for name in ("edges.txt", "y.csv", "x.npy", "train.npy")],
        options={"features": "x.npy", "labels": "y.csv", "weights": True},
        treatment={"undirected": True},
        split={"train": 1, "val": 0, "seed": 3, "splits": 4},
    )
    made = made.model_copy(update={"files": made.files[:3]})
    raw = readers.read(tmp_path, made)
    assert raw.treatment.undirected
    assert raw.nodes["node"].x.dtype == np.float16  # type: ignore[union-attr]
    assert raw.nodes["node"].train_mask.shape == (3, 4)  # type: ignore[union-attr]
    assert raw.notes["seeded_split"] == {"train": 1, "val": 0, "seed": 3, "splits": 4}
    for name in ("edges.txt", "y.csv", "x.npy"):
        check = edge_list.file_check(made, name)
        assert check is not None
        check(tmp_path / name)
        (tmp_path / name).write_bytes(b"oh no")
        with pytest.raises(DatasetError):
            check(tmp_path / name)
