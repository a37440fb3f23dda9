"""Arrays and sparse matrices: whole and of the kind that was asked for, or one sentence."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.formats import arrays
from graphprep.datasets.formats.arrays import Npz, Sparse, map_npy, read_npy
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def sparse_in(path: Path, matrix: Any) -> Sparse:
    sp.save_npz(path, matrix)
    with Archive(path) as archive:
        return Npz(archive).sparse()


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("run", [1, 3, 1000])
def test_sparse_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, run: int) -> None:
    """All three give the same entries, in runs of any length, over empty rows as well."""
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", run)
    table = np.zeros((7, 5), np.float32)
    for row, column, value in ((0, 4, 1), (2, 0, 2), (2, 3, 3), (2, 4, 4), (5, 1, 5), (5, 2, 6)):
        table[row, column] = value
    found = sparse_in(tmp_path / "a.npz", getattr(sp, f"{layout}_matrix")(table))
    entries = [pair for rows, columns in found.entries() for pair in zip(rows.tolist(), columns.tolist(), strict=True)]
    assert sorted(entries) == [tuple(place) for place in np.argwhere(table).tolist()]
    assert np.array_equal(found.dense(), table)
    assert len(found) == 6


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.integers(0, 5), min_size=1, max_size=12), run=st.integers(1, 7))
def test_rows_of_runs(tmp_path: Path, counts: list[int], run: int) -> None:
    """A run that begins or ends inside a row, or beside empty rows, must not shift the rows after it."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    size = int(indptr[-1])
    found = Sparse.of(row=None, column=np.arange(size) % 5, indptr=indptr, data=None, shape=(len(counts), 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "CHUNK_ENTRIES", run)
        rows = [row for part, _ in found.entries() for row in part.tolist()]
    assert rows == np.repeat(np.arange(len(counts)), counts).tolist()


def test_entries_given_twice_are_added(tmp_path: Path) -> None:
    """As SciPy does."""
    matrix = sp.coo_matrix((np.array([1.0, 2.0]), ([0, 0], [1, 1])), (2, 2))
    assert sparse_in(tmp_path / "a.npz", matrix).dense().tolist() == [[0, 3], [0, 0]]


def test_byte_order(tmp_path: Path) -> None:
    """A file of another machine has the same numbers."""
    data = npy(np.array([1, 258], ">i4"))
    found = read_npy(io.BytesIO(data), len(data), "a", "i", (2,))
    assert found.dtype.isnative
    assert found.tolist() == [1, 258]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(np.array([{}], object)), "Python objects"),
        (npy(np.zeros(3))[:-1], "damaged"),
        (npy(np.zeros(3)) + b"x", "bytes where its header asks for"),
        (npy(np.zeros(3)).replace(b"(3,)", b"(9,)"), "damaged"),
        (npy(np.zeros(3)).replace(b"(3,), }" + b" " * 11, b"(3000000000000,), }"), "damaged"),
        (npy(np.zeros(3)).replace(b"<f8", b"<U2"), "not numbers"),
        (npy(np.zeros((3, 1))), r"shape \(3, 1\), not numbers of shape \(3\)"),
        (npy(np.zeros(3, np.int8)), "int8"),
        (b"", "damaged"),
        (b"\x93NUMPY\x07\x00", "damaged"),
    ],
)
def test_arrays_that_are_none(data: bytes, words: str) -> None:
    """A header can claim anything; what it claims is compared with what is there."""
    with pytest.raises(DatasetError, match=words):
        read_npy(io.BytesIO(data), len(data), "a", "f", (3,))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(np.array([{}], object)), "Python objects"),
        (npy(np.zeros(3))[:-1], "damaged"),
        (npy(np.zeros(3)) + b"x", "153 bytes where its header asks for 152"),
        (b"", "empty"),
        (b"<html>", "HTML"),
        (b"PK\x03\x04", "no .npy file"),
        (b"\x80\x04N.", "no .npy file"),
        (npy(np.zeros(4)), r"shape \(4,\)"),
    ],
)
def test_maps_that_are_none(tmp_path: Path, data: bytes, words: str) -> None:
    """The same where the file is mapped and not read."""
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(DatasetError, match=words):
        map_npy(tmp_path / "a.npy", "f", (3,))


def test_a_matrix_of_an_unknown_layout(tmp_path: Path) -> None:
    """Blocks would be read as entries."""
    with pytest.raises(DatasetError, match="the format 'bsr'"):
        sparse_in(tmp_path / "a.npz", sp.bsr_matrix(np.eye(4)))


@pytest.mark.parametrize(
    "change",
    [
        {"row": np.array([0, 2])},
        {"row": np.array([0, -1])},
        {"column": np.array([0, 3])},
        {"row": np.array([0])},
        {"data": np.ones(1)},
        {"row": None, "indptr": np.array([0, 1, 1])},
        {"row": None, "indptr": np.array([0, 2])},
        {"row": None, "indptr": np.array([0, 3, 2])},
        {"row": None, "indptr": np.array([1, 1, 2])},
        {"row": None, "indptr": np.array([0, 1, 3], np.uint8)},
    ],
)
def test_indices_outside(change: dict[str, Any]) -> None:
    """Each would write or read memory that is not the matrix's."""
    good: dict[str, Any] = {"row": np.array([0, 1]), "column": np.array([0, 2]), "indptr": None, "data": None}
    Sparse.of(**good, shape=(2, 3))
    with pytest.raises(DatasetError, match="its sparse matrix"):
        Sparse.of(**{**good, **change}, shape=(2, 3))
