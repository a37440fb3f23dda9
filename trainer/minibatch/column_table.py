"""Some columns of the features of all nodes, which a rank keeps with `--features-by columns`.

Of P ranks each has F / P columns of all N nodes: N x F / P values, as many as its own nodes' features are if parts are
equal. They come once, at the start, from the ranks that own the nodes, some rows at a time.

Letters: N nodes, F features, W of them that this rank has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator
from trainer.exchange.layer_exchanges import column_slices

_PIECE_BYTES = 32_000_000
"""of the rows that a rank sends at a time"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTable:
    """This rank's columns, on the host."""

    rows_NW: Tensor
    """in the dataset's order of nodes, in the type that they were sent in"""
    columns: slice
    """which of the F these are"""
    width: int
    """F"""


def sent_type(features: Tensor, stored_type: torch.dtype) -> torch.dtype:
    """What features are sent in: the type that rows are stored in, or their own where that takes no more bytes."""
    narrows = features.is_floating_point() and stored_type.itemsize < features.element_size()
    return stored_type if narrows else features.dtype


def load_column_table(
    x_nF: Tensor, ids_n: Tensor, num_nodes: int, stored_type: torch.dtype, communicator: Communicator
) -> ColumnTable:
    """Get this rank's columns from all ranks; every rank has to call it.

    Args:
        x_nF: the features of this rank's nodes, mapped.
        ids_n: int64, their numbers in the dataset.
        num_nodes: N.
        stored_type: what rows are stored in.
        communicator: the ranks of the run.

    Raises:
        LostPeerError: another rank is gone.
    """
    rank, width, kind = communicator.rank, x_nF.shape[1], sent_type(x_nF, stored_type)
    of_ranks = column_slices(width, communicator.world)
    counts = [fact["rows"] for fact in communicator.all_gather_object({"rows": len(x_nF)})]
    ids_by_rank = torch.split(communicator.all_gather_rows(ids_n, counts).cpu(), counts)
    own_width = of_ranks[rank].stop - of_ranks[rank].start
    rows_NW = torch.empty(num_nodes, own_width, dtype=kind)
    num_rows = max(1, _PIECE_BYTES // max(1, width * kind.itemsize))
    for begin in range(0, max(counts), num_rows):
        piece = x_nF[begin : begin + num_rows]
        messages = [piece[:, columns].to(kind).reshape(-1) for columns in of_ranks]
        ids = [ids_n[begin : begin + num_rows] for ids_n in ids_by_rank]
        received = communicator.all_to_all(
            torch.cat(messages).view(torch.uint8),
            sent=[len(message) * kind.itemsize for message in messages],
            received=[len(of_rank) * own_width * kind.itemsize for of_rank in ids],
            purpose="preparation",
        ).wait()
        places = torch.cat(ids)
        rows_NW.index_copy_(0, places, received.view(kind).view(len(places), own_width))
    return ColumnTable(rows_NW=rows_NW, columns=of_ranks[rank], width=width)


def table_bytes(num_nodes: int, width: int, value_bytes: int, world: int) -> int:
    """What the largest of the ranks' tables takes."""
    return num_nodes * -(-width // world) * value_bytes


def sent_for_tables(row_counts: Sequence[int], width: int, value_bytes: int) -> int:
    """The bytes that all ranks send to fill their tables: F / P columns of each row stay where they are."""
    others = len(row_counts) - 1
    return sum(row_counts) * others * (8 + width * value_bytes // len(row_counts))
