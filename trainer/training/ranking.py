"""How well scores order pairs: the same numbers as if the scores of all ranks were in one place.

    roc-auc   chance that a random edge is scored above a random pair that is none, ties half, as in scikit-learn
    ap        mean over edges of the share of edges among all that score as high, as scikit-learn's average precision
    hits@K    share of edges that score above the K-th highest of the pairs that are none, as OGB's evaluator
    mrr       mean over edges of 1 / rank among pairs of their own, ties half, as OGB's evaluator

All are means over edges of what two or three counts decide: how many scores of either kind are above, and how many are
as high. Each rank sorts the scores of its edges once; all scores come by in batches, of which every rank counts. So no
rank ever has more than a batch of the other ranks' scores.

Letters: k edges of this rank.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator

HITS = (10, 20, 50, 100)
NAMES = ("roc_auc", "ap", "mrr", *(f"hits@{number}" for number in HITS))


def ranking_metrics(
    positive_k: Tensor, negative: Tensor, rank_k: Tensor | None, communicator: Communicator, *, batch: int
) -> dict[str, float | None]:
    """All metrics by name; every rank has to call it.

    Args:
        positive_k: float32, the scores of this rank's edges.
        negative: float32, of its pairs that are no edges; any number.
        rank_k: float64, from 1, of each edge among pairs of its own; None where there are none.
        communicator: the ranks of the run.
        batch: scores of all ranks that are here at a time.

    Returns:
        None where a metric is not defined: no scores of either kind, or one that is not finite.
    """
    sorted_k, _ = positive_k.sort()
    (negative_above_k, negative_from_k), (_, positive_from_k) = (
        _counts(sorted_k, scores, communicator, batch) for scores in (negative, sorted_k)
    )
    non_finite = (~positive_k.isfinite()).sum() + (~negative.isfinite()).sum()
    sizes = torch.tensor([len(positive_k), len(negative)], dtype=torch.float64, device=positive_k.device)
    num_positive, num_negative, num_odd = communicator.all_reduce(
        torch.cat([sizes, non_finite.double().reshape(1)]), "metrics"
    ).tolist()
    if not num_positive or not num_negative or num_odd:
        return dict.fromkeys(NAMES)
    ties_k = (negative_from_k - negative_above_k).double()
    below_k = num_negative - negative_from_k
    sums = [
        ((below_k + ties_k / 2) / num_negative).sum(),
        (positive_from_k / (positive_from_k + negative_from_k).double()).sum(),
        sorted_k.new_zeros((), dtype=torch.float64) if rank_k is None else (1 / rank_k.double()).sum(),
        *((negative_from_k < number).double().sum() for number in HITS),
    ]
    means = (communicator.all_reduce(torch.stack(sums), "metrics") / num_positive).tolist()
    return dict(zip(NAMES, means, strict=True)) | ({"mrr": None} if rank_k is None else {})


def _counts(sorted_k: Tensor, scores: Tensor, communicator: Communicator, batch: int) -> tuple[Tensor, Tensor]:
    """How many of all ranks' `scores` are above each of `sorted_k`, and how many at or above: int64 [k] each."""
    lengths = communicator.all_reduce_numbers(
        [len(scores) if rank == communicator.rank else 0 for rank in range(communicator.world)], "metrics"
    )
    above_k, from_k = (torch.zeros(len(sorted_k), dtype=torch.int64, device=scores.device) for _ in range(2))
    at_a_time = max(batch // communicator.world, 1)
    for begin in range(0, max(lengths), at_a_time):
        pieces = {rank: scores.new_empty(min(max(length - begin, 0), at_a_time)) for rank, length in enumerate(lengths)}
        pieces[communicator.rank] = own = scores[begin : begin + at_a_time].contiguous()
        communicator.exchange(
            dict.fromkeys(communicator.peers, own),
            {peer: pieces[peer] for peer in communicator.peers},
            purpose="metrics",
        ).wait()
        here, _ = torch.cat(list(pieces.values())).sort()
        above_k += len(here) - torch.searchsorted(here, sorted_k, right=True)
        from_k += len(here) - torch.searchsorted(here, sorted_k)
    return above_k, from_k
