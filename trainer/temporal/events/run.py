"""One run on the events of an event cache: TGN is trained and tested, EdgeBank only tested."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from trainer.base.errors import OptionError, TrainingError, found_by_every_rank
from trainer.config.options import Options
from trainer.data.events import EventCache
from trainer.dist.communicator import Communicator
from trainer.reporting.listeners import add_trackers
from trainer.reporting.outputs import prepare_outputs, write_result
from trainer.reporting.report import Report
from trainer.reporting.weights_file import write_weights
from trainer.startup.handshake import check_same_run
from trainer.temporal.epochs import Epochs, Metrics, facts_of_rank, named_metrics, traffic_facts
from trainer.temporal.events.edgebank import EdgeBank
from trainer.temporal.events.evaluation import evaluate_links
from trainer.temporal.events.fit import EventFit
from trainer.temporal.events.parallelism import BATCH_OF_ONE_RANK, Parallelism
from trainer.temporal.events.resources import check_memory, parallelism_of
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tasks import task_of
from trainer.temporal.objective import objective_of

log = logging.getLogger("trainer")


def train_events(options: Options, cache: EventCache, communicator: Communicator, report: Report) -> dict[str, Any]:
    """Train or test on a stream of events; every rank has to call it.

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
    stream = EventStream.of(cache)
    with found_by_every_rank():
        check_stream(options, cache, stream)
    facts = communicator.all_gather_object(facts_of_rank(options, cache, communicator))
    with found_by_every_rank():
        check_same_run(facts)
    if communicator.is_main:
        add_trackers(report, options)
        log.info(
            "%s on %s: %d events of %d nodes, %d to train on, %d to validate, %d to test; %d ranks on %s",
            options.model,
            cache.dataset,
            cache.num_events,
            cache.num_nodes,
            *(end - first for first, end in stream.groups().values()),
            communicator.world,
            communicator.device,
        )
    more: dict[str, Any]
    if options.model == "edgebank":
        communicator.connect()
        if communicator.is_main:
            prepare_outputs(options)
        setup_seconds = time.perf_counter() - started
        val, test = _test_edgebank(options, stream, communicator)
        more = {**named_metrics(metric, val=val, test=test), "best_epoch": 0, "epochs": 0, "resumed_after": None}
        more |= {"parallel": None, "batch_size": _batch_size(options), "parameters": 0}
    else:
        with found_by_every_rank():
            parallelism = _parallelism(options, stream, facts)
        if communicator.is_main:
            log.info("%s", parallelism.reason)
        communicator.connect()
        task = task_of(stream, options, objective)
        fit = EventFit(stream, options, parallelism, communicator, task)
        each = parallelism.epochs_a_round
        epochs = Epochs(fit, options, cache, communicator, report, metric=metric, epochs_a_round=each)
        setup_seconds = time.perf_counter() - started
        outcome = epochs.run()
        more = outcome.facts(metric) | {"parallel": parallelism.numbers, "batch_size": parallelism.batch_size}
        more["parameters"] = fit.num_parameters
        if options.save_weights is not None and communicator.is_main:
            write_weights(options.save_weights, outcome.weights)
    result = {
        **more,
        "task": objective.task,
        "metric": metric,
        "seconds": time.perf_counter() - started - setup_seconds,
        "setup_seconds": setup_seconds,
        **traffic_facts(communicator, facts),
        "dataset": cache.dataset,
        "events": cache.num_events,
        "ranks": communicator.world,
        "device": communicator.device.type,
        "model": options.model,
        "eval_negatives": options.eval_negatives if objective.task == "links" else None,
        "seed": options.seed,
    }
    if communicator.is_main:
        write_result(options, result)
    report.result(result)
    return result


def check_stream(options: Options, cache: EventCache, stream: EventStream) -> None:
    """Refuse what cannot be trained on.

    Raises:
        TrainingError, OptionError: a side of the split has no event, there are no negatives, or an option does nothing.
    """
    for group, (first, end) in stream.groups().items():
        if first == end:
            raise TrainingError(f"{cache.folder} has no events for {group}; partition it with another --split")
    if stream.num_node_features and not options.node_vectors:
        raise OptionError(f"--no-node-vectors does nothing: the nodes of {cache.folder} have features; leave it out")
    if len(stream.candidates_D) < 2:
        raise TrainingError(
            f"{cache.folder} has one destination only, so there is no other to compare events with; give another stream"
        )


def _batch_size(options: Options) -> int:
    return BATCH_OF_ONE_RANK if options.batch_size is None else options.batch_size


def _parallelism(options: Options, stream: EventStream, facts: Sequence[Mapping[str, Any]]) -> Parallelism:
    available = sum({(fact["host"], fact["device"]): fact["available"] for fact in facts}.values())
    chosen = parallelism_of(options, stream, ranks=len(facts), available_bytes=available)
    check_memory(options, stream, chosen, ranks=len(facts), available_bytes=available)
    return chosen


def _test_edgebank(options: Options, stream: EventStream, communicator: Communicator) -> list[Metrics]:
    bank = EdgeBank(stream)

    def score(event_b: Tensor, destination_bm: Tensor, first: int, _end: int) -> Tensor:
        return bank.scores(stream.source_M[event_b], destination_bm, first).to(communicator.device)

    return [
        evaluate_links(
            stream,
            group,
            score,
            communicator,
            batch=_batch_size(options),
            negatives=options.eval_negatives,
            seed=options.seed,
        )
        for group in ("val", "test")
    ]
