"""What a run learns from: the loss of a training pass, and how good the rows of an evaluation are.

`Fit` knows rows and weights alone. Whether a row is the scores of a node's classes, or what a decoder computes the
scores of pairs from, is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor

from trainer.data.labels import Labels
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.training.losses import Loss
from trainer.training.metrics import measure

Group = Literal["val", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How good the rows are for one group of nodes or pairs, over all ranks."""

    value: float | None
    """The metric of the run; None where it is not defined."""
    others: Mapping[str, float | None] = field(default_factory=dict)
    """Further metrics, by their names in JSON."""


class Supervision(Protocol):
    """Every rank has to call each method, in the same order."""

    def backward(self, rows_nF: Tensor, factor: float, epoch: int, /) -> Tensor:
        """Backpropagate this rank's share of the loss, times `factor`, and return it without a gradient: a scalar."""

    def measure(self, rows_nF: Tensor, *groups: Group) -> list[Measured]:
        """How good the rows are, the same on every rank."""

    def facts(self) -> Mapping[str, Any]:
        """What the result says of it beside metrics, the same on every rank."""


@runtime_checkable
class PairSupervision(Supervision, Protocol):
    """Supervision of pairs of nodes, which a decoder scores."""

    def save(self, file: str, rows_nF: Tensor, ids_n: Tensor) -> None:
        """Write the test pairs with their scores by these rows.

        Args:
            file: .csv or .pt.
            rows_nF: what the model gives.
            ids_n: int64 [n], the number of each row's node in the whole graph.

        Raises:
            TrainingError: it cannot be written.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSupervision:
    """Labels of nodes: rows are their scores."""

    objective: Objective
    labels: Labels
    loss: Loss
    communicator: Communicator

    def backward(self, rows_nF: Tensor, factor: float, _epoch: int, /) -> Tensor:
        rows = self.labels.train
        loss = self.loss.sum(rows_nF[rows], self.labels.y[rows]) / self.loss.divisor
        (loss * factor).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def measure(self, rows_nF: Tensor, *groups: Group) -> list[Measured]:
        of_group = {"val": self.labels.val, "test": self.labels.test}
        values = measure(
            self.objective,
            [(rows_nF[of_group[group]], self.labels.y[of_group[group]]) for group in groups],
            self.communicator,
        )
        return [Measured(value=value) for value in values]

    def facts(self) -> Mapping[str, Any]:
        return {}
