"""Metrics and losses against scikit-learn and torch's own, as if all rows were in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from trainer.base.errors import OptionError
from trainer.base.traffic_log import Clock
from trainer.data.labels import LabelCounts
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.training.losses import Loss
from trainer.training.metrics import area_under_curve, measure

CPU = torch.device("cpu")


def value_of(metric: str, task: str, scores: torch.Tensor, y: torch.Tensor) -> float | None:
    with Communicator(RankInfo(), CPU, timeout=1.0, clock=Clock(CPU)) as communicator:
        [value] = measure(Objective(task=task, metric=metric, num_outputs=scores.shape[1]), [(scores, y)], communicator)
    return value


def classes(rows: int, num_classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with many ties, and classes of which the last never occurs where there are more than two."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 5, (rows, num_classes), generator=generator).float()
    y = torch.randint(0, max(num_classes - 1, 2), (rows,), generator=generator)
    return scores, y


@pytest.mark.parametrize("num_classes", [2, 5])
def test_one_class_a_node(num_classes: int) -> None:
    """A macro F1 over classes that nowhere occur, or one that leaves out those only predicted, is another number."""
    scores, y = classes(200, num_classes)
    guess = scores.argmax(1)
    assert value_of("accuracy", "classes", scores, y) == pytest.approx(accuracy_score(y, guess))
    for average in ("micro", "macro"):
        expected = f1_score(y, guess, average=average, zero_division=0)
        assert value_of(f"f1-{average}", "classes", scores, y) == pytest.approx(expected)


def test_area_with_ties() -> None:
    """Ties that count as won or lost move the area of a model that gives few different scores."""
    scores, y = classes(300, 2, seed=3)
    expected = roc_auc_score(y, scores[:, 1] - scores[:, 0])
    assert value_of("roc-auc", "classes", scores, y) == pytest.approx(expected, abs=1e-12)
    assert area_under_curve(torch.zeros(6), torch.arange(6) < 2) == 0.5


def test_area_of_several_classes_is_their_mean() -> None:
    """Scores of different rows are comparable only after softmax; a class that never occurs has no area."""
    scores, y = classes(100, 4)
    shares = scores.softmax(1)
    areas = [roc_auc_score(y == c, shares[:, c]) for c in range(3)]
    assert value_of("roc-auc", "classes", scores, y) == pytest.approx(np.mean(areas), abs=1e-12)


def test_several_labels_with_unknown_ones() -> None:
    """An unknown label that counts as 0 makes every model better than it is at saying no."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randint(-3, 4, (150, 4), generator=generator).float()
    y = torch.randint(0, 2, (150, 4), generator=generator).float()
    y[torch.rand(150, 4, generator=generator) < 0.3] = torch.nan
    y[:, 3] = torch.nan
    known = [~y[:, c].isnan() for c in range(3)]
    areas = [roc_auc_score(y[known[c], c], scores[known[c], c]) for c in range(3)]
    assert value_of("roc-auc", "multilabel", scores, y) == pytest.approx(np.mean(areas), abs=1e-12)
    flat_y, flat_guess = (torch.cat([m[known[c], c] for c in range(3)]) for m in (y, (scores > 0).float()))
    assert value_of("f1-micro", "multilabel", scores, y) == pytest.approx(f1_score(flat_y, flat_guess))
    assert value_of("accuracy", "multilabel", scores, y) == pytest.approx(accuracy_score(flat_y, flat_guess))
    each = [f1_score(y[known[c], c], (scores > 0)[known[c], c].float()) for c in range(3)]
    assert value_of("f1-macro", "multilabel", scores, y) == pytest.approx(sum(each) / 4)


def test_errors_of_a_regression() -> None:
    """A mean over all entries, unknown ones too, is too small."""
    scores, y = torch.tensor([[1.0, 5.0], [2.0, 7.0]]), torch.tensor([[0.0, torch.nan], [4.0, 4.0]])
    assert value_of("mse", "regression", scores, y) == pytest.approx((1 + 4 + 9) / 3)
    assert value_of("mae", "regression", scores, y) == pytest.approx((1 + 2 + 3) / 3)


