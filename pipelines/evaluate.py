"""Score a file of predictions against the labels in a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphprep.errors import UsageError
from graphprep.system.files.retry_replaced import read_again_if_replaced
from graphprep.system.home import require_cache
from pipelines.look import likely_folder

GROUPS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


def evaluate(
    cache: str,
    predictions: Path,
    *,
    task: str | None = None,
    metric: str | None = None,
    split: int = 0,
    table: Path | None = None,
) -> dict[str, Any]:
    """The metric of predictions for training, validation and test nodes.

    Args:
        cache: a path or NAME/LABEL.
        predictions: what the trainer's --save-predictions wrote, or a file of that form.
        task: None for the cache's own; a matrix of numbers is `regression`.
        metric: None for OGB's where the dataset is OGB's, else the task's first.
        split: which column of the masks.
        table: a .csv or .parquet that is to have the predictions beside the ids that nodes had in the source.

    Returns:
        `dataset`, `task`, `metric`, `evaluator` (`ogb` or `graphprep`), `split`, and a value for each of `train`, `val`
        and `test`, None where it is not defined.

    Raises:
        CacheError: there is no such cache, or it is damaged; one that is replaced meanwhile is read again.
        DatasetError: the predictions cannot be read, or are no predictions.
        UsageError: they are not of this graph, or the task, metric or split is none of it.
    """
    return read_again_if_replaced(
        lambda: likely_folder(cache),
        lambda: _evaluated(cache, predictions, task=task, metric=metric, split=split, table=table),
    )


def _evaluated(
    cache: str, predictions: Path, *, task: str | None, metric: str | None, split: int, table: Path | None
) -> dict[str, Any]:
    from graphprep.cache.read import PartitionCache
    from graphprep.cache.rebuild import rebuild_rows
    from graphprep.core import metrics
    from graphprep.interop.prediction_table import class_names, require_target, write_table

    if table is not None:
        require_target(table)
    opened = PartitionCache(require_cache(cache))
    labelled = [kind for kind in opened.node_types if "y" in opened.node_arrays(0, kind)]
    if len(labelled) != 1:
        raise UsageError(f"{cache} has {len(labelled)} node types with labels; predictions are scored for one")
    [kind] = labelled
    rows, y = metrics.load_predictions(predictions), rebuild_rows(opened, kind, "y")
    num_classes = int(opened.attributes["num_classes"][kind])
    shape = (len(y), num_classes) if rows.ndim == 2 else (len(y),)
    if rows.shape != shape:
        raise UsageError(
            f"{predictions} has shape {list(rows.shape)} and {cache} has {len(y):,} nodes and {num_classes} classes; "
            "give predictions of this graph"
        )
    own = "classes" if y.ndim == 1 else "multilabel"
    task = task or own
    if task not in metrics.METRICS or (task == "classes") != (own == "classes"):
        raise UsageError(f"--task {task} is none of {cache}, whose labels are {own}")
    y = y if y.ndim == 1 else y.astype("float32")
    dataset = str(opened.attributes["dataset"])
    is_ogb = opened.attributes["source"].get("reader") == "ogb" and metrics.ogb_metric(dataset) is not None
    if metric is None:
        metric = metrics.OGB if is_ogb else metrics.METRICS[task][0]
    if metric not in (*metrics.METRICS[task], *((metrics.OGB,) if is_ogb else ())):
        raise UsageError(f"--metric {metric} does not judge {task}; use one of {', '.join(metrics.METRICS[task])}")
    masks = {name: rebuild_rows(opened, kind, mask) for name, mask in GROUPS.items() if _has(opened, kind, mask)}
    if not masks or not 0 <= split < next(iter(masks.values())).shape[1]:
        raise UsageError(f"--split {split} is none of {cache}; splits are counted from 0")
    values = {
        name: metrics.score(labels, chosen, task=task, metric=metric, dataset=dataset)
        for name, (labels, chosen) in metrics.masked(y, rows, masks, split).items()
    }
    if table is not None:
        write_table(table, rows, opened.original_ids(kind), task, class_names(opened.attributes, kind))
    by_ogb = metric == metrics.OGB
    return {
        "dataset": dataset,
        "task": task,
        "metric": metrics.ogb_metric(dataset) if by_ogb else metric,
        "evaluator": "ogb" if by_ogb else "graphprep",
        "split": split,
        **values,
    }


def _has(cache: Any, kind: str, name: str) -> bool:
    return name in cache.node_arrays(0, kind)
