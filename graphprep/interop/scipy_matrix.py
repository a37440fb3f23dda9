"""A CSR as a SciPy sparse array and back: rows are destinations, columns are sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.errors import UsageError
from graphprep.interop.arrays import from_arrays
from graphprep.interop.in_memory import ArrayGraph, as_array

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def to_scipy(matrix: Csr) -> csr_array:
    """The matrix, float32; an edge without a weight counts 1, and edges given twice stay two entries."""
    from scipy.sparse import csr_array

    data = np.ones(matrix.num_edges, np.float32) if matrix.data is None else np.asarray(matrix.data)
    shape = (matrix.num_rows, matrix.num_sources)
    return csr_array((data, np.asarray(matrix.indices), np.asarray(matrix.indptr)), shape=shape)


def from_scipy(matrix: Any, nodes: Mapping[str, Any]) -> ArrayGraph:
    """The graph of an adjacency matrix; entries that are all 1 or true are no weights.

    Args:
        matrix: a sparse array or matrix [N, N] of any format; each entry is an edge, also one of 0.
        nodes: `ids` and arrays of the nodes by name, [N, ...].

    Raises:
        UsageError: it is not sparse, or not square.
    """
    if not hasattr(matrix, "tocoo") or len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        shape = f" of shape {list(matrix.shape)}" if hasattr(matrix, "shape") else ""
        raise UsageError(f"{type(matrix).__name__}{shape} is no sparse matrix [N, N]; give one of scipy.sparse")
    edges = matrix.tocoo()
    is_weighted = edges.data.dtype.kind != "b" and not bool((edges.data == 1).all())
    edge_fields = {"edge_index": (edges.col, edges.row), "edge_weight": edges.data if is_weighted else None}
    of_nodes = {"num_nodes": matrix.shape[0], **nodes}
    ids = of_nodes.pop("ids", None)
    graph = from_arrays({HOMOGENEOUS_NODE: of_nodes}, {HOMOGENEOUS_EDGE: edge_fields})
    return graph if ids is None else graph.with_ids(HOMOGENEOUS_NODE, as_array(ids, "ids"))
