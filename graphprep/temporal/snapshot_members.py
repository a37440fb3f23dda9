"""What it costs that several ranks share a group of snapshots, each with its own nodes: rows, and rows of the halo.

In a snapshot, a node has a row from its first event on. A rank needs a row of another rank, a row of its halo, where
one of its nodes has an event with that node in the window. Both are counted over all snapshots.

Letters: M events, N nodes, T snapshots, S ranks that share a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.temporal.events import EventSource
from graphprep.temporal.format import DESTINATION, SOURCE
from graphprep.temporal.time_index import TimeIndex

MOST_UNEVEN = 1.2
"""rows of a rank over the mean; more uneven nodes are taken only where all are"""
BYTES_OF_AN_EVENT = 120
"""that `pair_graph` takes at most: pairs, their sorted copy, and both directions with weights"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberNodes:
    """Which of the ranks that share a group has each node, and what that costs."""

    member_of_N: NDArray[np.int16]
    rows_S: NDArray[np.int64]
    """rows of each rank in all snapshots"""
    halo_rows: int
    """rows that all ranks receive for one product in all snapshots"""
    method: str

    @property
    def imbalance(self) -> float:
        """The largest number of rows over the mean."""
        return float(self.rows_S.max() / max(1e-30, self.rows_S.mean()))

    def figures(self) -> dict[str, Any]:
        """For the root of a cache."""
        return {
            "method": self.method,
            "halo_rows": self.halo_rows,
            "rows": self.rows_S.tolist(),
            "imbalance": self.imbalance,
        }


def assessed_members(
    events: EventSource,
    offsets_T: NDArray[np.int64],
    rows_N: NDArray[np.int64],
    member_of_N: NDArray[Any],
    number: int,
    method: str,
) -> MemberNodes:
    """Count the rows and the rows of the halo.

    Args:
        events: in the order of time.
        offsets_T: the first event of each window.
        rows_N: in how many snapshots each node has a row.
        member_of_N: the rank of each node among those that share a group.
        number: S.
        method: how the nodes were assigned.
    """
    halo_rows = 0
    source_M, destination_M = events.arrays[SOURCE], events.arrays[DESTINATION]
    for begin, end in pairwise(offsets_T.tolist()):
        source_m, destination_m = source_M[begin:end], destination_M[begin:end]
        first_m, second_m = member_of_N[source_m].astype(np.int64), member_of_N[destination_m].astype(np.int64)
        crosses_m = first_m != second_m
        needed = [
            (node_m * number + member_m)[crosses_m]
            for node_m, member_m in ((source_m, second_m), (destination_m, first_m))
        ]
        halo_rows += len(np.unique(np.concatenate(needed)))
    return MemberNodes(
        member_of_N=member_of_N.astype(np.int16),
        rows_S=np.bincount(member_of_N, weights=rows_N, minlength=number).astype(np.int64),
        halo_rows=halo_rows,
        method=method,
    )


def rows_of_nodes(index: TimeIndex, offsets_T: NDArray[np.int64], *, entry_bytes: int) -> NDArray[np.int64]:
    """In how many snapshots each node has a row: from that of its first event on; int64 [N]."""
    rows_N = np.zeros(len(index.offsets_N) - 1, np.int64)
    for low, high in index.ranges(entry_bytes):
        event_k, _ = index.entries(low, high)
        starts = index.offsets_N[low : high + 1] - index.offsets_N[low]
        has_events = starts[1:] > starts[:-1]
        first = np.searchsorted(offsets_T, event_k[starts[:-1][has_events]], side="right") - 1
        rows_N[low:high][has_events] = len(offsets_T) - 1 - first
    return rows_N


def pair_graph(events: EventSource, offsets_T: NDArray[np.int64]) -> Csr:
    """The graph of all pairs with an event; data counts the snapshots in which a pair has one."""
    num_nodes = events.num_nodes
    source_M, destination_M = events.arrays[SOURCE], events.arrays[DESTINATION]
    of_windows = []
    for begin, end in pairwise(offsets_T.tolist()):
        low_m = np.minimum(source_M[begin:end], destination_M[begin:end])
        high_m = np.maximum(source_M[begin:end], destination_M[begin:end])
        of_windows.append(np.unique((low_m * num_nodes + high_m)[low_m != high_m]))
    keys, counts = np.unique(np.concatenate(of_windows), return_counts=True)
    del of_windows
    low, high = keys // num_nodes, keys % num_nodes
    row, column = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((column, row))
    return Csr(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_nodes))]).astype(np.int64),
        indices=column[order].astype(np.int32 if num_nodes < 2**31 else np.int64),
        num_sources=num_nodes,
        data=np.concatenate([counts, counts])[order].astype(np.float32),
    )


def fewest_halo_rows(candidates: Sequence[MemberNodes]) -> MemberNodes:
    """The one with the fewest rows of the halo of those with about even rows; the most even one where none has."""
    even = [one for one in candidates if one.imbalance <= MOST_UNEVEN]
    if not even:
        return min(candidates, key=lambda one: one.imbalance)
    return min(even, key=lambda one: one.halo_rows)
