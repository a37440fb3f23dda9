"""What TGN learns of a stream: which events happen, or the state that an event leaves its source in.

    links     binary cross-entropy of each event and its negatives, equally weighted; ap and mrr
    classes   cross-entropy of the label of each event that has one, as a class; the trainer's metrics of classes

The scores of a state are computed from source and destination before the event, and from the event's features.

Letters: b events, m destinations of each of them, C classes.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from trainer.config.options import Options
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics
from trainer.temporal.events.evaluation import Score, evaluate_links, evaluate_states
from trainer.temporal.events.negatives import negative_destinations, training_key
from trainer.temporal.events.stream import EventStream


class EventTask(Protocol):
    """What is learnt."""

    num_classes: int
    """C; 0 where pairs have one score."""

    def destinations(self, event_b: Tensor, epoch: int, /) -> Tensor:
        """The destinations that each event is scored with in an epoch, its own one first: [b, m]."""

    def loss(self, scores: Tensor, event_b: Tensor, /) -> Tensor:
        """The sum of the losses of events, from their scores: [b, m], or [b, C] for classes."""

    def num_losses(self, first: int, end: int) -> int:
        """Of how many losses that sum is over a whole batch, at least 1."""

    def evaluate(self, group: str, score: Score, communicator: Communicator, batch: int, negatives: int, /) -> Metrics:
        """How good the scores of val or test are, in batches of a size; every rank has to call it."""


class LinkTask:
    """Which events happen."""

    num_classes = 0

    def __init__(self, stream: EventStream, options: Options) -> None:
        self._stream, self._options = stream, options

    def destinations(self, event_b: Tensor, epoch: int) -> Tensor:
        options = self._options
        key = training_key(options.seed, epoch)
        negative_bn = negative_destinations(self._stream, event_b, options.negatives, key)
        return torch.cat([self._stream.destination_M[event_b].unsqueeze(1), negative_bn], 1)

    def loss(self, scores: Tensor, _event_b: Tensor) -> Tensor:
        labels_bm = torch.zeros_like(scores)
        labels_bm[:, 0] = 1
        return nn.functional.binary_cross_entropy_with_logits(scores, labels_bm, reduction="sum")

    def num_losses(self, first: int, end: int) -> int:
        return (end - first) * (1 + self._options.negatives)

    def evaluate(self, group: str, score: Score, communicator: Communicator, batch: int, negatives: int) -> Metrics:
        seed = self._options.seed
        return evaluate_links(self._stream, group, score, communicator, batch=batch, negatives=negatives, seed=seed)


class StateTask:
    """The state that an event leaves its source in."""

    def __init__(self, stream: EventStream, objective: Objective) -> None:
        assert stream.y_M is not None
        self._stream, self._objective, self._y_M = stream, objective, stream.y_M
        self.num_classes = objective.num_outputs

    def destinations(self, event_b: Tensor, _epoch: int) -> Tensor:
        return self._stream.destination_M[event_b].unsqueeze(1)

    def loss(self, scores: Tensor, event_b: Tensor) -> Tensor:
        y_b = self._y_M[event_b].to(scores.device)
        return nn.functional.cross_entropy(scores, y_b, ignore_index=-1, reduction="sum")

    def num_losses(self, first: int, end: int) -> int:
        return max(int((self._y_M[first:end] >= 0).sum()), 1)

    def evaluate(self, group: str, score: Score, communicator: Communicator, batch: int, _negatives: int) -> Metrics:
        return evaluate_states(self._stream, group, score, communicator, batch=batch, objective=self._objective)


def task_of(stream: EventStream, options: Options, objective: Objective) -> EventTask:
    """The task that an objective names."""
    return LinkTask(stream, options) if objective.task == "links" else StateTask(stream, objective)
