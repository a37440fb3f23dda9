"""Pickles from strangers: nothing runs, and what is not whole is not read."""

from __future__ import annotations

import collections
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.formats.pickles import PickledCsr, load
from graphprep.errors import DatasetError

MATRIX = sp.csr_matrix(np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3]], np.float32))


class Calls:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.call


def loaded(folder: Path, data: bytes) -> object:
    path = folder / "p"
    path.write_bytes(data)
    return load(path)


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "i4", "u1", "?", ">i8", "f2"])
def test_arrays(tmp_path: Path, protocol: int, dtype: str) -> None:
    """Every plain dtype, in either byte order and either memory order, must come out as it went in."""
    array = np.arange(12).reshape(3, 4).astype(dtype)
    for stored in (array, np.asfortranarray(array)):
        found = loaded(tmp_path, pickle.dumps(stored, protocol))
        assert isinstance(found, np.ndarray)
        assert found.dtype == array.dtype.newbyteorder("=")
        assert np.array_equal(found, array)


def test_matrices(tmp_path: Path) -> None:
    """The stand-in for SciPy's matrix must have its values, duplicates added."""
    found = loaded(tmp_path, pickle.dumps(MATRIX, 3))
    assert isinstance(found, PickledCsr)
    assert np.array_equal(found.dense(), MATRIX.toarray())
    twice = sp.csr_matrix((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    assert loaded(tmp_path, pickle.dumps(twice, 3)).dense().tolist() == [[0, 2]]  # type: ignore[attr-defined]


def test_originals_have_the_same_values_as_pickle_gives(test_data: Path) -> None:
    """The files are Python 2's; each must come out as NumPy and SciPy would have it."""
    folder = test_data / "mirror/github.com/kimiyoung/planetoid/raw/master/data"
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph"):
        path = folder / f"ind.cora.{part}"
        found = load(path)
        with path.open("rb") as stream:
            expected = pickle.load(stream, encoding="latin1")
        if isinstance(found, PickledCsr):
            assert np.array_equal(found.dense(), expected.toarray())
        elif isinstance(found, np.ndarray):
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected)
        else:
            assert found == expected


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch {}",), "posix.system"),
        (subprocess.check_call, (["touch", "{}"],), "check_call"),
        (eval, ("open('{}', 'w')",), "eval"),
        (getattr, ("a", "b"), "getattr"),
        (np.load, ("{}",), "numpy.load"),
        (np.memmap, ("{}", "u1", "w+", 0, (1,)), "memmap"),
        (collections.OrderedDict, (), "collections.OrderedDict"),
        (bytearray, (10,), "bytearray"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_hostile_pickle_does_not_run(
    tmp_path: Path, function: Any, arguments: tuple[Any, ...], name: str, protocol: int
) -> None:
    """A pickle from a mirror must not run a command; the error names what it asked for."""
    mark = tmp_path / "ran"

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{}", str(mark))
        return [filled(item) for item in value] if isinstance(value, list) else value

    call = Calls(function, *map(filled, arguments))
    for hidden in (call, [1, {"a": call}], collections.defaultdict(list, {1: [call]})):
        with pytest.raises(DatasetError, match="which data has no need of") as caught:
            loaded(tmp_path, pickle.dumps(hidden, protocol))
        assert name in str(caught.value)
    assert not mark.exists()


def test_allowed_names_cannot_reach_others(tmp_path: Path) -> None:
    """Protocol 4 resolves dotted names; `list.__subclasses__` is no way around the list of names."""
    dotted = b"\x80\x04\x8c\x08builtins\x8c\x13list.__subclasses__\x93."
    with pytest.raises(DatasetError, match=r"list\.__subclasses__"):
        loaded(tmp_path, dotted)


def test_persistent_and_extension_ids(tmp_path: Path) -> None:
    """The two other ways by which a pickle names things from outside."""
    for data in (b"Pthing\n.", b"\x80\x02\x82\x01."):
        with pytest.raises(DatasetError, match="damaged pickle"):
            loaded(tmp_path, data)


def test_every_cut_is_found(tmp_path: Path) -> None:
    """A download that stops at any byte must not pass for a whole file."""
    whole = pickle.dumps({"m": MATRIX, "l": [1, 2, 3], "a": np.arange(5)}, 3)
    for cut in range(len(whole)):
        with pytest.raises(DatasetError, match=r"cut short|damaged"):
            loaded(tmp_path, whole[:cut])


def test_bytes_after_the_end(tmp_path: Path) -> None:
    """Two files in one, or an error page after the data, are no whole file."""
    with pytest.raises(DatasetError, match="more bytes"):
        loaded(tmp_path, pickle.dumps([1], 2) + b"x")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([{}], object), "in a form that NumPy does not write"),
        (np.array(["a"]), "dtype 'U"),
        (np.array([b"abc"]), "dtype 'S"),
        (np.array([(1, 2)], "i4,f4"), "state that NumPy does not write|dtype 'V"),
        (np.zeros(2, np.complex64), "dtype 'c8'"),
        (np.zeros((1, 1, 1)), "shape"),
    ],
)
def test_arrays_of_other_things(tmp_path: Path, value: object, words: str) -> None:
    """Objects, text and records are no numbers."""
    with pytest.raises(DatasetError, match=words):
        loaded(tmp_path, pickle.dumps(value, 3))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": np.array([1, 0, 9], np.int32)}, "the index 9, outside 0 .. 2"),
        ({"indices": np.array([1, -1, 2], np.int32)}, "the index -1, outside 0 .. 2"),
        ({"indices": np.array([1, 2], np.int32)}, "2 indices where its rows need 3"),
        ({"indptr": np.array([0, 1, 1], np.int32)}, "row pointers that do not fit 3 rows"),
        ({"indptr": np.array([0, 2, 1, 3], np.int32)}, "row pointers"),
        ({"indptr": np.array([1, 1, 1, 3], np.int32)}, "row pointers"),
        ({"indptr": np.array([0, 1, 1, 99], np.int32)}, "need 99"),
        ({"indptr": np.zeros((2, 2), np.int32)}, "without the array 'indptr'"),
        ({"indices": np.array([0.0, 1, 2])}, "indices are not integers"),
        ({"data": np.array([1, np.nan, 2], np.float32)}, "not finite"),
        ({"data": None}, "without the array 'data'"),
        ({"_shape": (3, -1)}, "of the shape"),
        ({"_shape": (3,)}, "of the shape"),
        ({"_shape": (3, 10**15)}, "of memory where"),
    ],
)
def test_matrices_that_are_none(tmp_path: Path, change: dict[str, object], words: str) -> None:
    """SciPy trusts these arrays: an index out of range would write outside of the dense matrix."""
    spoilt = MATRIX.copy()
    spoilt.__dict__.update(change)
    found = loaded(tmp_path, pickle.dumps(spoilt, 3))
    assert isinstance(found, PickledCsr)
    with pytest.raises(DatasetError, match=words):
        found.dense()


def test_array_whose_bytes_do_not_fit(tmp_path: Path) -> None:
    """A shape larger than the bytes would read memory that is not the array's."""
    data = pickle.dumps(np.zeros(4, np.uint8), 3)
    assert data.count(b"K\x04\x85") == 1
    with pytest.raises(DatasetError, match="4 bytes for an array of shape"):
        loaded(tmp_path, data.replace(b"K\x04\x85", b"K\x05\x85"))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), drop=st.booleans())
def test_damage_is_an_error_or_harmless(tmp_path: Path, place: int, byte: int, drop: bool) -> None:
    """Whatever a flipped or lost byte does to the program, it ends in our error or in a value, never otherwise."""
    whole = bytearray(pickle.dumps({"m": MATRIX, "l": [1, 2, 3], "a": np.arange(5)}, 3))
    place %= len(whole)
    if drop:
        del whole[place]
    else:
        whole[place] = byte
    try:
        value = loaded(tmp_path, bytes(whole))
        for part in value.values() if isinstance(value, dict) else ():
            if isinstance(part, PickledCsr):
                part.dense()
    except DatasetError:
        pass
