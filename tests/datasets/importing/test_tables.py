"""Features, labels and masks: safe to load, right in shape, and finite."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.formats.checks import require_disjoint
from graphprep.datasets.importing import tables
from graphprep.datasets.importing.tables import load_features, load_labels, load_mask
from graphprep.errors import DatasetError

TABLE = np.array([[1, 2.5], [0, -1], [3, 4]])


def saved(folder: Path, array: Any, name: str = "a.npy") -> Path:
    np.save(folder / name, array)
    return folder / name


def text(folder: Path, words: str, name: str) -> Path:
    (folder / name).write_text(words)
    return folder / name


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i8", "u1"])
def test_npy_features_keep_their_dtype(tmp_path: Path, dtype: str) -> None:
    """float16 features stay float16, or a store is twice its size; bytes are in this machine's order."""
    array = np.array([[1, 2], [3, 4]]).astype(dtype)
    found = load_features(saved(tmp_path, array))
    assert found.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(found, array)


def test_npy_features_are_mapped(tmp_path: Path) -> None:
    """Features may be larger than memory."""
    assert isinstance(load_features(saved(tmp_path, TABLE)), np.memmap)


def test_other_kinds_of_features(tmp_path: Path) -> None:
    """People keep features in what their tools write."""
    np.savez(tmp_path / "a.npz", anything=TABLE)
    assert np.array_equal(load_features(tmp_path / "a.npz"), TABLE)
    for convert in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix):
        sp.save_npz(tmp_path / "s.npz", convert(TABLE))
        assert np.array_equal(load_features(tmp_path / "s.npz"), TABLE)
    for words in ("1,2.5\n0,-1\n3,4\n", "a,b\n1,2.5\n0,-1\n3,4\n"):
        found = load_features(text(tmp_path, words, "a.csv"))
        assert found.dtype == np.float32
        assert np.array_equal(found, TABLE)
    pq.write_table(pa.table({"a": TABLE[:, 0].astype(np.int64), "b": TABLE[:, 1]}), tmp_path / "a.parquet")
    assert np.array_equal(load_features(tmp_path / "a.parquet"), TABLE)
    assert load_features(saved(tmp_path, np.arange(3.0))).shape == (3, 1)
    assert load_features(saved(tmp_path, np.array([[True], [False]]))).dtype == np.uint8


def test_hostile_arrays_do_not_run(tmp_path: Path) -> None:
    """A .npy or .npz file can hold pickles; they must be refused, in every place where one is read."""

    class Runs:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            import os

            return os.system, (f"touch {tmp_path / 'ran'}",)

    hostile = np.array([Runs()], object)
    np.save(tmp_path / "a.npy", hostile, allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=hostile, allow_pickle=True)
    np.savez(tmp_path / "s.npz", format=hostile, x=hostile, allow_pickle=True)
    for name in ("a.npz", "s.npz"):
        with pytest.raises(DatasetError, match=name):
            load_features(tmp_path / name)
    for load in (load_features, load_labels, lambda path: load_mask(path, 1)):
        with pytest.raises(DatasetError, match=r"a\.npy"):
            load(tmp_path / "a.npy")
    assert not (tmp_path / "ran").exists()


def test_sparse_features_with_indices_out_of_range(tmp_path: Path) -> None:
    """toarray writes where the indices say."""
    np.savez(
        tmp_path / "s.npz",
        format=np.array("csr"),
        shape=np.array([2, 2]),
        data=np.ones(2),
        indices=np.array([0, 10**6], np.int32),
        indptr=np.array([0, 1, 2], np.int32),
    )
    with pytest.raises(DatasetError, match=r"s\.npz is damaged"):
        load_features(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.zeros((2, 2), np.complex64), "complex64"),
        (np.array([["a"]]), "<U1"),
        (np.array([[1, 2], [3, np.nan]]), "row 1 holds a value that is not finite"),
        (np.array([[1, 2], [np.inf, 3]], np.float16), "row 1"),
    ],
)
def test_features_that_are_none(tmp_path: Path, array: Any, words: str) -> None:
    """A NaN in the features is a NaN in every weight after one step; its row must be named."""
    with pytest.raises(DatasetError, match=words):
        load_features(saved(tmp_path, array))


