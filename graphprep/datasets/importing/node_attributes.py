"""Which attributes of the nodes in a graph document become labels and features."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAttributes:
    """Names of attributes; all others are left out."""

    label: str | None = None
    """whole numbers or words (classes), or other numbers (to be predicted); None for no labels"""
    features: tuple[str, ...] = ()
    """numbers, or lists of as many numbers for each node; side by side they are the columns of x"""
