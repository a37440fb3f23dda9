"""Nested groups of ranks, as plain values for JSON. `graphprep.topology.groups` makes them from a topology."""

from __future__ import annotations

from typing import TypeAlias

RankGroup: TypeAlias = "int | list[RankGroup]"
"""A rank, or a list of groups in the order of their lowest ranks."""


def ranks_in(group: RankGroup) -> list[int]:
    """All ranks of a group, ascending."""
    return [group] if isinstance(group, int) else sorted(rank for part in group for rank in ranks_in(part))


def levels(group: RankGroup) -> int:
    """How often a group is divided on the way to its deepest rank; 0 for a rank."""
    return 0 if isinstance(group, int) else 1 + max(levels(part) for part in group)
