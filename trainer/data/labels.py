"""The labels of a part, and its labelled rows to train on, to validate and to test.

Letters: n rows, k rows of one group, C classes, labels or numbers to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.base.errors import CacheError
from trainer.data.objective import Objective
from trainer.data.part import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCounts:
    """What there is to train on, of one rank or of all."""

    labelled_C: Sequence[int]
    """Training nodes whose label is known; with classes the same for each."""
    positive_C: Sequence[int]
    """Of these, how many have the class or label; 0 in a regression."""

    @classmethod
    def total(cls, counts: Sequence[Sequence[Sequence[int]]]) -> LabelCounts:
        """The sum of the counts that each rank gives as [labelled_C, positive_C]."""
        labelled, positive = (
            [sum(column) for column in zip(*which, strict=True)] for which in zip(*counts, strict=True)
        )
        return cls(labelled_C=labelled, positive_C=positive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels, and the rows that a mask names and that have any."""

    y: Tensor
    """int64 [n], -1 where unlabelled; or float32 [n, C], NaN where unknown"""
    train: Tensor
    """int64: rows to train on, as the two below: to validate and to test"""
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, part: Part, objective: Objective, device: torch.device) -> Labels:
        """The labels of `part`.

        Raises:
            CacheError: a label of several is neither 0, 1 nor NaN, or a number is infinite.
        """
        if objective.task == "classes":
            y, known_n = part.y, part.y >= 0
        else:
            y = part.y.float()
            known_n = ~y.isnan().all(1)
            _check_matrix(y, part, objective)

        def rows(mask_n: Tensor) -> Tensor:
            return (mask_n & known_n).nonzero().squeeze(1).to(device)

        return cls(y=y.to(device), train=rows(part.train_n), val=rows(part.val_n), test=rows(part.test_n))

    def counts(self, objective: Objective) -> LabelCounts:
        """What this rank has to train on."""
        y, width = self.y[self.train], objective.num_outputs
        if objective.task == "classes":
            positive = torch.bincount(y, minlength=width)
            labelled = torch.full_like(positive, len(y))
        else:
            labelled = (~y.isnan()).sum(0)
            positive = (y == 1).sum(0) if objective.task == "multilabel" else torch.zeros_like(labelled)
        return LabelCounts(labelled_C=labelled.tolist(), positive_C=positive.tolist())


def _check_matrix(y: Tensor, part: Part, objective: Objective) -> None:
    if objective.task == "multilabel":
        odd = ~(y.isnan() | (y == 0) | (y == 1))
        allowed = "0, 1 or NaN; for numbers give --task regression"
    else:
        odd, allowed = y.isinf(), "a finite number or NaN"
    if bool(odd.any()):
        row, column = (int(number) for number in odd.nonzero()[0])
        raise CacheError(
            f"label {column} of node {int(part.ids_n[row])} is {float(y[row, column]):g}, which is not {allowed}"
        )
