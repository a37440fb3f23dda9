"""OGB's archives: the graphs that ogb itself reads, and an error wherever it would read a wrong one or run a file."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.core.types import EdgeTable, RawGraph
from graphprep.datasets import readers
from graphprep.datasets.readers.ogb import csv_member
from graphprep.errors import DatasetError
from graphprep.system.files import scratch
from graphprep.system.files.verify import RemoteFile, verify
from tests.datasets import ogb_files
from tests.datasets.ogb_files import FULL, Members, csv_gz, mini

EDGE, FEAT, LABEL = "mini/raw/edge.csv.gz", "mini/raw/node-feat.csv.gz", "mini/raw/node-label.csv.gz"
TRAIN, TEST = "mini/split/time/train.csv.gz", "mini/split/time/test.csv.gz"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def edge_index(table: EdgeTable) -> np.ndarray[Any, Any]:
    chunks = list(table.chunks())
    assert sum(len(chunk.src) for chunk in chunks) == table.num_edges
    return np.stack([np.concatenate([chunk.src for chunk in chunks]), np.concatenate([chunk.dst for chunk in chunks])])


def whole(raw: RawGraph) -> RawGraph:
    """Streams all edges, where their faults show."""
    for table in raw.edges:
        edge_index(table)
    return raw


def spoilt(folder: Path, members: Members, **options: object) -> str:
    """The message of reading such an archive."""
    path = ogb_files.write(folder, members)
    with pytest.raises(DatasetError) as caught:
        whole(readers.read(folder, mini(**options)))
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("small_memory", [False, True])
def test_text_is_what_ogb_reads(
    tmp_path: Path, inverse: bool, small_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracies are comparable only if nodes, edges, their order and their features are OGB's, in memory or mapped."""
    from ogb.io.read_graph_raw import read_csv_graph_raw

    if small_memory:
        monkeypatch.setattr(scratch, "MEMORY_BYTES", 64)
        monkeypatch.setattr(csv_member, "BLOCK_BYTES", 100)
    ogb_files.write(tmp_path, ogb_files.text())
    raw = readers.read(tmp_path, mini(**FULL, inverse_edges=inverse))
    with quiet():
        (graph,) = read_csv_graph_raw(
            str(tmp_path / "unpacked/mini/raw"), inverse, ["node_year"], ["edge_weight", "edge_year"]
        )
    nodes, (edges,) = raw.nodes["node"], raw.edges
    assert isinstance(nodes.x, np.memmap) == small_memory
    assert nodes.num_nodes == graph["num_nodes"]
    assert nodes.x is not None
    assert nodes.x.dtype == np.float32
    assert np.allclose(nodes.x, graph["node_feat"], rtol=1e-7, atol=0)
    assert np.array_equal(nodes.more["year"], graph["node_year"][:, 0])
    assert np.array_equal(edge_index(edges), graph["edge_index"])
    assert np.array_equal(edges.attributes["feat"], graph["edge_feat"])
    assert np.array_equal(edges.attributes["year"], graph["edge_year"][:, 0])
    weights = np.concatenate([chunk.weight for chunk in edges.chunks() if chunk.weight is not None])
    assert np.array_equal(weights, graph["edge_weight"][:, 0])
    assert not raw.treatment.undirected


def test_labels_and_split_are_what_ogb_reads(tmp_path: Path) -> None:
    """A split read in another order, or a class shifted by one, still trains."""
    import pandas as pd

    ogb_files.write(tmp_path, ogb_files.text())
    nodes = readers.read(tmp_path, mini(**FULL)).nodes["node"]
    unpacked = tmp_path / "unpacked"
    labels = pd.read_csv(unpacked / LABEL, header=None).values
    assert nodes.y is not None
    assert nodes.y.dtype == np.int64
    assert np.array_equal(nodes.y, labels[:, 0])
    for part, mask in (("train", nodes.train_mask), ("valid", nodes.val_mask), ("test", nodes.test_mask)):
        ids = pd.read_csv(unpacked / f"mini/split/time/{part}.csv.gz", header=None).values.T[0]
        assert mask is not None
        assert np.array_equal(np.flatnonzero(mask[:, 0]), np.sort(ids))


