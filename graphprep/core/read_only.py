"""Arrays as kernels read them: numba compiles a kernel anew for arrays that may be written and for those that may not.

Arrays that are mapped from files may not be written, and others may. Where a kernel gets either, all are read-only.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The same memory as an array that cannot be written."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
