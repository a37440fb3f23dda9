"""The interface of all partitioning methods: their problem, the node loads, and `Method`.

Letters: N nodes, E directed edges of the clean graph, P parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeLoad:
    """A weight of the nodes that is balanced over the parts: the parts' sums follow their target shares."""

    what: str
    amount_N: NDArray[np.int64]
    """int64 [N], not negative."""
    limit: float
    """Greatest share over target share among the nodes of the problem; infinite for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionProblem:
    """A graph in which every node has a neighbour, with the target shares and loads of its parts."""

    graph: Csr
    """Square, symmetric, no self-loops, no duplicates; data counts the directed edges behind each edge, or is None."""
    shares_P: NDArray[np.float64]
    """Target share of each part; they sum to 1 and none is 0."""
    loads: tuple[NodeLoad, ...]
    """Nodes, in-edges and, where some are known, training nodes; then those of each type. Nodes always come first."""
    imbalance: float
    """Greatest share over target share for methods that balance nodes only."""
    seed: int
    scratch: Path
    """An existing folder for temporary files."""
    topology: Topology | None = None
    """Part p is for its rank p; None where only the cut counts."""
    time_limit_s: float | None = None
    """Seconds until a native library is ended; None for the method's own limit."""
    cancelled: Event | None = None
    """Setting it ends native libraries at once."""
    fallbacks: list[str] = field(default_factory=list)
    """A method adds a sentence here when it falls back to a simpler algorithm."""

    @property
    def num_parts(self) -> int:
        return len(self.shares_P)

    @property
    def equal_shares(self) -> bool:
        return bool(np.ptp(self.shares_P) < 1e-12)


class Method(Protocol):
    """One way to partition. The same problem and seed give the same parts on the same machine."""

    @property
    def name(self) -> str:
        """Its name for --method."""

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:
        """Why it does not apply (a library that is not installed, a topology without levels), or None."""

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:
        """Memory beyond the clean graph itself, including that of its own process."""

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """int32 [N], the part of each node. There are more nodes than parts, and at least two parts.

        Raises:
            PartitionError: it is not available, failed, timed out, or returned an invalid partition.
        """