def test_typed_text_is_what_ogb_reads(tmp_path: Path) -> None:
    """ogbn-mag: every relation keeps its ends, papers alone have features, years and labels."""
    from ogb.io.read_graph_raw import read_csv_heterograph_raw, read_node_label_hetero

    ogb_files.write(tmp_path, ogb_files.typed_text())
    options = {"typed": True, "node_files": ["node_year"], "edge_files": ["edge_reltype"]}
    raw = readers.read(tmp_path, mini(**options))
    folder = str(tmp_path / "unpacked/mini/raw")
    with quiet():
        (graph,) = read_csv_heterograph_raw(folder, False, ["node_year"], ["edge_reltype"])
        labels = read_node_label_hetero(folder)
    assert {name: table.num_nodes for name, table in raw.nodes.items()} == graph["num_nodes_dict"]
    assert {tuple(edges.type) for edges in raw.edges} == set(graph["edge_index_dict"])
    for edges in raw.edges:
        assert np.array_equal(edge_index(edges), graph["edge_index_dict"][tuple(edges.type)])
        numbers = raw.notes["relation_numbers"]
        assert isinstance(numbers, dict)
        assert (graph["edge_reltype"][tuple(edges.type)] == numbers[edges.type.key]).all()
        assert not edges.attributes
    paper = raw.nodes["paper"]
    assert paper.x is not None
    assert np.allclose(paper.x, graph["node_feat_dict"]["paper"], rtol=1e-7, atol=0)
    assert np.array_equal(paper.more["year"], graph["node_year"]["paper"][:, 0])
    assert np.array_equal(paper.y, labels["paper"][:, 0])  # type: ignore[arg-type]
    assert paper.train_mask is not None
    assert paper.train_mask.sum() == ogb_files.PAPERS // 2
    for other in ("author", "field_of_study"):
        assert not raw.nodes[other].arrays()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("small_memory", [False, True])
