"""Graphs of several types from YAML: a real one with its figures, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphprep.core.splits import SplitRule
from graphprep.core.types import EdgeType, RawGraph, Treatment
from graphprep.datasets.importing.schema import load_schema
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import DatasetError, UsageError
from tests.datasets.user_graphs import edges_of, written

ACM = """
nodes:
  paper:
    {features: p_feat.npz, labels: labels.npy, train: train_20.npy, val: val_20.npy, test: test_20.npy}
  author: {features: a_feat.npz}
  subject: {}
edges:
  - {source: paper, relation: by, destination: author, files: [pa.txt], reverse: writes}
  - {source: paper, relation: about, destination: subject, files: [ps.txt]}
"""


def read(folder: Path, text: str) -> RawGraph:
    return read_files(load_schema(written(folder / "graph.yaml", text)))


def test_acm(test_data: Path, tmp_path: Path) -> None:
    """Guards against types that are mixed up or short: papers, authors and subjects of a real data set."""
    for path in (test_data / "hetero" / "acm").iterdir():
        (tmp_path / path.name).symlink_to(path)
    raw = read(tmp_path, ACM)
    papers = raw.nodes["paper"]
    assert {name: table.num_nodes for name, table in raw.nodes.items()} == {
        "paper": 4019,
        "author": 7167,
        "subject": 60,
    }
    assert papers.x is not None
    assert papers.x.shape == (4019, 1902)
    assert np.array_equal(papers.x, sp.load_npz(tmp_path / "p_feat.npz").toarray())
    assert raw.nodes["subject"].x is None
    masks = (papers.train_mask, papers.val_mask, papers.test_mask)
    assert [int(mask.sum()) for mask in masks if mask is not None] == [60, 1000, 1000]
    assert np.bincount(papers.y).sum() == 4019  # type: ignore[arg-type]
    pairs = [tuple(pair) for pair in np.loadtxt(tmp_path / "pa.txt", dtype=np.int64).tolist()]
    found = {table.type: edges_of(table) for table in raw.edges}
    assert len(pairs) == 13_407
    assert found[EdgeType("paper", "by", "author")] == pairs
    assert found[EdgeType("author", "writes", "paper")] == [(other, one) for one, other in pairs]
    assert len(found[EdgeType("paper", "about", "subject")]) == 4019


def test_ids_of_one_type_in_two_relations(tmp_path: Path) -> None:
    """Guards against a node type that is numbered apart in each of its relations."""
    written(tmp_path / "a.txt", "10 7\n30 7\n")
    written(tmp_path / "b.txt", "20 10 1.5\n")
    raw = read(
        tmp_path,
        "nodes: {u: , v: {count: 9}}\n"
        "edges:\n"
        "  - {source: u, relation: r, destination: v, files: [a.txt]}\n"
        "  - {source: u, relation: s, destination: u, files: [b.txt], weights: true, "
        "undirected: true, duplicates: sum}\n",
    )
    assert raw.nodes["u"].original_id.tolist() == [10, 20, 30]  # type: ignore[union-attr]
    assert raw.nodes["v"].num_nodes == 9
    assert [edges_of(table) for table in raw.edges] == [[(0, 7), (2, 7)], [(1, 0, 1.5)]]
    assert raw.edges[0].treatment == Treatment()
    assert raw.edges[1].treatment == Treatment(undirected=True, duplicates="sum")


def test_rectangular_matrices(tmp_path: Path) -> None:
    """Guards against a matrix between two types that must be square."""
    sp.save_npz(tmp_path / "m.npz", sp.csr_matrix(np.array([[0, 1, 0], [0, 0, 1]])))
    raw = read(tmp_path, "nodes: {u: , v: }\nedges: [{source: u, relation: r, destination: v, files: [m.npz]}]\n")
    assert (raw.nodes["u"].num_nodes, raw.nodes["v"].num_nodes) == (2, 3)
    assert edges_of(raw.edges[0]) == [(0, 1), (1, 2)]


def test_times_and_splits(tmp_path: Path) -> None:
    """Guards against times of nodes or edges that are dropped, and a split that is not the schema's."""
    written(tmp_path / "e.txt", "0 1 5\n1 2 4\n")
    np.save(tmp_path / "y.npy", np.arange(30) % 3)
    np.save(tmp_path / "t.npy", np.arange(30, dtype=np.int32))
    raw = read(
        tmp_path,
        "nodes: {u: {labels: y.npy, times: t.npy}}\n"
        "edges: [{source: u, relation: r, destination: u, files: [e.txt], times: true, reverse: q}]\n"
        "split: {train: 2, val: 1, seed: 9, splits: 3}\n",
    )
    assert raw.nodes["u"].more["time"].dtype == np.int64
    assert [table.attributes["time"].tolist() for table in raw.edges] == [[5, 4], [5, 4]]
    assert raw.notes["seeded_split"] == {"u": {"train": 2, "val": 1, "seed": 9, "splits": 3}}
    assert raw.nodes["u"].train_mask.sum(axis=0).tolist() == [6, 6, 6]  # type: ignore[union-attr]


