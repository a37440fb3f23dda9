"""The epochs of one run on an event cache: validation, early stopping, checkpoints, and the test with the best weights.

What an epoch is, `Fit` knows; it needs one for events and one for snapshots. A round may train several epochs at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from trainer.base.errors import StoppedError, found_by_every_rank
from trainer.base.peak_memory import peak_memory
from trainer.base.sent_bytes import KIND_OF
from trainer.base.traffic_log import TrafficLog
from trainer.config.options import Options
from trainer.data.events import EventCache
from trainer.dist.communicator import Communicator
from trainer.reporting.environment import environment_of
from trainer.reporting.epoch_line import EpochLine
from trainer.reporting.epoch_view import Expectation
from trainer.reporting.history import History
from trainer.reporting.outputs import prepare_outputs
from trainer.reporting.report import Report
from trainer.startup.handshake import available
from trainer.training.checkpoint import CheckpointContent, Checkpoints, checkpoint_to_resume
from trainer.training.termination import StopRequest
from trainer.training.usage import UsageMeter

log = logging.getLogger("trainer")

Metrics = dict[str, float | None]
Split = Literal["train", "val", "test"]


class Fit(Protocol):
    """A model in training on one rank; every rank has to call each method, in the same order."""

    def round(self, number: int, is_last: bool, /) -> float:
        """Train one round; `number` is that of the rounds before. Returns the loss."""

    def evaluate(self, *groups: Split, negatives: int) -> list[Metrics]:
        """ap of each group, and mrr among more than one negative."""

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights, by their names."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Continue with these weights."""

    def state_dict(self) -> dict[str, Any]:
        """What later rounds depend on; on rank 0 all of it."""

    def load_state_dict(self, state: Mapping[str, Any], rounds: int, /) -> None:
        """Continue after so many rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a training has found."""

    val: Metrics
    test: Metrics
    best_epoch: int
    epochs: int
    resumed_after: int | None
    weights: Mapping[str, Tensor]
    """The best ones."""

    def facts(self, metric: str) -> dict[str, Any]:
        """For the result."""
        return {
            **named_metrics(metric, val=self.val, test=self.test),
            "task": "links",
            "metric": metric,
            "best_epoch": self.best_epoch,
            "epochs": self.epochs,
            "resumed_after": self.resumed_after,
        }


class Epochs:
    """The rounds of one run."""

    def __init__(
        self,
        fit: Fit,
        options: Options,
        cache: EventCache,
        communicator: Communicator,
        report: Report,
        *,
        metric: str,
        epochs_a_round: int = 1,
    ) -> None:
        """Make the folders, and load the checkpoint that the run resumes.

        Args:
            fit: trains.
            options: of the run.
            cache: of the events.
            communicator: the ranks of the run.
            report: where lines go.
            metric: of the validation: ap or mrr.
            epochs_a_round: that a round trains at once.
        """
        self._fit, self._options, self._communicator, self._report = fit, options, communicator, report
        self._metric, self._each = metric, epochs_a_round
        self._checkpoints: Checkpoints | None = None
        resumed: CheckpointContent | None = None
        if options.checkpoint is not None:
            self._checkpoints = Checkpoints(options, cache, communicator)
            resumed = checkpoint_to_resume(options, cache, communicator)
        self._resumed_after: int | None = None if resumed is None else resumed["epoch"]
        if communicator.is_main:
            prepare_outputs(options)
            if options.output is not None:
                report.add_listener(History(options.output, resumed_after=self._resumed_after))
        self._rounds, self._done = math.ceil(options.epochs / self._each), 0
        if self._rounds * self._each != options.epochs and communicator.is_main:
            log.info(
                "a round trains %d epochs, so %d epochs are run in place of %d",
                self._each,
                self._rounds * self._each,
                options.epochs,
            )
        self._best: dict[str, Any] = {"value": None, "epoch": 0, "weights": fit.weights()}
        if resumed is not None and self._checkpoints is not None:
            self._done = resumed["epoch"] // self._each
            fit.load_state_dict(resumed["fit"], self._done)
            self._best, self._checkpoints.newest_epoch = resumed["best"], resumed["epoch"]

    def run(self) -> Outcome:
        """Train, and test with the best weights.

        Raises:
            StoppedError: after SIGTERM, once a checkpoint is written.
        """
        self._report.expect(
            Expectation(
                epochs=self._rounds * self._each,
                epochs_before=self._epoch,
                may_stop_early=bool(self._options.patience),
            )
        )
        with StopRequest(listens=self._checkpoints is not None) as request:
            self._train(request)
        self._fit.load_weights(self._best["weights"])
        val, test = self._fit.evaluate("val", "test", negatives=self._options.eval_negatives)
        return Outcome(
            val=val,
            test=test,
            best_epoch=self._best["epoch"],
            epochs=self._epoch,
            resumed_after=self._resumed_after,
            weights=self._best["weights"],
        )

    @property
    def _epoch(self) -> int:
        return self._done * self._each

    def _train(self, request: StopRequest) -> None:
        options, communicator = self._options, self._communicator
        traffic_log = TrafficLog(num_rows=0, num_sent=0, num_halo=0, rank=communicator.rank, world=communicator.world)
        usage, before = UsageMeter(communicator, traffic_log, ()), [0] * 3
        begun = time.perf_counter()
        while self._done < self._rounds:
            is_last = self._done == self._rounds - 1
            loss = self._fit.round(self._done, is_last)
            self._done += 1
            if is_last or self._epoch // options.eval_every > (self._epoch - self._each) // options.eval_every:
                negatives = options.eval_negatives if self._metric == "mrr" else 1
                [measured] = self._fit.evaluate("val", negatives=negatives)
                self._keep_if_better(measured[self._metric])
                sums = communicator.all_reduce_numbers([*communicator.sent.by_kind, *usage.amounts()])
                ranks, _ = usage.since_last(sums[3:])
                rows, weights, other = (now - then for now, then in zip(sums, before, strict=False))
                before, now = sums[:3], time.perf_counter()
                named = named_metrics(self._metric, val=measured)
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


def facts_of_rank(options: Options, cache: EventCache, communicator: Communicator) -> dict[str, Any]:
    """What a rank posts to the others before it trains, as JSON."""
    same_options = json.dumps(options.same_on_all_ranks(), sort_keys=True)
    return {
        "host": socket.gethostname(),
        "cache": cache.manifest.key,
        "options": hashlib.sha256(same_options.encode()).hexdigest(),
        "device": str(communicator.device),
        "available": available(communicator.device),
    }


def named_metrics(metric: str, **of_groups: Metrics) -> dict[str, float | None]:
    """Metrics of groups by their names in JSON, that of the run first."""
    return {
        f"{group}_{name}": metrics[name]
        for group, metrics in of_groups.items()
        for name in sorted(metrics, key=lambda name: name != metric)
    }


def traffic_facts(communicator: Communicator, facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes, seconds and memory of all ranks, for the result; every rank has to call it."""
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