def test_not_finite_in_a_later_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are checked in blocks; the row must count from the file's beginning."""
    monkeypatch.setattr(tables, "CHECK_BYTES", 64)
    array = np.zeros((100, 2))
    array[77, 1] = np.nan
    with pytest.raises(DatasetError, match="row 77"):
        load_features(saved(tmp_path, array))


def test_damaged_files(tmp_path: Path) -> None:
    """Cut at any place, or something else under the name: one sentence with the path."""
    whole = saved(tmp_path, TABLE).read_bytes()
    for name in ("a.npy", "a.npz", "a.parquet"):
        for data in (
            whole[:5],
            whole[:100],
            whole[:-1],
            b"",
            b"<html>",
            b"version https://git-lfs.github.com/spec/v1\n",
        ):
            (tmp_path / name).write_bytes(data)
            with pytest.raises(DatasetError, match=name):
                load_features(tmp_path / name)
    for data in (whole[:100], b"0 1\n"):
        (tmp_path / "y.npy").write_bytes(data)
        with pytest.raises(DatasetError, match=r"y\.npy"):
            load_labels(tmp_path / "y.npy")
        with pytest.raises(DatasetError, match=r"y\.npy"):
            load_mask(tmp_path / "y.npy", 3)
    for arrays, words in (({}, "no array"), ({"a": TABLE, "b": TABLE}, "the arrays a, b")):
        np.savez(tmp_path / "n.npz", **arrays)
        with pytest.raises(DatasetError, match=f"it holds {words}, where one is wanted"):
            load_features(tmp_path / "n.npz")
    with pytest.raises(DatasetError, match=r"none\.npy cannot be read"):
        load_features(tmp_path / "none.npy")
    with pytest.raises(DatasetError, match=r"is none of \.npy"):
        load_features(tmp_path / "x.pkl")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["a.npy", "a.npz", "s.npz", "a.parquet"]),
    place=st.integers(0, 10**6),
    byte=st.integers(0, 255),
)
def test_flipped_bytes(tmp_path: Path, name: str, place: int, byte: int) -> None:
    """NumPy, zipfile, zlib and Arrow fail on damage with errors of ten kinds; a person gets one."""
    table = np.arange(60.0).reshape(20, 3)
    path = tmp_path / name
    match name:
        case "a.npy":
            np.save(path, table)
        case "a.npz":
            np.savez_compressed(path, table)
        case "s.npz":
            sp.save_npz(path, sp.csr_matrix(table))
        case _:
            pq.write_table(pa.table({"a": table[:, 0], "b": table[:, 1]}), path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data)
    with contextlib.suppress(DatasetError):
        assert load_features(path).ndim == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("1,a\n2,3\n", "column '2' is not of numbers: row 0 has 'a'"),
        ("1,2\n3\n", "line 2 has 1 columns where the lines before have 2"),
        ("1,\n2,3\n", "row 0 has ''"),
        ("a,b\n", "'a' is not of numbers"),
    ],
)
def test_bad_tables_in_text(tmp_path: Path, words: str, message: str) -> None:
    """A word or a hole in a table of numbers is named with its column."""
    with pytest.raises(DatasetError, match=message):
        load_features(text(tmp_path, words, "x.csv"))


def test_parquet_with_holes_or_words(tmp_path: Path) -> None:
    """A missing value would become a NaN without a word."""
    pq.write_table(pa.table({"a": [1, None]}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match="'a' has 1 rows without a value"):
        load_features(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["1", "x"]}), tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match="row 1 has 'x'"):
        load_features(tmp_path / "b.parquet")


def test_archive_with_several_arrays(tmp_path: Path) -> None:
    """Which one is meant cannot be guessed."""
    np.savez(tmp_path / "a.npz", x=TABLE, y=TABLE)
    with pytest.raises(DatasetError, match="the arrays x, y"):
        load_features(tmp_path / "a.npz")


@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "i8"])
def test_labels(tmp_path: Path, dtype: str) -> None:
    """Classes come in every dtype, flat or as one column."""
    for shape in ((4,), (4, 1)) if dtype != "f4" else ((4,),):
        found = load_labels(saved(tmp_path, np.array([2, 0, 1, 2]).astype(dtype).reshape(shape)))
        assert found.dtype == np.int64
        assert found.tolist() == [2, 0, 1, 2]


