"""Whatever happens to a cache's files, `verify` finds it, in one sentence, without a crash."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.manifest import Manifest
from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.errors import CacheError
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.soak import soak_count
from tests.stores import make_cache, make_store


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    store = make_store(labelled_graph(np.random.default_rng(1), 80, 600, weighted=True), target=folder / "g.zarr")
    return make_cache(store, Topology.flat(3), folder / "cache").folder


@pytest.fixture
def cache(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "cache"))


def verify(folder: Path) -> None:
    verify_cache(PartitionCache(folder))


def test_a_whole_cache_passes(cache: Path) -> None:
    """Guards against checks that find fault with everything."""
    verify(cache)


@pytest.mark.soak
def test_any_single_change_is_found(cache: Path) -> None:
    """Guards against a file, or a byte of one, that nothing covers: a seeded run of changes, truncations, deletions,
    swaps and additions, undone one after another."""
    rng = np.random.default_rng(20)
    files = sorted(path for path in cache.rglob("*") if path.is_file())
    for _ in range(soak_count(500)):
        victim = files[rng.integers(len(files))]
        before = victim.read_bytes()
        kind = rng.choice(["change", "truncate", "delete", "extend", "swap", "add"])
        other, other_before = victim, before
        if kind == "change":
            changed = bytearray(before)
            changed[rng.integers(len(before))] ^= 1 << rng.integers(8)
            victim.write_bytes(changed)
        elif kind == "truncate":
            victim.write_bytes(before[: rng.integers(len(before))])
        elif kind == "extend":
            victim.write_bytes(before + b"\0")
        elif kind == "delete":
            victim.unlink()
        elif kind == "add":
            other = victim.with_name("stray")
            other.write_bytes(b"")
        else:
            other = files[rng.integers(len(files))]
            other_before = other.read_bytes()
            if other_before == before:
                continue
            victim.write_bytes(other_before)
            other.write_bytes(before)
        with pytest.raises(CacheError) as error:
            verify(cache)
        assert "\n" not in str(error.value), str(error.value)
        victim.write_bytes(before)
        if kind == "add":
            other.unlink()
        else:
            other.write_bytes(other_before)
    verify(cache)


def rewrite(folder: Path, path: str, array: np.ndarray) -> None:
    """Change a payload and bring the manifest in line, as a faulty writer would."""
    (folder / path).write_bytes(array.tobytes())
    seal(folder, path)


def seal(folder: Path, path: str) -> None:
    from graphprep.cache.manifest import FileEntry, file_sha256

    manifest = Manifest.read(folder)
    entry = FileEntry(size=(folder / path).stat().st_size, sha256=file_sha256(folder / path))
    Manifest(key=manifest.key, files={**manifest.files, path: entry}).write(folder)


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ("parts/0/nodes/node/global_ids/c/0", lambda a: np.roll(a, 1), "does not send what|is not ascending"),
        ("parts/1/nodes/node/global_ids/c/0", lambda a: np.full_like(a, a[0]), "twice or out of range"),
        ("parts/1/nodes/node/send_0/c/0", lambda a: a[::-1], "not ascending local rows"),
        ("parts/2/nodes/node/recv_1/c/0", lambda a: a[::-1], "does not send what part 2 expects"),
        ("parts/2/edges/node__to__node/local/indices/c/0", lambda a: a + 10**6, "out of range"),
        ("parts/2/edges/node__to__node/from_0/indptr/c/0", lambda a: a[::-1], "row offsets"),
        ("traffic_rows/c/0/0", lambda a: a + 1, "`traffic_rows` does not count"),
        ("assignment/c/0", lambda a: (a + 1) % 3, "puts elsewhere"),
    ],
)
def test_a_cache_that_is_intact_but_wrong_is_found(cache: Path, path: str, change: object, words: str) -> None:
    """Guards against a writer's fault that checksums confirm: the meaning is checked too."""
    array = PartitionCache(cache).array(path.split("/c/")[0])
    rewrite(cache, path, change(np.array(array)))  # type: ignore[operator]
    with pytest.raises(CacheError, match=words):
        verify(cache)


def test_other_formats_are_refused_with_advice(cache: Path) -> None:
    """Guards against a reader that guesses at what a later release wrote."""
    document = json.loads((cache / "zarr.json").read_text())
    document["attributes"]["graphprep_format"] = 1
    (cache / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(CacheError, match="cache format 1, this release reads formats 2 and 3"):
        PartitionCache(cache)


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sha256"])
def test_without_a_manifest_it_is_no_cache(cache: Path, name: str) -> None:
    """Guards against a folder whose existence is taken for its completeness."""
    (cache / name).unlink()
    with pytest.raises(CacheError, match="not a finished partition cache"):
        PartitionCache(cache)


def test_a_link_out_of_the_cache_is_not_followed_blindly(cache: Path, tmp_path: Path) -> None:
    """Guards against a payload that is replaced by a link to something else."""
    payload = cache / "assignment/c/0"
    other = tmp_path / "other"
    other.write_bytes(bytes(len(payload.read_bytes())))
    payload.unlink()
    os.symlink(other, payload)
    with pytest.raises(CacheError):
        verify(cache)
