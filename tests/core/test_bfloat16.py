"""bfloat16 without NumPy's help."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.core.bfloat16 import BFLOAT16, from_floats, to_float32


def test_rounding_is_pytorchs() -> None:
    """Guards against cut-off bits, ties that go away from even, NaNs that become infinite, and doubles that do not."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ties = (rng.integers(0, 2**16, 1000).astype(np.uint32) << 16 | 0x8000).view(np.float32)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, 65504, 1 + 2**-8], np.float32)
    values = np.concatenate([values, ties, edges])
    expected = torch.from_numpy(values).to(torch.bfloat16)
    found = from_floats(values)
    assert found.dtype == BFLOAT16
    np.testing.assert_array_equal(to_float32(found), expected.float().numpy())
    assert from_floats(np.array([1e300]))["bfloat16"].tolist() == [0x7F80]
    assert np.isnan(to_float32(from_floats(np.array([np.nan])))).all()


def test_it_moves_like_any_array_and_is_never_summed_as_bits() -> None:
    """Guards against whole numbers where somebody expects features."""
    array = from_floats(np.arange(12, dtype=np.float32).reshape(4, 3))
    assert np.array_equal(np.concatenate([array[[2, 0]], array[1:2]])["bfloat16"], array["bfloat16"][[2, 0, 1]])
    assert to_float32(array[[3]]).tolist() == [[9, 10, 11]]
    with pytest.raises(TypeError):
        array + 1


def test_other_arrays_are_left_as_they_are() -> None:
    """Guards against a copy of features that are float32 already."""
    array = np.zeros(3, np.float32)
    assert to_float32(array) is array
