"""Every published source: the graph that PyTorch Geometric reads from the same files, or one error."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.transforms import LargestConnectedComponents

from graphprep.core.types import RawGraph
from graphprep.datasets import readers, registry
from graphprep.datasets.formats.arrays import Sparse
from graphprep.datasets.readers.gnn_benchmark import largest_component
from graphprep.errors import DatasetError
from tests.datasets.published import PUBLISHED, same, spoiled, treated, write_files
from tests.datasets.published_files import Files, zipped

ONE_TYPE = [name for name in PUBLISHED if name not in ("magnn", "magnn_imdb", "aminer", "ppi", "karate")]
FETCHED = [name for name in PUBLISHED if name != "karate"]


def read(name: str, folder: Path, **change: Any) -> RawGraph:
    entry = PUBLISHED[name].write(folder)
    return readers.read(folder, entry.model_copy(update=change))


@pytest.mark.parametrize("name", ONE_TYPE)
def test_the_graph_is_pyg_s(tmp_path: Path, no_network: None, name: str) -> None:
    """Accuracies are comparable only if features, labels, masks and every edge are the same."""
    same(read(name, tmp_path / "ours"), PUBLISHED[name].from_pyg(tmp_path / "theirs")[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("amazon-photo", "amazon-photo-connected", "amazon-computers", "amazon-computers-connected"),
        *("coauthor-cs", "minesweeper", "tolokers"),
    ],
)
def test_real_files(test_data: Path, name: str) -> None:
    """The registry's counts must come out of the real files, after the treatment that the registry names."""
    entry = registry.entry(name)
    path = test_data / "mirror" / entry.files[0].url.removeprefix("https://")
    check = readers.file_check(entry, path.name)
    assert check is not None
    check(path)
    raw = readers.read(path.parent, entry)
    nodes = raw.nodes["node"]
    assert nodes.x is not None
    assert nodes.y is not None
    counts = {part: int(getattr(nodes, f"{part}_mask")[:, 0].sum()) for part in ("train", "val", "test")}
    entry.expected.check(
        {
            "nodes": nodes.num_nodes,
            "edges": len(treated(raw, raw.edges[0])),
            "features": nodes.x.shape[1],
            "classes": int(nodes.y.max()) + 1,
            **counts,
        },
        dataset=name,
    )


def test_the_largest_component_is_pyg_s(tmp_path: Path, no_network: None) -> None:
    """Guards against features, classes or edges that are not those of the nodes that stay."""
    one = read("gnn_benchmark", tmp_path / "ours", options={"largest_component": True})
    (whole,) = PUBLISHED["gnn_benchmark"].from_pyg(tmp_path / "theirs")
    theirs = LargestConnectedComponents()(whole)
    nodes = one.nodes["node"]
    assert 0 < nodes.num_nodes < whole.num_nodes
    assert nodes.x is not None
    assert nodes.y is not None
    assert np.array_equal(nodes.x, theirs.x.numpy())
    assert np.array_equal(nodes.y, theirs.y.numpy())
    assert np.array_equal(nodes.x, whole.x.numpy()[nodes.more["node_number"]])
    found = set(map(tuple, treated(one, one.edges[0]).tolist()))
    assert found == set(map(tuple, theirs.edge_index.T.tolist()))


@pytest.mark.parametrize(("num_nodes", "kept"), [(0, []), (3, [0])])
def test_the_largest_component_without_edges(num_nodes: int, kept: list[int]) -> None:
    """A file without nodes must not end in NumPy's words."""
    none = np.empty(0, np.int64)
    edges = Sparse.of(row=none, column=none, indptr=None, data=None, shape=(num_nodes, num_nodes))
    nodes, pairs = largest_component(edges)
    assert nodes.tolist() == kept
    assert pairs.shape == (0, 2)


@pytest.mark.parametrize("name", ["amazon-photo", "minesweeper"])
def test_real_files_are_what_pyg_reads(test_data: Path, tmp_path: Path, no_network: None, name: str) -> None:
    """The small files that tests write may lack a quirk of the real ones."""
    entry = registry.entry(name)
    source = PUBLISHED[entry.source]
    path = test_data / "mirror" / entry.files[0].url.removeprefix("https://")
    folder = tmp_path / source.pyg_raw
    folder.mkdir(parents=True)
    (folder / path.name).symlink_to(path)
    import torch_geometric.datasets

    same(
        readers.read(path.parent, entry),
        getattr(torch_geometric.datasets, source.pyg)(str(tmp_path), **source.pyg_arguments)[0],
    )