def test_splits_of_the_command_line(tmp_path: Path) -> None:
    """They are for a schema that says nothing of splits; beside one that does, they would be dropped unseen."""
    text = "nodes: {u: }\nedges:\n" + EDGE
    silent, says = (
        written(tmp_path / "silent.yaml", text),
        written(tmp_path / "says.yaml", text + "split: {train: 5}\n"),
    )
    rule = SplitRule(seed=4, splits=2)
    assert load_schema(silent, rule).split == rule
    assert load_schema(silent).split == SplitRule()
    assert load_schema(says, SplitRule()).split == SplitRule(train=5)
    with pytest.raises(UsageError, match=r"says\.yaml says how to split the nodes"):
        load_schema(says, rule)


EDGE = "  - {source: u, relation: r, destination: u, files: [e.txt]}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: expected a mapping with the keys nodes, edges"),
        ("nodes: {u: }\n", "line 1: the file lacks the key 'edges'"),
        ("nodes: {u: }\nedges: []\n", "line 2: edges"),
        ("nodes: {}\nedges:\n" + EDGE, "line 1: nodes"),
        ("nodes: {u: }\nedgs:\n" + EDGE, r"line 2: unknown key 'edgs' \(did you mean 'edges'"),
        ("nodes:\n  u: {featurs: x.npy}\nedges:\n" + EDGE, r"line 2: .*'featurs' in nodes.u \(did you mean 'features'"),
        ("nodes:\n  u: {count: 0}\nedges:\n" + EDGE, "line 2: nodes.u.count"),
        ("nodes:\n  u__v: {}\nedges:\n" + EDGE, "line 2: .*'u__v' is not of letters"),
        ("nodes:\n  ../u: {}\nedges:\n" + EDGE, "line 2: .*'../u' is not of letters"),
        ("nodes: {u: }\nedges:\n" + EDGE.replace("source: u", "source: w"), "line 3: .*no node type is called 'w'"),
        ("nodes: {u: }\nedges:\n" + EDGE.replace("relation: r", "relation: a/b"), "line 3: .*'a/b' is not of letters"),
        ("nodes: {u: }\nedges:\n" + EDGE.replace("relation: r", "relation: on"), "line 3: .*put it in quotes"),
        ("nodes: {u: }\nedges:\n" + EDGE + EDGE, "line 4: .*u__r__u is there twice"),
        ("nodes: {u: }\nedges:\n" + EDGE.replace("[e.txt]", "[]"), "line 3: edges"),
        ("nodes: {u: }\nedges:\n" + EDGE.replace("e.txt", "e.pt"), "line 3: .*'e.pt' holds a whole graph"),
        ("nodes: {u: }\nedges:\n" + EDGE.replace("files", "format: xml, files"), "line 3: edges.*format"),
        ("nodes: {u: , v: }\nedges:\n" + EDGE.replace("destination: u", "destination: v, undirected: true"), "line 3"),
        ("nodes: {u: , v: }\nedges:\n" + EDGE.replace("destination: u", "destination: v, self_loops: add"), "line 3"),
        ("nodes: {u: }\nedges:\n" + EDGE + "split: {train: 0}\n", "line 4: split.train"),
        ("nodes: {u: }\nedges:\n" + EDGE + "split: {splits: 0}\n", "line 4: split.splits"),
        ("nodes: {u: !!python/object:os.system {}}\nedges:\n" + EDGE, "line 1"),
        ("nodes: {u: \nedges: [", "line"),
    ],
)
def test_mistakes_have_their_line(tmp_path: Path, text: str, words: str) -> None:
    """Guards against a schema whose slip of the pen is guessed at or found only in the middle of the work."""
    written(tmp_path / "e.txt", "0 1\n")
    with pytest.raises(DatasetError, match=words) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "graph.yaml"))
    assert "\n" not in str(caught.value)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    """Guards against a relation whose ids are of other nodes; the file and its line must be named."""
    written(tmp_path / "e.txt", "0 1\n1 7\n")
    text = "nodes: {u: {count: 9}, v: {count: 7}}\nedges: [{source: u, relation: r, destination: v, files: [e.txt]}]\n"
    with pytest.raises(DatasetError, match=r"e\.txt, line 2: the node id 7 does not fit 7 nodes"):
        read(tmp_path, text)
    with pytest.raises(DatasetError, match="there are no nodes of the type 'w'"):
        read(tmp_path, text.replace("nodes: {", "nodes: {w: , ").replace("count: 7", "count: 8"))
    with pytest.raises(DatasetError, match=r"none\.txt cannot be read"):
        read(tmp_path, text.replace("e.txt", "none.txt"))
    with pytest.raises(DatasetError, match="no UTF-8"):
        load_schema(written(tmp_path / "graph.yaml", b"\xff\xfe\x00"))
    with pytest.raises(DatasetError, match="cannot be read"):
        load_schema(tmp_path)
