"""bfloat16, which NumPy does not have: the upper 16 bits of a float32.

An array of such numbers has the dtype `BFLOAT16`, a structure with the one field `bfloat16` (uint16, the bits). It is
cut, gathered, copied and compared like any other; arithmetic on it is a TypeError rather than arithmetic on bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME = "bfloat16"
BFLOAT16: np.dtype[Any] = np.dtype([(NAME, "<u2")])
_NOT_A_NUMBER = 0x7FC0


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this dtype holds bfloat16."""
    return dtype == BFLOAT16


def from_floats(values: NDArray[Any]) -> NDArray[Any]:
    """The nearest bfloat16 of each number, of two equally near ones the even: `BFLOAT16`, the shape of `values`.

    Wider numbers go by way of float32, as in PyTorch; what is beyond the largest bfloat16 becomes infinite, and every
    NaN the same one.
    """
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(values, np.float32)
    bits = narrow.view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    found = np.empty(narrow.shape, BFLOAT16)
    found[NAME] = np.where(np.isnan(narrow), np.uint16(_NOT_A_NUMBER), (rounded >> np.uint32(16)).astype(np.uint16))
    return found


def to_float32(values: NDArray[Any]) -> NDArray[Any]:
    """An array of `BFLOAT16` as float32, which holds each of its numbers exactly; any other array as it is."""
    if not is_bfloat16(values.dtype):
        return values
    widened: NDArray[np.float32] = (values[NAME].astype(np.uint32) << np.uint32(16)).view(np.float32)
    return widened
