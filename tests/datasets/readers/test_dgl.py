"""DGL's archives: the files of other readers in one zip, and the graphs of reviewers in a MATLAB file."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphprep.core.types import RawGraph
from graphprep.datasets import readers, registry
from graphprep.datasets.readers.zipped import FOLDER
from graphprep.errors import DatasetError
from graphprep.system import memory
from graphprep.system.files.verify import RemoteFile, verify
from tests.datasets import ogb_files, planetoid_files, published, published_files
from tests.datasets.dgl_files import NODES, UNLABELLED, Files, fraud, write, write_fraud, zip_entry
from tests.datasets.entries import entry
from tests.datasets.published import treated


def same_graph(one: RawGraph, other: RawGraph) -> None:
    assert one.nodes.keys() == other.nodes.keys()
    for name, table in one.nodes.items():
        arrays, others = table.arrays(), other.nodes[name].arrays()
        assert arrays.keys() == others.keys()
        assert all(np.array_equal(array, others[key]) for key, array in arrays.items())
    for edges, again in zip(one.edges, other.edges, strict=True):
        assert np.array_equal(treated(one, edges), treated(other, again))


@pytest.mark.parametrize("inside", ["", "mini/"])
@pytest.mark.parametrize("kind", ["graphsaint", "wikics", "gnn_benchmark"])
def test_the_same_as_unpacked(tmp_path: Path, kind: str, inside: str) -> None:
    """An archive, with a folder around its files or without, gives what its files give, and leaves nothing behind."""
    files = getattr(published_files, kind)()
    published.write_files(tmp_path / "plain", files)
    plain = entry(kind, files=[{"url": f"https://example.org/{name}"} for name in files])
    write(tmp_path / "packed", {"README": "more", **files}, inside)
    packed = readers.read(tmp_path / "packed", zip_entry(kind, list(files)))
    same_graph(packed, readers.read(tmp_path / "plain", plain))
    assert [item.name for item in (tmp_path / "packed").iterdir()] == ["mini.zip"]


def test_mapped_features_outlive_the_folder(tmp_path: Path) -> None:
    """Features that a reader has mapped are read when the store is written, long after the folder is gone."""
    files = published_files.graphsaint()
    files["feats.npy"] = files["feats.npy"].astype(np.float32)
    write(tmp_path, files)
    x = readers.read(tmp_path, zip_entry("graphsaint", list(files))).nodes["node"].x
    assert isinstance(x, np.memmap)
    assert np.array_equal(x, files["feats.npy"])


def test_words_are_counted() -> None:
    """DGL keeps counts where PyG keeps whether; the two give other accuracies."""
    for name in ("dgl-coauthor-cs", "dgl-amazon-co-buy-photo"):
        assert registry.entry(name).options["options"] == {"counts": True}
    assert registry.entry("coauthor-cs").options == {}


def counts(raw: RawGraph) -> dict[str, int]:
    (nodes,) = raw.nodes.values()
    masks = {part: int(getattr(nodes, f"{part}_mask")[:, 0].sum()) for part in ("train", "val", "test")}
    y: Any = nodes.y
    x: Any = nodes.x
    return {
        "nodes": nodes.num_nodes,
        "edges": sum(len(treated(raw, table)) for table in raw.edges),
        "features": x.shape[1],
        "classes": int(y.max()) + 1,
        **masks,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("dgl-amazon-co-buy-photo", "amazon_electronics_photo.npz"),
        ("dgl-amazon-co-buy-computer", "amazon_electronics_computers.npz"),
        ("dgl-coauthor-cs", "ms_academic_cs.npz"),
    ],
)
def test_real_benchmarks(tmp_path: Path, test_data: Path, name: str, original: str) -> None:
    """DGL's counts come out of the original arrays: 238,163 edges of Photo, one of them a self-loop."""
    data = (test_data / "mirror/github.com/shchur/gnn-benchmark/raw/master/data/npz" / original).read_bytes()
    found = registry.entry(name)
    (member,) = found.options["members"]
    (tmp_path / found.files[0].file_name).write_bytes(ogb_files.zipped({member: data}))
    raw = readers.read(tmp_path, found)
    found.expected.check(counts(raw), dataset=name)
    x: Any = raw.nodes["node"].x
    assert (x.max() > 1) == (name == "dgl-coauthor-cs")


