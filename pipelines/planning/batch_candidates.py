"""The ways to train on mini-batches that `plan --best` compares with those on the whole graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphprep.plan.convergence import Convergence
from graphprep.plan.partitioned_graph import PartitionedGraph
from graphprep.plan.rank_rates import RankRates
from graphprep.plan.search import Candidate
from graphprep.traffic import LinkModel
from pipelines.planning.batches import DrawnBatches
from pipelines.planning.pilot import run_batch_pilots
from pipelines.planning.plan import Prediction
from pipelines.planning.way_checks import epochs_needed, memory_needed


def batch_candidates(
    cache: Path,
    drawn: DrawnBatches,
    graph: PartitionedGraph,
    rates: RankRates,
    whole: Prediction,
    convergence: Convergence,
    *,
    validating: float,
    pilot_epochs: int,
    options: Mapping[str, Any],
) -> list[Candidate]:
    """Batches, and batches with control variates, where pilot runs reach the accuracy of the whole graph's.

    Args:
        cache: its folder.
        drawn: steps on batches.
        graph: its counts.
        rates: of its ranks.
        whole: an epoch on the whole graph.
        convergence: what pilots on the whole graph have shown.
        validating: seconds of an epoch's share of the validations.
        pilot_epochs: of each pilot.
        options: further options of the trainer, which all ways have.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence.
    """
    model = LinkModel.of(graph.topology)
    planned = drawn.planned(rates, model, weights_seconds=whole.communication.weights_seconds)
    ways = drawn.ways(planned, whole_seconds=whole.epoch_seconds, validating=validating)[1:]
    pilots = run_batch_pilots(cache, ways, epochs=pilot_epochs, options=options)
    found = []
    for way, stages in zip(ways, (planned.sampled, planned.controlled), strict=True):
        epochs = epochs_needed(way.name, pilots[way.name], convergence, pilot_epochs=pilot_epochs)
        if epochs is None:
            continue
        needs_P = memory_needed(way.name, cache, graph, way.training, {**options, **way.batches})
        if needs_P is None:
            continue
        seconds, steps = {row["stage"]: row["seconds"] for row in stages["stages"]}, stages["steps"]
        found.append(
            Candidate(
                training=way.training,
                ranks=graph.topology.num_ranks,
                topology=graph.topology.name,
                epoch_seconds=way.epoch_seconds,
                compute_seconds=steps * (seconds["copy"] + seconds["train"]),
                communication_seconds=steps * seconds["fetch"],
                memory_bytes=max(needs_P),
                fits=rates.has_enough(graph.topology, needs_P),
                factor=epochs / convergence.epochs,
                epochs=convergence.epochs,
                row_bytes=round(steps * sum(row["bytes"] for row in stages["link_types"])),
                batches=way.batches,
                note=way.reason,
            )
        )
    return found
