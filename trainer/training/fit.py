"""The epochs: full-graph gradient steps, validation, early stopping, and the test with the best weights.

The loss is the sum over all ranks' training nodes divided by their global number (or weight). So each rank's gradient
is its share of the whole gradient, and the shares are added, never averaged: the result does not depend on how the
training nodes are spread, and a rank without any takes part like the others. One all-reduce an epoch carries all
gradients, the loss, and whether a rank was asked to stop or wants a checkpoint, in one buffer (`--weights-wire bf16`
sends the gradients in one of their own, of half the bytes). Every decision (stop, keep these weights) is made from sums
that are the same on every rank.

The validation is a pass of its own after the step, without dropout and without kept copies. Its result decides which
weights are kept: those with the best metric on the validation nodes, the earliest of equals. `--validate-from training`
takes the scores of the training pass instead, which are those of the weights before the step.

Kept copies may stand for rows in all training epochs but the first `warmup` and the last `settle` ones. When early
stopping ends a run, the last ones are still to come: they are run then.

What an epoch depends on is its number, the weights, and the state that `state` gives; so a run that goes on from a
checkpoint takes the same steps as one that was never cut.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import StoppedError, TrainingError, found_by_every_rank
from trainer.base.optimiser import clipped, optimiser
from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES, LossScale
from trainer.base.traffic_log import Totals, TrafficLog
from trainer.config.lr_schedule import schedule
from trainer.config.options import Options
from trainer.data.labels import Labels
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.exchange.saturation import Saturation, in_words
from trainer.layers.typed_features import FirstInput
from trainer.models import Network
from trainer.models.embeddings import OwnedRows
from trainer.reporting.report import EpochLine, Report
from trainer.startup.handshake import Agreement
from trainer.training.checkpoint import Checkpoints
from trainer.training.losses import Loss
from trainer.training.metrics import measure
from trainer.training.termination import StopRequest

log = logging.getLogger("trainer")

State = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """A network on a graph, and the labels of its rows: what is trained, or what is evaluated."""

    network: Network
    features: FirstInput
    """The first layer's input."""
    labels: Labels

    def scores(self, step: PassContext) -> Tensor:
        """The scores of this rank's rows in one pass: float32 [n, C]."""
        self.network.train(step.training)
        scores_nC: Tensor = self.network(self.features, step)
        return scores_nC

    @torch.no_grad()
    def embeddings(self, step: PassContext) -> Tensor:
        """What the last layer, of at least two, reads of this rank's own rows in one pass: [n, F]."""
        self.network.train(step.training)
        return self.network.embeddings(self.features, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What training came to, over all ranks' nodes."""

    epochs: int
    """How many were run, those before a resumption too."""
    best_epoch: int
    """Whose weights were kept."""
    val: float | None
    """The metric; None where it is not defined, as for the test's."""
    test: float | None
    scores_nC: Tensor
    """Of this rank's rows, with those weights."""
    seconds: float
    """From the first epoch's start (here, after a resumption) to the end of the test."""
    num_odd: int
    """Rows of all ranks of which some score is no finite number."""


@dataclass(slots=True, kw_only=True)
class _Best:
    """The weights that are kept."""

    value: float | None
    epoch: int
    weights: dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ControlFlags:
    """What is to be done after an epoch, the same on every rank."""

    stop: bool
    """Some rank was asked to."""
    checkpoint: bool
    """The rank that writes them wants one."""


class Fit:
    """One network in training on one part."""

    def __init__(
        self,
        training: ModelView,
        whole: ModelView,
        options: Options,
        *,
        objective: Objective,
        agreement: Agreement,
        communicator: Communicator,
        traffic_log: TrafficLog,
        report: Report,
        checkpoints: Checkpoints | None = None,
        saturation: Saturation | None = None,
    ) -> None:
        """Make the weights the same everywhere.

        Args:
            training: what is trained, with the same weights on every rank, which rank 0's replace all the same.
            whole: what is evaluated: the same, or a network of the same kind on the whole graph.
            options: of the run.
            objective: task and metric.
            agreement: how many nodes all ranks have together.
            communicator: the ranks of the run.
            account: of this rank's bytes.
            report: where lines go.
            checkpoints: where the state goes, if anywhere.
            saturation: what is too large for the wire.
        """
        self._training, self._whole, self._options = training, whole, options
        self._objective, self._agreement = objective, agreement
        self._saturation, self._has_shrunk = saturation, False
        self.saturated: list[dict[str, Any]] = []
        """What was too large for the wire, by layer and direction, when it was last looked at."""
        self._communicator, self._traffic_log, self._report, self._checkpoints = (
            communicator,
            traffic_log,
            report,
            checkpoints,
        )
        self._loss = Loss(objective, options.class_weights, agreement.label_counts, communicator.device)
        network = training.network
        embeddings, decays = network.embeddings_by_name, network.decays(options.weight_decay)
        self._optimiser = optimiser(
            options.optimiser,
            [(parameter, decay) for name, parameter, decay in decays if name not in embeddings],
            momentum=options.momentum,
        )
        self._owned = OwnedRows(
            {name: (embeddings[name], decay) for name, _, decay in decays if name in embeddings}, options, communicator
        )
        self._factor = schedule(options.schedule, warmup=options.lr_warmup, epochs=options.epochs)
        self._scale = LossScale(num_train=agreement.num_train, is_needed="fp16" in (options.precision, options.wire))
        self._epoch, self._last_epoch = 0, options.epochs
        communicator.broadcast(self._optimiser.weights_W)
        self._best = _Best(value=None, epoch=0, weights=self._weights())

    def run(self) -> Outcome:
        """Train, keep the best weights, test with them, and leave them in the network that is evaluated.

        Raises:
            TrainingError: the loss, the gradient or the weights are no finite numbers any more.
            LostPeerError: another rank is gone.
            StoppedError: a signal asked for it, and a checkpoint is written.
        """
        options = self._options
        if options.patience and not self._agreement.num_val and self._communicator.is_main:
            log.info("there is no validation node, so all %d epochs are run and the last weights kept", options.epochs)
        started = time.perf_counter()
        with StopRequest(listens=self._checkpoints is not None) as request:
            self._train(request)
        self._training.network.load_state_dict(self._best.weights)
        (val, test), scores_nC = self._validate(self._whole.labels.val, self._whole.labels.test)
        odd = (~scores_nC.isfinite().all(1)).sum()
        num_odd = int(self._communicator.all_reduce(odd))
        return Outcome(
            epochs=self._epoch,
            best_epoch=self._best.epoch,
            val=val,
            test=test,
            scores_nC=scores_nC,
            seconds=time.perf_counter() - started,
            num_odd=num_odd,
        )

    @property
    def num_parameters(self) -> int:
        """Of the model; learnt rows of all ranks count."""
        return len(self._optimiser.weights_W) + self._owned.num_values

    def state(self) -> State:
        """All that the epochs to come depend on, as tensors, numbers, words and dictionaries.

        Complete on the rank that writes checkpoints; every rank has to call it, since learnt rows come from all.
        """
        best = self._best
        return {
            "epoch": self._epoch,
            "weights": self._shared(self._weights()),
            "optimiser": {"steps": self._optimiser.steps, **self._optimiser.state()},
            "loss_scale": self._scale.factor,
            "best": {"value": best.value, "epoch": best.epoch, "weights": self._shared(best.weights)},
            "last_epoch": self._last_epoch,
            "embeddings": self._owned.state(best.weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the state of a run of the same network, on any number of ranks.

        Raises:
            TrainingError: its weights have other names or shapes.
        """
        mine = {name: value.shape for name, value in self._shared(self._weights()).items()}
        learnt = state.get("embeddings", {})
        if {name: value.shape for name, value in state["weights"].items()} != mine or not self._owned.fits(learnt):
            with found_by_every_rank():
                raise TrainingError(_other_weights(state["weights"], mine))
        device = self._communicator.device
        # Copied in place, so the parameters stay views of the optimiser's vector.
        self._training.network.load_state_dict(self._weights() | state["weights"])
        remembered = {name: value.to(device) for name, value in state["optimiser"].items() if name != "steps"}
        self._optimiser.load_state_dict(state["optimiser"]["steps"], remembered)
        if self._scale.can_shrink():
            self._scale.factor = max(state["loss_scale"], 1.0)
        best, best_rows = state["best"], self._owned.load_state_dict(state["optimiser"]["steps"], learnt)
        self._best = _Best(
            value=best["value"],
            epoch=best["epoch"],
            weights={name: value.to(device) for name, value in best["weights"].items()} | best_rows,
        )
        self._epoch = state["epoch"]
        if self._checkpoints is not None:
            self._checkpoints.newest_epoch = self._epoch
        if self._is_hopeless():
            self._last_epoch = min(self._last_epoch, state["last_epoch"])

    def _train(self, request: StopRequest) -> None:
        options = self._options
        line_started, booked = time.perf_counter(), Totals()
        while self._epoch < self._last_epoch:
            self._epoch += 1
            is_last = self._epoch == self._last_epoch
            wants_line = self._epoch % options.eval_every == 0 or is_last
            loss, val, wishes = self._step(request, judges=wants_line and options.validate_from == "training")
            if wants_line:
                if options.validate_from == "exact" or is_last:
                    [val], _ = self._validate(self._whole.labels.val)
                    self._keep_if_better(val, self._epoch)
                totals = self.totals()
                now = time.perf_counter()
                self._report.epoch(
                    EpochLine(
                        epoch=self._epoch,
                        loss=loss,
                        val=val,
                        seconds=now - line_started,
                        bytes_sent=totals.sent - booked.sent,
                        row_bytes_sent=totals.rows - booked.rows,
                        weight_bytes_sent=totals.weights - booked.weights,
                        other_bytes_sent=totals.other - booked.other,
                        bytes_skipped=totals.skipped - booked.skipped,
                    )
                )
                line_started, booked = now, totals
                if self._is_hopeless():
                    self._last_epoch = min(self._last_epoch, self._epoch + options.settle)
            self._save(wishes)
        self._require_finite_rows()
        if self._checkpoints is not None and self._checkpoints.newest_epoch != self._epoch:
            self._checkpoints.save(self.state())

    def _save(self, wishes: _ControlFlags) -> None:
        checkpoints = self._checkpoints
        if checkpoints is None:
            return
        if wishes.stop or wishes.checkpoint:
            self._require_finite_rows()
        if wishes.stop:
            checkpoints.save(self.state(), must=True)
            with found_by_every_rank():
                raise StoppedError(
                    f"stopped by SIGTERM after epoch {self._epoch}; its checkpoint is in {self._options.checkpoint}, "
                    "and --resume goes on from there"
                )
        if wishes.checkpoint:
            checkpoints.save(self.state())

    def _is_hopeless(self) -> bool:
        waits = bool(self._options.patience and self._agreement.num_val)
        return waits and self._epoch - self._best.epoch >= self._options.patience

    def _keep_if_better(self, val: float | None, epoch: int) -> None:
        """Keep the weights of now, which `epoch` steps made; without any value the newest are kept."""
        if self._objective.is_better(val, self._best.value) or self._best.value is None:
            self._best = _Best(value=val, epoch=epoch, weights=self._weights())

    def _step(self, request: StopRequest, *, judges: bool) -> tuple[float, float | None, _ControlFlags]:
        """One gradient step.

        Args:
            request: whether this rank was asked to stop.
            judges: whether the weights before the step are judged by the scores of this pass.

        Returns:
            the loss before the step, the mean over all ranks' training nodes; the metric of the validation nodes, if it
            judges; and what some rank wishes after this epoch.
        """
        labels, epoch = self._training.labels, self._epoch
        # Kept gradients are those of a larger scale once it has been halved, so all are sent then.
        may_skip = self._options.warmup < epoch <= self._last_epoch - self._options.settle and not self._has_shrunk
        self._has_shrunk = False
        scores_nC = self._training.scores(PassContext(epoch=epoch, training=True, may_skip=may_skip))
        val = None
        if judges:
            [val] = measure(
                self._objective, [(scores_nC.detach()[labels.val], labels.y[labels.val])], self._communicator
            )
            self._keep_if_better(val, epoch - 1)
        loss = self._loss.sum(scores_nC[labels.train], labels.y[labels.train]) / self._loss.divisor
        (loss * self._scale.factor).backward()  # type: ignore[no-untyped-call]
        is_due = self._checkpoints is not None and self._checkpoints.is_due(epoch)
        more = [loss.detach().reshape(1), loss.new_tensor([float(request.asked), float(is_due)])]
        own_gradient_V = self._owned.flatten_gradients()
        if own_gradient_V is not None:
            more.insert(0, own_gradient_V.square().sum().reshape(1))
        sums = self._added_up(self._optimiser.flatten_gradients(), torch.cat(more))
        # With the square of all embeddings' gradient at its end, which is finite where they are.
        gradient_W, (total, stop, checkpoint) = sums[:-3], sums[-3:].tolist()
        if not math.isfinite(total):
            raise self._no_number(f"the loss is {total}")
        if bool(gradient_W.isfinite().all()):
            self._take_step(gradient_W / self._scale.factor, own_gradient_V, self._options.lr * self._factor(epoch))
            if not bool(self._optimiser.weights_W.isfinite().all()):
                raise self._no_number("the weights after the step are not finite")
        elif self._scale.can_shrink():
            self._scale.shrink()
            self._has_shrunk = True
        else:
            raise self._no_number("the gradient is not finite")
        return total, val, _ControlFlags(stop=bool(stop), checkpoint=bool(checkpoint))

    def _no_number(self, what: str) -> TrainingError:
        """The error of a run that cannot go on, the same on every rank."""
        narrow = [flag for flag in ("precision", "wire") if getattr(self._options, flag) == "fp16"]
        advice = "".join(f" or --{flag} bf16" for flag in narrow)
        if self._epoch == 1:
            advice += ", and look for NaN and infinities in the features"
        error = TrainingError(f"{what} in epoch {self._epoch}; try a smaller --lr than {self._options.lr:g}{advice}")
        error.shared = True
        return error

    def _require_finite_rows(self) -> None:
        """Refuse to go on with learnt rows that are no numbers on some rank; every rank has to call it.

        Raises:
            TrainingError: some are not finite.
        """
        if self._owned.names and int(
            self._communicator.all_reduce(torch.tensor([self._owned.num_odd], device=self._communicator.device))
        ):
            raise self._no_number("learnt rows are not finite")

    def _added_up(self, gradient_W: Tensor, more: Tensor) -> Tensor:
        """The sums over all ranks of the weights' gradient, in the type of its wire, and of what is to be exact."""
        communicator, wire = self._communicator, TYPES[self._options.weights_wire]
        if wire == gradient_W.dtype or communicator.world == 1:
            return communicator.all_reduce(torch.cat([gradient_W, more]), "weights' gradients")
        return torch.cat(
            [communicator.all_reduce(gradient_W.to(wire), "weights' gradients").float(), communicator.all_reduce(more)]
        )

    def _take_step(self, gradient_W: Tensor, own_gradient_V: Tensor | None, lr: float) -> None:
        limit, length = self._options.clip_norm, None
        if own_gradient_V is not None:
            gradient_W, square = gradient_W[:-1], gradient_W[-1] / self._scale.factor
            if limit:
                length = (gradient_W.square().sum() + square).sqrt()
            self._owned.step(clipped(own_gradient_V / self._scale.factor, limit, length), lr)
        self._optimiser.step(clipped(gradient_W, limit, length), lr)

    @torch.no_grad()
    def _validate(self, *groups: Tensor) -> tuple[list[float | None], Tensor]:
        """One exact pass without dropout: the metric of each group of all ranks' rows, this rank's scores [n, C]."""
        whole = self._whole
        if whole is not self._training:
            whole.network.load_state_dict(self._training.network.state_dict())
        scores_nC = whole.scores(PassContext.evaluation(self._epoch))
        values = measure(
            self._objective, [(scores_nC[rows], whole.labels.y[rows]) for rows in groups], self._communicator
        )
        return values, scores_nC

    def totals(self) -> Totals:
        """The bytes of all ranks so far, but for this sum of them; every rank has to call it."""
        _, weights, other = self._communicator.sent.by_kind
        saturated = 0 if self._saturation is None else self._saturation.count()
        amounts = torch.tensor(
            [*self._traffic_log.amounts(), weights, other, saturated], device=self._communicator.device
        )
        sent, skipped, exact, broadcast, weights, other, saturated = self._communicator.all_reduce(amounts).tolist()
        if saturated and self._saturation is not None:
            is_new = not self.saturated
            self.saturated = self._saturation.table(self._communicator.all_reduce)
            if is_new and self._communicator.is_main:
                log.warning("%s", in_words(self.saturated))
        return Totals(rows=sent, skipped=skipped, exact=exact, broadcast=broadcast, weights=weights, other=other)

    def _shared(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those that are the same on every rank."""
        return {name: value for name, value in weights.items() if name not in self._owned.names}

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self._training.network.state_dict().items()}


def _other_weights(theirs: Mapping[str, Tensor], mine: Mapping[str, Any]) -> str:
    """Why the weights of a checkpoint are not those of this model."""
    more = theirs.keys() - mine.keys()
    if not mine.keys() - theirs.keys() and more and all(name.endswith("bias_G") for name in more):
        return (
            "the checkpoint was made by a release that gave biases to layers that batch norm follows, and this one "
            "gives them none; go on with that release, or start anew with another --checkpoint"
        )
    return "the checkpoint has other weights than this model; give the options that it was made with"
