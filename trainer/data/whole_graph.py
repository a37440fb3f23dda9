"""The in-edges of the whole graph as one matrix, put together from the files of all parts.

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
class WholeGraph:
    """All N rows of the graph, their M neighbour sums (N of them unless relations are distinguished), and all edges."""

    edges: Csr
    """[M, N], as the dataset has them"""
    degree_M: Tensor
    """float32, as `Part.degree_n` of all parts"""
    row_counts: Sequence[int]
    """Rows of each part"""
    sum_counts: Sequence[int]
    """Neighbour sums of each part"""
    train_N: Tensor
    """bool: the training nodes"""


def missing_parts(cache: Cache) -> list[int]:
    """The parts that this machine has no files of."""
    return [part for part in range(cache.num_parts) if not (cache.folder / f"parts/{part}/zarr.json").is_file()]


def whole_graph(parts: Sequence[Part]) -> WholeGraph:
    """The graph of which these are all parts, in the order of their numbers."""
    row_counts = [part.num_rows for part in parts]
    *first_rows, num_rows = [0, *accumulate(row_counts)]

    def of_part(part: Part) -> Csr:
        """The rows of one part, with columns of the whole graph."""
        blocks = []
        for number, first_row in enumerate(first_rows):
            if number == part.number:
                block, columns_E = part.local, part.local.indices.long()
            else:
                block = part.remote[number]
                columns_E = parts[number].send_rows[part.number].long()[block.indices]
            blocks.append(replace(block, indices=columns_E + first_row, num_columns=num_rows))
        return add(*blocks)

    return WholeGraph(
        edges=vstack([of_part(part) for part in parts], num_rows),
        degree_M=torch.cat([part.degree_n for part in parts]),
        row_counts=row_counts,
        sum_counts=[part.local.num_rows for part in parts],
        train_N=torch.cat([part.train_n for part in parts]),
    )
