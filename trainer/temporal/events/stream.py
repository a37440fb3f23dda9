"""A stream of events as tensors, and the most recent neighbours of a node at a time.

An event is an edge with a time. Events are numbered in the order of their times; equal times keep the order of the
input. Each node has a list of its events in that order, from either end of an edge, so the neighbours before a time are
a prefix of the list, and a binary search finds its end. Nothing is updated while the stream is read, and no neighbour
can come from the future: what is strictly earlier than an event has a lower number.

Letters: M events, N nodes, F features of an event, q queries (a node at a time), K neighbours of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainer.data.event_tensors import FeatureHistory

if TYPE_CHECKING:
    from trainer.data.events import EventCache


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentNeighbours:
    """The most recent neighbours of q queries, the most recent one first."""

    node_qK: Tensor
    """int64; where there are fewer than K, the rest are 0 and masked."""
    event_qK: Tensor
    """The number of the event that made each a neighbour."""
    exists_qK: Tensor
    """bool"""


@dataclass(frozen=True, kw_only=True)
class EventStream:
    """Events with their time index."""

    source_M: Tensor
    destination_M: Tensor
    time_M: Tensor
    """int64 or float64, ascending"""
    num_nodes: int
    split: tuple[int, int]
    """The first event of the validation and the first event of the test."""
    offset_N1: Tensor
    """Where each node's list of events begins, and the end of the last one: int64 [N + 1]."""
    event_2M: Tensor
    """The lists: numbers of events."""
    neighbour_2M: Tensor
    """The other end of each of them."""
    x_MF: Tensor | None = None
    y_M: Tensor | None = None
    """The label of the source's state after each event, -1 where it is not known."""
    x_NF: Tensor | None = None
    """Features of nodes."""

    changing: FeatureHistory | None = None
    """Features of nodes that change."""
    rank_of_N: Tensor | None = None
    """The rank that the stream's partition gives each node."""

    @classmethod
    def of(cls, cache: EventCache) -> EventStream:
        """The events of a cache.

        Raises:
            CacheError: its arrays are damaged.
        """
        tensors = cache.tensors()
        return cls(
            source_M=tensors.source,
            destination_M=tensors.destination,
            time_M=tensors.time,
            num_nodes=cache.num_nodes,
            split=cache.split,
            offset_N1=tensors.index_offsets,
            event_2M=tensors.index_event,
            neighbour_2M=tensors.index_neighbour,
            x_MF=tensors.x,
            y_M=tensors.y,
            x_NF=tensors.node_x,
            changing=tensors.changing,
            rank_of_N=tensors.rank_of,
        )

    def owner_N(self, owners: int) -> Tensor:
        """The owner of each node's memory, of as many: by the stream's partition if it has this number of ranks."""
        if self.rank_of_N is not None and int(self.rank_of_N.max()) + 1 == owners:
            return self.rank_of_N.long()
        return torch.arange(self.num_nodes) % owners

    @property
    def num_events(self) -> int:
        return len(self.source_M)

    @property
    def num_features(self) -> int:
        """Of an event."""
        return 0 if self.x_MF is None else self.x_MF.shape[1]

    @property
    def num_node_features(self) -> int:
        """Of a node at a time: those that never change, and then those that do."""
        never = 0 if self.x_NF is None else self.x_NF.shape[1]
        return never if self.changing is None else never + self.changing.x.shape[1]

    def node_features(self, node_v: Tensor, row_v: Tensor | None) -> Tensor:
        """The features of nodes: float32 [v, D].

        Args:
            node_v: the nodes.
            row_v: of the features that change; None where none do.
        """
        parts = [] if self.x_NF is None else [self.x_NF[node_v]]
        if self.changing is not None and row_v is not None:
            parts.append(self.changing.rows(row_v))
        return torch.cat(parts, 1)

    @cached_property
    def candidates_D(self) -> Tensor:
        """All nodes that are a destination, ascending: negatives are drawn from them."""
        candidates_D: Tensor = torch.unique(self.destination_M)
        return candidates_D

    def first_of_time(self, event_q: Tensor) -> Tensor:
        """The first event of the same time as each of some events; all events before it are strictly earlier."""
        first_q: Tensor = torch.searchsorted(self.time_M, self.time_M[event_q])
        return first_q

    def groups(self) -> dict[str, tuple[int, int]]:
        """First event and end of each side of the split."""
        val, test = self.split
        return {"train": (0, val), "val": (val, test), "test": (test, self.num_events)}

    def recent_neighbours(self, node_q: Tensor, before_q: Tensor, number: int) -> RecentNeighbours:
        """The last neighbours of each node by events with a lower number than its `before_q`."""
        begin_q, end_q = self.offset_N1[node_q], self.offset_N1[node_q + 1]
        # Binary search for the first event of the list that is not below the limit.
        low_q, high_q = begin_q.clone(), end_q.clone()
        last = max(len(self.event_2M) - 1, 0)
        for _ in range(int((end_q - begin_q).max()).bit_length() if len(node_q) else 0):
            middle_q = (low_q + high_q) >> 1
            is_open_q = low_q < high_q
            is_below_q = is_open_q & (self.event_2M[middle_q.clamp(max=last)] < before_q)
            low_q = torch.where(is_below_q, middle_q + 1, low_q)
            high_q = torch.where(is_open_q & ~is_below_q, middle_q, high_q)
        place_qK = low_q.unsqueeze(1) - torch.arange(1, number + 1)
        exists_qK = place_qK >= begin_q.unsqueeze(1)
        place_qK = place_qK.masked_fill(~exists_qK, 0)
        return RecentNeighbours(
            node_qK=self.neighbour_2M[place_qK].masked_fill(~exists_qK, 0),
            event_qK=self.event_2M[place_qK].masked_fill(~exists_qK, 0),
            exists_qK=exists_qK,
        )


def time_index(source_M: Tensor, destination_M: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Offsets, events and neighbours of every node's list, as in `EventStream`; an event of a node with itself is in
    its list twice."""
    event_M = torch.arange(len(source_M))
    order = torch.stack([source_M, destination_M], 1).reshape(-1).argsort(stable=True)
    ends = torch.stack([destination_M, source_M], 1).reshape(-1)
    counts_N = torch.bincount(torch.cat([source_M, destination_M]), minlength=num_nodes)
    return torch.nn.functional.pad(counts_N.cumsum(0), (1, 0)), event_M.repeat_interleave(2)[order], ends[order]
