"""The edges between parts of the whole graph as one matrix, put together from the files of all parts.

Rows and columns are those of part 0, then those of part 1, and so on. A column of the block that part p has from peer
q counts the rows that q sends to p, and q's own list `send_<p>` says which of its rows these are. The files are mapped,
so ranks of one machine read them once; the matrix itself is every rank's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from trainer.data.cache import Cache
from trainer.data.csr import Csr, add, vstack
from trainer.data.part import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEdges:
    """All edges between parts, over the N rows of the graph and their M neighbour sums.

    There are N sums too, unless relations are distinguished.
    """

    edges: Csr
    """[M, N], as the dataset has them"""
    row_counts: Sequence[int]
    """Rows of each part"""
    sum_counts: Sequence[int]
    """Neighbour sums of each part"""
    train_N: Tensor
    """bool: the training nodes"""


def missing_parts(cache: Cache) -> list[int]:
    """The parts that this machine has no files of."""
    return [part for part in range(cache.num_parts) if not (cache.folder / f"parts/{part}/zarr.json").is_file()]


def cross_edges(parts: Sequence[Part]) -> CrossEdges:
    """The edges between `parts`, which are all of a graph, in the order of their numbers."""
    row_counts = [part.num_rows for part in parts]
    *first_rows, num_rows = [0, *accumulate(row_counts)]

    def of_part(part: Part) -> Csr:
        """Those into one part, with columns of the whole graph."""
        blocks = [
            replace(
                block,
                indices=parts[peer].send_rows[part.number].long()[block.indices] + first_rows[peer],
                num_columns=num_rows,
            )
            for peer, block in part.remote.items()
        ]
        return add(*blocks)

    return CrossEdges(
        edges=vstack([of_part(part) for part in parts], num_rows),
        row_counts=row_counts,
        sum_counts=[part.local.num_rows for part in parts],
        train_N=torch.cat([part.train_n for part in parts]),
    )