@pytest.mark.parametrize("metric", ["accuracy", "f1-macro", "roc-auc"])
def test_no_rows_have_no_value(metric: str) -> None:
    """A 0 for no rows stops a run early, and reads like a bad model."""
    assert value_of(metric, "classes", torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)) is None


def test_less_is_better_only_for_errors() -> None:
    """Early stopping on the largest error keeps the worst weights."""
    accuracy = Objective(task="classes", metric="accuracy", num_outputs=2)
    mse = Objective(task="regression", metric="mse", num_outputs=1)
    assert accuracy.is_better(0.5, 0.4)
    assert not accuracy.is_better(0.4, 0.4)
    assert mse.is_better(0.3, 0.4)
    assert not mse.is_better(0.5, 0.4)
    for objective in (accuracy, mse):
        assert objective.is_better(0.0, None)
        assert not objective.is_better(None, None)
        assert not objective.is_better(float("nan"), 0.5)


def counts(y: torch.Tensor, width: int) -> LabelCounts:
    if y.ndim == 1:
        return LabelCounts(labelled_C=[len(y)] * width, positive_C=torch.bincount(y, minlength=width).tolist())
    return LabelCounts(labelled_C=(~y.isnan()).sum(0).tolist(), positive_C=(y == 1).sum(0).tolist())


@pytest.mark.parametrize("weights", ["none", "balanced", "1,0.5,0,2"])
def test_class_weights_are_those_of_torch_and_scikit_learn(weights: str) -> None:
    """Weights that change the sum and not what it is divided by change the step size instead of the balance."""
    scores, y = classes(60, 4)
    objective = Objective(task="classes", metric="accuracy", num_outputs=4)
    loss = Loss(objective, weights, counts(y, 4), CPU)
    listed: Any = {"none": [1.0] * 4, "1,0.5,0,2": [1, 0.5, 0, 2]}.get(weights)
    if listed is None:
        present = torch.bincount(y, minlength=4)
        listed = [60 / (3 * n) if n else 0.0 for n in present.tolist()]
    expected = torch.nn.functional.cross_entropy(scores, y, weight=torch.tensor(listed, dtype=torch.float32))
    assert (loss.sum(scores, y) / loss.divisor).item() == pytest.approx(expected.item(), rel=1e-6)


def test_weights_that_leave_nothing_are_refused() -> None:
    """A loss of 0 / 0 ends the run with advice about the step size."""
    objective = Objective(task="classes", metric="accuracy", num_outputs=3)
    with pytest.raises(OptionError, match="no training node a weight"):
        Loss(objective, "0,0,1", counts(torch.tensor([0, 1, 1]), 3), CPU)


def test_an_unknown_label_has_no_loss_and_no_gradient() -> None:
    """NaN times 0 is NaN: one unknown label would end the run."""
    y = torch.tensor([[1.0, torch.nan], [0.0, 1.0], [0.0, 0.0]])
    for task, weights in (("multilabel", "balanced"), ("multilabel", "none"), ("regression", "none")):
        scores = torch.tensor([[0.5, 9.0], [1.0, -1.0], [0.2, 0.1]], requires_grad=True)
        loss = Loss(Objective(task=task, metric="mse", num_outputs=2), weights, counts(y, 2), CPU)
        known = ~y.isnan()
        if task == "regression":
            expected = (scores - y)[known].square().mean()
        else:
            weight = torch.tensor([2.0, 1.0]) if weights == "balanced" else None
            every = torch.nn.functional.binary_cross_entropy_with_logits(
                scores, y.nan_to_num(), pos_weight=weight, reduction="none"
            )
            expected = every[known].mean()
        total = loss.sum(scores, y) / loss.divisor
        assert total.item() == pytest.approx(expected.item(), rel=1e-6)
        total.backward()  # type: ignore[no-untyped-call]
        assert scores.grad is not None
        assert float(scores.grad[0, 1]) == 0
        assert bool(scores.grad.isfinite().all())