def test_real_cora(tmp_path: Path, test_data: Path) -> None:
    """Planetoid's files carry the dataset's name, which is cora_v2 in DGL's archive."""
    folder = test_data / "mirror/github.com/kimiyoung/planetoid/raw/master/data"
    found = registry.entry("dgl-cora")
    members = {name: (folder / name.replace("cora_v2", "cora")).read_bytes() for name in found.options["members"]}
    (tmp_path / "cora_v2.zip").write_bytes(ogb_files.zipped(members))
    raw = readers.read(tmp_path, found)
    found.expected.check(counts(raw), dataset="dgl-cora")


def test_self_loops_of_citations_are_kept(tmp_path: Path) -> None:
    """PyG removes the 124 self-loops of CiteSeer, DGL counts them: 9,104 edges here, 9,228 there."""
    parts = planetoid_files.parts()
    parts["graph"][3].append(3)
    planetoid_files.write(tmp_path / "plain", parts)
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir()}
    write(tmp_path, files)
    treatment = registry.entry("dgl-citeseer").treatment.model_dump()
    raw = readers.read(
        tmp_path,
        zip_entry(
            "planetoid", list(files), options={"val_nodes": 3}, treatment=treatment, name="other", more={"name": "mini"}
        ),
    )
    edges = set(map(tuple, treated(raw, raw.edges[0]).tolist()))
    wanted = {(one, other) for one, near in parts["graph"].items() for other in near}
    assert edges == wanted | {(other, one) for one, other in wanted}
    assert (3, 3) in edges


def test_leftovers_of_a_killed_run(tmp_path: Path) -> None:
    """What lies in the folder of a run that was killed must not be taken for a member."""
    files = published_files.wikics()
    write(tmp_path, files)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "data.json").write_text("{}")
    assert (
        readers.read(tmp_path, zip_entry("wikics", ["data.json"])).nodes["node"].num_nodes == published_files.NUM_NODES
    )
    assert not (tmp_path / FOLDER).exists()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda files: files.__delitem__("role.json"), "mini.zip is damaged: it has no member role.json"),
        (lambda files: files.__setitem__("role.json", b"{"), "mini.zip, member role.json is damaged"),
        (lambda files: files.__setitem__("role.json", "<html>"), "mini.zip, member role.json is damaged: .*HTML"),
        (lambda files: files.__setitem__("../role.json", b""), "outside of its folder"),
    ],
)
def test_damaged_archives(tmp_path: Path, spoil: Callable[[Files], None], words: str) -> None:
    """The message names the archive, which is what one can remove, not a folder that is gone; nothing is left there."""
    files = published_files.graphsaint()
    members = list(files)
    spoil(files)
    write(tmp_path, files)
    with pytest.raises(DatasetError, match=words):
        readers.read(tmp_path, zip_entry("graphsaint", members))
    assert [item.name for item in tmp_path.iterdir()] == ["mini.zip"]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", ".hidden"])
def test_members_are_plain_names(tmp_path: Path, name: str) -> None:
    """A registry file that someone passes around must not write outside the folder either."""
    write(tmp_path, published_files.wikics())
    with pytest.raises(DatasetError, match="no plain file name"):
        readers.read(tmp_path, zip_entry("wikics", [name]))


def test_flips_are_found(tmp_path: Path) -> None:
    """None of DGL's archives has a published checksum."""
    found = zip_entry("wikics", ["data.json"])
    files = {"data.json": published_files.as_bytes("data.json", published_files.wikics()["data.json"])}
    path = tmp_path / "mini.zip"
    path.write_bytes(ogb_files.zipped(files, zipfile.ZIP_STORED))
    file = RemoteFile(url="", name="mini.zip", check=readers.reader("zipped").file_check(found, "mini.zip"))
    verify(path, file)
    good = path.read_bytes()
    place = good.index(files["data.json"]) + 1000
    path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    with pytest.raises(DatasetError, match="damaged"):
        verify(path, file)
    path.write_bytes(ogb_files.zipped({"other.json": b"{}"}))
    with pytest.raises(DatasetError, match=r"no member data\.json"):
        verify(path, file)


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is looked for before a member is unpacked."""
    import shutil

    write(tmp_path, published_files.wikics())
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(1, 1, 0))  # type: ignore[attr-defined]
    with pytest.raises(DatasetError, match="GRAPHPREP_HOME") as caught:
        readers.read(tmp_path, zip_entry("wikics", ["data.json"]))
    assert "damaged" not in str(caught.value)


def test_fraud_is_what_dgl_reads(tmp_path: Path) -> None:
    """One edge type a relation, each entry an edge from its row to its column, and DGL's own split."""
    arrays = fraud()
    raw = readers.read(tmp_path, write_fraud(tmp_path, arrays))
    nodes = raw.nodes["user"]
    assert np.allclose(nodes.x, arrays["features"].toarray())  # type: ignore[arg-type]
    assert (nodes.y[:UNLABELLED] == -1).all()  # type: ignore[index]
    assert np.array_equal(nodes.y[UNLABELLED:], arrays["label"][0, UNLABELLED:])  # type: ignore[index]
    assert [table.type.key for table in raw.edges] == ["user__net_upu__user", "user__net_uvu__user"]
    for table in raw.edges:
        matrix = arrays[table.type.relation].tocoo()
        (chunk,) = table.chunks()
        assert set(zip(chunk.src, chunk.dst, strict=True)) == set(zip(matrix.row, matrix.col, strict=True))
        assert table.num_edges == matrix.nnz
    order = np.random.RandomState(717).permutation(np.arange(UNLABELLED, NODES))
    assert np.flatnonzero(nodes.train_mask).tolist() == sorted(order[:35])  # type: ignore[arg-type]
    assert np.flatnonzero(nodes.val_mask).tolist() == sorted(order[45:])  # type: ignore[arg-type]
    assert np.flatnonzero(nodes.test_mask).tolist() == sorted(order[35:45])  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "labelled"), [("dgl-fraud-yelp", 45_954), ("dgl-fraud-amazon", 8_639)])
