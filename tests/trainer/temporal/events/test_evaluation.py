"""AP and MRR of a stream against scikit-learn and a loop."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from tests.trainer.rank_group import among_ranks
from tests.trainer.temporal.events.streams import random_stream
from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics
from trainer.temporal.events.evaluation import evaluate_links, share_of
from trainer.temporal.events.negatives import evaluation_key, negative_destinations

NEGATIVES = 5


def score_of(event_b: Tensor, destination_bm: Tensor, _first: int, _end: int) -> Tensor:
    """Scores with many ties."""
    return ((event_b.unsqueeze(1) * 3 + destination_bm) % 7).float()


def measured(communicator: Communicator) -> Metrics:
    communicator.connect()
    return evaluate_links(random_stream(), "test", score_of, communicator, batch=9, negatives=NEGATIVES, seed=1)


@pytest.mark.slow
def test_metrics_are_those_of_all_events_together() -> None:
    """Guards against means over batches or ranks, and against ties that count for the event."""
    stream = random_stream()
    first, end = stream.groups()["test"]
    event_b = torch.arange(first, end)
    own = stream.destination_M[event_b].unsqueeze(1)
    negative_bn = negative_destinations(stream, event_b, NEGATIVES, evaluation_key(1))
    scores_bm = score_of(event_b, torch.cat([own, negative_bn], 1), first, end)
    both = torch.cat([scores_bm[:, 0], scores_bm[:, 1]])
    ap = average_precision_score([1] * len(event_b) + [0] * len(event_b), both.numpy())
    ranks = [1 + sum((one > row[0]) + (one == row[0]) / 2 for one in row[1:]) for row in scores_bm.tolist()]
    expected = {"ap": pytest.approx(ap), "mrr": pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))}
    for world in (1, 2):
        assert among_ranks(world, [measured]) == [expected]


def test_shares_are_the_batch() -> None:
    """Guards against events that no share or two shares have."""
    for shares in (1, 2, 3, 5):
        pieces = [share_of(10, 17, share, shares) for share in range(shares)]
        assert torch.cat(pieces).tolist() == list(range(10, 17))
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
