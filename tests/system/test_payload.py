"""Arrays in files with names: what travels is the name, what arrives is the same, and no file stays behind."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphprep.core.csr_mmap import in_files
from graphprep.core.types import Csr
from graphprep.partition.out_of_core.passes import Passes
from graphprep.system.files.scratch import NoRoomError, RowSink
from graphprep.system.payload import SharedPayload, has_name, in_file


def arrived(value: Any) -> Any:
    """A value as another process gets it."""
    return pickle.loads(pickle.dumps(SharedPayload((value,)))).content[0]


class Pair(NamedTuple):
    """Something with arrays in it."""

    number: int
    array: Any


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: (a, 1), lambda a: Pair(2, {"x": a})])
def test_a_mapped_array_travels_as_its_name(tmp_path: Path, wrap: Any) -> None:
    """Guards against hundreds of megabytes that are sent where the name of a file would do, however deep they lie."""
    array = np.arange(30_000, dtype=np.int64).reshape(10_000, 3)
    mapped = in_file(array, tmp_path, stage="test")
    assert has_name(mapped)
    assert len(pickle.dumps(SharedPayload((wrap(array),)))) > array.nbytes
    assert len(pickle.dumps(SharedPayload((wrap(mapped),)))) < 2000
    found: Any = arrived(wrap(mapped))
    while not isinstance(found, np.ndarray):
        found = found["x"] if isinstance(found, dict) else found[1] if isinstance(found, Pair) else found[0]
    assert np.array_equal(found, array)


def test_a_slice_of_a_mapped_array_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """Guards against a view whose file begins elsewhere, or holds something else."""
    mapped = in_file(np.arange(1000), tmp_path, stage="test")
    assert not has_name(mapped[10:])
    (path,) = tmp_path.iterdir()
    changed = np.memmap(path, np.int64, "c")
    changed[0] = 5
    for other in (changed, np.memmap(path, np.int64, "r", offset=80)):
        assert not has_name(other)
        assert np.array_equal(arrived(other), other)
    assert np.array_equal(arrived(mapped[10:20]), np.arange(10, 20))


def test_what_was_written_last_is_seen(tmp_path: Path) -> None:
    """Guards against a reader of the file's former content."""
    array = np.memmap(tmp_path / "a", np.int32, "w+", shape=(100,))
    array[:] = 7
    assert np.array_equal(arrived(array), np.full(100, 7, np.int32))


def test_large_arrays_go_by_way_of_a_folder(tmp_path: Path) -> None:
    """Guards against gigabytes through a scheduler, against files that outlive the work, and a payload of a payload."""
    large = np.asfortranarray(np.arange(300_000, dtype=np.int64).reshape(1000, 300))
    payload = SharedPayload((Pair(1, large), large, np.arange(3)), folder=tmp_path, stage="test")
    assert payload.content[0].array is large
    sent = pickle.dumps(SharedPayload((payload,)))
    assert len(sent) < 2000
    assert len(list(tmp_path.iterdir())) == 1
    there = pickle.loads(sent).content[0]
    pair, again, small = pickle.loads(pickle.dumps(there)).content
    assert pair.array is again
    assert np.array_equal(again, large)
    assert np.array_equal(small, np.arange(3))
    del payload
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_file_is_gone_with_its_array(tmp_path: Path) -> None:
    """Guards against a disk that fills with what nobody reads any more, and against one that loses what is read."""
    mapped = in_file(np.arange(1000), tmp_path, stage="test")
    view = mapped[5:]
    del mapped
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    del view
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_name_is_no_place(tmp_path: Path) -> None:
    """Guards against the name of a file that nobody else can open."""
    sink = RowSink((1000,), np.dtype(np.int64), tmp_path, memory_bytes=0)
    sink.add(np.arange(1000))
    assert not has_name(sink.array())
    assert not has_name(np.arange(3))
    assert in_file(np.empty(0), tmp_path, stage="test").size == 0


def test_a_matrix_in_files_with_names(tmp_path: Path) -> None:
    """Guards against a level of which only a part travels by name."""
    piece = Csr(
        indptr=np.array([0, 2, 3]),
        indices=np.array([0, 1, 1], np.int32),
        data=np.ones(3, np.float32),
        num_sources=2,
    )
    found = in_files(
        iter((piece,)),
        num_rows=2,
        num_sources=2,
        num_edges=3,
        folder=tmp_path,
        memory_bytes=0,
        stage="test",
        named=True,
    )
    arrays = (found.indptr, found.indices, found.data)
    assert all(array is not None and has_name(array) for array in arrays)
    again = arrived(found)
    assert np.array_equal(again.indices, piece.indices)
    assert pickle.loads(pickle.dumps(again)).num_rows == 2


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback in the middle of a round."""
    monkeypatch.setattr("graphprep.system.files.scratch.shutil.disk_usage", lambda _: type("Disk", (), {"free": 10}))
    with pytest.raises(NoRoomError, match="for the time of the partitioning"):
        Passes(folder=tmp_path).shared(np.arange(1000))


def test_shared_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    """Guards against labels that pile up with every run that is killed, also where the next one has no cluster."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "tmp123").write_bytes(b"left")
    passes = Passes.of(Passes().executor, tmp_path)
    assert list(tmp_path.iterdir()) == []
    array = np.arange(5)
    assert passes.shared(array) is array