def test_unlabelled_nodes(tmp_path: Path) -> None:
    """-1, and NaN among floats, is no label."""
    assert load_labels(saved(tmp_path, np.array([1, -1, 0]))).tolist() == [1, -1, 0]
    assert load_labels(saved(tmp_path, np.array([1, np.nan, 0]))).tolist() == [1, -1, 0]


def test_labels_in_text(tmp_path: Path) -> None:
    """One class a line, with or without a heading and comments."""
    assert load_labels(text(tmp_path, "label\n1\n0\n-1\n", "y.csv")).tolist() == [1, 0, -1]
    assert load_labels(text(tmp_path, "# node classes\n1\n0\n\n", "y.txt")).tolist() == [1, 0]
    for words in ("1\ncs.AI\n", "1\n2.5\n", "1\n1,2\n", "1\n99999999999999999999\n"):
        with pytest.raises(DatasetError, match="line 2 is"):
            load_labels(text(tmp_path, words, "y.txt"))


def test_several_labels_a_node(tmp_path: Path) -> None:
    """0 and 1 become truth values; floats keep their NaN for unknown."""
    assert load_labels(saved(tmp_path, np.array([[0, 1], [1, 1]]))).dtype == np.bool_
    assert load_labels(saved(tmp_path, np.array([[0.5], [2.0], [np.nan]]))).shape == (3, 1)
    found = load_labels(saved(tmp_path, np.array([[0, np.nan], [1, 1]], np.float32)))
    assert found.dtype == np.float32
    assert np.isnan(found[0, 1])
    with pytest.raises(DatasetError, match="not 0 or 1"):
        load_labels(saved(tmp_path, np.array([[0, 2], [1, 1]])))
    with pytest.raises(DatasetError, match="not 0 or 1"):
        load_labels(saved(tmp_path, np.array([[0, np.inf], [1, 1]])))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(0), "no labels"),
        (np.array([0, -2, 1]), "row 1 has the class -2"),
        (np.array([1993, 1994, 1995]), "row 0 has the class 1993"),
        (np.array([0, 1.5, 1]), "row 1 is 1.5"),
        (np.array([0, np.inf, 1]), "row 1 is inf"),
        (np.array(["a"]), "not one class a node"),
        (np.array([[[1]]]), "not one class a node"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, array: Any, words: str) -> None:
    """A label of -2 indexes from the end, one of 1993 makes a layer of 1994 outputs."""
    with pytest.raises(DatasetError, match=words):
        load_labels(saved(tmp_path, array))


def test_masks(tmp_path: Path) -> None:
    """Truth values, 0 and 1, or node numbers; for one split or several."""
    expected = [[False], [True], [False], [True]]
    for array in (
        np.array([0, 1, 0, 1], bool),
        np.array([0, 1, 0, 1]),
        np.array([3, 1]),
        np.array([[0], [1], [0], [1]]),
    ):
        found = load_mask(saved(tmp_path, array), 4)
        assert found.dtype == np.bool_
        assert found.tolist() == expected
    assert load_mask(saved(tmp_path, np.zeros((4, 10), bool)), 4).shape == (4, 10)
    assert load_mask(saved(tmp_path, np.zeros(0, np.int64)), 4).sum() == 0


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([4]), "entry 0 is the node 4, but nodes are 0 .. 3"),
        (np.array([0, -1]), "entry 1 is the node -1"),
        (np.array([1, 1]), "names a node twice"),
        (np.zeros(3, bool), "3 rows for 4 nodes"),
        (np.zeros((3, 2), np.int64), r"shape \(3, 2\)"),
        (np.zeros(4), "neither a mask nor node numbers"),
        (np.zeros((4, 1, 1), bool), "neither"),
    ],
)
def test_masks_that_are_none(tmp_path: Path, array: Any, words: str) -> None:
    """A mask of another graph must not be used."""
    with pytest.raises(DatasetError, match=words):
        load_mask(saved(tmp_path, array), 4)


def test_overlapping_masks() -> None:
    """A test node that is trained on makes the accuracy too good."""
    one, other = np.array([[True], [False]]), np.array([[False], [True]])
    require_disjoint({"train": one, "val": other})
    with pytest.raises(DatasetError, match="test and val share the node 1"):
        require_disjoint({"train": one, "val": other, "test": other})
    with pytest.raises(DatasetError, match="2 splits but train has 1"):
        require_disjoint({"train": one, "val": np.zeros((2, 2), bool)})
