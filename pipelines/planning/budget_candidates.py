"""The ways in which the run itself chooses bits and age of rows, which `plan --best` compares with the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphprep.plan.bit_budgets import BUDGETS, BitBudget
from graphprep.plan.communication import communication
from graphprep.plan.convergence import Convergence
from graphprep.plan.partitioned_graph import PartitionedGraph
from graphprep.plan.rank_rates import RankRates
from graphprep.plan.search import Candidate
from graphprep.traffic import LinkModel
from pipelines.planning.pilot import run_budget_pilots
from pipelines.planning.plan import Prediction
from pipelines.planning.way_checks import epochs_needed, memory_needed


def budget_candidates(
    cache: Path,
    graph: PartitionedGraph,
    rates: RankRates,
    exact: Prediction,
    packed: Prediction,
    convergence: Convergence,
    *,
    pilot_epochs: int,
    options: Mapping[str, Any],
) -> list[Candidate]:
    """Those budgets with which pilots reach the accuracy of the exact exchange.

    Args:
        cache: its folder.
        graph: its counts.
        rates: of its ranks.
        exact: an epoch with exact rows in fp32.
        packed: the same with rows in int8, which are packed likewise.
        convergence: what pilots of other exchanges have shown.
        pilot_epochs: of each pilot.
        options: further options of the trainer, which all ways have.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence.
    """
    if options.keys() & {budget.option for budget in BUDGETS}:
        return []  # a person has chosen one
    needs_by_budget: dict[BitBudget, list[int]] = {}
    for budget in BUDGETS:
        needs_P = memory_needed(budget.name, cache, graph, exact.training, {**options, **budget.options})
        if needs_P is not None:
            needs_by_budget[budget] = needs_P
    if not needs_by_budget:
        return []
    model, found = LinkModel.of(graph.topology), []
    for pilot in run_budget_pilots(cache, exact.training, list(needs_by_budget), epochs=pilot_epochs, options=options):
        epochs = epochs_needed(pilot.budget.name, pilot.values, convergence, pilot_epochs=pilot_epochs)
        if epochs is None:
            continue
        needs_P = needs_by_budget[pilot.budget]
        sent = communication(graph, model, exact.training, {}, shares=pilot.shares)
        share = 100 * sent.row_bytes / max(1, exact.communication.row_bytes)
        found.append(
            Candidate(
                training=exact.training,
                ranks=graph.topology.num_ranks,
                topology=graph.topology.name,
                epoch_seconds=packed.compute_seconds + sent.seconds,
                compute_seconds=packed.compute_seconds,
                communication_seconds=sent.seconds,
                memory_bytes=max(needs_P),
                fits=rates.has_enough(graph.topology, needs_P),
                factor=epochs / convergence.epochs,
                epochs=convergence.epochs,
                row_bytes=sent.row_bytes,
                bits=pilot.budget.options,
                note=f"the run chooses bits and age of rows: {share:.1f} % of exact bytes, validations included",
            )
        )
    return found