def test_binary_is_what_ogb_reads(
    tmp_path: Path, compressed: bool, method: int, small_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ogbn-papers100M: the same whether its .npz is packed or not, in memory or mapped; float16 stays float16."""
    from ogb.io.read_graph_raw import read_binary_graph_raw

    if small_memory:
        monkeypatch.setattr(scratch, "MEMORY_BYTES", 64)
    ogb_files.write(tmp_path, ogb_files.binary(compressed=compressed), method)
    raw = readers.read(tmp_path, mini(binary=True, node_files=["node_year"]))
    with quiet():
        (graph,) = read_binary_graph_raw(str(tmp_path / "unpacked/mini/raw"))
    nodes, (edges,) = raw.nodes["node"], raw.edges
    assert nodes.x is not None
    assert nodes.x.dtype == np.float16
    assert isinstance(nodes.x, np.memmap) == small_memory
    assert np.array_equal(nodes.x, graph["node_feat"])
    assert np.array_equal(nodes.more["year"], graph["node_year"][:, 0])
    assert np.array_equal(edge_index(edges), graph["edge_index"])
    assert np.array_equal(edges.attributes["feat"], graph["edge_feat"])
    labels = np.load(tmp_path / "unpacked/mini/raw/node-label.npz")["node_label"][:, 0]
    assert np.array_equal(nodes.y, np.where(np.isnan(labels), -1, labels))  # type: ignore[arg-type]
    assert (nodes.y == -1).sum() == 5  # type: ignore[attr-defined]


def test_arrays_stored_by_column(tmp_path: Path) -> None:
    """NumPy stores a transposed array column by column; read row by row, all numbers are there and misplaced."""
    rng = np.random.default_rng(0)
    x, index = rng.normal(size=(ogb_files.N, 3)), rng.integers(0, ogb_files.N, (2, ogb_files.E))
    members = ogb_files.binary(node_feat=np.asfortranarray(x), edge_index=np.asfortranarray(index))
    ogb_files.write(tmp_path, members)
    raw = readers.read(tmp_path, mini(binary=True))
    assert np.array_equal(raw.nodes["node"].x, x)  # type: ignore[arg-type]
    assert np.array_equal(edge_index(raw.edges[0]), index)


def test_typed_binary_is_what_ogb_reads(tmp_path: Path) -> None:
    """The one layout that no dataset of today has, but ogb reads: a file an array, a member a type."""
    from ogb.io.read_graph_raw import read_binary_heterograph_raw

    rng = np.random.default_rng(0)
    edges = {
        "___".join(triplet): np.stack([rng.integers(0, sources_, count), rng.integers(0, targets, count)])
        for triplet, (count, sources_, targets) in ogb_files.TYPED_EDGES.items()
    }
    counts = {"paper": ogb_files.PAPERS, "author": ogb_files.AUTHORS, "field_of_study": ogb_files.FIELDS}
    raw_files = {
        "num_nodes_dict": {name: np.array([count]) for name, count in counts.items()},
        "num_edges_dict": {key: np.array([index.shape[1]]) for key, index in edges.items()},
        "edge_index_dict": edges,
        "node_feat_dict": {"paper": rng.normal(size=(ogb_files.PAPERS, 3)).astype(np.float32)},
        "node_year": {"paper": rng.integers(1990, 2020, (ogb_files.PAPERS, 1))},
        "node-label": {"paper": rng.integers(0, 4, (ogb_files.PAPERS, 1))},
    }
    members = {f"mini/raw/{name}.npz": ogb_files.npz(**arrays) for name, arrays in raw_files.items()}
    ogb_files.write(tmp_path, members)
    raw = readers.read(tmp_path, mini(binary=True, typed=True, split=None))
    with quiet():
        (graph,) = read_binary_heterograph_raw(str(tmp_path / "unpacked/mini/raw"))
    assert {tuple(table.type) for table in raw.edges} == set(graph["edge_index_dict"])
    for table in raw.edges:
        assert np.array_equal(edge_index(table), graph["edge_index_dict"][tuple(table.type)])
    assert np.array_equal(raw.nodes["paper"].x, graph["node_feat_dict"]["paper"])  # type: ignore[arg-type]
    assert np.array_equal(raw.nodes["paper"].more["year"], graph["node_year"]["paper"][:, 0])
    assert np.array_equal(raw.nodes["paper"].y, raw_files["node-label"]["paper"][:, 0])  # type: ignore[arg-type]


def test_several_labels(tmp_path: Path) -> None:
    """ogbn-proteins: no features, a species a node (under another file name), a table of labels, unknown ones NaN."""
    labels = np.random.default_rng(0).integers(0, 2, (ogb_files.N, 7)).astype(object)
    options = {"tasks": 7, "classes": 2, "node_features": False, "node_files": ["node_species"], "split": "species"}
    members = ogb_files.text(labels=labels, scheme="species")
    del members[FEAT]
    members["mini/raw/species.csv.gz"] = csv_gz(np.arange(ogb_files.N) + 9606)
    ogb_files.write(tmp_path / "a", members)
    nodes = readers.read(tmp_path / "a", mini(**options)).nodes["node"]
    assert nodes.x is None
    assert nodes.y is not None
    assert nodes.y.dtype == np.bool_
    assert np.array_equal(nodes.y, labels.astype(bool))
    assert nodes.more["species"][3] == 9609
    labels[2, 3], labels[5, 0] = "nan", ""
    members[LABEL] = csv_gz(labels)
    ogb_files.write(tmp_path / "b", members)
    y = readers.read(tmp_path / "b", mini(**options)).nodes["node"].y
    assert y is not None
    assert y.dtype == np.float32
    assert np.argwhere(np.isnan(y)).tolist() == [[2, 3], [5, 0]]


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    """As in ogb: features that are all integers are int64, one fraction anywhere makes all of them float32."""
    members = ogb_files.text()
    table = np.arange(ogb_files.N * 2).reshape(-1, 2)
    members[FEAT] = csv_gz(table)
    ogb_files.write(tmp_path / "a", members)
    x = readers.read(tmp_path / "a", mini()).nodes["node"].x
    assert x is not None
    assert x.dtype == np.int64
    members[FEAT] = csv_gz([*table[:-1].tolist(), [0.5, 3]])
    ogb_files.write(tmp_path / "b", members)
    x = readers.read(tmp_path / "b", mini()).nodes["node"].x
    assert x is not None
    assert x.dtype == np.float32
    assert x[-1].tolist() == [0.5, 3]


def test_links_have_no_labels(tmp_path: Path) -> None:
    """ogbl-*: no label and no split of nodes, which must not be asked for."""
    members = {name: data for name, data in ogb_files.text().items() if "/split/" not in name and name != LABEL}
    ogb_files.write(tmp_path, members)
    nodes = whole(readers.read(tmp_path, mini(tasks=None, classes=None, split=None, metric="mrr"))).nodes["node"]
    assert nodes.y is None
    assert nodes.train_mask is None


Spoil = Callable[[Members], None]


def put(name: str, data: bytes | Callable[[bytes], bytes]) -> Spoil:
    def spoil(members: Members) -> None:
        members[name] = data(members[name]) if callable(data) else data

    return spoil


def table(name: str, row: int, values: list[object]) -> Spoil:
    """One row of a table replaced."""

    def spoil(members: Members) -> None:
        rows = gzip.decompress(members[name]).decode().splitlines()
        rows[row] = ",".join(map(str, values))
        members[name] = gzip.compress("\n".join(rows).encode() + b"\n")

    return spoil


def without(name: str) -> Spoil:
    return lambda members: members.__delitem__(name)


def shared_node(members: Members) -> None:
    members[TEST] = members[TRAIN]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (put(EDGE, lambda data: data[:-9]), "edge.csv.gz is damaged"),
        (put(FEAT, lambda data: data[:-4]), "node-feat.csv.gz is damaged"),
        (put(EDGE, POINTER), "not gzip: it is a Git-LFS pointer"),
        (put(EDGE, b"<!DOCTYPE html><p>no"), "not gzip: it is an HTML page"),
        (put(EDGE, b""), "not gzip: it is empty"),
        (put("mini/raw/num-node-list.csv.gz", csv_gz([41])), "40 rows for 41 nodes"),
        (put("mini/raw/num-node-list.csv.gz", csv_gz([39])), "more than 39 rows for 39 nodes"),
        (put("mini/raw/num-node-list.csv.gz", csv_gz([20, 20])), "has 2 counts of nodes"),
        (put("mini/raw/num-node-list.csv.gz", csv_gz([-1])), "claims -1 nodes"),
        (put("mini/raw/num-node-list.csv.gz", csv_gz([2**60])), "claims 1,152,921,504,606,846,976 nodes"),
        (put("mini/raw/num-edge-list.csv.gz", csv_gz([119])), "more than 119 rows for 119 edges"),
        (put("mini/raw/num-edge-list.csv.gz", csv_gz([121])), "120 rows for 121 edges"),
        (table(EDGE, 7, [40, 1]), "edge 7 of node__to__node has the source 40, but nodes .* are 0 .. 39"),
        (table(EDGE, 8, [1, -1]), "edge 8 of node__to__node has the destination -1"),
        (table(EDGE, 9, [1]), "line 10: 1 columns where the first line has 2"),
        (table(EDGE, 9, [1, 2, 3]), "line 10: 3 columns"),
        (table(EDGE, 9, [1, "0x1"]), "line 10: '0x1' is no whole number"),
        (table(EDGE, 9, [1, 2.5]), "line 10: '2.5' is no whole number"),
        (table(EDGE, 9, [1, 2**70]), "edge.csv.gz, from line 1 on, is no table of numbers"),
        (put(EDGE, csv_gz(np.zeros((ogb_files.E, 3), int))), "has 3 columns instead of 2"),
        (table(FEAT, 3, [0, 0, "nan", 0, 0]), "row 4, holds a value that is not finite"),
        (table(FEAT, 3, [0, 0, "inf", 0, 0]), "row 4, holds a value that is not finite"),
        (table(FEAT, 3, [0, 0, "", 0, 0]), "line 4: '' is no number"),
        (table(FEAT, 3, [0, 0, "a", 0, 0]), "line 4: 'a' is no number"),
        (table(LABEL, 2, [4]), "row 2 of its labels is 4, where classes are 0 .. 3"),
        (table(LABEL, 2, [-2]), "row 2 of its labels is -2"),
        (table(LABEL, 2, [0.5]), "row 2 of its labels is 0.5"),
        (put(LABEL, csv_gz(np.full(ogb_files.N, "nan"))), "trains on the node .*, which has no label"),
        (put(LABEL, csv_gz(np.zeros((ogb_files.N, 2), int))), "2 columns instead of 1"),
        (shared_node, "share the node"),
        (table(TRAIN, 0, [40]), "part train, names the node 40"),
        (table(TRAIN, 0, [-1]), "part train, names the node -1"),
        (put(TRAIN, csv_gz([3, 4, 3])), "names a node twice"),
        (without(EDGE), "no member mini/raw/edge.csv.gz"),
        (without("mini/raw/num-node-list.csv.gz"), "no member mini/raw/num-node-list.csv.gz"),
        (without(FEAT), "no features of nodes"),
        (without(LABEL), "no labels"),
        (without(TEST), "no member mini/split/time/test.csv.gz"),
        (without("mini/raw/node_year.csv.gz"), "no member node_year"),
        (without("mini/raw/edge_weight.csv.gz"), "no member edge_weight"),
        (without("mini/raw/edge-feat.csv.gz"), "no features of edges"),
        (lambda members: members.update({"mini/RELEASE_v2.txt": members.pop("mini/RELEASE_v1.txt")}), "is release 2"),
    ],
)
def test_damaged_text(tmp_path: Path, spoil: Spoil, words: str) -> None:
    """What ogb reads into a wrong graph, or fails on with a traceback, is one sentence that names file and member."""
    members = ogb_files.text()
    spoil(members)
    message = spoilt(tmp_path, members, **FULL)
    assert re.search(words, message), message


@pytest.mark.parametrize(("count", "words"), [(119, "lists more than 119 edges"), (121, "lists 120 edges .* says 121")])
def test_edges_that_were_not_counted(tmp_path: Path, count: int, words: str) -> None:
    """Where edges have no features, only the stream itself shows that some are missing."""
    members = ogb_files.text() | {"mini/raw/num-edge-list.csv.gz": csv_gz([count])}
    del members["mini/raw/edge-feat.csv.gz"]
    message = spoilt(tmp_path, members)
    assert re.search(words, message), message


def test_real_lfs_pointer(tmp_path: Path, test_data: Path) -> None:
    """A repository cloned without LFS gives 130 bytes of text under the name edge.csv.gz."""
    members = ogb_files.text() | {EDGE: (test_data / "malformed/lfs_pointer_edge.csv.gz").read_bytes()}
    assert "Git-LFS pointer" in spoilt(tmp_path, members)


RELATION = "mini/raw/relations/author___writes___paper"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (table(f"{RELATION}/edge.csv.gz", 0, [9, 0]), "source 9, but nodes of type author are 0 .. 8"),
        (table(f"{RELATION}/edge.csv.gz", 0, [0, 12]), "destination 12, but nodes of type paper"),
        (without(f"{RELATION}/edge.csv.gz"), "no member mini/raw/relations/author___writes___paper/edge.csv.gz"),
        (table("mini/raw/triplet-type-list.csv.gz", 0, ["author", "writes", "book"]), "node type book"),
        (table("mini/raw/triplet-type-list.csv.gz", 0, ["author", "paper"]), "not source, relation, destination"),
        (table("mini/raw/triplet-type-list.csv.gz", 0, ["author", "../x", "paper"]), "cannot name a group"),
        (table("mini/raw/triplet-type-list.csv.gz", 0, ["paper", "cites", "paper"]), "twice"),
        (table("mini/raw/num-node-dict.csv.gz", 1, [12, 9]), "not one line of names and one of values"),
        (table("mini/raw/num-node-dict.csv.gz", 1, [12, 9, "x"]), "a value that it should not have"),
        (table("mini/raw/nodetype-has-label.csv.gz", 1, ["True", "True", "False"]), "no member .*/author/node-label"),
        (without("mini/raw/node-feat/paper/node-feat.csv.gz"), "no features of nodes"),
        (table("mini/split/time/nodetype-has-split.csv.gz", 1, ["True", "True", "False"]), "no member .*author/train"),
    ],
)
def test_damaged_typed_text(tmp_path: Path, spoil: Spoil, words: str) -> None:
    """A relation whose ends are of other types than its list says would give edges to nodes that do not exist."""
    members = ogb_files.typed_text()
    spoil(members)
    message = spoilt(tmp_path, members, typed=True, edge_features=False)
    assert re.search(words, message), message


OBJECTS = np.array([{"a": 1}], dtype=object)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"num_nodes_list": np.array([41])}, "has 40 rows for 41 nodes"),
        ({"num_nodes_list": np.array([20, 20])}, "2 counts of nodes"),
        ({"num_edges_list": np.array([121])}, "120 rows for 121 edges"),
        ({"edge_index": np.full((2, ogb_files.E), 40)}, "source 40, but nodes of type node are 0 .. 39"),
        ({"edge_index": np.zeros((ogb_files.E, 2), np.int64)}, r"not \[2, E\] of ids"),
        ({"edge_index": np.zeros((2, ogb_files.E))}, r"not \[2, E\] of ids"),
        ({"node_feat": np.full((ogb_files.N, 2), np.nan, np.float32)}, "node_feat.* not finite, in row 0"),
        ({"node_label": np.full((ogb_files.N, 1), 4.0)}, "row 0 of its labels is 4"),
        ({"node_label": np.zeros((3, 1))}, "has 3 rows for 40 nodes"),
        ({"node_year": OBJECTS}, "node_year.npy is of Python objects"),
        ({"node_feat": np.zeros((ogb_files.N, 2, 2))}, "more than 2 axes"),
    ],
)
def test_damaged_binary(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    """The same for .npz: counts, ids, values and pickled objects."""
    message = spoilt(tmp_path, ogb_files.binary(**arrays), binary=True)
    assert re.search(words, message), message


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.95])
def test_cut_npz(tmp_path: Path, cut: float) -> None:
    """An .npz that ended early inside a whole zip has a right checksum, and is damaged all the same."""
    members = ogb_files.binary()
    members["mini/raw/data.npz"] = members["mini/raw/data.npz"][: int(cut * len(members["mini/raw/data.npz"]))]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        ogb_files.write(tmp_path, members, method)
        with pytest.raises(DatasetError, match="no zip archive, or is cut short"):
            readers.read(tmp_path, mini(binary=True))


def verified(path: Path) -> None:
    """As the download does."""
    entry = mini()
    verify(path, RemoteFile(url="", name=path.name, check=readers.reader("ogb").file_check(entry, path.name)))


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """Without a published checksum the zip's own are all there is: a flip anywhere in a member must be found."""
    members = ogb_files.text()
    path = ogb_files.write(tmp_path, members, zipfile.ZIP_STORED)
    verified(path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for data in members.values():
        if not data:
            continue
        place = good.index(data) + int(rng.integers(0, len(data)))
        path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        with pytest.raises(DatasetError, match="damaged"):
            verified(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>503</html>", "HTML page"),
        (POINTER, "Git-LFS pointer"),
        (b"", "empty"),
        (b"PK\x03\x04 and no more", "no zip archive, or is cut short"),
        (ogb_files.zipped({"other/raw/edge.csv.gz": b""}), "no folder mini"),
        (ogb_files.zipped({"mini/RELEASE_v3.txt": b""}), "release 3 of the dataset, where release 1 is wanted"),
        (ogb_files.zipped({"mini/../../evil": b"x"}), "outside of its folder"),
        (ogb_files.zipped({"/tmp/evil": b"x"}), "outside of its folder"),
        (ogb_files.zipped({"..\\evil": b"x"}), "outside of its folder"),
    ],
)
def test_what_is_no_dataset(tmp_path: Path, data: bytes, words: str) -> None:
    """A proxy's page, an older release or an archive that would write elsewhere must not become a dataset."""
    path = tmp_path / "mini.zip"
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=words):
        verified(path)
    with pytest.raises(DatasetError, match=words):
        readers.read(tmp_path, mini())
    assert sorted(item.name for item in tmp_path.iterdir()) == ["mini.zip"]


