"""One run on the snapshots of an event cache, from options to a result."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.config.options import Options
from trainer.data.events import EventCache
from trainer.dist.communicator import Communicator
from trainer.reporting.listeners import add_trackers
from trainer.reporting.outputs import write_result
from trainer.reporting.report import Report
from trainer.reporting.trace import prepare_traces, write_trace
from trainer.reporting.weights_file import write_weights
from trainer.startup.handshake import check_same_run
from trainer.temporal.epochs import Epochs, facts_of_rank, traffic_facts
from trainer.temporal.snapshots.fit import SnapshotFit
from trainer.temporal.snapshots.graphs import SPLITS, Events, Snapshots
from trainer.temporal.snapshots.groups import imbalance
from trainer.temporal.snapshots.network import input_words
from trainer.temporal.snapshots.workers import Workers, overlap_seconds

log = logging.getLogger("trainer")


def train_snapshots(options: Options, cache: EventCache, communicator: Communicator, report: Report) -> dict[str, Any]:
    """Train on the snapshots of a cache; every rank has to call it.

    Returns:
        the result, the same on every rank except for seconds.

    Raises:
        TrainerError: in one sentence what is wrong.
    """
    started = time.perf_counter()
    communicator.sent.reset()
    metric = "mrr" if options.metric == "mrr" else "ap"
    report.set_metric(metric)
    if options.verify:
        cache.manifest.verify("")
    events, first_borders = _events_of(cache, communicator.world)
    snapshots = Snapshots(events=events, device=communicator.device, seed=options.seed)
    with found_by_every_rank():
        _check(cache, snapshots)
    facts = communicator.all_gather_object(facts_of_rank(options, cache, communicator))
    with found_by_every_rank():
        check_same_run(facts)
    communicator.connect()
    if options.trace is not None:
        prepare_traces(options.trace)
        communicator.clock.keep_spans()
        communicator.sent.keep_points()
    connected = time.perf_counter()
    workers = Workers(_num_workers(options, communicator), communicator.device)
    if options.trace is not None:
        for clock in workers.clocks:
            clock.keep_spans()
    fit = SnapshotFit(snapshots, options, communicator, workers, borders=first_borders)
    needed = fit.memory_bytes()
    with found_by_every_rank():
        _check_memory(options, cache, facts, needed)
    if communicator.is_main:
        add_trackers(report, options)
        _log_start(options, cache, snapshots, communicator, fit, workers.number)
    epochs = Epochs(fit, options, cache, communicator, report, metric=metric)
    setup_seconds = time.perf_counter() - started
    outcome = epochs.run()
    seconds = time.perf_counter() - started - setup_seconds
    if options.save_weights is not None and communicator.is_main:
        write_weights(options.save_weights, fit.by_node(outcome.weights))
    overlaps = _overlaps(options, communicator, workers, connected)
    groups = fit.groups
    result = {
        **outcome.facts(metric),
        "seconds": seconds,
        "setup_seconds": setup_seconds,
        **traffic_facts(communicator, facts),
        "memory_estimate_by_rank": list(needed),
        "dataset": cache.dataset,
        "ranks": communicator.world,
        "device": communicator.device.type,
        "model": options.model,
        "history": fit.history,
        "workers": workers.number,
        "window_seconds": cache.window_seconds,
        "group_borders": groups.borders,
        "group_seconds_by_rank": groups.seconds,
        "group_imbalance": imbalance(groups.seconds),
        "snapshot_cost": {"base": groups.cost.base, "edge": groups.cost.edge, "node": groups.cost.node}
        if groups.is_measured
        else None,
        "overlap_by_rank": overlaps,
        "eval_negatives": options.eval_negatives,
        "parameters": fit.num_parameters,
        "seed": options.seed,
    }
    if communicator.is_main:
        write_result(options, result)
    report.result(result)
    return result


def _events_of(cache: EventCache, world: int) -> tuple[Events, list[int] | None]:
    """The events of a cache, and the borders of its groups where it has one for each rank."""
    tensors = cache.tensors()
    assert tensors.snapshot_offsets is not None
    assert tensors.snapshot_group is not None
    events = Events(
        source_M=tensors.source,
        destination_M=tensors.destination,
        offsets=tensors.snapshot_offsets,
        num_nodes=cache.num_nodes,
        first_val=cache.split[0],
        first_test=cache.split[1],
        x_NF=tensors.node_x,
    )
    if cache.num_parts != world:
        return events, None
    return events, torch.searchsorted(tensors.snapshot_group.long(), torch.arange(world + 1)).tolist()


def _check(cache: EventCache, snapshots: Snapshots) -> None:
    names = ("training", "validation", "test")
    for split, name in zip(SPLITS, names, strict=True):
        if not snapshots.predicts(split):
            raise TrainingError(
                f"{cache.folder} has no event for the {name} after its first window; partition it with a smaller "
                "--window or another --split"
            )
    if len(snapshots.candidates_D) < 2:
        raise TrainingError(
            f"{cache.folder} has one destination only, so there is no other to compare pairs with; give another stream"
        )


def _check_memory(
    options: Options, cache: EventCache, facts: Sequence[Mapping[str, Any]], needed: Sequence[int]
) -> None:
    for host in {fact["host"] for fact in facts}:
        ranks = [rank for rank, fact in enumerate(facts) if fact["host"] == host]
        total, there = sum(needed[rank] for rank in ranks), min(facts[rank]["available"] for rank in ranks)
        if total > there and not options.anyway:
            raise TrainingError(
                f"the groups of snapshots of {cache.folder} on {host} will need about {total / 1e9:.3g} GB and there "
                f"is {there / 1e9:.3g} GB; use more ranks on more machines or a smaller --hidden, since the snapshots "
                "of a group are not divided by nodes, or give --anyway"
            )


def _num_workers(options: Options, communicator: Communicator) -> int:
    if options.workers is not None:
        return options.workers
    if communicator.device.type == "cuda":
        return 2
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", communicator.world))
    return 2 if cores >= 2 * local_ranks else 1


def _log_start(
    options: Options,
    cache: EventCache,
    snapshots: Snapshots,
    communicator: Communicator,
    fit: SnapshotFit,
    num_workers: int,
) -> None:
    log.info(
        "%s on %s: %d events of %d nodes in %d snapshots, %d steps to train on, %d to validate, %d to test; %d ranks "
        "on %s, %d worker(s) each",
        options.model,
        cache.dataset,
        cache.num_events,
        cache.num_nodes,
        snapshots.events.num_snapshots,
        snapshots.num_steps("train"),
        snapshots.num_steps("val") - snapshots.num_steps("train"),
        snapshots.num_steps("test") - snapshots.num_steps("val"),
        communicator.world,
        communicator.device,
        num_workers,
    )
    log.info("the model reads %s", input_words(options, snapshots))
    if cache.num_event_features:
        log.info("features of events are not read: %s sums numbers of events", options.model)
    if communicator.world > 1 and not fit.history and options.model == "gclstm":
        log.info(
            "with --history 0 each rank waits for the states of the rank before, since the states of gclstm depend on "
            "all nodes; give a --history so that ranks compute at the same time"
        )


def _overlaps(
    options: Options, communicator: Communicator, workers: Workers, connected: float
) -> list[dict[str, float]] | None:
    """Write the traces, and say for how long sparse and dense products ran at the same time; None without traces."""
    if options.trace is None:
        return None
    spans = [clock.spans for clock in workers.clocks]
    write_trace(
        options.trace,
        communicator.rank,
        communicator.clock.spans,
        communicator.sent.points,
        start=connected,
        threads=spans,
    )
    seconds = {
        name: sum(end - begin for of_worker in spans for kind, begin, end in of_worker if kind == f"{name} product")
        for name in ("sparse", "dense")
    }
    both = overlap_seconds(spans, "sparse product", "dense product")
    overlaps = communicator.all_gather_object({**seconds, "both": both})
    if communicator.is_main:
        for rank, of_rank in enumerate(overlaps):
            log.info(
                "rank %d: sparse products %.2f s, dense products %.2f s, of which both at the same time %.2f s",
                rank,
                *of_rank.values(),
            )
    return overlaps
