"""Node types and relations of a part whose rows of all types are in one list, type after type.

So the rows of all types are sent together, and code that numbers rows (exchange, masks, copies, sampling) does not
depend on types. Neighbour sums are rows of one matrix too: relation after relation, one sum for each node that has
in-edges of that relation. Sums without edges are not there, so there are never more sums than edges.

Letters: n rows of all types, k rows of one type, M sums of all relations, m sums of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRows:
    """The rows of one node type."""

    name: str
    rows: slice
    """of the part's n"""
    first_id: int
    """What is added to its nodes' numbers to count the nodes of all types."""
    num_nodes: int
    """in the whole graph"""
    x_kF: Tensor | None
    """features in the cache's own type; None for a type that has none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSums:
    """The sums over the in-edges of one relation."""

    name: str
    rows_m: Tensor
    """int64: the row, of the part's n, that each of them is for; ascending"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What the rows of a part are, and the rows of its matrices of edges."""

    types: Sequence[TypeRows]
    relations: Sequence[RelationSums]
    """In the order of their sums."""
    target: TypeRows
    """The type that is learnt."""
