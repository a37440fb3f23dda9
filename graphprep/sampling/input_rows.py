"""Where the features of a batch's nodes come from: the part itself, kept rows, or the part that has them.

A cache of rows of other parts plans here, in the sampler's process, which knows all batches to come: it moves nodes
from `requested` to `kept`, and says in `stored` which of the requested rows stay and where. The trainer does what the
arrays say, batch after batch, and knows no policy.

Letters: n nodes of one type in a batch, P parts.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.rows import NodeLocations

Arrays = dict[str, NDArray[Any]]
_NONE = np.empty(0, np.int64)


class RowPlan(Protocol):
    """Plans the rows of one node type for one part."""

    num_kept: int
    """how many rows the trainer has place to keep"""

    def of_batch(self, ids_n: NDArray[np.int64], *, epoch: int, step: int) -> Arrays:
        """Where the rows of a batch's nodes come from.

        With several sampler processes each is called for its own batches alone, in their order. The trainer reads kept
        rows before it stores those of the same batch.

        Returns:
            `own_place`, `own_row`: places in the batch, ascending, and rows of the part itself;
            `kept_place`, `kept_slot`: places, and where the rows are kept;
            `requested_place`, `requested_row`, `requested_per_part`: places, the rows of their owners, owner after
            owner, and how many of each of the P parts;
            `stored_request`, `stored_slot`: which of the requested rows are kept for later batches, and where.
        """
        ...


class EveryBatch:
    """Requests each row that the part lacks in every batch, and keeps none."""

    num_kept = 0

    def __init__(self, locations: NodeLocations, part: int, num_parts: int) -> None:
        self._locations, self._part, self._num_parts = locations, part, num_parts

    def of_batch(self, ids_n: NDArray[np.int64], *, epoch: int, step: int) -> Arrays:  # noqa: ARG002
        part_n, row_n = self._locations.part_N[ids_n], self._locations.row_N[ids_n]
        own = np.flatnonzero(part_n == self._part)
        others = np.flatnonzero(part_n != self._part)
        others = others[np.argsort(part_n[others], kind="stable")]
        return {
            "own_place": own,
            "own_row": row_n[own],
            "kept_place": _NONE,
            "kept_slot": _NONE,
            "requested_place": others,
            "requested_row": row_n[others],
            "requested_per_part": np.bincount(part_n[others], minlength=self._num_parts),
            "stored_request": _NONE,
            "stored_slot": _NONE,
        }
