"""One run on the events of an event cache: TGN is trained and tested, EdgeBank only tested."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import StoppedError, TrainingError, found_by_every_rank
from trainer.base.peak_memory import peak_memory
from trainer.base.sent_bytes import KIND_OF
from trainer.base.traffic_log import TrafficLog
from trainer.config.options import Options
from trainer.config.parallel import parse_parallel
from trainer.data.events import EventCache
from trainer.dist.communicator import Communicator
from trainer.reporting.environment import environment_of
from trainer.reporting.epoch_line import EpochLine
from trainer.reporting.epoch_view import Expectation
from trainer.reporting.history import History
from trainer.reporting.listeners import add_trackers
from trainer.reporting.outputs import prepare_outputs, write_result
from trainer.reporting.report import Report
from trainer.reporting.weights_file import write_weights
from trainer.startup.handshake import available, check_same_run
from trainer.temporal.events.edgebank import EdgeBank
from trainer.temporal.events.evaluation import Metrics, evaluate
from trainer.temporal.events.fit import EventFit
from trainer.temporal.events.memory import row_bytes
from trainer.temporal.events.parallelism import BATCH_OF_ONE_RANK, Parallelism, Resources, choose_parallelism, lost_mail
from trainer.temporal.events.stream import EventStream
from trainer.training.checkpoint import Checkpoints, checkpoint_to_resume
from trainer.training.termination import StopRequest
from trainer.training.usage import UsageMeter

log = logging.getLogger("trainer")

_COPIES_OF_WEIGHTS = 9
"""Weights, their decay, two vectors of the optimiser, gradients three times, and the best weights with a copy."""


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """What a run has found."""

    val: Metrics
    test: Metrics
    best_epoch: int = 0
    epochs: int = 0
    resumed_after: int | None = None
    parallelism: Parallelism | None = None
    num_parameters: int = 0
    weights: Mapping[str, Tensor] = field(default_factory=dict)


def train_events(options: Options, cache: EventCache, communicator: Communicator, report: Report) -> dict[str, Any]:
    """Train or test on a stream of events; every rank has to call it.

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
    stream = EventStream.of(cache)
    with found_by_every_rank():
        _check_stream(cache, stream)
    facts = communicator.all_gather_object(_facts(options, cache, communicator))
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
    if options.model == "edgebank":
        communicator.connect()
        if communicator.is_main:
            prepare_outputs(options)
        setup_seconds = time.perf_counter() - started
        outcome = _test_edgebank(options, stream, communicator)
    else:
        with found_by_every_rank():
            parallelism = _parallelism(options, stream, facts)
        if communicator.is_main:
            log.info("%s", parallelism.reason)
        communicator.connect()
        setup_seconds = time.perf_counter() - started
        outcome = _Run(options, cache, stream, parallelism, communicator, report, metric=metric).run()
    seconds = time.perf_counter() - started - setup_seconds
    if options.save_weights is not None and communicator.is_main:
        write_weights(options.save_weights, outcome.weights)
    result = {
        **_named(metric, val=outcome.val, test=outcome.test),
        "task": "links",
        "metric": metric,
        "best_epoch": outcome.best_epoch,
        "epochs": outcome.epochs,
        "resumed_after": outcome.resumed_after,
        "seconds": seconds,
        "setup_seconds": setup_seconds,
        **_traffic(communicator, facts),
        "dataset": cache.dataset,
        "ranks": communicator.world,
        "device": communicator.device.type,
        "model": options.model,
        "parallel": None if outcome.parallelism is None else outcome.parallelism.numbers,
        "batch_size": _batch_size(options) if outcome.parallelism is None else outcome.parallelism.batch_size,
        "eval_negatives": options.eval_negatives,
        "parameters": outcome.num_parameters,
        "seed": options.seed,
    }
    if communicator.is_main:
        write_result(options, result)
    report.result(result)
    return result


def _check_stream(cache: EventCache, stream: EventStream) -> None:
    for group, (first, end) in stream.groups().items():
        if first == end:
            raise TrainingError(f"{cache.folder} has no events for {group}; partition it with another --split")
    if len(stream.candidates_D) < 2:
        raise TrainingError(
            f"{cache.folder} has one destination only, so there is no other to compare events with; give another stream"
        )


def _facts(options: Options, cache: EventCache, communicator: Communicator) -> dict[str, Any]:
    same_options = json.dumps(options.same_on_all_ranks(), sort_keys=True)
    return {
        "host": socket.gethostname(),
        "cache": cache.manifest.key,
        "options": hashlib.sha256(same_options.encode()).hexdigest(),
        "available": available(communicator.device),
    }