def test_shares_of_the_real_split(name: str, labelled: int) -> None:
    """The counts in the registry are those that the reader's shares give."""
    expected = registry.entry(name).expected
    parts = [expected.total(part) or 0 for part in ("train", "val", "test")]
    assert sum(parts) == labelled
    assert parts[:2] == [int(0.7 * labelled), int(0.1 * labelled)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"net_uvu": None}, "has no array 'net_uvu'"),
        ({"features": None}, "has no array 'features'"),
        ({"net_uvu": np.eye(NODES)}, "'net_uvu' is no sparse matrix"),
        ({"net_uvu": sp.csc_matrix(np.eye(NODES + 1))}, r"'net_uvu' has the shape \(61, 61\) for 60 nodes"),
        ({"features": sp.csc_matrix(np.full((NODES, 2), np.nan))}, "not finite"),
        ({"label": np.zeros((1, NODES - 1))}, r"'features' has the shape \(60, 4\) for 59 labels"),
        ({"label": np.zeros((6, 10))}, "no row of numbers"),
        ({"features": sp.csc_matrix((NODES, 10**7))}, r"has the shape \(60, 10000000\)"),
        ({"label": np.full((1, NODES), 2.0)}, "something else than 0 and 1"),
        ({"label": "words"}, "'label' is no array of numbers"),
    ],
)
def test_damaged_fraud(tmp_path: Path, changed: Files, words: str) -> None:
    """Arrays that contradict each other are one sentence with the archive's name."""
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path, write_fraud(tmp_path, fraud(**changed)))
    assert str(tmp_path / "mini.zip") in str(caught.value)


def test_matlab_files_that_are_none(tmp_path: Path) -> None:
    """Cut, of another format, or with indices that point outside: SciPy crashes, or fills the matrix unseen."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, fraud(), do_compression=False)
    whole = stream.getvalue()
    spoilt = {
        b"<html>": "format 5",
        b"MATLAB 7.3 MAT-file" + whole[19:]: "format 5",
        whole[: len(whole) // 2]: "cut short",
        whole[:130] + bytes(50) + whole[180:]: "damaged|no array",
    }
    for data, words in spoilt.items():
        with pytest.raises(DatasetError, match=words):
            readers.read(tmp_path, write_fraud(tmp_path, {}, data))
    matrix = fraud()["net_uvu"]
    row = np.array([matrix.indices[0]], np.int32).tobytes() + matrix.indices[1:20].astype(np.int32).tobytes()
    place = whole.index(row)
    data = whole[:place] + (10**6).to_bytes(4, "little") + whole[place + 4 :]
    with pytest.raises(DatasetError, match=re.escape("outside 0 .. 59")):
        readers.read(tmp_path, write_fraud(tmp_path, {}, data))


def test_fraud_that_unfolds(tmp_path: Path) -> None:
    """Guards against a MATLAB file of 40 kB in a zip that takes 120 MB where --memory leaves 80."""
    made = write_fraud(tmp_path, fraud(label=np.zeros((1, 40_000_000), np.uint8)))
    assert (tmp_path / "mini.zip").stat().st_size < 100_000
    with pytest.raises(DatasetError, match=r"mini\.zip.*'label' takes 120\.0 MB of memory where .*--memory"):
        readers.read(tmp_path, made, memory_limit=memory.resident() + 80_000_000)
