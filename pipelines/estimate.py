"""What a piece of work will take, estimated from counts and sizes before anything is read."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.system.progress import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Memory at the same time, disk in the end or in between if that is more, and time."""

    memory_bytes: int
    disk_bytes: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{format_bytes(self.memory_bytes)} of memory, {format_bytes(self.disk_bytes)} of disk, "
            f"{self.seconds:,.0f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSize:
    """What a graph will have that is not there yet."""

    nodes: int
    edges: int
    """directed ones"""
    directed: bool
    node_bytes: int
    """of features, labels and masks"""
