"""What is refused before any rank waits for another, and before torch is imported.

All of it can be read off the command line and the cache's root, so every rank comes to the same refusal by itself.
"""

from __future__ import annotations

from trainer.cache import Cache
from trainer.errors import OptionError, TrainingError
from trainer.objective import Objective
from trainer.options import Options
from trainer.seat import Seat
from trainer.sums import check_sums


def check_world(cache: Cache, seat: Seat) -> None:
    """Refuse a number of ranks that is not the number of parts.

    Raises:
        TrainingError: they differ.
    """
    if seat.world != cache.num_parts:
        raise TrainingError(
            f"{cache.folder} has {_count(cache.num_parts, 'part')} and this run {_count(seat.world, 'rank')}; start it "
            f"with torchrun --nproc-per-node {cache.num_parts} -m trainer {cache.folder}, or partition for {seat.world}"
        )


def check_task(cache: Cache, options: Options) -> None:
    """Refuse a cache that has nothing to learn from, or not the split that was asked for.

    Raises:
        TrainingError: there are no labels, no features or no masks, sums of features that the model cannot use, or
            several node or edge types that it cannot tell apart.
        OptionError: there is no such split, the task, metric or class weights do not suit the labels, or the training
            graph cannot be cut out.
    """
    is_typed = cache.is_typed_for(options.model)
    if not cache.is_plain:
        _check_types(cache, options)
    Objective.of(cache, options)
    if cache.num_features < 1 and not is_typed:
        raise TrainingError(
            f"{cache.folder} has no node features to learn from; partition a dataset with features, or learn some with "
            "--model rgcn"
        )
    check_sums(options, cache)
    if cache.num_splits < 1:
        raise TrainingError(
            f"{cache.folder} has no training, validation and test masks; partition a dataset with a split"
        )
    if is_typed and options.inductive:
        raise OptionError(
            "--inductive trains on the graph of the training nodes, and nodes of other types, or with learnt rows, are "
            "in no such graph; leave it out"
        )
    if options.split >= cache.num_splits:
        raise OptionError(
            f"--split {options.split}, but {cache.folder} has {_count(cache.num_splits, 'split')}, counted from 0"
        )


def _check_types(cache: Cache, options: Options) -> None:
    if options.model != "rgcn":
        raise TrainingError(
            f"{cache.folder} has the node types {', '.join(kind.name for kind in cache.node_types)} and the edge types "
            f"{', '.join(relation.key for relation in cache.relations) or '(none)'}; graphs of several types are "
            "trained with --model rgcn"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