@pytest.mark.parametrize("name", FETCHED)
def test_files_that_are_something_else(tmp_path: Path, name: str) -> None:
    """Each file empty, cut, a page or a pointer: one sentence with its name, from the check and from the reader."""
    entry = PUBLISHED[name].write(tmp_path)
    for file in entry.files[:4]:
        path = tmp_path / file.file_name
        whole = path.read_bytes()
        check = readers.file_check(entry, path.name)
        assert check is not None
        check(path)
        cuts = (b"", whole[:1], whole[:60], whole[: len(whole) // 2], whole[:-1])
        pieces = [cut for cut in cuts if not cut.endswith(b"\n")]  # a text that ends with a line may be whole
        for data in (*pieces, b"<!DOCTYPE html><html>", b"version https://git-lfs.github.com/spec/v1\n"):
            path.write_bytes(data)
            with pytest.raises(DatasetError):
                check(path)
            with pytest.raises(DatasetError, match=path.name):
                readers.read(tmp_path, entry)
        path.unlink()
        with pytest.raises(DatasetError, match=f"{path.name} cannot be read"):
            readers.read(tmp_path, entry)
        path.write_bytes(whole)
    readers.read(tmp_path, entry)


@pytest.mark.parametrize("name", FETCHED)
def test_flipped_bits(tmp_path: Path, name: str) -> None:
    """A flipped bit is an error or, in a file without checksums, another value; never another exception."""
    entry = PUBLISHED[name].write(tmp_path)
    rng, problems = np.random.default_rng(1), []
    for file in entry.files[:4]:
        path = tmp_path / file.file_name
        whole = path.read_bytes()
        for place in rng.integers(0, len(whole), 25).tolist():
            data = bytearray(whole)
            data[place] ^= 1 << int(rng.integers(0, 8))
            path.write_bytes(data)
            try:
                readers.read(tmp_path, entry)
            except DatasetError as problem:
                problems.append(str(problem))
        path.write_bytes(whole)
    assert all(problem.startswith(str(tmp_path)) for problem in problems)


@pytest.mark.parametrize(
    "name", [name for name in FETCHED if name not in ("wikics", "graphsaint", "graphsaint_labels")]
)
def test_checksums_of_archives_are_compared(tmp_path: Path, name: str) -> None:
    """A bit that flips inside packed data must be found before the file gets its name."""
    entry = PUBLISHED[name].write(tmp_path)
    path = tmp_path / entry.files[-1].file_name
    check = readers.file_check(entry, path.name)
    assert check is not None
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda info: info.compress_size)
    data = bytearray(path.read_bytes())
    data[largest.header_offset + 30 + len(largest.filename) + largest.compress_size // 2] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(DatasetError, match="is damaged"):
        check(path)


class Runs:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize(
    ("name", "file", "array"),
    [
        ("gnn_benchmark", "amazon_electronics_photo.npz", "labels"),
        ("heterophilous", "minesweeper.npz", "edges"),
        ("musae", "facebook.npz", "target"),
        ("graphsaint", "adj_full.npz", "indices"),
        ("reddit", "reddit_data.npz", "label"),
        ("geom_gcn", "film_split_0.6_0.2_3.npz", "val_mask"),
        ("magnn", "train_val_test_idx.npz", "val_idx"),
    ],
)
def test_a_hostile_pickle_does_not_run(tmp_path: Path, name: str, file: str, array: str) -> None:
    """NumPy keeps arrays of objects as pickles, and a pickle is a program."""
    mark = tmp_path / "ran"

    def spoil(files: Files) -> None:
        files[file] = {**files[file], array: np.array([Runs(mark)], object)}

    entry = spoiled(name, tmp_path / "raw", spoil)
    with pytest.raises(DatasetError, match=f"array '{array}' is of Python objects"):
        readers.read(tmp_path / "raw", entry)
    assert not mark.exists()


@pytest.mark.parametrize("file", ["ppi.zip", "feats.npy"])
def test_a_pickle_in_place_of_a_table(tmp_path: Path, file: str) -> None:
    """The same where the file is a .npy, alone or in an archive."""
    name = "ppi" if file == "ppi.zip" else "graphsaint"
    member = "valid_feats.npy" if file == "ppi.zip" else file

    def spoil(files: Files) -> None:
        files[member] = np.array([Runs(tmp_path / "ran")], object)

    entry = spoiled(name, tmp_path / "raw", spoil)
    with pytest.raises(DatasetError, match=file):
        readers.read(tmp_path / "raw", entry)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["reddit", "ppi", "magnn", "aminer"])
def test_an_archive_with_a_name_outside(tmp_path: Path, name: str) -> None:
    """An archive that names ../x was made to write there; nothing may be written, and the archive is refused."""
    raw = tmp_path / "raw"
    entry = PUBLISHED[name].write(raw)
    path = raw / entry.files[0].file_name
    path.write_bytes(zipped({**PUBLISHED[name].files(), "../outside": b"x"}))
    with pytest.raises(DatasetError, match="outside of its folder"):
        readers.read(raw, entry)
    assert {found.name for found in tmp_path.iterdir()} == {"raw"}


@pytest.mark.parametrize("name", FETCHED)
def test_nothing_is_left_in_the_folder(tmp_path: Path, name: str) -> None:
    """Copies of inner archives and of narrowed features must be gone, or a disk fills up unseen."""
    entry = PUBLISHED[name].write(tmp_path)
    readers.read(tmp_path, entry)
    assert {path.name for path in tmp_path.iterdir()} == {file.file_name for file in entry.files}


def test_protocols() -> None:
    """A model that is compared with inductive results must not see test nodes while it trains."""
    inductive = {name for name, entry in registry.load_registry().items() if entry.protocol == "inductive"}
    assert {"flickr", "reddit", "reddit2", "yelp", "amazon-products", "ppi"} <= inductive
    assert "cora" not in inductive


def test_the_store_says_the_protocol(tmp_path: Path) -> None:
    """It is a fact about the data, which whoever opens the store needs."""
    assert read("graphsaint", tmp_path / "a").notes["protocol"] == "inductive"
    assert read("wikics", tmp_path / "b").notes["protocol"] == "transductive"


def test_one_file_is_asked_for(tmp_path: Path) -> None:
    """An entry that lists no file, or two, is a mistake in the registry and no index error."""
    entry = PUBLISHED["heterophilous"].entry([])
    with pytest.raises(DatasetError, match="takes one file, not 0"):
        readers.read(tmp_path, entry)


def test_files_are_where_pyg_fetches_them() -> None:
    """A URL that PyTorch Geometric changed, or that was mistyped here."""
    import torch_geometric.datasets as datasets

    files = {name: [file.url for file in entry.files] for name, entry in registry.load_registry().items()}
    for name, found in (("flickr", datasets.Flickr), ("reddit2", datasets.Reddit2), ("yelp", datasets.Yelp)):
        ids = (found.adj_full_id, found.feats_id, found.class_map_id, found.role_id)
        assert files[name] == [f"https://drive.usercontent.google.com/download?id={one}&confirm=t" for one in ids]
    one = datasets.AmazonProducts
    for url, id_ in zip(files["amazon-products"], (one.adj_full_id, one.feats_id, one.class_map_id), strict=False):
        assert id_ in url
    assert files["cora-ml"] == [datasets.CitationFull.url.format("cora_ml")]
    assert files["amazon-photo"] == [f"{datasets.Amazon.url}amazon_electronics_photo.npz"]
    assert files["coauthor-physics"] == [f"{datasets.Coauthor.url}ms_academic_phy.npz"]
    assert files["wikics"] == [f"{datasets.WikiCS.url}/data.json"]
    assert files["roman-empire"] == [f"{datasets.HeterophilousGraphDataset.url}/roman_empire.npz"]
    assert files["reddit"] == [datasets.Reddit.url]
    assert files["ppi"] == [datasets.PPI.url]
    assert files["facebook-page-page"] == [datasets.FacebookPagePage.url]
    assert files["github"] == [datasets.GitHub.url]
    assert files["twitch-pt"] == [f"{datasets.Twitch.url}/PT.npz"]
    assert files["imdb"] == [datasets.IMDB.url]
    assert files["dblp"] == [datasets.DBLP.url]
    assert files["aminer"] == [datasets.AMiner.url, datasets.AMiner.y_url]
    assert files["actor"][-1] == f"{datasets.Actor.url}/splits/film_split_0.6_0.2_9.npz"


def test_folders_in_an_archive_do_not_matter(tmp_path: Path) -> None:
    """Some mirrors pack the folder, some its content."""
    entry = PUBLISHED["ppi"].write(tmp_path)
    write_files(tmp_path, {"ppi.zip": zipped({f"ppi/{name}": data for name, data in PUBLISHED["ppi"].files().items()})})
    assert readers.read(tmp_path, entry).nodes["node"].num_nodes == 28 + 21 + 12
