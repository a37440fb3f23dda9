"""Arrays in a dtype that stores have: numbers of at most 8 bytes in this machine's byte order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.system import progress

WIDEST = 8
"""bytes; NumPy's longdouble has 12 or 16, in a form that differs between machines"""


def storable(numbers: NDArray[Any], origin: str) -> NDArray[Any]:
    """`numbers` as they are, or in native byte order, or long doubles as float64, which is said.

    Args:
        numbers: of kind b, i, u or f.
        origin: begins the line that says it: the file or the array's name.
    """
    if numbers.dtype.kind == "f" and numbers.dtype.itemsize > WIDEST:
        progress.say(f"{origin}: {numbers.dtype} is rounded to float64, the widest floating-point type of a store")
        return numbers.astype(np.float64)
    return numbers if numbers.dtype.isnative else numbers.astype(numbers.dtype.newbyteorder("="))
