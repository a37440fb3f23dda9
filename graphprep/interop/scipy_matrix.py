"""A CSR as a SciPy sparse array: rows are destinations, columns are sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphprep.core.types import Csr

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def to_scipy(matrix: Csr) -> csr_array:
    """The matrix, float32; an edge without a weight counts 1, and edges given twice stay two entries."""
    from scipy.sparse import csr_array

    data = np.ones(matrix.num_edges, np.float32) if matrix.data is None else np.asarray(matrix.data)
    shape = (matrix.num_rows, matrix.num_sources)
    return csr_array((data, np.asarray(matrix.indices), np.asarray(matrix.indptr)), shape=shape)
