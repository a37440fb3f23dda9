"""Choose the best way to train a graph on a machine: predict all that there are, and keep a few."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphprep.errors import TopologyError, UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.bit_budgets import OF_EXACT
from graphprep.plan.convergence import Convergence
from graphprep.plan.partitioned_graph import PartitionedGraph
from graphprep.plan.rank_rates import RankRates
from graphprep.plan.search import (
    SEARCHED,
    Budget,
    Candidate,
    best,
    is_approximate,
    reasons,
    trainings_to_search,
)
from graphprep.plan.time_to_accuracy import train_command
from graphprep.plan.trainer_memory import Refusal
from graphprep.plan.training import TrainingPlan
from graphprep.system import progress
from graphprep.topology import Topology
from graphprep.topology.first_ranks import first_ranks, smaller_counts
from pipelines.look import find
from pipelines.partition import chosen_topology
from pipelines.planning.batch_candidates import batch_candidates
from pipelines.planning.batches import DrawnBatches
from pipelines.planning.budget_candidates import budget_candidates
from pipelines.planning.counts import counts_of_cache, counts_of_store
from pipelines.planning.pilot import run_pilots
from pipelines.planning.plan import NEVER, OF_RATES, SHORT_EPOCH, Prediction, predict
from pipelines.training.train import words_of

NOT_SEARCHED = (
    "not searched: --precision, whose computing rates are not measured; --exchange sequential, --boundary-sampling and "
    "--eval-every, which trade time for memory or accuracy"
)


def plan_best(
    store_or_cache: str,
    base: TrainingPlan,
    *,
    fixed: Collection[str] = (),
    budget: Budget,
    parts: int | None = None,
    topology: str | Topology | None = None,
    gpu: str | None = None,
    rates_from: Path | None = None,
    pilot_epochs: int = 0,
    batches: BatchPlan | None = None,
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The best ways to train, as plain JSON values.

    Args:
        store_or_cache: a cache, whose parts stay; or a store with one of `parts` and `topology`, for which fewer ranks
            of the same machine are considered too.
        base: the options of the model.
        fixed: names of the searched options that stay as in `base`.
        budget: what the run may take.
        parts, topology, gpu, rates_from: as for `plan_training`.
        pilot_epochs: of each pilot run, without which no approximation is considered; 0 makes none.
        batches: mini-batches that are considered beside the whole graph, which needs pilots; None for none.
        others: further options of the trainer, by name, which all ways have.

    Raises:
        UsageError: as for `plan_training`; or nothing fits into memory and budget; or pilots of a store; or batches
            without pilots.
        TrainingError: rates cannot be measured here, or a pilot fails.
    """
    kind, location = find(store_or_cache)
    if pilot_epochs and kind != "cache":
        raise UsageError("--pilot trains on a cache, and this is a store; partition it first, then plan the cache")
    if batches is not None and batches.batch_size and not pilot_epochs:
        raise UsageError(
            "--best with --batch-size needs --pilot EPOCHS, which counts the epochs that batches need here"
        )
    name, cache = base.edge_features, Path(location) if kind == "cache" else None
    if cache is not None:
        graphs = [counts_of_cache(cache, parts, topology, edge_features=name)]
    else:
        graphs = [counts_of_store(location, None, each, edge_features=name) for each in _machines(parts, topology)]
    convergence = None
    if cache is not None and pilot_epochs:
        exact, *more = _trainings(graphs[0], base, fixed, approximate=True)
        exact = exact.with_options(**{name: "none" for name in ("staleness", "staleness_grad") if name not in fixed})
        approximate = [each for each in more if is_approximate(each)]
        convergence = run_pilots(cache, exact, approximate, epochs=pilot_epochs, options=others)
    drawn = None
    if cache is not None and batches is not None and batches.batch_size:
        pairs = base.widths(graphs[0].num_features, graphs[0].num_classes)
        drawn = DrawnBatches.draw(cache, batches, base, pairs)
    found: list[Candidate] = []
    defaults: dict[str, Candidate] = {}
    chosen = None
    for graph in graphs:
        trainings = _trainings(graph, base, fixed, approximate=convergence is not None)
        unvalidated = [] if drawn is None else [base.with_options(eval_every=NEVER)]
        chosen, predictions = predict(
            graph,
            [*trainings, *unvalidated],
            cache=cache,
            gpu=gpu,
            rates_from=rates_from,
            words=words_of(others or {}),
            more_work=() if drawn is None else drawn.work,
        )
        for prediction in predictions[: len(trainings)]:
            if isinstance(prediction, Refusal):
                continue
            candidate = candidate_of(graph, chosen, prediction, convergence)
            if candidate is not None:
                defaults.setdefault(graph.topology.name, candidate)
                found.append(candidate)
        if (
            cache is not None
            and convergence is not None
            and (pair := _exact_and_packed(predictions, fixed)) is not None
        ):
            found += budget_candidates(
                cache, graph, chosen, *pair, convergence, pilot_epochs=pilot_epochs, options=others or {}
            )
        if cache is not None and drawn is not None and convergence is not None:
            whole, never = predictions[0], predictions[-1]
            if isinstance(whole, Refusal) or isinstance(never, Refusal):
                continue
            found += batch_candidates(
                cache,
                drawn,
                graph,
                chosen,
                whole,
                convergence,
                validating=whole.epoch_seconds - never.epoch_seconds,
                pilot_epochs=pilot_epochs,
                options=others or {},
            )
    assert chosen is not None
    winners = best(found, budget)
    if not winners:
        raise UsageError(_nothing(found, budget))
    return {
        "dataset": graphs[0].dataset,
        "rates": chosen.to_json(),
        "is_sketch": any(graph.is_sketch for graph in graphs),
        "considered": len(found),
        "epochs": budget.epochs if convergence is None else convergence.epochs,
        "pilots": None
        if convergence is None
        else {
            "epochs": pilot_epochs,
            "best_validation": convergence.best,
            "log_factors": dict(zip(("int8", "age of rows", "age of gradients"), convergence.parts, strict=True)),
            "failed": [_changes(each, base) for each in convergence.failed],
        },
        "best": [
            {
                "options": each.changes,
                "command": _command(each, base, store_or_cache if kind == "cache" else None),
                "partition": None if kind == "cache" else _partition_command(each, store_or_cache, parts, topology),
                "ranks": each.ranks,
                "topology": each.topology,
                "epoch_seconds": each.epoch_seconds,
                "compute_seconds": each.compute_seconds,
                "communication_seconds": each.communication_seconds,
                "row_bytes": each.row_bytes,
                "memory_bytes": each.memory_bytes,
                "fits": each.fits,
                "epochs": budget.epochs_of(each) * each.factor,
                "run_seconds": each.run_seconds(budget.epochs_of(each)),
                "cost": budget.cost_of(each),
                "times_faster": defaults[each.topology].effective_seconds / max(each.effective_seconds, 1e-12),
                "reasons": list(reasons(each, defaults[each.topology])),
            }
            for each in winners
        ],
        "unknown": _unknown(chosen, convergence, winners[0]),
    }


