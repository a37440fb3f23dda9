"""What rules out a way to train that `plan --best` considers: the trainer refuses it, or its pilot does not arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphprep.plan.convergence import Convergence, first_epoch_with
from graphprep.plan.partitioned_graph import PartitionedGraph, rank_sizes
from graphprep.plan.trainer_memory import Refusal, expected_memory
from graphprep.plan.training import TrainingPlan
from graphprep.system import progress
from pipelines.training.train import words_of


def memory_needed(
    name: str, cache: Path, graph: PartitionedGraph, training: TrainingPlan, options: Mapping[str, Any]
) -> list[int] | None:
    """The bytes that each rank needs; None, which is said, where the trainer refuses the options.

    Args:
        name: of the way, to say it.
        cache: its folder.
        graph: its counts.
        training: the options that a plan knows.
        options: the trainer's further options.
    """
    [memory] = expected_memory([(training, None)], rank_sizes(graph), cache, words=words_of(options))
    if isinstance(memory, Refusal):
        progress.say(f"{name}: not considered, since {memory.error}")
        return None
    return [sum(of_rank.values()) for of_rank in memory.bytes_by_purpose]


def epochs_needed(name: str, values: Sequence[float], convergence: Convergence, *, pilot_epochs: int) -> int | None:
    """The epochs until the accuracy of the exact exchange; None, which is said, where the pilot did not reach it.

    Args:
        name: of the way, to say it.
        values: its pilot's validation after each epoch.
        convergence: what pilots on the whole graph have shown.
        pilot_epochs: of each pilot.
    """
    epochs = first_epoch_with(values, convergence.target)
    if epochs is None:
        progress.say(f"{name} did not reach {convergence.target:.4f} in {pilot_epochs} epochs: not considered")
    return epochs
