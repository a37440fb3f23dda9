"""A trained model computes the scores of all nodes, on a cache of any number of parts of the graph that it learnt.

This is the trainer's own evaluation, layer by layer over the whole graph and exact, from the best weights of a run. By
default a rank fetches the rows of one other rank at a time, so that few ranks hold what many have trained on.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphprep.errors import UsageError
from graphprep.interop.prediction_table import ENDINGS
from graphprep.interop.training_run import PREDICTIONS, TrainingRun, epoch_of
from graphprep.system.files.atomic import PARTIAL_PREFIX, locked
from graphprep.system.files.output_path import checked_file
from pipelines.training.train import train_to_folder

LEARNT_BY = (
    *("model", "layers", "hidden", "aggregator", "heads", "output_heads", "bases", "residual", "jumping", "norm"),
    *("neighbours", "node_vectors", "variant", "history"),
    *("dropout", "input_dropout", "attention_dropout", "edge_features", "target", "task", "metric"),
    *("edge_label", "edge_split", "disjoint_train", "embedding", "decoder", "negatives", "eval_negatives"),
    *("class_weights", "inductive", "optimiser", "momentum", "seed", "split", "precision", "dense_features"),
)
"""the options of the run that the model, its weights or its scores depend on"""


def infer(
    cache: Path,
    run: Path,
    output: Path,
    options: Mapping[str, Any],
    *,
    replace: bool = False,
    quiet: bool = False,
) -> TrainingRun:
    """Compute the scores of all nodes by the best weights of a run, in a new run's folder.

    Args:
        cache: the folder of a cache of the same graph, of any number of parts.
        run: the folder of the run, with a checkpoint.
        output: the folder to make.
        options: the trainer's, of those that change no score: `device`, `exchange`, `timeout`, `save_embeddings` ...
        replace, quiet: as for `train_to_folder`.

    Raises:
        UsageError: an option is wrong, or something else lies at `output`.
        TrainingError: the run is not finished, has no checkpoint, or learnt another graph.
        CacheError: as for `train_to_folder`.
    """
    trained = TrainingRun(run)
    checkpoint = trained.newest_checkpoint()
    learnt = {name: trained.options[name] for name in LEARNT_BY if name in trained.options}
    of_the_pass = {"exchange": "sequential", **options, "epochs": epoch_of(checkpoint)}
    return train_to_folder(cache, output, {**learnt, **of_the_pass}, replace=replace, quiet=quiet, resumed=checkpoint)


def infer_to_file(
    cache: Path, run: Path, out: Path, options: Mapping[str, Any], *, quiet: bool = False
) -> dict[str, Any]:
    """Write the scores to a file, which appears whole or not at all.

    Args:
        cache, run, options, quiet: as for `infer`.
        out: .npy for float32 [N, C] in the dataset's order; .csv or .parquet for a table with the nodes' own ids.

    Returns:
        The result, as the trainer's --json prints it.

    Raises:
        UsageError: `out` has another ending, or its folder does not exist; and as for `infer`.
    """
    if out.suffix not in (".npy", *ENDINGS):
        raise UsageError(f"OUT {out} ends in none of .npy, {', '.join(ENDINGS)}; give another name")
    target = checked_file(out, called="OUT")
    work = target.with_name(f"{PARTIAL_PREFIX}{target.name}-run")
    with locked(target, f"the scores {target}"):
        shutil.rmtree(work, ignore_errors=True)  # what a run left that was killed
        try:
            made = infer(cache, run, work / "run", options, quiet=quiet)
            if out.suffix == ".npy":
                (made.folder / PREDICTIONS).replace(target)
            else:
                made.write_predictions(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return made.result
