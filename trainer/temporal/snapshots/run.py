"""One run on the snapshots of an event cache, from options to a result."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.config.options import Options
from trainer.data.event_tensors import EventTensors
from trainer.data.events import EventCache
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.reporting.listeners import add_trackers
from trainer.reporting.outputs import write_result
from trainer.reporting.report import Report
from trainer.reporting.trace import prepare_traces, write_trace
from trainer.reporting.weights_file import write_weights
from trainer.startup.handshake import check_same_run
from trainer.temporal.epochs import Epochs, facts_of_rank, traffic_facts
from trainer.temporal.objective import objective_of
from trainer.temporal.snapshots.fit import SnapshotFit
from trainer.temporal.snapshots.graphs import SPLITS, Events, Snapshots
from trainer.temporal.snapshots.groups import imbalance
from trainer.temporal.snapshots.members import Members
from trainer.temporal.snapshots.network import input_words
from trainer.temporal.snapshots.tasks import LinkTask, StateTask
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
    with found_by_every_rank():
        objective = objective_of(options, cache)
    metric = objective.name
    report.set_metric(metric)
    if options.verify:
        cache.manifest.verify("")
    tensors = cache.tensors()
    events = events_of(cache, tensors)
    with found_by_every_rank():
        _check(cache, objective, Snapshots(events=events, device=communicator.device, seed=options.seed))
        numbers = _numbers_of_members(options, cache, communicator)
    facts = communicator.all_gather_object(facts_of_rank(options, cache, communicator))
    with found_by_every_rank():
        check_same_run(facts)
    communicator.connect()
    if options.trace is not None:
        prepare_traces(options.trace)
        communicator.clock.keep_spans()
        communicator.sent.keep_points()
    connected = time.perf_counter()
    for number in numbers:
        workers = Workers(_num_workers(options, communicator) if number == 1 else 1, communicator.device)
        members = (
            None
            if number == 1
            else Members(communicator=communicator, number=number, owner_N=_owners(cache, tensors, number))
        )
        snapshots = Snapshots(events=events, device=communicator.device, seed=options.seed, members=members)
        borders = _first_borders(cache, tensors, communicator.world, number)
        task = LinkTask(snapshots, options) if objective.task == "links" else StateTask(snapshots, objective)
        fit = SnapshotFit(snapshots, options, communicator, workers, task=task, borders=borders)
        needed = fit.memory_bytes()
        missing = None if options.anyway else _missing_memory(facts, needed)
        if missing is None:
            break
    with found_by_every_rank():
        _check_memory(cache, missing, number)
    if options.trace is not None:
        for clock in workers.clocks:
            clock.keep_spans()
    if communicator.is_main:
        add_trackers(report, options)
        _log_members(options, cache, numbers, number)
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
        "task": objective.task,
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
        "ranks_per_group": snapshots.num_members,
        "group_borders": groups.borders,
        "group_seconds_by_rank": [seconds / number for seconds in groups.seconds for _ in range(number)],
        "group_imbalance": imbalance(groups.seconds),
        "snapshot_cost": {"base": groups.cost.base, "edge": groups.cost.edge, "node": groups.cost.node}
        if groups.is_measured
        else None,
        "overlap_by_rank": overlaps,
        "eval_negatives": options.eval_negatives if objective.task == "links" else None,
        "parameters": fit.num_parameters,
        "seed": options.seed,
    }
    if communicator.is_main:
        write_result(options, result)
    report.result(result)
    return result


def events_of(cache: EventCache, tensors: EventTensors) -> Events:
    """The events of a cache with snapshots, in their windows."""
    assert tensors.snapshot_offsets is not None
    return Events(
        source_M=tensors.source,
        destination_M=tensors.destination,
        offsets=tensors.snapshot_offsets,
        num_nodes=cache.num_nodes,
        first_val=cache.split[0],
        first_test=cache.split[1],
        x_NF=tensors.node_x,
        y_M=tensors.y,
    )


def _first_borders(cache: EventCache, tensors: EventTensors, world: int, number: int) -> list[int] | None:
    """The borders of the groups of a cache where it has those of the run."""
    assert tensors.snapshot_group is not None
    if cache.num_parts != world or cache.ranks_per_group != number:
        return None
    return torch.searchsorted(tensors.snapshot_group.long(), torch.arange(world // number + 1)).tolist()


def _numbers_of_members(options: Options, cache: EventCache, communicator: Communicator) -> list[int]:
    """How many ranks may share a group: that of the cache, and if memory is too small for that, more of them.

    Raises:
        TrainingError: the ranks of the run cannot share groups as the cache says.
    """
    world, least = communicator.world, cache.ranks_per_group
    if world % least:
        raise TrainingError(
            f"{least} ranks share each group of snapshots of {cache.folder} and the run has {world}; start a multiple "
            f"of {least} ranks, or partition it with another --ranks-per-group"
        )
    if least > 1 and communicator.uses_nccl:
        raise TrainingError(
            f"{least} ranks share each group of snapshots of {cache.folder}, which is for CPUs and for GPUs that ranks "
            "share; give --device cpu, or partition it without --ranks-per-group"
        )
    more = [] if communicator.uses_nccl or options.anyway else range(least + 1, world + 1)
    return [least, *(number for number in more if world % number == 0)]


def _owners(cache: EventCache, tensors: EventTensors, number: int) -> Tensor:
    """The member that has each node: the cache's, else several of its ranks are one member, else by node number."""
    if tensors.member_of is not None and cache.ranks_per_group == number:
        return tensors.member_of.long()
    if _merges_ranks(cache, number):
        return tensors.rank_of.long() * number // cache.num_parts
    return torch.arange(cache.num_nodes) % number


