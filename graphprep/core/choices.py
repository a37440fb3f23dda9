"""Words that options offer and the rooms above give a meaning to. Here since option classes import no heavy package."""

from __future__ import annotations

from typing import Literal

Duplicates = Literal["keep", "drop", "sum", "max", "min", "mean"]
"""what becomes of parallel edges; see `core.types.Treatment`"""
SelfLoops = Literal["keep", "drop", "add"]
LabelTask = Literal["auto", "classification", "regression"]
"""what labels are for"""
Balance = Literal["rows", "edges"]
"""what the seconds of a link count"""
LIMITS = ("nodes", "in-edges", "work", "training-nodes", "types")
"""What can be held within limits; `types` are the nodes and in-edges of each type, where there are several."""
MOST_SPLITS = 1000
"""a mask has a byte for each node and split"""