def _machines(parts: int | None, topology: str | Topology | None) -> list[Topology]:
    """The machine, and its first ranks, with fewer of which some graphs are trained in less time."""
    whole, found = chosen_topology(parts, topology), []
    for count in smaller_counts(whole):
        try:
            found.append(first_ranks(whole, count))
        except TopologyError as error:
            progress.say(f"the first {count} ranks of {whole.name} are not considered: {error}")
    return found


def _trainings(
    graph: PartitionedGraph, base: TrainingPlan, fixed: Collection[str], *, approximate: bool
) -> list[TrainingPlan]:
    return trainings_to_search(
        base,
        fixed,
        ranks=graph.topology.num_ranks,
        has_relays=graph.traffic.relayed is not None,
        approximate=approximate,
    )


def _exact_and_packed(
    predictions: Sequence[Prediction | Refusal], fixed: Collection[str]
) -> tuple[Prediction, Prediction] | None:
    """The quickest exact exchange of halo rows in fp32, and the same in int8; None where budgets cannot choose that."""
    if set(fixed) & set(OF_EXACT):
        return None

    def quickest(wire: str) -> Prediction | None:
        found = [
            each
            for each in predictions
            if isinstance(each, Prediction)
            and each.training.exchange == "boundary"
            and (each.training.wire, each.training.staleness, each.training.staleness_grad) == (wire, "none", "none")
        ]
        return min(found, key=lambda each: each.epoch_seconds, default=None)

    exact, packed = quickest("fp32"), quickest("int8")
    has_rows = exact is not None and exact.communication.row_bytes > 0
    return None if exact is None or packed is None or not has_rows else (exact, packed)


