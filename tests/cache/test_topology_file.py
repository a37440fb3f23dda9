"""The file that samplers map: what the parts have, complete or absent, and known to `verify` and `clean`."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.cache import topology_file
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr
from graphprep.cache.topology_file import files_of_topology, mapped_topology
from graphprep.cache.topology_file import topology_file as file_of
from graphprep.cache.verify import verify_cache
from graphprep.errors import CacheError
from graphprep.system.files.atomic import lock_file, locked
from graphprep.system.home_contents import contents
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store
from tests.trainer.handmade_cache import make_cache as make_handmade_cache
from tests.trainer.handmade_cache import random_graph
from tests.trainer.typed_cache import make_typed_cache, typed_graph


def handmade(folder: Path, *, seed: int = 0) -> PartitionCache:
    graph = random_graph(num_nodes=60, num_edges=400, weighted=True, loops_and_duplicates=True)
    return PartitionCache(make_handmade_cache(folder, graph, np.random.default_rng(seed).integers(0, 3, 60), 3))


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionCache:
    """One that `graphprep partition` could have written."""
    monkeypatch.setenv("GRAPHPREP_HOME", str(tmp_path))
    target = tmp_path / "caches/small/3"
    make_cache(make_store(labelled_graph(np.random.default_rng(1), 50, 200)), Topology.flat(3), target)
    return PartitionCache(target)


def assert_same(cache: PartitionCache) -> None:
    edges = mapped_topology(cache, timeout=5)
    assert edges is not None
    assert list(edges) == cache.edge_types
    for kind, matrix in edges.items():
        expected = rebuild_csr(cache, kind)
        for name in ("indptr", "indices", "data"):
            values, right = getattr(matrix, name), getattr(expected, name)
            assert (values is None) == (right is None)
            if right is not None:
                assert values.dtype == right.dtype
                np.testing.assert_array_equal(values, right)
                assert not values.flags.writeable


def test_the_edges_are_those_of_the_parts(tmp_path: Path, stored: PartitionCache) -> None:
    """Guards against edges in the rows of other parts, weights of other edges, and types in another order; and against
    a file that every process writes again."""
    typed, rng = typed_graph(), np.random.default_rng(2)
    folder = make_typed_cache(tmp_path / "typed", typed, {k: rng.integers(0, 2, len(x)) for k, x in typed.x.items()}, 2)
    for cache in (handmade(tmp_path / "plain"), PartitionCache(folder), stored):
        assert_same(cache)
        written = file_of(cache.folder).stat()
        assert_same(cache)
        assert file_of(cache.folder).stat().st_ino == written.st_ino
        assert [path for path in files_of_topology(cache.folder) if path.exists()] == [file_of(cache.folder)]


@pytest.mark.parametrize("damage", ["cut", "header", "columns", "other"])
def test_a_damaged_file_is_written_again(tmp_path: Path, damage: str) -> None:
    """Guards against columns that lead a kernel out of bounds, and edges of the cache that was here before."""
    cache = handmade(tmp_path / "one")
    assert mapped_topology(cache, timeout=5) is not None
    file = file_of(cache.folder)
    content = bytearray(file.read_bytes())
    match damage:
        case "cut":
            content = content[:-100]
        case "header":
            content[20] ^= 255
        case "columns":
            content[4096 + 512 : 4096 + 612] = b"\xff" * 100  # behind 61 row offsets
        case "other":
            other = handmade(tmp_path / "two", seed=1)
            assert mapped_topology(other, timeout=5) is not None
            content = bytearray(file_of(other.folder).read_bytes())
    file.write_bytes(content)
    assert_same(cache)


def test_verify_reads_the_file(stored: PartitionCache) -> None:
    """Guards against a whole cache that is refused for it, and against a changed weight that nobody notices."""
    before = verify_cache(stored)
    assert mapped_topology(stored, timeout=5) is not None
    partial = files_of_topology(stored.folder)[1]
    partial.write_bytes(b"of a killed process")
    assert verify_cache(PartitionCache(stored.folder)) == before + 1
    file = file_of(stored.folder)
    content = bytearray(file.read_bytes())
    content[4096 + 8] ^= 1
    file.write_bytes(content)
    with pytest.raises(CacheError, match="sampling-topology has changed since it was written; remove it"):
        verify_cache(PartitionCache(stored.folder))
    file.write_bytes(b"something else")
    with pytest.raises(CacheError, match="sampling-topology was made of another cache, or is damaged; remove it"):
        verify_cache(PartitionCache(stored.folder))


def test_clean_knows_what_a_killed_writer_left(stored: PartitionCache) -> None:
    """Guards against a partial file that stays, and a cache that is removed while it is written."""
    file, partial, lock = files_of_topology(stored.folder)
    partial.write_bytes(b"12")
    lock.touch()
    items = {item.path: item for item in contents()}
    assert file in items[stored.folder].locks
    assert (items[partial].kind, items[partial].bytes, items[partial].locks) == ("leftover", 2, (file,))
    assert items[lock].kind == "leftover"


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """Guards against a run that ends for want of a file that it can do without, and against half of one."""
    cache = handmade(tmp_path / "one")

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    assert mapped_topology(cache, timeout=5) is None
    [line] = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning")]
    assert "No space left on device, and it needs" in line
    assert "each rank holds the edges of the whole graph in its own memory" in line
    assert not any(path.exists() for path in files_of_topology(cache.folder))


def test_another_writer_is_waited_for(tmp_path: Path, capfd: Any) -> None:
    """Guards against two processes that write one file, and against a wait without an end."""
    cache = handmade(tmp_path / "one")
    with locked(file_of(cache.folder), "this"):
        assert mapped_topology(cache, timeout=0.0) is None
        assert "another process has been writing it for 0 s" in capfd.readouterr().err
        assert mapped_topology(cache, timeout=0.15) is None
        assert "waiting for another process that writes" in capfd.readouterr().err
    assert_same(cache)


def test_a_killed_writer_leaves_nothing_that_looks_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against half of a file under its name, and a lock that nobody frees."""
    cache = handmade(tmp_path / "one")
    child = os.fork()
    if not child:
        monkeypatch.setattr(topology_file, "_fill", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        mapped_topology(cache, timeout=5)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    file, partial, _ = files_of_topology(cache.folder)
    assert partial.exists()
    assert not file.exists()
    assert_same(cache)
    assert not partial.exists()
    assert not lock_file(file).exists()