def test_links_are_refused(tmp_path: Path) -> None:
    """A link in an archive points wherever its author likes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        link = zipfile.ZipInfo("mini/raw")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc")
    (tmp_path / "mini.zip").write_bytes(stream.getvalue())
    with pytest.raises(DatasetError, match="is a link"):
        verified(tmp_path / "mini.zip")


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is looked for before an hour of unpacking, and the archive is not called damaged for want of it."""
    import shutil

    monkeypatch.setattr(scratch, "MEMORY_BYTES", 64)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(100, 100, 0))  # type: ignore[attr-defined]
    ogb_files.write(tmp_path, ogb_files.text())
    with pytest.raises(DatasetError, match="GRAPHPREP_HOME") as caught:
        readers.read(tmp_path, mini())
    assert "damaged" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


PEAK = """
import re, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import numpy as np
import pyarrow, pyarrow.csv, scipy.sparse
from graphprep.datasets import readers
from graphprep.system.files import scratch
from tests.datasets.ogb_files import mini
scratch.MEMORY_BYTES = 8 << 20
def peak():  # not ru_maxrss, which begins at what the parent had
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
raw = readers.read(Path({folder!r}), mini(**{options!r}))
edges = sum(len(chunk.src) for chunk in raw.edges[0].chunks())
after = peak()
x = raw.nodes["node"].x
print(after - before, x.nbytes, x.shape, edges)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize("layout", ["binary", "text"])
def test_large_features_stay_on_disk(tmp_path: Path, layout: str) -> None:
    """ogbn-papers100M has 57 GB of features: a reader that expands them in memory ends at that dataset."""
    rows = 400_000
    if layout == "binary":
        x = np.zeros((rows, 128), np.float32)
        x[::2] = np.arange(128)
        members = ogb_files.binary(
            compressed=True,
            node_feat=x,
            num_nodes_list=np.array([rows]),
            node_label=np.zeros((rows, 1), np.float32),
            node_year=np.zeros((rows, 1), np.int64),
        )
        options: dict[str, object] = {"binary": True}
    else:
        members = ogb_files.text()
        line = ",".join(["0.5"] * 128).encode() + b"\n"
        members["mini/raw/node-feat.csv.gz"] = gzip.compress(line * rows, 1)
        members["mini/raw/num-node-list.csv.gz"] = csv_gz([rows])
        members[LABEL] = csv_gz(np.zeros(rows, int))
        options = {}
    (tmp_path / "mini.zip").write_bytes(ogb_files.zipped(members, zipfile.ZIP_STORED))
    root = str(Path(__file__).parents[4])
    done = subprocess.run(
        [sys.executable, "-c", PEAK.format(root=root, folder=str(tmp_path), options=options)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kilobytes, num_bytes, *_ = done.stdout.split()
    assert int(num_bytes) == rows * 512
    assert int(kilobytes) < {"binary": 120_000, "text": 250_000}[layout], done.stdout  # in memory: 205,000 more
    assert [item.name for item in tmp_path.iterdir()] == ["mini.zip"]