def candidate_of(
    graph: PartitionedGraph, rates: RankRates, found: Prediction, convergence: Convergence | None
) -> Candidate | None:
    """The candidate of a prediction; None where pilots have not reached the accuracy with as coarse an exchange."""
    factor = 1.0 if convergence is None else convergence.factor(found.training)
    if factor is None:
        return None
    needs_P = [row["memory_bytes"] for row in found.ranks]
    return Candidate(
        training=found.training,
        ranks=graph.topology.num_ranks,
        topology=graph.topology.name,
        epoch_seconds=found.epoch_seconds,
        compute_seconds=found.compute_seconds,
        communication_seconds=found.communication.seconds,
        memory_bytes=max(needs_P),
        fits=rates.has_enough(graph.topology, needs_P),
        factor=factor,
        epochs=None if convergence is None else convergence.epochs,
        row_bytes=found.communication.row_bytes,
    )


def _nothing(found: list[Candidate], budget: Budget) -> str:
    fitting = [each for each in found if each.fits is not False]
    if not fitting:
        least = min(found, key=lambda each: each.memory_bytes)
        return (
            f"no way fits into memory: the least needs {progress.format_bytes(least.memory_bytes)} on a rank; give a "
            "topology with more ranks, or train with --exchange sequential, which keeps no rows of others"
        )
    quickest = min(fitting, key=lambda each: each.effective_seconds)
    seconds, cost = quickest.run_seconds(budget.epochs_of(quickest)), budget.cost_of(quickest)
    price = "" if cost is None else f" and costs {cost:.2f}"
    return f"no way is within the budget: the quickest takes {seconds:.0f} s{price}; allow more, or give more ranks"


def _changes(training: TrainingPlan, base: TrainingPlan) -> dict[str, Any]:
    before = asdict(base)
    return {name: value for name, value in asdict(training).items() if value != before[name]}


def _command(candidate: Candidate, base: TrainingPlan, cache: str | None) -> str:
    """The command that trains so."""
    model = {name: value for name, value in _changes(base, TrainingPlan()).items() if name not in SEARCHED}
    return train_command("CACHE" if cache is None else cache, {**model, **candidate.changes})


def _partition_command(
    candidate: Candidate, store: str, parts: int | None, topology: str | Topology | None
) -> str | None:
    """The command that partitions the store so; None where no file has that machine yet."""
    if parts is not None:
        return shlex.join(["graphprep", "partition", store, "--parts", str(candidate.ranks)])
    whole = chosen_topology(None, topology)
    if whole.name != candidate.topology or isinstance(topology, Topology):
        return None
    return shlex.join(["graphprep", "partition", store, "--topology", str(topology)])


def _unknown(rates: RankRates, convergence: Convergence | None, winner: Candidate) -> list[str]:
    found = [OF_RATES[rates.source], NOT_SEARCHED]
    if winner.epoch_seconds < SHORT_EPOCH:
        found.append("epochs of some milliseconds take longer than planned, since steps and messages have to start")
    if convergence is None:
        found.append("int8 rows and kept rows send less and may need more epochs: --pilot EPOCHS tries them here")
    return found