def _merges_ranks(cache: EventCache, number: int) -> bool:
    return cache.num_parts % number == 0


def _check(cache: EventCache, objective: Objective, snapshots: Snapshots) -> None:
    names = ("training", "validation", "test")
    for split, name in zip(SPLITS, names, strict=True):
        if not snapshots.predicts(split):
            raise TrainingError(
                f"{cache.folder} has no event for the {name} after its first window; partition it with a smaller "
                "--window or another --split"
            )
        if objective.task == "classes" and not snapshots.has_states(split):
            raise TrainingError(
                f"{cache.folder} has no state for the {name} after its first window; partition it with another "
                "--split, or give --task links"
            )
    if objective.task == "links" and len(snapshots.candidates_D) < 2:
        raise TrainingError(
            f"{cache.folder} has one destination only, so there is no other to compare pairs with; give another stream"
        )


def _missing_memory(facts: Sequence[Mapping[str, Any]], needed: Sequence[int]) -> tuple[str, int, int] | None:
    """A host or GPU that cannot hold its ranks' snapshots, what they need and what is there; None where all fit."""
    places = {(fact["host"], fact["device"]) for fact in facts}
    for host, device in sorted(places):
        ranks = [rank for rank, fact in enumerate(facts) if (fact["host"], fact["device"]) == (host, device)]
        total, there = sum(needed[rank] for rank in ranks), min(facts[rank]["available"] for rank in ranks)
        if total > there:
            return (host if device == "cpu" else f"{device} of {host}"), total, there
    return None


def _check_memory(cache: EventCache, missing: tuple[str, int, int] | None, number: int) -> None:
    if missing is None:
        return
    place, total, there = missing
    sharing = f", also where {number} ranks share a group," if number > 1 else ""
    raise TrainingError(
        f"the groups of snapshots of {cache.folder} on {place} will need about {total / 1e9:.3g} GB{sharing} and there "
        f"is {there / 1e9:.3g} GB; use more ranks on more machines or a smaller --hidden, or give --anyway"
    )


def _num_workers(options: Options, communicator: Communicator) -> int:
    if options.workers is not None:
        return options.workers
    if communicator.device.type == "cuda":
        return 2
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", communicator.world))
    return 2 if cores >= 2 * local_ranks else 1


def _log_members(options: Options, cache: EventCache, numbers: Sequence[int], number: int) -> None:
    """Say how many ranks share a group, and what follows from it."""
    if number == 1:
        return
    log.info("%d ranks share each group of snapshots, each with the rows of its own nodes", number)
    if number != numbers[0]:
        log.info(
            "memory does not suffice where %d rank(s) have a group; %s",
            numbers[0],
            "the nodes of a rank are those of several ranks of the cache"
            if _merges_ranks(cache, number)
            else "nodes are divided by their numbers, since the cache has other ranks; partition it with "
            f"--ranks-per-group {number} so that fewer rows are exchanged",
        )
    if options.workers is not None and options.workers > 1:
        log.info(
            "one worker computes in place of %d, since ranks that share a group exchange rows snapshot after snapshot",
            options.workers,
        )


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
    if fit.num_groups > 1 and not fit.history and options.model == "gclstm":
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
