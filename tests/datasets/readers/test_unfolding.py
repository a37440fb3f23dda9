"""Files that state or unfold into far more than they hold: refused by name before memory is taken."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.datasets.formats import pickles
from graphprep.datasets.formats.arrays import Npz
from graphprep.datasets.formats.pickles import PickledDtype
from graphprep.datasets.formats.torch_file import load
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.table_files import read_array, reading
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import DatasetError, UsageError
from graphprep.system import memory
from graphprep.system.files.archive import Archive
from tests.datasets.user_graphs import graph

pytestmark = pytest.mark.slow

UNFOLDED = 150 << 20


@contextmanager
def little_memory(most_bytes: int = 20 << 20) -> Iterator[None]:
    """The block allocates no more than this at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def header(shape: tuple[int, ...], dtype: str = "<i8") -> bytes:
    """Of a .npy file, with nothing behind it."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def features_of(path: Path) -> Any:
    """As `load_nodes` reads it."""
    with reading(path):
        return read_array(path)


def zip_that_lies(path: Path, stated: int, method: int) -> None:
    """A zip of one member of zeros, whose directory and header state another size."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("m", bytes(UNFOLDED))
    data, old = path.read_bytes(), struct.pack("<I", UNFOLDED)
    assert data.count(old) == 2
    path.write_bytes(data.replace(old, struct.pack("<I", stated)))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_member_that_lies_about_its_size(method: int, tmp_path: Path) -> None:
    """Guards against a member that states 10 bytes and is unpacked whole before that is heeded."""
    zip_that_lies(tmp_path / "z.zip", 10, method)
    with little_memory(30 << 20), Archive(tmp_path / "z.zip") as archive, pytest.raises(DatasetError, match="m is dam"):
        archive.read("m", 100)


def test_bzip2_in_a_zip(tmp_path: Path) -> None:
    """Guards against 200 bytes that are 150 MB as soon as one of them is asked for."""
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("m", b"0 1\n")
    with Archive(tmp_path / "z.zip") as found, pytest.raises(DatasetError, match="m is packed by bzip2"):
        found.read("m", 100)


def test_lzma_in_a_zip(tmp_path: Path) -> None:
    """Guards against a bound of what is unpacked at once that changes what is read."""
    text = b"".join(b"%d\n" % number for number in range(30_000))
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("m", text)
    with Archive(tmp_path / "z.zip") as found:
        assert found.read("m", len(text)) == text
        with found.open("m") as stream:
            assert b"".join(stream.readlines()) == text


def test_member_larger_than_memory(tmp_path: Path) -> None:
    """Guards against BOMB_RATIO as the only limit: up to 256 MB a member were unpacked under any --memory."""
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m", bytes(UNFOLDED))
        archive.writestr("src.npy", header((UNFOLDED >> 3,)) + bytes(UNFOLDED))
    with memory.limited(memory.resident() + (70 << 20)), Archive(tmp_path / "z.npz") as found:
        for read in (lambda: found.read("m", UNFOLDED), lambda: Npz(found).array("src", "i", (None,))):
            with little_memory(), pytest.raises(DatasetError, match=r"(m|src).* takes 157.* of memory where"):
                read()


@pytest.mark.parametrize("shape", [(2**60, 2), (2, 2**36), (2**62, 2**62), (-2, -3)])
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_header_that_claims_a_shape(shape: tuple[int, ...], ending: str, tmp_path: Path) -> None:
    """Guards against arrays that are allocated as their header says before a byte of them is read."""
    path = tmp_path / f"e{ending}"
    if ending == ".npy":
        path.write_bytes(header(shape) + bytes(48))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("edge_index.npy", header(shape) + bytes(48))
    for read in (graph, features_of):
        with little_memory(), pytest.raises(DatasetError, match=rf"e\{ending}.*bytes where its header asks for"):
            read(path)


def test_matrix_of_features_that_claims_a_shape(tmp_path: Path) -> None:
    """Guards against one entry of a sparse matrix that becomes terabytes when features are made dense."""
    one = np.zeros(1, np.int64)
    path = tmp_path / "x.npz"
    np.savez(path, format=np.array("coo"), shape=np.array([10, 2**40]), row=one, col=one, data=one)
    with pytest.raises(DatasetError, match=r"x\.npz.*10 x 1,099,511,627,776 takes .* of memory where"):
        features_of(path)


@pytest.mark.parametrize("ending", ["json", "graphml"])
def test_packed_document_that_unfolds(ending: str, tmp_path: Path) -> None:
    """Guards against 150 MB out of 150 kB that are parsed as a whole under a small --memory."""
    path = tmp_path / f"d.{ending}.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b" " * UNFOLDED)
    with pytest.raises(UsageError, match=rf"d\.{ending}\.gz needs about .* --memory"):
        read_files(ImportRequest.of_one_type([path]), memory_limit=memory.resident() + (100 << 20))


def pt_of(value: Any) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("d/data.pkl", pickle.dumps(value))
    return stream.getvalue()


def test_shared_lists_in_a_torch_file() -> None:
    """Guards against lists that hold one list many times: 300 bytes are 100 million values after eight levels."""
    value: Any = [1] * 10
    for _ in range(7):
        value = [value] * 10
    data = pt_of(value)
    assert len(data) < 2_000
    with pytest.raises(DatasetError, match="unfolds into more than 1,000,000 values"):
        load(data)
    assert load(pt_of([[1, 2]] * 3)) == [[1, 2]] * 3


def test_long_name_of_a_dtype() -> None:
    """Guards against an error that prints all of what a file calls a dtype."""
    with pytest.raises(DatasetError, match="array of dtype") as caught:
        PickledDtype("f" * 10_000).plain()
    assert len(str(caught.value)) < 200


def test_pickle_that_remembers_at_a_large_number(tmp_path: Path) -> None:
    """Guards against ten bytes for which Python's unpickler makes a table of 32 GB."""
    program = b"\x80\x02Nr" + struct.pack("<I", 2**31 - 1) + b"."
    (tmp_path / "a").write_bytes(program)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("d/data.pkl", program)
    for read in (lambda: pickles.load(tmp_path / "a"), lambda: load(stream.getvalue())):
        with little_memory(), pytest.raises(DatasetError, match="remembers a value as number 2,147,483,647"):
            read()
