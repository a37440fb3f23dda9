"""A recurrence over snapshots, and what of it can be computed for all snapshots at once.

    inputs_t = before(graph_t, rows_t)                          of each snapshot by itself
    state_t  = step(inputs_t, state_{t-1}, graph_{t-1})         one snapshot after the other
    rows_t'  = after(graph_t, rows_t, state_t)                  of each snapshot by itself

A model is one recurrence after the other, each over the rows of the one before. Sparse products belong before or after
a recurrence where the model allows it, so that little waits for the snapshot before.

A state is one tensor. Where its rows are those of nodes that do not depend on each other inside the recurrence, it has
several pieces of rows: the next rank can begin with the first piece while this one goes on with the second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.base.traffic_log import Clock
from trainer.temporal.snapshots.graphs import SnapshotGraph


class Recurrence(nn.Module, ABC):
    """Base of the recurrences: the state has a row for each node that has occurred."""

    has_pieces: ClassVar[bool] = True
    """Whether nodes do not depend on each other inside the recurrence."""
    matrices: ClassVar[tuple[str, ...]]
    """The matrices of a graph that it multiplies by."""
    width: int
    """Columns of the state."""

    def prepare(self, graph: SnapshotGraph) -> None:
        """Build the matrices of a snapshot, once."""
        for name in self.matrices:
            getattr(graph, name)

    @abstractmethod
    def before(self, graph: SnapshotGraph, rows_nF: Tensor, clock: Clock, /) -> Tensor:
        """The inputs of the recurrence: [n, ...]."""

    def first(self) -> Tensor:
        """The state before the first snapshot: without rows, since no node has occurred."""
        return torch.zeros(0, self.width, device=next(self.parameters()).device)

    @abstractmethod
    def step(self, inputs: Tensor, state: Tensor, graph_before: SnapshotGraph | None, clock: Clock, /) -> Tensor:
        """The state after a snapshot.

        Args:
            inputs: of the snapshot, the rows of one piece.
            state: after the one before, of the nodes of this piece that had occurred then.
            graph_before: of the snapshot before; None where `state` is the first one.
            clock: measures products.
        """

    @abstractmethod
    def after(self, graph: SnapshotGraph, rows_nF: Tensor, state: Tensor, clock: Clock, /) -> Tensor:
        """The rows that the next recurrence or the decoder reads: [n, G]."""

    @abstractmethod
    def kept_values(self, num_nodes: int) -> int:
        """How many numbers the backward pass of a snapshot needs."""

    def state_rows(self, num_nodes: int, /) -> int:
        """The rows of the whole state while so many nodes have occurred."""
        return num_nodes


def grown(state: Tensor, num_rows: int) -> Tensor:
    """The state with zeros for the nodes that have occurred since."""
    more = num_rows - len(state)
    return torch.nn.functional.pad(state, (0, 0, 0, more)) if more else state
