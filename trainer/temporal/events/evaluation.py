"""How well a stream's later events are predicted: AP and MRR, the same numbers on any number of ranks.

    ap    average precision of the events among as many negatives, one each, over the whole group, as scikit-learn's
    mrr   mean of 1 / rank of each event among its negatives, ties half

The states of sources have the trainer's metrics of classes instead.

Every rank scores its share of the events of each batch. What scores a batch knows the batches before it and, of the
same batch, what is strictly earlier where the model uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics
from trainer.temporal.events.negatives import evaluation_key, negative_destinations
from trainer.temporal.events.stream import EventStream
from trainer.temporal.link_metrics import link_metrics
from trainer.training.metrics import measure

Score = Callable[[Tensor, Tensor, int, int], Tensor]
"""The scores [b, m] of events (this rank's, of a batch) with m destinations each, or of their classes [b, C]; the last
two arguments are the first event and the end of the batch."""


def batches_of(first: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """First event and end of each batch, in order."""
    for begin in range(first, end, size):
        yield begin, min(begin + size, end)


def share_of(first: int, end: int, share: int, shares: int) -> Tensor:
    """The numbers of the events of one of the `shares` of a batch: consecutive ones, as many as others or one fewer."""
    size = end - first
    return torch.arange(first + size * share // shares, first + size * (share + 1) // shares)


def evaluate_links(
    stream: EventStream, group: str, score: Score, communicator: Communicator, *, batch: int, negatives: int, seed: int
) -> Metrics:
    """AP and MRR of one side of the split; every rank has to call it.

    Args:
        stream: the events.
        group: val or test.
        score: scores each batch, in order.
        communicator: the ranks of the run.
        batch: events of a batch.
        negatives: of each event; with one there is no mrr.
        seed: decides them.
    """
    key, device = evaluation_key(seed), communicator.device
    scores_bm = [torch.zeros(0, 1 + negatives, device=device)]
    for first, end in batches_of(*stream.groups()[group], batch):
        event_b = share_of(first, end, communicator.rank, communicator.world)
        destination_bm = torch.cat(
            [stream.destination_M[event_b].unsqueeze(1), negative_destinations(stream, event_b, negatives, key)], 1
        )
        scores_bm.append(score(event_b, destination_bm, first, end))
    return link_metrics(torch.cat(scores_bm), communicator)


def evaluate_states(
    stream: EventStream, group: str, score: Score, communicator: Communicator, *, batch: int, objective: Objective
) -> Metrics:
    """The metric of the labels of one side of the split, where they are known; every rank has to call it."""
    assert stream.y_M is not None
    device = communicator.device
    scores, labels = [torch.zeros(0, objective.num_outputs, device=device)], [stream.y_M[:0]]
    for first, end in batches_of(*stream.groups()[group], batch):
        event_b = share_of(first, end, communicator.rank, communicator.world)
        scores.append(score(event_b, stream.destination_M[event_b].unsqueeze(1), first, end))
        labels.append(stream.y_M[event_b])
    y_k = torch.cat(labels).to(device)
    is_known_k = y_k >= 0
    [value] = measure(objective, [(torch.cat(scores)[is_known_k], y_k[is_known_k])], communicator)
    return {objective.name: value}