def _batch_size(options: Options) -> int:
    return BATCH_OF_ONE_RANK if options.batch_size is None else options.batch_size


def _parallelism(options: Options, stream: EventStream, facts: Sequence[Mapping[str, Any]]) -> Parallelism:
    by_host = {fact["host"]: fact["available"] for fact in facts}
    weights = _COPIES_OF_WEIGHTS * 4 * (stream.num_nodes if stream.x_NF is None else 0) * options.hidden
    resources = Resources(
        ranks=len(facts),
        epochs=options.epochs,
        batch_size=options.batch_size,
        lost_mail=lambda size: lost_mail(stream, size),
        tolerance=options.lost_mail,
        memory_bytes=stream.num_nodes * row_bytes(options.hidden, stream.num_features),
        available_bytes=max(sum(by_host.values()) - weights * len(facts), 0),
    )
    chosen = choose_parallelism(parse_parallel(options.parallel), resources)
    needed = chosen.copies * resources.memory_bytes * (2 if chosen.copies > 1 else 1)
    if needed > resources.available_bytes and not options.anyway:
        raise TrainingError(
            f"the node memory takes {needed / 1e9:.2f} GB beside the weights and {resources.available_bytes / 1e9:.2f} "
            "GB are available to it; use a smaller --hidden, fewer copies in --parallel, more machines, or --anyway"
        )
    return chosen


def _test_edgebank(options: Options, stream: EventStream, communicator: Communicator) -> _Outcome:
    bank = EdgeBank(stream)

    def score(event_b: Tensor, destination_bm: Tensor, first: int, _end: int) -> Tensor:
        return bank.scores(stream.source_M[event_b], destination_bm, first).to(communicator.device)

    val, test = (
        evaluate(
            stream,
            group,
            score,
            communicator,
            batch=_batch_size(options),
            negatives=options.eval_negatives,
            seed=options.seed,
        )
        for group in ("val", "test")
    )
    return _Outcome(val=val, test=test)


