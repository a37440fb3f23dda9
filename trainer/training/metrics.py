"""How good scores are, over the rows of all ranks together: the same number as if all were in one place.

Accuracy and F1 are made of counts, and errors of sums, which the ranks add up. The area under the ROC curve is not: it
asks for the order of all scores. So the scores of the rows in question go to every rank, a few columns at a time, and
each computes it from mid-ranks (Mann and Whitney 1947): with n1 rows that have the label and n0 that have not,

    AUC = (sum of the mid-ranks of the n1 rows - n1 (n1 + 1) / 2) / (n1 n0)

The host waits for a GPU once a group of rows, for the sums: nothing before has a size that depends on scores.

    accuracy   share of nodes (of several labels: of known labels) that are right
    f1-micro   F1 of the counts of all classes together; with one class a node that is the accuracy
    f1-macro   mean over classes of their F1, an absent label's being 0; with one class a node over the classes that
               occur in truth or prediction. Both as in scikit-learn
    roc-auc    with two classes that of the second; with more the mean over classes, each against the rest, by
               softmax; of several labels the mean over those that some known node has and some has not, as OGB's
    mse, mae   mean squared and mean absolute error over known numbers

Letters: k rows of this rank, K of all ranks, C classes or labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator

Group = tuple[Tensor, Tensor]
"""Scores float32 [k, C], and labels: int64 [k], or float32 [k, C] with NaN where unknown"""

_GATHERED = 1 << 22
"""Scores that are gathered at a time: 16 MB, and as much for their labels."""


def measure(objective: Objective, groups: Sequence[Group], communicator: Communicator) -> list[float | None]:
    """The metric of each group of rows, the same on every rank; every rank has to call it.

    Returns:
        a number a group, None where it is not defined: no rows, for the AUC rows of one kind only, or an error that
        is no finite number.
    """
    if objective.metric == "roc-auc":
        return [_roc_auc(*group, objective, communicator) for group in groups]
    tallies = torch.stack([_tally(*group, objective) for group in groups])
    return [_metric_of(tally, objective) for tally in communicator.all_reduce(tallies, "metrics").cpu()]


def _tally(scores_kC: Tensor, y: Tensor, objective: Objective) -> Tensor:
    """What is summed over the ranks: float64, exact for counts; rows right, predicted, true, known by class."""
    if objective.task == "regression":
        known_kC = ~y.isnan()
        error_kC = (scores_kC - y).masked_fill(~known_kC, 0.0).double()
        return torch.stack([error_kC.square().sum(), error_kC.abs().sum(), known_kC.sum().double()])
    width = objective.num_outputs
    if objective.task == "classes":
        guess_k, each_k = scores_kC.argmax(1), torch.ones_like(y)
        # A GPU counts with bincount by two waits of the host.
        right, guessed, true = (
            y.new_zeros(width).scatter_add_(0, classes_k, counted_k)
            for classes_k, counted_k in ((y, (guess_k == y).long()), (guess_k, each_k), (y, each_k))
        )
        known_C = torch.full_like(true, len(y))
    else:
        known, guess = ~y.isnan(), scores_kC > 0
        known_C = known.sum(0)
        right, guessed, true = ((applies & known).sum(0) for applies in (guess & (y == 1), guess, y == 1))
    return torch.stack([right, guessed, true, known_C]).double()


def _metric_of(tally: Tensor, objective: Objective) -> float | None:
    if objective.task == "regression":
        square, absolute, number = tally.tolist()
        error = (square if objective.metric == "mse" else absolute) / number if number else math.inf
        return error if math.isfinite(error) else None
    right_C, guessed_C, true_C, known_C = tally
    one_class = objective.task == "classes"
    number = float(known_C[0] if one_class else known_C.sum())
    if not number:
        return None
    if objective.metric == "accuracy":
        if one_class:
            return float(right_C.sum()) / number
        return float((known_C - guessed_C - true_C + 2 * right_C).sum()) / number
    both_C = guessed_C + true_C
    if objective.metric == "f1-micro":
        return 2 * float(right_C.sum()) / max(float(both_C.sum()), 1.0)
    counted = both_C > 0 if one_class else torch.ones_like(both_C, dtype=torch.bool)
    return float((2 * right_C / both_C.clamp(min=1))[counted].mean())


def _roc_auc(scores_kC: Tensor, y: Tensor, objective: Objective, communicator: Communicator) -> float | None:
    columns = _columns(scores_kC, y, objective)
    own = [len(scores_kC) if rank == communicator.rank else 0 for rank in range(communicator.world)]
    counts = communicator.all_reduce_numbers(own, "metrics")
    first, total = sum(counts[: communicator.rank]), sum(counts)
    width = 1 if objective.num_outputs <= 2 and objective.task == "classes" else objective.num_outputs
    at_a_time = max(_GATHERED // max(total, 1), 1)
    areas = []
    for begin in range(0, width, at_a_time):
        scores, labels = columns(begin, min(begin + at_a_time, width))
        # Every rank adds zeros to the others' rows, which changes no bit of them.
        everybody = torch.zeros(2, total, scores.shape[1], device=scores.device)
        everybody[0, first : first + len(scores)] = scores
        everybody[1, first : first + len(scores)] = labels
        all_scores, all_labels = communicator.all_reduce(everybody, "metrics")
        areas += [
            area_under_curve(score_K, label_K) for score_K, label_K in zip(all_scores.T, all_labels.T, strict=True)
        ]
    defined = [area for area in torch.stack(areas).tolist() if not math.isnan(area)]
    return sum(defined) / len(defined) if defined else None


def _columns(scores_kC: Tensor, y: Tensor, objective: Objective) -> Callable[[int, int], Group]:
    """A function from a range of columns to their scores and labels: 1, 0, or -1 for unknown."""
    if objective.task == "multilabel":
        return lambda begin, end: (scores_kC[:, begin:end], y[:, begin:end].nan_to_num(-1.0))
    if scores_kC.shape[1] <= 2:
        margin_k1 = scores_kC[:, -1:] - scores_kC[:, :1]
        return lambda _begin, _end: (margin_k1, (y == scores_kC.shape[1] - 1).float().unsqueeze(1))
    shares_kC = scores_kC.softmax(1)
    return lambda begin, end: (
        shares_kC[:, begin:end],
        (y.unsqueeze(1) == torch.arange(begin, end, device=y.device)).float(),
    )


def area_under_curve(scores_K: Tensor, labels_K: Tensor) -> Tensor:
    """The area under the ROC curve, ties counted half: float64, NaN unless rows of both kinds are there.

    Args:
        scores_K: float [K].
        labels_K: 1, 0, or -1 for unknown; or bool.
    """
    sorted_K, order_K = scores_K.sort()
    labels_K = labels_K[order_K]
    known_K, positive_K = labels_K >= 0, labels_K == 1
    counts = nn.functional.pad(known_K.cumsum(0), (1, 0))
    below_K, to_here_K = (counts[torch.searchsorted(sorted_K, sorted_K, right=right)] for right in (False, True))
    middle_K = (below_K + to_here_K + 1).double() / 2
    num_positive = positive_K.sum().double()
    num_negative = known_K.sum() - num_positive
    sum_of_ranks = middle_K.masked_fill(~positive_K, 0.0).sum()
    # Nothing through nothing is NaN.
    return (sum_of_ranks - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)
