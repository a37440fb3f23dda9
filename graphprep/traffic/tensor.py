"""What a tensor-parallel layer sends: all-to-all exchanges between all columns of own rows and own columns of all rows.

Of P ranks, rank p sends q its own n_p rows' columns of q, and once all rows are summed, the sums of q's rows in its own
columns. Columns are split as evenly as possible. The backward pass sends the same. So a sum of rows of F values moves
2 N F (P - 1) / P of them for equal parts, however the graph is partitioned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.traffic.links import LinkModel


def column_counts(width: int, ranks: int) -> NDArray[np.int64]:
    """int64 [P]: how many columns each rank sums."""
    return width // ranks + (np.arange(ranks) < width % ranks).astype(np.int64)


def tensor_bytes(
    nodes_P: NDArray[np.int64], width: int, *, value_bytes: int, more_bytes: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64 [P, P] twice: the bytes from rank p to q before and after one sum of rows.

    Args:
        nodes_P: int64 [P], rows of each rank.
        width: values of a row.
        value_bytes: of a value on the wire.
        more_bytes: of each row of a message beside its values.
    """
    columns_P = column_counts(width, len(nodes_P))
    row_bytes_P = columns_P * value_bytes + np.where(columns_P, more_bytes, 0)
    before_PP = np.outer(nodes_P, row_bytes_P)
    np.fill_diagonal(before_PP, 0)
    return before_PP, before_PP.T


def tensor_seconds(
    model: LinkModel, nodes_P: NDArray[np.int64], width: int, *, value_bytes: int, more_bytes: int = 0
) -> float:
    """The bottlenecks of both exchanges of one sum, forward or backward; see `tensor_bytes`."""
    exchanges = tensor_bytes(nodes_P, width, value_bytes=value_bytes, more_bytes=more_bytes)
    return sum(float(model.seconds(bytes_PP, 1).max(initial=0.0)) for bytes_PP in exchanges)
