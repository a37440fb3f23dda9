"""The epochs: full-graph gradient steps with Adam, validation, early stopping, and the test with the best weights.

The loss is the sum over all ranks' training nodes divided by their global number. So each rank's gradient is its share
of the whole gradient, and the shares are added, never averaged: the result does not depend on how the training nodes
are spread, and a rank without any takes part like the others. One all-reduce an epoch carries all gradients and the
loss in one buffer. Every decision (stop, keep these weights) is made from sums that are the same on every rank.

The validation is a pass of its own after the step, without dropout and without kept copies. Its result decides which
weights are kept: those with the best metric on the validation nodes, the earliest of equals.

Kept copies may stand for rows in all training epochs but the first `warmup` and the last `settle` ones. When early
stopping ends a run, the last ones are still to come: they are run then.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.accounting import Account, Totals
from trainer.adam import Adam
from trainer.agreement import Agreement
from trainer.errors import TrainingError, found_by_every_rank
from trainer.inputs import Features
from trainer.labels import Labels
from trainer.losses import Loss
from trainer.metrics import measure
from trainer.models import Network
from trainer.objective import Objective
from trainer.options import Options
from trainer.passes import Pass
from trainer.precision import LossScale
from trainer.ranks import Ranks
from trainer.report import EpochLine, Report

log = logging.getLogger("trainer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What training came to, over all ranks' nodes."""

    epochs: int
    """How many were run."""
    best_epoch: int
    """Whose weights were kept."""
    val: float | None
    """The metric; None where it is not defined, as for the test's."""
    test: float | None
    seconds: float
    """From the first epoch's start to the end of the test."""
    bytes_by_all: Totals


class Fit:
    """One network in training on one part."""

    def __init__(
        self,
        network: Network,
        features: Features,
        labels: Labels,
        options: Options,
        *,
        objective: Objective,
        agreement: Agreement,
        ranks: Ranks,
        account: Account,
        report: Report,
    ) -> None:
        """Make the weights the same everywhere.

        Args:
            network: with the same weights on every rank, which rank 0's replace all the same.
            features: the first layer's input.
            labels: this part's.
            options: of the run.
            objective: task and metric.
            agreement: how many nodes all ranks have together.
            ranks: all of them.
            account: of this rank's bytes.
            report: where lines go.
        """
        self._network, self._features, self._labels, self._options = network, features, labels, options
        self._objective, self._agreement = objective, agreement
        self._loss = Loss(objective, options.class_weights, agreement.label_counts, ranks.device)
        self._ranks, self._account, self._report = ranks, account, report
        self._adam = Adam(network.decays(options.weight_decay), lr=options.lr)
        self._scale = LossScale(num_train=agreement.num_train, is_needed="fp16" in (options.precision, options.wire))
        self._last_epoch = options.epochs
        ranks.spread(self._adam.weights_W)

    def run(self) -> Outcome:
        """Train, keep the best weights, test with them.

        Raises:
            TrainingError: the loss is no number any more.
            LostPeerError: another rank is gone.
        """
        options = self._options
        if options.patience and not self._agreement.num_val and self._ranks.speaks:
            log.info("there is no validation node, so all %d epochs are run and the last weights kept", options.epochs)
        started = line_started = time.perf_counter()
        booked = Totals()
        best, best_epoch, best_weights = None, 0, self._weights()
        epoch = 0
        while epoch < self._last_epoch:
            epoch += 1
            loss = self._step(epoch)
            if epoch % options.eval_every and epoch != self._last_epoch:
                continue
            [val], totals = self._validate(epoch, self._labels.val)
            if self._objective.is_better(val, best) or best is None:
                best, best_epoch, best_weights = val, epoch, self._weights()
            now = time.perf_counter()
            self._report.epoch(
                EpochLine(
                    epoch=epoch,
                    loss=loss,
                    val=val,
                    seconds=now - line_started,
                    bytes_sent=totals.sent - booked.sent,
                    bytes_skipped=totals.skipped - booked.skipped,
                )
            )
            line_started, booked = now, totals
            if self._is_hopeless(epoch, best_epoch):
                self._last_epoch = min(self._last_epoch, epoch + options.settle)
        self._network.load_state_dict(best_weights)
        (val, test), totals = self._validate(epoch, self._labels.val, self._labels.test)
        return Outcome(
            epochs=epoch,
            best_epoch=best_epoch,
            val=val,
            test=test,
            seconds=time.perf_counter() - started,
            bytes_by_all=totals,
        )

    def _is_hopeless(self, epoch: int, best_epoch: int) -> bool:
        return bool(self._options.patience and self._agreement.num_val) and epoch - best_epoch >= self._options.patience

    def _step(self, epoch: int) -> float:
        """One gradient step; returns the loss before it, the mean over all ranks' training nodes."""
        self._network.train()
        rows = self._labels.train
        may_skip = self._options.warmup < epoch <= self._last_epoch - self._options.settle
        scores_nC = self._network(self._features, Pass(epoch=epoch, training=True, may_skip=may_skip))
        loss = self._loss.sum(scores_nC[rows], self._labels.y[rows]) / self._loss.divisor
        (loss * self._scale.factor).backward()  # type: ignore[no-untyped-call]
        sums = self._ranks.add_up(torch.cat([self._adam.take_gradients(), loss.detach().reshape(1)]))
        total = float(sums[-1])
        if not math.isfinite(total):
            with found_by_every_rank():
                raise TrainingError(
                    f"the loss is {total} in epoch {epoch}; try a smaller --lr than {self._options.lr:g}"
                )
        if self._scale.can_shrink() and not bool(sums.isfinite().all()):
            self._scale.shrink()
            return total
        self._adam.step(sums[:-1] / self._scale.factor)
        return total

    @torch.no_grad()
    def _validate(self, epoch: int, *groups: Tensor) -> tuple[list[float | None], Totals]:
        """The metric of each group of rows in one exact pass without dropout, and the bytes so far, of all ranks."""
        self._network.eval()
        scores_nC = self._network(self._features, Pass.evaluation(epoch))
        values = measure(self._objective, [(scores_nC[rows], self._labels.y[rows]) for rows in groups], self._ranks)
        amounts = torch.tensor(self._account.amounts(), device=self._ranks.device)
        return values, Totals.of(self._ranks.add_up(amounts).tolist())

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self._network.state_dict().items()}
