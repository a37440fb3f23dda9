"""What a model learns of the snapshot after the ones that it has read: its pairs, or the states of its nodes.

    links     binary cross-entropy of each pair and its negatives, equally weighted; ap and mrr
    classes   cross-entropy of the state of each source that has one, as a class; the trainer's metrics of classes

Letters: k pairs or nodes, K negatives, C classes, G columns of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from trainer.config.options import Options
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics, Split
from trainer.temporal.link_metrics import link_metrics
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.network import SnapshotNetwork
from trainer.training.metrics import measure

_SCORES_AT_A_TIME = 1 << 16
"""In an evaluation."""


class SnapshotTask(Protocol):
    """What is learnt."""

    num_classes: int
    """C; 0 where pairs have one score."""

    def num_losses(self, step: int, /) -> int:
        """Of how many losses of this rank the loss of a step is the sum."""

    def loss(self, network: SnapshotNetwork, rows_nG: Tensor, step: int, epoch: int, /) -> Tensor:
        """The sum of the losses of a step of the training, from the rows after it."""

    def scored(
        self, network: SnapshotNetwork, rows_nG: Tensor, step: int, group: Split, negatives: int, /
    ) -> tuple[Tensor, Tensor]:
        """Scores of a step of val or test, and the classes that would be right."""

    def metrics(
        self, scored: Sequence[tuple[Tensor, Tensor]], communicator: Communicator, negatives: int, /
    ) -> Metrics:
        """From what was scored in all steps of this rank; every rank has to call it."""


class LinkTask:
    """Which pairs have an event."""

    num_classes = 0

    def __init__(self, snapshots: Snapshots, options: Options) -> None:
        self._snapshots, self._negatives = snapshots, options.negatives

    def num_losses(self, step: int) -> int:
        pairs = self._snapshots.pairs(step + 1, "train", epoch=0, num_negatives=0)
        return len(pairs) * (1 + self._negatives)

    def loss(self, network: SnapshotNetwork, rows_nG: Tensor, step: int, epoch: int) -> Tensor:
        pairs = self._snapshots.pairs(step + 1, "train", epoch=epoch, num_negatives=self._negatives)
        return network.loss_sum(rows_nG, pairs)

    def scored(
        self, network: SnapshotNetwork, rows_nG: Tensor, step: int, group: Split, negatives: int
    ) -> tuple[Tensor, Tensor]:
        pairs = self._snapshots.pairs(step + 1, group, epoch=0, num_negatives=negatives)
        table_G = pairs.table(rows_nG)
        pieces = pairs.pieces(max(_SCORES_AT_A_TIME // (1 + negatives), 1))
        scores = torch.cat([network.scores(table_G, piece) for piece in pieces])
        return scores, torch.zeros(len(scores), dtype=torch.int64, device=scores.device)

    def metrics(self, scored: Sequence[tuple[Tensor, Tensor]], communicator: Communicator, negatives: int) -> Metrics:
        nothing = torch.zeros(0, 1 + negatives, device=communicator.device)
        return link_metrics(torch.cat([nothing, *(scores for scores, _ in scored)]), communicator)


class StateTask:
    """The state in which a snapshot leaves each of its sources."""

    def __init__(self, snapshots: Snapshots, objective: Objective) -> None:
        self._snapshots, self._objective = snapshots, objective
        self.num_classes = objective.num_outputs

    def num_losses(self, step: int) -> int:
        return len(self._snapshots.states(step + 1, "train")[0])

    def loss(self, network: SnapshotNetwork, rows_nG: Tensor, step: int, _epoch: int) -> Tensor:
        row_k, y_k = self._snapshots.states(step + 1, "train")
        return cross_entropy(network.class_scores(rows_nG, row_k), y_k, reduction="sum")

    def scored(
        self, network: SnapshotNetwork, rows_nG: Tensor, step: int, group: Split, _negatives: int
    ) -> tuple[Tensor, Tensor]:
        row_k, y_k = self._snapshots.states(step + 1, group)
        return network.class_scores(rows_nG, row_k), y_k

    def metrics(self, scored: Sequence[tuple[Tensor, Tensor]], communicator: Communicator, _negatives: int) -> Metrics:
        device = communicator.device
        nothing = torch.zeros(0, self.num_classes, device=device), torch.zeros(0, dtype=torch.int64, device=device)
        scores_kC, y_k = (torch.cat(parts) for parts in zip(nothing, *scored, strict=True))
        [value] = measure(self._objective, [(scores_kC, y_k)], communicator)
        return {self._objective.name: value}
