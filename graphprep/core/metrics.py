"""How good predictions are: by OGB's own evaluator for its datasets, else by the metrics that the trainer has.

OGB's evaluator is loaded from its file: importing the ogb package would look for a newer release of itself on the
network. Nothing is downloaded.

Letters: N nodes, C classes, labels or numbers to predict; K rows of one split.
"""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError, UsageError
from graphprep.system.files.regular_file import regular_file

Array = NDArray[Any]

METRICS = {
    "classes": ("accuracy", "f1-micro", "f1-macro", "roc-auc"),
    "multilabel": ("roc-auc", "f1-micro", "f1-macro", "accuracy"),
    "regression": ("mse", "mae"),
}
"""By task, the default first."""
OGB = "ogb"
"""Asks for OGB's evaluator."""


def load_predictions(path: Path) -> Array:
    """Scores of all nodes, as the trainer saves them or anybody else.

    Args:
        path: .npy (no pickles), or .pt with one tensor (weights only).

    Returns:
        [N, C], or whole numbers [N]: the predicted class of each node.

    Raises:
        DatasetError: it cannot be read, or is of another kind.
    """
    try:
        if path.suffix == ".npy":
            rows: Array = np.load(regular_file(path), mmap_mode="r", allow_pickle=False)
        elif path.suffix == ".pt":
            import torch

            tensor = torch.load(regular_file(path), map_location="cpu", weights_only=True)
            if not isinstance(tensor, torch.Tensor):
                raise DatasetError(f"{path} holds a {type(tensor).__name__} and not one tensor of predictions")
            rows = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        else:
            raise DatasetError(f"{path} ends in neither .npy nor .pt; give what --save-predictions wrote")
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror or error}); give a file of predictions") from error
    except (ValueError, EOFError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
        raise DatasetError(f"{path} is damaged, or holds more than numbers, which is not loaded") from error
    if rows.ndim not in (1, 2) or rows.dtype.kind not in "fiu" or (rows.ndim == 1 and rows.dtype.kind == "f"):
        raise DatasetError(f"{path} has shape {rows.shape} and dtype {rows.dtype}, not scores [N, C] or classes [N]")
    return rows


def ogb_metric(name: str) -> str | None:
    """The metric of OGB's dataset `name` for nodes, None where it has none of that name."""
    evaluator = _ogb_evaluator(name)
    return None if evaluator is None else str(evaluator.eval_metric)


def score(y: Array, rows: Array, *, task: str, metric: str, dataset: str = "") -> float | None:
    """The metric of some rows.

    Args:
        y: int [K]; or float [K, C], NaN where unknown. Rows without any label have been left out.
        rows: float [K, C]; for accuracy and F1 of classes also the predicted classes, int [K].
        task: a key of `METRICS`.
        metric: one of the task's metrics, or `OGB`.
        dataset: OGB's name of the dataset, for its evaluator.

    Returns:
        the value; None where it is not defined.

    Raises:
        UsageError: the rows have no scores and the metric needs them.
    """
    if not len(y):
        return None
    if rows.ndim == 1 and (task != "classes" or metric == "roc-auc"):
        raise UsageError(f"the metric {metric} needs scores [N, C], and these predictions are classes")
    if metric == OGB:
        return _by_ogb(y, rows, task, dataset)
    if task == "regression":
        error = (rows - y)[~np.isnan(y)].astype(np.float64)
        return float(np.mean(np.square(error) if metric == "mse" else np.abs(error)))
    if metric == "roc-auc":
        return _roc_auc(y, np.asarray(rows, np.float64), task)
    return _by_counts(y, rows, task, metric)


def _by_ogb(y: Array, rows: Array, task: str, dataset: str) -> float | None:
    evaluator = _ogb_evaluator(dataset)
    assert evaluator is not None
    if task == "classes":
        y, rows = y[:, None], (rows if rows.ndim == 1 else rows.argmax(axis=1))[:, None]
    if evaluator.eval_metric == "rocauc" and not _has_both(y):
        return None
    [value] = evaluator.eval({"y_true": y.astype(np.float64), "y_pred": np.asarray(rows, np.float64)}).values()
    return float(value)


def _has_both(y: Array) -> bool:
    return bool((((y == 1).any(axis=0)) & (y == 0).any(axis=0)).any())


def _by_counts(y: Array, rows: Array, task: str, metric: str) -> float:
    if task == "classes":
        guess = rows if rows.ndim == 1 else rows.argmax(axis=1)
        width = int(max(y.max(), guess.max())) + 1
        right, guessed, true = (np.bincount(found, minlength=width) for found in (y[y == guess], guess, y))
        number, agreeing = len(y), int(right.sum())
    else:
        known, said = ~np.isnan(y), np.asarray(rows) > 0
        right, guessed, true = ((mask & known).sum(axis=0) for mask in (said & (y == 1), said, y == 1))
        number, agreeing = int(known.sum()), int((known & (said == (y == 1))).sum())
    if metric == "accuracy":
        return agreeing / number
    both = guessed + true
    if metric == "f1-micro":
        return float(2 * right.sum() / max(both.sum(), 1))
    each = 2 * right / np.maximum(both, 1)
    return float(each[both > 0].mean() if task == "classes" else each.mean())


def _roc_auc(y: Array, rows: NDArray[np.float64], task: str) -> float | None:
    if task == "classes" and rows.shape[1] <= 2:
        columns = [(rows[:, -1] - rows[:, 0], y == rows.shape[1] - 1)]
    elif task == "classes":
        shares = np.exp(rows - rows.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        columns = [(shares[:, c], y == c) for c in range(rows.shape[1])]
    else:
        columns = [(rows[~np.isnan(y[:, c]), c], y[~np.isnan(y[:, c]), c] == 1) for c in range(rows.shape[1])]
    from sklearn.metrics import roc_auc_score

    areas = [float(roc_auc_score(true, found)) for found, true in columns if true.any() and not true.all()]
    return sum(areas) / len(areas) if areas else None


def _ogb_evaluator(name: str) -> Any:
    """OGB's evaluator of dataset `name`, from its own file; None where OGB or the dataset is not there."""
    found = importlib.util.find_spec("ogb")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0], "nodeproppred", "evaluate.py")
    # Names here are in lower case, OGB's ogbn-papers100M is not.
    names = {known.lower(): known for known in _ogb_names(path.with_name("master.csv"))} if path.is_file() else {}
    if name.lower() not in names:
        return None
    spec = importlib.util.spec_from_file_location("graphprep_ogb_evaluate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Evaluator(names[name.lower()])


def _ogb_names(table: Path) -> tuple[str, ...]:
    """The datasets in OGB's table: its header line but for the first field."""
    with table.open() as lines:
        return tuple(lines.readline().strip().split(",")[1:])


def masked(y: Array, rows: Array, masks: Mapping[str, Array], split: int) -> dict[str, tuple[Array, Array]]:
    """Labels and predictions of each group's labelled rows, for one split.

    Args:
        y: int [N], or float [N, C].
        rows: [N, C] or [N].
        masks: bool [N, S] by name.
        split: a column.
    """
    known = y >= 0 if y.ndim == 1 else ~np.isnan(y).all(axis=1)
    groups = {name: np.flatnonzero(mask[:, split] & known) for name, mask in masks.items()}
    return {name: (y[chosen], np.asarray(rows[chosen])) for name, chosen in groups.items()}
