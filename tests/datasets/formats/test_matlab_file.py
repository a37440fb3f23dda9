"""MATLAB's files: what SciPy reads, and errors where SciPy takes the process with it."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphprep.datasets.formats.arrays import Sparse
from graphprep.datasets.formats.matlab_file import read_arrays
from graphprep.errors import DatasetError
from graphprep.system import memory


def saved(packed: bool = False, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, do_compression=packed)
    return stream.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_dense(packed: bool, dtype: str) -> None:
    """Every kind of number, in MATLAB's order of columns; small arrays stand in the place of their own size."""
    for shape in ((3, 4), (1, 1), (1, 3), (0, 3)):
        array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        found = read_arrays(io.BytesIO(saved(packed, a=array, other="words")), ("a",))["a"]
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, array)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.bool_])
def test_sparse(packed: bool, kind: type) -> None:
    """Entries by column, among other variables and larger than the piece that is read for the name."""
    matrix = sp.random(200, 300, 0.1, "csc", random_state=0).astype(kind)
    found = read_arrays(io.BytesIO(saved(packed, first=np.eye(90), a=matrix, last=np.eye(3))), ("a",))["a"]
    assert isinstance(found, Sparse)
    assert np.array_equal(found.dense(), matrix.toarray().astype(np.float32))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        ("text", "no array of numbers"),
        ({"field": 1}, "no array of numbers"),
        (np.array([[1 + 2j]]), "complex"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.array([[1, "a"]], object), "no array of numbers"),
    ],
)
def test_what_is_no_table(array: Any, words: str) -> None:
    """MATLAB has cells, structures and text too."""
    with pytest.raises(DatasetError, match=words):
        read_arrays(io.BytesIO(saved(a=array)), ("a",))


@pytest.mark.parametrize("packed", [False, True])
def test_any_damage_is_an_error_or_a_number(packed: bool) -> None:
    """Cut anywhere or changed in any byte, the file gives an error or other values, never a crash or a traceback."""
    rng = np.random.default_rng(0)
    whole = saved(packed, a=sp.random(20, 20, 0.2, "csc", random_state=0), b=rng.integers(0, 9, (4, 5)))
    places = range(0, len(whole), 1 if packed else 3)
    spoilt = [whole[:cut] for cut in places] + [
        whole[:place] + bytes([int(rng.integers(0, 256))]) + whole[place + 1 :] for place in places
    ]
    refused = 0
    for data in spoilt:
        try:
            found = read_arrays(io.BytesIO(data), ("a", "b"))
        except DatasetError:
            refused += 1
        else:
            assert found.keys() == {"a", "b"}
    assert refused > len(spoilt) / 2


def packed_variable(stated_bytes: int, real_bytes: int) -> bytes:
    """A file whose one variable, a row of bytes called a, is packed and states a size of its own."""
    whole = saved(a=np.zeros((1, 1), np.uint8))
    head = whole[136 : whole.index(b"a", 136) + 4]
    body = head + struct.pack("<II", 2, real_bytes) + bytes(real_bytes)
    packed = zlib.compress(struct.pack("<II", 14, stated_bytes) + body)
    return whole[:128] + struct.pack("<II", 15, len(packed)) + packed


@pytest.mark.slow
@pytest.mark.parametrize("stated_bytes", [100, 200 << 20])
def test_packed_variable_that_unfolds(stated_bytes: int) -> None:
    """Guards against a packed variable that is unpacked without limit: 200 kB became 200 MB under any --memory."""
    data = packed_variable(stated_bytes, 200 << 20)
    assert len(data) < 300_000
    tracemalloc.start()
    try:
        with memory.limited(memory.resident() + (100 << 20)), pytest.raises(DatasetError) as caught:
            read_arrays(io.BytesIO(data), ("a",))
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    wanted = "unpacks to more bytes than it says" if stated_bytes == 100 else "'a' takes 629.1 MB of memory where"
    assert wanted in str(caught.value)


def test_variable_longer_than_the_file() -> None:
    """Guards against 4 GB that are asked for because the size of a variable says so."""
    whole = saved(a=np.eye(3))
    with pytest.raises(DatasetError, match="cut short"):
        read_arrays(io.BytesIO(whole[:132] + struct.pack("<I", 2**32 - 8) + whole[136:]), ("a",))
