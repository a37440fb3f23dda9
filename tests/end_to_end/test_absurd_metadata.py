"""Metadata of stores and caches that claim absurd shapes or nest without end: one sentence that names the file."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.cache.manifest import FileEntry, Manifest
from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError, DatasetError, UsageError
from graphprep.interop.export.marker import read_marker
from graphprep.plan import rates_file
from graphprep.store.metadata import CHECKSUMS, ROOT_CHECKSUM
from graphprep.store.store import GraphStore
from graphprep.system.files.output_path import kind_of
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store

DEEP = b"[" * 100_000
LONG = b'{"attributes": ' + b"9" * 10_000 + b"}"
Y = "nodes/node/y"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    store = make_store(labelled_graph(np.random.default_rng(1), 30, 100), target=folder / "g.zarr")
    make_cache(store, Topology.flat(2), folder / "cache")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def claim(store: Path, shape: list[int], chunks: list[int]) -> None:
    """Have y state another shape, in a store whose metadata agree with each other, as an older release's do."""

    def root(document: Any) -> None:
        del document["attributes"][CHECKSUMS], document["attributes"][ROOT_CHECKSUM]
        document["attributes"]["arrays"][Y]["shape"] = shape

    def array(document: Any) -> None:
        document["shape"] = shape
        document["chunk_grid"]["configuration"]["chunk_shape"] = chunks

    edit(store / "zarr.json", root)
    edit(store / Y / "zarr.json", array)


@pytest.mark.parametrize(
    ("shape", "chunks", "words"),
    [
        ([2**60], [30], "claims the shape .* files"),
        ([2**50], [2**50], "claims chunks of .* more than fit into memory"),
    ],
)
def test_shape_of_an_array_in_a_store(folder: Path, shape: list[int], chunks: list[int], words: str) -> None:
    """Guards against 2^60 rows whose files are counted one by one, and a chunk of petabytes, neither with a name."""
    claim(folder / "g.zarr", shape, chunks)
    store = GraphStore(folder / "g.zarr")
    with pytest.raises(DatasetError, match=f"g.zarr: {Y} is damaged: its zarr.json {words}"):
        store._read(Y)


@pytest.mark.parametrize("content", [DEEP, LONG], ids=["deep", "long number"])
def test_json_of_a_store(folder: Path, content: bytes) -> None:
    """Guards against a RecursionError, or Python's refusal of long numbers, where a sentence belongs."""
    (folder / "g.zarr" / "zarr.json").write_bytes(content)
    with pytest.raises(DatasetError, match=r"g\.zarr"):
        GraphStore(folder / "g.zarr")
    assert kind_of(folder / "g.zarr") is None


@pytest.mark.parametrize("content", [DEEP, LONG], ids=["deep", "long number"])
@pytest.mark.parametrize("name", ["zarr.json", "manifest.json", "parts/0/zarr.json"])
def test_json_of_a_cache(folder: Path, name: str, content: bytes) -> None:
    """Guards against a traceback from a manifest or zarr.json whose checksums were made to fit."""
    cache = folder / "cache"
    (cache / name).write_bytes(content)
    if name == "manifest.json":
        (cache / "manifest.sha256").write_text(hashlib.sha256(content).hexdigest())
    else:
        restate(cache, name)
    with pytest.raises(CacheError, match=name):
        PartitionCache(cache).part_sizes(0)


@pytest.mark.parametrize("shape", [[2**70], [-1], ["a"], 3, None, [2**60]])
def test_shape_of_an_array_in_a_cache(folder: Path, shape: Any) -> None:
    """Guards against a shape that is no shape, or of exabytes, where the checksums were made to fit."""
    cache = folder / "cache"
    name = "parts/0/nodes/node/global_ids/zarr.json"
    edit(cache / name, lambda document: document.update(shape=shape))
    restate(cache, name)
    with pytest.raises(CacheError, match=r"global_ids.*(claims the shape|its metadata says)"):
        PartitionCache(cache).node_array(0, "node", "global_ids")


def restate(cache: Path, name: str) -> None:
    """Enter a changed file into the manifest."""
    content = (cache / name).read_bytes()
    before = Manifest.read(cache)
    entry = FileEntry(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    Manifest(key=before.key, files={**before.files, name: entry}).write(cache)


def test_other_json_that_nests_without_end(tmp_path: Path) -> None:
    """Guards against the same RecursionError in the other JSON files that a person may hand over."""
    (tmp_path / "graphprep.json").write_bytes(DEEP)
    assert read_marker(tmp_path) is None
    with pytest.raises(UsageError, match="is not JSON"):
        rates_file.read(tmp_path / "graphprep.json")
