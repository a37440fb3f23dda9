"""What a tensor-parallel layer sends: all-to-all exchanges between all columns of own rows and own columns of all rows.

Only rows at the ends of edges between parts take part. Of P ranks, rank p sends q the columns of q of its own rows that
some peer needs, and once these edges are summed, its own columns of q's sums over rows of peers. Columns are split as
evenly as possible. The backward pass sends the same the other way round. So with s such rows and t such sums in all, a
sum of rows of F values moves (s + t) F (P - 1) / P of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.traffic.links import LinkModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CrossRows:
    """The rows at the ends of edges between parts: int64 [P]."""

    shared_P: NDArray[np.int64]
    """Rows of each part that some other part has an edge from, each once."""
    sums_P: NDArray[np.int64]
    """Rows of each part with an in-edge from another part."""

    @classmethod
    def of(cls, matrix: Csr, assignment: NDArray[np.int32], num_parts: int) -> CrossRows:
        """Those of a graph of one node and edge type."""
        row_E = np.repeat(assignment, np.diff(matrix.indptr))
        is_cross_E = row_E != assignment[matrix.indices]
        has_edge_N = np.add.reduceat(np.append(is_cross_E, False), matrix.indptr[:-1], dtype=np.int64) > 0
        has_edge_N &= np.diff(matrix.indptr) > 0
        is_shared_N = np.zeros(matrix.num_sources, bool)
        is_shared_N[matrix.indices[is_cross_E]] = True
        shared_P, sums_P = (
            np.bincount(assignment[marked_N], minlength=num_parts) for marked_N in (is_shared_N, has_edge_N)
        )
        return cls(shared_P=shared_P, sums_P=sums_P)

    def reversed(self) -> CrossRows:
        """Those of the backward pass."""
        return CrossRows(shared_P=self.sums_P, sums_P=self.shared_P)


def column_counts(width: int, ranks: int) -> NDArray[np.int64]:
    """int64 [P]: how many columns each rank sums."""
    return width // ranks + (np.arange(ranks) < width % ranks).astype(np.int64)


def tensor_bytes(
    rows: CrossRows, width: int, *, value_bytes: int, more_bytes: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64 [P, P] twice: the bytes from rank p to q before and after a forward sum.

    Args:
        rows: that take part.
        width: values of a row.
        value_bytes: of a value on the wire.
        more_bytes: of each row of a message beside its values.
    """
    columns_P = column_counts(width, len(rows.shared_P))
    row_bytes_P = columns_P * value_bytes + np.where(columns_P, more_bytes, 0)
    both = np.outer(rows.shared_P, row_bytes_P), np.outer(row_bytes_P, rows.sums_P)
    for bytes_PP in both:
        np.fill_diagonal(bytes_PP, 0)
    return both


def tensor_seconds(model: LinkModel, rows: CrossRows, width: int, *, value_bytes: int, more_bytes: int = 0) -> float:
    """The bottlenecks of both exchanges of a forward sum; see `tensor_bytes`."""
    exchanges = tensor_bytes(rows, width, value_bytes=value_bytes, more_bytes=more_bytes)
    return sum(float(model.seconds(bytes_PP, 1).max(initial=0.0)) for bytes_PP in exchanges)
