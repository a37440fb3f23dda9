"""Stores become caches, and caches are compared, planned for, exported and trained on."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from graphprep.api.call import library_call, location_of, work
from graphprep.api.options import (
    BestOptions,
    CallOptions,
    InferOptions,
    PartitionOptions,
    Place,
    PlanOptions,
    TrainOptions,
)
from graphprep.cache.features import FeatureOptions
from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import UsageError
from graphprep.interop.in_memory import as_array
from graphprep.interop.training_run import TrainingRun
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths, take_widths
from graphprep.store.store import GraphStore, open_store
from graphprep.system import progress
from graphprep.system.files.session_folder import is_of_session, new_folder
from graphprep.system.home import is_url
from graphprep.system.options import take_options
from graphprep.topology import Topology, resolve

Store = GraphStore | str | Path
Cache = PartitionCache | str | Path
Machine = Topology | str | Path


@library_call(PartitionOptions, PartitionRequest, ModelWidths, FeatureOptions)
def partition(
    graph: Store,
    *,
    topology: Machine | None = None,
    parts: int | None = None,
    assignment: Any = None,
    extend: Cache | None = None,
    rates: Place | None = None,
    out: Place | None = None,
    replace: bool = False,
    **options: Unpack[PartitionOptions],
) -> PartitionCache:
    """Partition a graph for the links of a machine, and write the partition cache, or find that it is there.

    Args:
        graph: a store, a dataset's name, a path or a URL.
        topology: the machine: a topology, a preset's name, a file, or the text of one; exactly one of this and `parts`
            is given.
        parts: K for K equal ranks on one switch.
        assignment: parts that were made elsewhere: whole numbers [N], or a file of them.
        extend: a cache of the store that this one extends (`import_graph(..., extend=...)`), in place of a machine and
            an effort: nodes that it has keep their parts, and new ones get those of their neighbours. Options that are
            not given are those of that cache.
        rates: a file of `graphprep doctor --rates FILE`, for the predicted step.
        out: the cache's folder; by default HOME/caches/NAME/LABEL, and beside the store if that has no name and is
            removed when Python ends.
        replace: make the cache even if it is there, also where other options made it.

    Raises:
        UsageError, TopologyError: an option or the topology is wrong.
        DatasetError: there is no such store.
        CacheError: a cache of other options lies there.
        PartitionError: the graph cannot be partitioned so, or does not extend that of the cache.
    """
    from pipelines.partition import chosen_topology, plan_partition, run_partition
    from pipelines.repartition.extend_parts import PartsGrowth, plan_extended

    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if extend is not None:
        before, store = open_cache(extend), open_store(location_of(graph))
        if out is None and not is_url(store.location) and is_of_session(Path(store.location)):
            out = Path(store.location).with_name(f"{store.name}-{before.attributes['topology']['name']}")
        with work(values) as (limit, executor):
            step = plan_extended(
                store,
                before,
                options=values,
                parts=parts,
                topology=None if topology is None else resolve(topology),
                assignment=assignment,
                out=None if out is None else Path(out),
                rates=None if rates is None else Path(rates),
                memory_limit=limit,
            )
            cache = run_partition(step, replace_other=replace, executor=executor).cache
        PartsGrowth.of(cache, before).say()
        return cache
    values.setdefault("effort", "default" if assignment is None else "none")
    widths = take_widths(values)
    request, features = take_options(PartitionRequest, values), take_options(FeatureOptions, values)
    store = open_store(location_of(graph))
    machine = None if topology is None else resolve(topology)
    if out is None and not is_url(store.location) and is_of_session(Path(store.location)):
        out = Path(store.location).with_name(f"{store.name}-{chosen_topology(parts, machine).name}")
    if assignment is not None:
        is_file = isinstance(assignment, str | Path)
        assignment = Path(assignment) if is_file else as_array(assignment, "assignment")
    with work(values) as (limit, executor):
        step = plan_partition(
            store,
            parts=parts,
            topology=machine,
            request=request,
            out=None if out is None else Path(out),
            assignment=assignment,
            memory_limit=limit,
            features=features,
            widths=widths,
            rates=None if rates is None else Path(rates),
        )
        return run_partition(step, replace_other=replace, executor=executor).cache


@library_call(CallOptions)
def compare(
    *caches: Cache, topology: Machine | None = None, row_bytes: int | None = None, **_: Unpack[CallOptions]
) -> dict[str, Any]:
    """Set several partitions of one dataset beside each other.

    Args:
        caches: at least two.
        topology: judge all on this machine, and not each on its own.
        row_bytes: judge all with rows of so many bytes.

    Returns:
        What `graphprep compare --json` prints: `dataset`, `verdict` (sentences), and `caches`, a row each, of which
        `pandas.DataFrame(...)` makes a table.

    Raises:
        CacheError: one is not there or not whole.
        UsageError: there are fewer than two, or they are of different graphs.
    """
    from pipelines.compare import compare as set_beside

    machine = None if topology is None else resolve(topology)
    return set_beside([location_of(cache) for cache in caches], topology=machine, row_bytes=row_bytes)


@library_call(PlanOptions)
def plan(
    graph: Store | PartitionCache,
    *,
    parts: int | None = None,
    topology: Machine | None = None,
    gpu: str | None = None,
    rates: Place | None = None,
    batch_size: int = 0,
    fanouts: str | Sequence[int] | None = None,
    pilot: int = 0,
    **options: Unpack[PlanOptions],
) -> dict[str, Any]:
    """Predict what an epoch of training takes.

    Args:
        graph: a cache, or a store with one of `parts` and `topology`.
        parts: for a store: K equal ranks on one switch.
        topology: for a store: the machine; for a cache: another one of as many ranks.
        gpu: what the ranks are, for its published rates: A100-40GB, H100-SXM, L4 ...
        rates: a file of `graphprep doctor --rates FILE`.
        batch_size: training nodes in a step of mini-batches, which are planned beside the whole graph; 0 for none.
        fanouts: with `batch_size` neighbours drawn for a node in each layer, the last layer first; by default 10.
        pilot: with `batch_size` epochs of each pilot run on this machine, which count the epochs that batches need; 0
            makes none.

    Returns:
        What `graphprep plan --json` prints: `epoch_seconds`, `compute_seconds`, `communication_seconds`, `ranks`,
        `ways` (other exchanges), `advice` and `unknown` (sentences).

    Raises:
        UsageError: the graph has several types, no features or classes, or the topology does not fit.
        TrainingError: rates cannot be measured here.
    """
    from graphprep.plan.batch_options import BatchPlan
    from graphprep.plan.training import TrainingPlan
    from pipelines.planning.plan import plan_training

    batches = take_options(BatchPlan, {"batch_size": batch_size, "fanouts": fanouts})
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return plan_training(
        location_of(graph),
        TrainingPlan(**values),
        parts=parts,
        topology=None if topology is None else resolve(topology),
        gpu=gpu,
        rates_from=None if rates is None else Path(rates),
        batches=batches,
        pilot_epochs=pilot,
    )


@library_call(BestOptions)
def plan_best(
    graph: Store | PartitionCache,
    *,
    parts: int | None = None,
    topology: Machine | None = None,
    gpu: str | None = None,
    rates: Place | None = None,
    pilot: int = 0,
    **options: Unpack[BestOptions],
) -> dict[str, Any]:
    """Search the ways to train a graph for the best.

    Args:
        graph: a cache, or a store with one of `parts` and `topology`, for which fewer ranks are considered too.
        parts, topology, gpu, rates: as for `plan`.
        pilot: epochs of each pilot run on this machine; 0 makes none, and then int8 and kept rows are not considered.
        options: those of the model, searched ones that are to stay, and what the run may take: `epochs`, `within`
            (seconds), `price` (of a rank for an hour) and `cost`; and with `pilot` mini-batches to consider,
            `batch_size` and `fanouts`.

    Returns:
        What `graphprep plan --best --json` prints: `best` (up to three ways with `options`, `command`,
        `epoch_seconds`, `run_seconds`, `reasons` ...), `considered`, `pilots` and `unknown`.

    Raises:
        UsageError: as for `plan`; or nothing fits into memory and budget.
        TrainingError: rates cannot be measured here, or a pilot fails.
    """
    from graphprep.plan.batch_options import BatchPlan
    from graphprep.plan.search import Budget
    from graphprep.plan.training import TrainingPlan
    from graphprep.system.options import take_options
    from pipelines.planning.best import plan_best as search

    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    fixed = set(values)
    return search(
        location_of(graph),
        take_options(TrainingPlan, values),
        fixed=fixed,
        budget=take_options(Budget, values),
        parts=parts,
        topology=None if topology is None else resolve(topology),
        gpu=gpu,
        rates_from=None if rates is None else Path(rates),
        pilot_epochs=pilot,
        batches=take_options(BatchPlan, values),
    )


@library_call(CallOptions)
def export(
    cache: Cache,
    out: Place,
    *,
    format: Literal["dgl", "pyg", "npz"],
    replace: bool = False,
    **_: Unpack[CallOptions],
) -> Path:
    """Write a cache in the files of another tool, or find that they are there.

    Args:
        cache: what to export.
        out: the folder to make.
        format: dgl, pyg or npz; docs/export.md says what each holds.
        replace: export even if it is there, or replace another export.

    Returns:
        The folder.

    Raises:
        UsageError: the format is unknown, or something else lies there.
        CacheError: there is no such cache, or it has changed.
    """
    from pipelines.export import export_cache

    return export_cache(location_of(cache), Path(out), format_name=format, replace=replace).folder


@library_call(TrainOptions)
def train(
    cache: Cache,
    *,
    model: str | type = "gcn",
    output: Place | None = None,
    replace: bool = False,
    **options: Unpack[TrainOptions],
) -> TrainingRun:
    """Train on a cache, one process a part on this machine, as `graphprep train` does.

    An option that is not given, or None, has the trainer's own default.

    Args:
        cache: what to train on.
        model: gcn, sage, gat, gatv2, gin, rgcn, rgat, hgt, FILE.py:Class, or a class of your own that lies in a file.
        output: the folder of the run; without one it is removed when Python ends.
        replace: whether a run that lies there may be replaced; that is done when the new one is whole.

    Returns:
        The run: history, metrics, predictions in the dataset's order, weights.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence. All ranks have ended then, and also after an
            interruption, and no folder is left behind.
    """
    from pipelines.training.train import train_to_folder

    folder = open_cache(cache).folder.absolute()
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    weights = values.get("class_weights")
    if weights is not None and not isinstance(weights, str):
        values["class_weights"] = ",".join(map(str, weights))
    for name in ("fanouts", "eval_fanouts"):
        fanouts = values.get(name)
        if fanouts is not None and not isinstance(fanouts, str):
            values[name] = ",".join(map(str, fanouts))
    if isinstance(model, type):
        model = _file_and_class(model)
    elif not isinstance(model, str):
        raise UsageError(
            f"the model is an object of {type(model).__name__}; give its class, which each rank makes one of"
        )
    return train_to_folder(
        folder, _folder(output), {"model": model, **values}, replace=replace, quiet=progress.is_quiet()
    )


@library_call(InferOptions)
def infer(
    cache: Cache,
    run: TrainingRun | Place,
    *,
    output: Place | None = None,
    replace: bool = False,
    **options: Unpack[InferOptions],
) -> TrainingRun:
    """Compute the scores of all nodes by the best weights of a run, as `graphprep infer` does.

    Args:
        cache: of the same graph or of one that extends it, of any number of parts.
        run: what was trained.
        output: the folder for the scores; without one it is removed when Python ends.
        replace: whether a run that lies there may be replaced.

    Returns:
        A run that has `predictions`, `ids`, `metrics` and `result`, and no epochs.

    Raises:
        TrainingError: the run has no checkpoint, or learnt another graph; and as for `train`.
    """
    from pipelines.training.infer import infer as infer_to_folder

    folder = open_cache(cache).folder.absolute()
    trained = run.folder if isinstance(run, TrainingRun) else Path(run)
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return infer_to_folder(folder, trained, _folder(output), values, replace=replace, quiet=progress.is_quiet())


@library_call(CallOptions)
def report(run: TrainingRun | Place, *, output: Place | None = None, **_: Unpack[CallOptions]) -> Path:
    """Write the page of a run, as `graphprep report` does: curves, what each rank did, bytes, predictions.

    Args:
        run: what was trained.
        output: the page; report.html in the run's folder by default.

    Returns:
        The page.

    Raises:
        TrainingError: it is no finished run.
        UsageError: the page cannot be written there.
    """
    from pipelines.report import report_run

    opened = run if isinstance(run, TrainingRun) else TrainingRun(run)
    return report_run(opened, None if output is None else Path(output))[1]


def _folder(output: Place | None) -> Path:
    """The folder of a run; a line says so where it is removed when this process ends."""
    if output is not None:
        return Path(output)
    folder = new_folder() / "run"
    progress.say(f"no output was given: {folder} is removed when Python ends; output= keeps it")
    return folder


def _file_and_class(model: type) -> str:
    """FILE.py:Class of a class, for the ranks to import."""
    try:
        file = inspect.getfile(model)
    except (TypeError, OSError):
        file = ""
    if not file.endswith(".py") or "." in model.__qualname__:
        raise UsageError(
            f"the model {model.__qualname__} lies in no file of its own that the ranks could import; write it to a .py "
            "file, at its top, and give that class or FILE.py:Class"
        )
    return f"{Path(file).absolute()}:{model.__name__}"
