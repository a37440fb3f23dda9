"""The task of a run, its metric, and a check of its class weights. No torch here.

    task        the cache's labels                   loss                   metrics, the default first
    classes     one class a node                     cross-entropy          accuracy, f1-micro, f1-macro, roc-auc
    multilabel  several labels a node, NaN unknown   binary cross-entropy   roc-auc, f1-micro, f1-macro, accuracy
    regression  several numbers a node, NaN unknown  squared error          mse, mae
    edges       an array of the edges                of classes or regression, for edges
    links       none are needed                      see training/links.py  roc-auc, ap, mrr, hits@10 .. hits@100

A float matrix may have labels or numbers, so regression has to be chosen by an option. So have links.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.base.errors import OptionError, TrainingError
from trainer.config.class_weights import listed_weights
from trainer.config.options import Options
from trainer.data.cache import Cache

METRICS_OF = {
    "classes": ("accuracy", "f1-micro", "f1-macro", "roc-auc"),
    "multilabel": ("roc-auc", "f1-micro", "f1-macro", "accuracy"),
    "regression": ("mse", "mae"),
    "links": ("roc-auc", "ap", "mrr", "hits@10", "hits@20", "hits@50", "hits@100"),
}
_ERRORS = ("mse", "mae")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A task with its metric, both settled."""

    task: str
    """one of `TASKS` but `auto`"""
    metric: str
    """one of `METRICS` but `auto`"""
    num_outputs: int
    """C: classes, labels, or numbers to predict; for pairs the width of the rows that they are scored from"""

    @property
    def name(self) -> str:
        """The metric's name in JSON, after `val_` and `test_`."""
        return self.metric.replace("-", "_")

    @property
    def is_error(self) -> bool:
        """Whether less is better."""
        return self.metric in _ERRORS

    def is_better(self, value: float | None, than: float | None) -> bool:
        """Whether `value` beats the best so far; nothing beats by being unknown, anything known beats nothing."""
        if value is None or value != value:
            return False
        if than is None:
            return True
        return value < than if self.is_error else value > than

    @classmethod
    def of(cls, cache: Cache, options: Options) -> Objective:
        """What the options ask of the cache.

        Raises:
            TrainingError: the cache has no labels.
            OptionError: its labels are of another task, the metric of another one, or the weights do not fit.
        """
        if options.learns_pairs:
            kind = options.task
            if options.learns_edge_labels:
                kind = "classes" if has_edge_classes(cache, options) else "regression"
            return cls(task=options.task, metric=_metric(options, kind), num_outputs=options.embedding_width)
        if cache.task not in ("classes", "multilabel") or cache.num_classes < 1:
            raise TrainingError(f"{cache.folder} has no labels to learn from; partition a dataset with classes")
        task = cache.task if options.task == "auto" else options.task
        if (task == "classes") != (cache.task == "classes"):
            kind = "one class a node" if cache.task == "classes" else "a matrix of labels"
            fits = "classes" if cache.task == "classes" else "multilabel or regression"
            raise OptionError(f"--task {task}, but {cache.folder} has {kind}; use --task {fits}")
        metric = _metric(options, task)
        _check_weights(options.class_weights, task, cache)
        return cls(task=task, metric=metric, num_outputs=cache.num_classes)


def has_edge_classes(cache: Cache, options: Options) -> bool:
    """Whether the labels of edges that are learnt are classes: whole numbers, one an edge.

    Raises:
        TrainingError: edges have no such array, or no number or row of numbers in it.
    """
    [relation], name = cache.relations, options.edge_label
    arrays = cache.edge_arrays(relation.key)
    if name not in arrays:
        there = f"; give --edge-label {' or '.join(arrays)}" if arrays else ", and no other array"
        raise TrainingError(f"the edges of {cache.folder} have no {name}{there}")
    shape, data_type = cache.edge_array_shape(relation.key, name), cache.edge_array_type(relation.key, name)
    if len(shape) > 1 or 0 in shape:
        raise TrainingError(f"{name} of the edges of {cache.folder} has {list(shape)} numbers an edge; give it one row")
    return not data_type.startswith(("float", "bfloat")) and shape in ((), (1,))


def _metric(options: Options, task: str) -> str:
    metrics = METRICS_OF[task]
    metric = metrics[0] if options.metric == "auto" else options.metric
    if metric not in metrics:
        raise OptionError(f"--metric {metric} is no metric of the task {task}; use one of {', '.join(metrics)}")
    return metric


def _check_weights(text: str, task: str, cache: Cache) -> None:
    if task == "regression" and text != "none":
        raise OptionError("--class-weights has no meaning for --task regression; leave it out")
    listed = listed_weights(text)
    if listed is not None and len(listed) != cache.num_classes:
        raise OptionError(
            f"--class-weights lists {len(listed)} weights and {cache.folder} has {cache.num_classes} classes; "
            "give one for each"
        )
