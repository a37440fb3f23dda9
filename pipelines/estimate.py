"""What a piece of work will take, estimated from counts and sizes before anything is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Memory at the same time, disk in the end or in between if that is more, and time."""

    memory_bytes: int
    disk_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSize:
    """What a graph will have that is not there yet."""

    nodes: int
    edges: int
    """directed ones"""
    directed: bool
    node_bytes: int
    """of features, labels and masks"""
