"""The arrays of an event cache as tensors that are mapped copy-on-write: all ranks of a machine share the page cache.

What points into something else is looked through here, once, and so is the order of times, on which it rests that no
model sees an event before it happens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.events import EventCache
from trainer.data.part_arrays import mapped_tensor

ROWS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureHistory:
    """Features of nodes that change: R rows in the order of nodes and, of each node, of times.

    At a time a node has the features of its last row that is strictly earlier, and zeros before its first one.
    """

    offsets: Tensor
    """int64 [N + 1]: where the rows of each node begin"""
    time: Tensor
    """int64 or float64 [R], ascending among the rows of a node"""
    x: Tensor
    """float32 [R, D]"""

    def rows_before(self, node: Tensor, time: Tensor) -> Tensor:
        """The row of each node at a time, -1 where there is none yet: int64, by binary search."""
        first, high = self.offsets[node], self.offsets[node + 1]
        low, last = first, max(len(self.time) - 1, 0)
        for _ in range(int((high - first).max()).bit_length() if len(node) else 0):
            middle, is_open = (low + high) >> 1, low < high
            is_before = is_open & (self.time[middle.clamp(max=last)] < time)
            low = torch.where(is_before, middle + 1, low)
            high = torch.where(is_open & ~is_before, middle, high)
        return torch.where(low > first, low - 1, -1)

    def rows(self, row: Tensor) -> Tensor:
        """The features of rows, zeros for -1: float32 [q, D]."""
        if not len(self.x):
            return self.x.new_zeros(len(row), self.x.shape[1])
        return self.x[row.clamp(min=0)].masked_fill((row < 0).unsqueeze(1), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventTensors:
    """M events in the order of time; those of equal times are in the order of the input."""

    source: Tensor
    """int64 [M]"""
    destination: Tensor
    """int64 [M]"""
    time: Tensor
    """int64 or float64 [M], ascending"""
    x: Tensor | None
    """float32 [M, F]"""
    y: Tensor | None
    """int64 [M]: the state of the source after the event"""
    node_x: Tensor | None
    """float32 [N, F]"""
    changing: FeatureHistory | None
    """features of nodes that change"""
    rank_of: Tensor
    """int16 [N]: the rank of each node"""
    index_offsets: Tensor
    """int64 [N + 1]: where the entries of each node begin"""
    index_event: Tensor
    """int64 [2M]: the events of each node in the order of time"""
    index_neighbour: Tensor
    """int64 [2M]: the node at the other end of each of them"""
    snapshot_offsets: Tensor | None
    """int64 [T + 1]: the first event of each window"""
    snapshot_group: Tensor | None
    """int16 [T]: the group of each snapshot, ascending; ranks S g to S g + S - 1 have group g, with S = 1 rank g"""
    member_of: Tensor | None
    """int16 [N]: which of the S ranks that share a group has each node; None where S is 1"""


def read_tensors(cache: EventCache) -> EventTensors:
    """All tensors of a cache; `EventCache.tensors` calls this."""
    return _Reader(cache).read()


class _Reader:
    def __init__(self, cache: EventCache) -> None:
        self.cache = cache

    def read(self) -> EventTensors:
        cache = self.cache
        count, nodes = (cache.num_events,), cache.num_nodes
        time = self._mapped("events/time", ("int64", "float64"), count)
        self._require_ascending("events/time", time)
        offsets = self._offsets("index/offsets", nodes, 2 * cache.num_events)
        return EventTensors(
            source=self._numbers("events/source", count, nodes),
            destination=self._numbers("events/destination", count, nodes),
            time=time,
            x=self._optional("events/x", (*count, cache.num_event_features)),
            y=self._states(count),
            node_x=self._optional("nodes/x", (nodes, cache.num_node_features)),
            changing=self._changing(),
            rank_of=self._numbers("nodes/rank_of", (nodes,), cache.num_parts, "int16"),
            index_offsets=offsets,
            index_event=self._numbers("index/event", (2 * cache.num_events,), cache.num_events),
            index_neighbour=self._numbers("index/neighbour", (2 * cache.num_events,), nodes),
            snapshot_offsets=self._snapshot_offsets(),
            snapshot_group=self._snapshot_group(),
            member_of=self._member_of(),
        )

    def _states(self, shape: tuple[int, ...]) -> Tensor | None:
        if not self.cache.has("events/y"):
            return None
        return self._numbers("events/y", shape, self.cache.num_states, lowest=-1)

    def _changing(self) -> FeatureHistory | None:
        if not self.cache.has("changing/x"):
            return None
        num_rows = self.cache.array("changing/time", data_types=("int64", "float64"), dimensions=1).shape[0]
        offsets = self._offsets("changing/offsets", self.cache.num_nodes, num_rows)
        time = self._mapped("changing/time", ("int64", "float64"), (num_rows,))
        ascends = time[1:] >= time[:-1]
        borders = offsets[1:-1]
        ascends[borders[(borders > 0) & (borders < num_rows)] - 1] = True  # where another node begins
        if not bool(ascends.all()):
            raise self.cache.manifest.damaged("changing/time", "does not ascend among the rows of a node")
        x = self._mapped("changing/x", ("float32",), (num_rows, self.cache.num_changing_features))
        return FeatureHistory(offsets=offsets, time=time, x=x)

    def _snapshot_offsets(self) -> Tensor | None:
        if not self.cache.has_snapshots:
            return None
        return self._offsets("snapshots/offsets", self.cache.num_snapshots, self.cache.num_events)

    def _snapshot_group(self) -> Tensor | None:
        if not self.cache.has_snapshots:
            return None
        name = "snapshots/group"
        num_groups = self.cache.num_parts // self.cache.ranks_per_group
        group = self._numbers(name, (self.cache.num_snapshots,), num_groups, "int16")
        self._require_ascending(name, group)
        return group

    def _member_of(self) -> Tensor | None:
        if self.cache.ranks_per_group == 1:
            return None
        return self._numbers("nodes/member_of", (self.cache.num_nodes,), self.cache.ranks_per_group, "int16")

    def _offsets(self, name: str, num_rows: int, end: int) -> Tensor:
        offsets = self._mapped(name, ("int64",), (num_rows + 1,))
        if (int(offsets[0]), int(offsets[-1])) != (0, end) or bool((offsets[1:] < offsets[:-1]).any()):
            raise self.cache.manifest.damaged(name, f"does not ascend from 0 to {end}")
        return offsets

    def _numbers(
        self, name: str, shape: tuple[int, ...], end: int, data_type: str = "int64", *, lowest: int = 0
    ) -> Tensor:
        """An array of numbers from `lowest` up to below `end`."""
        values = self._mapped(name, (data_type,), shape)
        if len(values) and not (int(values.min()) >= lowest and int(values.max()) < end):
            raise self.cache.manifest.damaged(name, f"points outside {lowest} .. {end - 1}")
        return values

    def _require_ascending(self, name: str, values: Tensor) -> None:
        """Compare neighbours piece by piece; NaN is in no order."""
        for start in range(0, len(values) - 1, ROWS_AT_A_TIME):
            piece = values[start : start + ROWS_AT_A_TIME + 1]
            if not bool((piece[1:] >= piece[:-1]).all()):
                raise self.cache.manifest.damaged(name, "does not ascend")

    def _optional(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        return self._mapped(name, ("float32",), shape) if self.cache.has(name) else None

    def _mapped(self, name: str, data_types: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
        stored = self.cache.array(name, data_types=data_types, dimensions=len(shape))
        if stored.shape != shape:
            raise self.cache.manifest.damaged(
                f"{name}/zarr.json", f"gives the shape {list(stored.shape)}, not {list(shape)}"
            )
        return mapped_tensor(self.cache.manifest, stored)
