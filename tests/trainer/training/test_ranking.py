"""Metrics of pairs against scikit-learn and OGB's definitions, on one rank and among three, with many ties."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.trainer.rank_group import among_ranks
from trainer.dist.communicator import Communicator
from trainer.training.ranking import HITS, NAMES, ranking_metrics

Scores = tuple[torch.Tensor, torch.Tensor]


def scores(levels: int, seed: int = 0) -> Scores:
    """Of 90 edges and 250 pairs that are none: as many different values as `levels`."""
    rng = np.random.default_rng(seed)
    positive, negative = rng.integers(1, levels + 1, 90), rng.integers(0, levels, 250)
    return torch.tensor(positive, dtype=torch.float32), torch.tensor(negative, dtype=torch.float32)


def metrics_of_share(communicator: Communicator, *, positive: torch.Tensor, negative: torch.Tensor, batch: int) -> dict:  # type: ignore[type-arg]
    """The metrics where the second rank has no edge, and the last one no other pair."""
    rank, world = communicator.rank, communicator.world
    communicator.connect()
    edges = {1: slice(None)}.get(world, {0: slice(0, 50), 1: slice(0, 0), 2: slice(50, None)}.get(rank))
    others = {1: slice(None)}.get(world, {0: slice(0, 30), 1: slice(30, None), 2: slice(0, 0)}.get(rank))
    own = positive[edges]
    return ranking_metrics(own, negative[others], own.double() + 1, communicator, batch=batch)


def expected(positive: torch.Tensor, negative: torch.Tensor) -> dict[str, float]:
    labels, together = [1] * len(positive) + [0] * len(negative), torch.cat([positive, negative]).numpy()
    highest = negative.sort(descending=True).values
    hits = {
        f"hits@{number}": float((positive > highest[number - 1]).double().mean()) if number <= len(highest) else 1.0
        for number in HITS
    }
    return {
        "roc_auc": roc_auc_score(labels, together),
        "ap": average_precision_score(labels, together),
        "mrr": float((1 / (positive.double() + 1)).mean()),
        **hits,
    }


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
def test_metrics_are_those_of_scikit_learn_and_ogb(world: int) -> None:
    """A tie that counts in full, a rank without edges, or a batch that is left out, is another number."""
    cases = [(scores(levels, levels), batch) for levels, batch in ((2, 40), (5, 40), (5, 10_000), (1000, 10_000))]
    tasks = [
        partial(metrics_of_share, positive=positive, negative=negative, batch=batch)
        for (positive, negative), batch in cases
    ]
    for found, ((positive, negative), _) in zip(among_ranks(world, tasks), cases, strict=True):
        assert list(found) == list(NAMES)
        assert found == pytest.approx(expected(positive, negative), abs=1e-12)


def test_hits_with_fewer_pairs_than_k_are_all() -> None:
    """OGB's evaluator gives 1 there."""
    positive, negative = torch.zeros(3), torch.ones(15)
    [found] = among_ranks(1, [partial(metrics_of_share, positive=positive, negative=negative, batch=10)])
    assert (found["hits@10"], found["hits@20"]) == (0.0, 1.0)


@pytest.mark.parametrize("odd", ["no edge", "no other pair", "not finite"])
def test_what_is_not_defined_is_none(odd: str) -> None:
    """Guards against a division by 0, and against a NaN in JSON."""
    positive, negative = scores(5)
    if odd == "not finite":
        negative[3] = math.nan
    positive, negative = positive[: 0 if odd == "no edge" else 90], negative[: 0 if odd == "no other pair" else 250]
    [found] = among_ranks(1, [partial(metrics_of_share, positive=positive, negative=negative, batch=10)])
    assert found == dict.fromkeys(NAMES)
