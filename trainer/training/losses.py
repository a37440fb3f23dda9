"""The loss of each task, as a sum over rows and the number that the sum over all ranks is divided by.

    classes     sum over nodes of w[y] * cross-entropy                      /  sum over nodes of w[y]
    multilabel  sum over known labels of binary cross-entropy,              /  number of known labels
                where a label that applies counts w of its column
    regression  sum over known numbers of the squared error                 /  number of known numbers

`balanced` weighs so that every class has the same share: w[c] = T / (classes that occur * nodes of c) with T training
nodes, and for several labels w = nodes without the label / nodes with it. Counts are those of all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from trainer.base.errors import OptionError, found_by_every_rank
from trainer.config.class_weights import listed_weights
from trainer.data.labels import LabelCounts
from trainer.data.objective import Objective


class Loss:
    """The loss of one run, the same on every rank."""

    def __init__(self, objective: Objective, class_weights: str, counts: LabelCounts, device: torch.device) -> None:
        """Compute the weights of the classes.

        Args:
            objective: task and number of outputs.
            class_weights: `none`, `balanced`, or numbers with commas between.
            counts: of all ranks.
            device: of the scores.

        Raises:
            OptionError: no training node has a weight.
        """
        self._task = objective.task
        weights = _weights(objective, class_weights, counts)
        self._weights_C = None if weights is None else torch.tensor(weights, device=device)
        if self._task == "classes":
            each = weights or [1.0] * objective.num_outputs
            self.divisor = sum(weight * number for weight, number in zip(each, counts.positive_C, strict=True))
        else:
            self.divisor = float(sum(counts.labelled_C))
        if not self.divisor:
            with found_by_every_rank():
                raise OptionError("--class-weights gives no training node a weight; give one to a class that has some")

    def weight(self, y: Tensor) -> Tensor:
        """What the loss of some rows is divided by, where they are all: a scalar."""
        if self._task == "classes":
            return torch.tensor(float(len(y)), device=y.device) if self._weights_C is None else self._weights_C[y].sum()
        return (~y.isnan()).sum().float()

    def sum(self, scores_kC: Tensor, y: Tensor) -> Tensor:
        """The loss of k rows before the division: a scalar with a gradient, 0 for no rows."""
        if self._task == "classes":
            return functional.cross_entropy(scores_kC, y, weight=self._weights_C, reduction="sum")
        known = ~y.isnan()
        if self._task == "multilabel":
            # An unknown label becomes a 0 first: NaN times 0 would be NaN.
            losses_kC = functional.binary_cross_entropy_with_logits(
                scores_kC, y.nan_to_num(0.0), pos_weight=self._weights_C, reduction="none"
            )
        else:
            losses_kC = (scores_kC - y.nan_to_num(0.0)).square()
        return losses_kC.masked_fill(~known, 0.0).sum()


def _weights(objective: Objective, class_weights: str, counts: LabelCounts) -> Sequence[float] | None:
    if class_weights == "none":
        return None
    if class_weights != "balanced":
        return listed_weights(class_weights)
    pairs = list(zip(counts.labelled_C, counts.positive_C, strict=True))
    if objective.task == "classes":
        occurring = sum(positive > 0 for positive in counts.positive_C)
        return [labelled / (occurring * positive) if positive else 0.0 for labelled, positive in pairs]
    return [(labelled - positive) / positive if 0 < positive < labelled else 1.0 for labelled, positive in pairs]