class _Run:
    """The rounds of one run of TGN: validation, early stopping, checkpoints, and the test with the best weights."""

    def __init__(
        self,
        options: Options,
        cache: EventCache,
        stream: EventStream,
        parallelism: Parallelism,
        communicator: Communicator,
        report: Report,
        *,
        metric: str,
    ) -> None:
        self._options, self._parallelism, self._communicator = options, parallelism, communicator
        self._report, self._metric = report, metric
        self._checkpoints, resumed = None, None
        if options.checkpoint is not None:
            self._checkpoints = Checkpoints(options, cache, communicator)
            resumed = checkpoint_to_resume(options, cache, communicator)
        self._resumed_after: int | None = None if resumed is None else resumed["epoch"]
        if communicator.is_main:
            prepare_outputs(options)
            if options.output is not None:
                report.add_listener(History(options.output, resumed_after=self._resumed_after))
        owners = parallelism.shares * parallelism.epochs
        self._fit = EventFit(stream, options, parallelism, communicator, stream.owner_N(owners))
        self._each = parallelism.epochs_a_round
        self._rounds, self._done = math.ceil(options.epochs / self._each), 0
        if self._rounds * self._each != options.epochs and communicator.is_main:
            log.info(
                "a round trains %d epochs, so %d epochs are run in place of %d",
                self._each,
                self._rounds * self._each,
                options.epochs,
            )
        self._best: dict[str, Any] = {"value": None, "epoch": 0, "weights": self._fit.weights()}
        if resumed is not None:
            self._done = resumed["epoch"] // self._each
            self._fit.load_state_dict(resumed["fit"], self._done)
            self._best = resumed["best"]
            self._checkpoints.newest_epoch = resumed["epoch"]  # type: ignore[union-attr]

    @property
    def _epoch(self) -> int:
        return self._done * self._each

    def run(self) -> _Outcome:
        """Train, and test with the best weights."""
        options = self._options
        self._report.expect(
            Expectation(
                epochs=self._rounds * self._each, epochs_before=self._epoch, may_stop_early=bool(options.patience)
            )
        )
        with StopRequest(listens=self._checkpoints is not None) as request:
            self._train(request)
        self._fit.load_weights(self._best["weights"])
        val, test = self._fit.evaluate("val", "test", negatives=options.eval_negatives)
        return _Outcome(
            val=val,
            test=test,
            best_epoch=self._best["epoch"],
            epochs=self._epoch,
            resumed_after=self._resumed_after,
            parallelism=self._parallelism,
            num_parameters=self._fit.num_parameters,
            weights=self._best["weights"],
        )

    def _train(self, request: StopRequest) -> None:
        options, communicator = self._options, self._communicator
        traffic_log = TrafficLog(num_rows=0, num_sent=0, num_halo=0, rank=communicator.rank, world=communicator.world)
        usage, before = UsageMeter(communicator, traffic_log, ()), [0] * 3
        begun = time.perf_counter()
        while self._done < self._rounds:
            is_last = self._done == self._rounds - 1
            loss = self._fit.round(self._done, is_last=is_last)
            self._done += 1
            if is_last or self._epoch // options.eval_every > (self._epoch - self._each) // options.eval_every:
                negatives = options.eval_negatives if self._metric == "mrr" else 1
                [measured] = self._fit.evaluate("val", negatives=negatives)
                self._keep_if_better(measured[self._metric])
                sums = communicator.all_reduce_numbers([*communicator.sent.by_kind, *usage.amounts()])
                ranks, _ = usage.since_last(sums[3:])
                rows, weights, other = (now - then for now, then in zip(sums, before, strict=False))
                before, now = sums[:3], time.perf_counter()
                named = _named(self._metric, val=measured)
                self._report.epoch(
                    EpochLine(
                        epoch=self._epoch,
                        loss=loss,
                        val=named.pop(f"val_{self._metric}"),
                        others=named,
                        seconds=now - begun,
                        bytes_sent=rows + weights + other,
                        row_bytes_sent=rows,
                        weight_bytes_sent=weights,
                        other_bytes_sent=other,
                        bytes_skipped=0,
                        ranks=ranks,
                    )
                )
                begun = now
            self._save(request)
            if options.patience and self._epoch - self._best["epoch"] >= options.patience:
                break
        if self._checkpoints is not None and self._checkpoints.newest_epoch != self._epoch:
            self._checkpoints.save(self._state_dict())

    def _keep_if_better(self, value: float | None) -> None:
        best = self._best["value"]
        if best is None or (value is not None and value > best):
            self._best = {"value": value, "epoch": self._epoch, "weights": self._fit.weights()}

    def _state_dict(self) -> dict[str, Any]:
        return {"epoch": self._epoch, "fit": self._fit.state_dict(), "best": self._best}

    def _save(self, request: StopRequest) -> None:
        if self._checkpoints is None:
            return
        flags = [int(request.is_requested), int(self._checkpoints.is_due(self._epoch))]
        stop, checkpoint = self._communicator.all_reduce_numbers(flags)
        if stop:
            self._checkpoints.save(self._state_dict(), must=True)
            with found_by_every_rank():
                raise StoppedError(
                    f"stopped by SIGTERM after epoch {self._epoch}; its checkpoint is in {self._options.checkpoint}, "
                    "and --resume continues from there"
                )
        if checkpoint:
            self._checkpoints.save(self._state_dict())


def _named(metric: str, **of_groups: Metrics) -> dict[str, float | None]:
    """Metrics of groups by their names in JSON, that of the run first."""
    return {
        f"{group}_{name}": metrics[name]
        for group, metrics in of_groups.items()
        for name in sorted(metrics, key=lambda name: name != metric)
    }


def _traffic(communicator: Communicator, facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes, seconds and memory of all ranks; every rank has to call it."""
    used = communicator.all_gather_object(
        {"seconds": communicator.clock.seconds, "memory": peak_memory(communicator.device)}
    )
    calls_and_bytes = communicator.all_reduce(
        torch.tensor(communicator.sent.amounts(), device=communicator.device)
    ).tolist()
    by_kind = dict.fromkeys(("rows", "weights", "other"), 0)
    for kind, (_, number) in zip(KIND_OF.values(), calls_and_bytes, strict=True):
        by_kind[kind] += number
    return {
        "bytes_sent": sum(by_kind.values()),
        "row_bytes_sent": by_kind["rows"],
        "weight_bytes_sent": by_kind["weights"],
        "other_bytes_sent": by_kind["other"],
        "bytes_skipped": 0,
        "sent_for": [
            {"purpose": purpose, "kind": kind, "calls": calls // communicator.world, "bytes_sent": number}
            for (purpose, kind), (calls, number) in zip(KIND_OF.items(), calls_and_bytes, strict=True)
            if number
        ],
        "exchanges": [],
        "link_types": [],
        "seconds_by_rank": [of_rank["seconds"] for of_rank in used],
        "memory_bytes_by_rank": [of_rank["memory"] for of_rank in used],
        "environment": environment_of(communicator.device, [fact["host"] for fact in facts]),
    }
