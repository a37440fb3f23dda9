"""The epochs: full-graph gradient steps, validation, early stopping, and the test with the best weights.

The loss is the sum over all ranks' training nodes divided by their global number (or weight). So each rank's gradient
is its share of the whole gradient, and the shares are added, never averaged: the result does not depend on which rank
has which training nodes, and a rank may have none. One all-reduce an epoch has all gradients, the loss, and whether a
rank got a stop request or a checkpoint is due, in one buffer (`--weights-wire bf16` sends the gradients in a buffer of
their own, of half the bytes). Every decision (stop, keep these weights) is made from sums that are the same on every
rank.

The validation is a pass of its own after the step, without dropout and without kept copies. The weights with the best
metric on the validation nodes are kept, the earliest of equals. `--validate-from training` uses the scores of the
training pass instead, which are those of the weights before the step.

The host waits for a GPU once in an epoch, for the loss and what ends a run, and once more where it validates, for the
metric. So whether the weights after a step are finite is read with the next epoch's loss, or before anything of them is
saved.

Receivers may use kept copies in all training epochs but the first `warmup` and the last `settle` ones. When early
stopping ends a run, the last `settle` epochs are run after it.

An epoch depends on its number and on what `state_dict` returns, so a resumed run takes the same steps as one that was
never interrupted.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import StoppedError, TrainingError, found_by_every_rank
from trainer.base.optimiser import clipped, optimiser
from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES, LossScale
from trainer.base.to_device import to_device
from trainer.base.traffic_log import Totals, TrafficLog
from trainer.config.lr_schedule import schedule
from trainer.config.options import Options
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.exchange.error_budget import ErrorBudget
from trainer.exchange.saturation import Saturation, in_words
from trainer.layers.typed_features import FirstInput
from trainer.models import Network
from trainer.models.embeddings import OwnedRows
from trainer.reporting.epoch_line import EpochLine
from trainer.reporting.report import Report
from trainer.startup.handshake import Agreement
from trainer.training.checkpoint import Checkpoints
from trainer.training.mini_batches import MiniBatches
from trainer.training.sampled_evaluation import SampledEvaluation
from trainer.training.supervision import Group, Measured, Supervision
from trainer.training.termination import StopRequest
from trainer.training.usage import UsageMeter

log = logging.getLogger("trainer")

State = dict[str, Any]
WRAPPER = "model."
"""begins the names of a model's weights in the network that it is a part of"""
_WEIGHTS = "the weights after the step are not finite"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """A network on a graph, and what its rows are for: what is trained, or what is evaluated."""

    network: Network
    features: FirstInput
    """The first layer's input."""
    supervision: Supervision

    def scores(self, step: PassContext) -> Tensor:
        """The rows that the model gives in one pass, of nodes their scores: float32 [n, C]."""
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
    """The result of training, over all ranks' nodes."""

    epochs: int
    """Their number, with those before a resumption."""
    best_epoch: int
    """Whose weights were kept."""
    val: float | None
    """The metric; None where it is not defined, as for the test's."""
    test: float | None
    others: Mapping[str, float | None]
    """Further metrics by their names in JSON, of the validation and of the test."""
    scores_nC: Tensor
    """Of this rank's rows, with those weights."""
    seconds: float
    """From the first epoch's start (here, after a resumption) to the end of the test."""
    num_non_finite: int
    """Rows of all ranks that have a score that is not finite."""


@dataclass(slots=True, kw_only=True)
class _BestWeights:
    """The weights with the best validation metric so far."""

    value: float | None
    epoch: int
    weights: dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ControlFlags:
    """What all ranks do after an epoch."""

    stop: bool
    """Some rank got a stop request."""
    checkpoint: bool
    """One is due on the rank that writes them."""


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
        link_types: Sequence[Sequence[str]] = (),
        batches: MiniBatches | None = None,
        evaluation: SampledEvaluation | None = None,
        budget: ErrorBudget | None = None,
    ) -> None:
        """Make the weights the same everywhere.

        Args:
            training: what is trained; rank 0's weights are copied to all ranks.
            whole: what is evaluated: `training`, or a network of the same kind on the whole graph.
            options: of the run.
            objective: task and metric.
            agreement: how many nodes all ranks have together.
            communicator: the ranks of the run.
            traffic_log: of this rank's bytes.
            report: where lines go.
            checkpoints: where the state goes, if anywhere.
            saturation: counts values that are too large for the wire.
            link_types: the type of the slowest link from rank p (row) to rank q (column), for the lines.
            batches: what each step is made on; None for steps on the whole graph.
            evaluation: what validations and the test are made on; None for the whole graph.
            budget: chooses bits and age of rows, if it does.
        """
        self._training, self._whole, self._options = training, whole, options
        self._objective, self._agreement, self._batches = objective, agreement, batches
        self._evaluation = evaluation
        self._budget = budget
        self._saturation, self._has_shrunk, self._link_types = saturation, False, link_types
        self.saturated: list[dict[str, Any]] = []
        """Values too large for the wire, by layer and direction, when they were last counted."""
        self._communicator, self._traffic_log, self._report, self._checkpoints = (
            communicator,
            traffic_log,
            report,
            checkpoints,
        )
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
        num_seeds = min(agreement.num_train, options.batch_size or agreement.num_train)
        self._scale = LossScale(num_train=num_seeds, is_needed="fp16" in (options.precision, options.wire))
        self._epoch, self._last_epoch = 0, options.epochs
        self._weights_are_finite = torch.ones((), dtype=torch.bool, device=communicator.device)
        communicator.broadcast(self._optimiser.weights_W)
        self._best = _BestWeights(value=None, epoch=0, weights=self._weights())

    def run(self) -> Outcome:
        """Train, keep the best weights, test with them, and leave them in the network that is evaluated.

        Raises:
            TrainingError: the loss, the gradient or the weights are not finite.
            LostPeerError: another rank is gone.
            StoppedError: after SIGTERM, once a checkpoint is written.
        """
        options = self._options
        if options.patience and not self._agreement.num_val and self._communicator.is_main:
            what = "edge" if options.learns_pairs else "node"
            log.info(
                "there is no validation %s, so all %d epochs are run and the last weights kept", what, options.epochs
            )
        started = time.perf_counter()
        with StopRequest(listens=self._checkpoints is not None) as request:
            if self._batches is not None and self._epoch < self._last_epoch:
                self._batches.start(self._epoch + 1, self._last_epoch)
            if self._evaluation is not None:
                self._evaluation.start(self._last_epoch - self._epoch)
            self._train(request)
            if self._batches is not None:
                self._batches.close()
            if self._evaluation is not None:
                self._evaluation.start_last()
        self._training.network.load_state_dict(self._best.weights)
        (val, test), scores_nC = self._validate("val", "test")
        if self._evaluation is not None:
            self._evaluation.close()
        non_finite = (~scores_nC.isfinite().all(1)).sum()
        return Outcome(
            epochs=self._epoch,
            best_epoch=self._best.epoch,
            val=val.value,
            test=test.value,
            others=named_others(val=val, test=test),
            scores_nC=scores_nC,
            seconds=time.perf_counter() - started,
            num_non_finite=int(self._communicator.all_reduce(non_finite)),
        )

    @property
    def num_parameters(self) -> int:
        """Of the model, with the learnt rows of all ranks."""
        return len(self._optimiser.weights_W) + self._owned.num_values

    def best_weights(self) -> dict[str, Tensor]:
        """The weights that were kept, by their names in the model, with the learnt rows of all nodes in the dataset's
        order; complete on rank 0, and every rank has to call it."""
        best = self._best.weights
        rows = {name: of["best"] for name, of in self._owned.state(best).items()}
        weights = self._shared(best) | rows
        return {name.removeprefix(WRAPPER): value for name, value in weights.items()}

    def state_dict(self) -> State:
        """All that later epochs depend on, as tensors, numbers, words and dictionaries.

        Complete on the rank that writes checkpoints; every rank has to call it, since learnt rows come from all.
        """
        best = self._best
        return {
            "epoch": self._epoch,
            "weights": self._shared(self._weights()),
            "optimiser": {"steps": self._optimiser.steps, **self._optimiser.state_dict()},
            "loss_scale": self._scale.factor,
            "best": {"value": best.value, "epoch": best.epoch, "weights": self._shared(best.weights)},
            "last_epoch": self._last_epoch,
            "embeddings": self._owned.state(best.weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a run of the same network, on any number of ranks.

        Raises:
            TrainingError: its weights have other names or shapes.
        """
        shapes = {name: value.shape for name, value in self._shared(self._weights()).items()}
        learnt = state.get("embeddings", {})
        if {name: value.shape for name, value in state["weights"].items()} != shapes or not self._owned.fits(learnt):
            with found_by_every_rank():
                raise TrainingError(_other_weights(state["weights"], shapes))
        device = self._communicator.device
        # Copied in place, so the parameters stay views of the optimiser's vector.
        self._training.network.load_state_dict(self._weights() | state["weights"])
        vectors = {name: value.to(device) for name, value in state["optimiser"].items() if name != "steps"}
        self._optimiser.load_state_dict(state["optimiser"]["steps"], vectors)
        if self._scale.can_shrink():
            self._scale.factor = max(state["loss_scale"], 1.0)
        best, best_rows = state["best"], self._owned.load_state_dict(state["optimiser"]["steps"], learnt)
        self._best = _BestWeights(
            value=best["value"],
            epoch=best["epoch"],
            weights={name: value.to(device) for name, value in best["weights"].items()} | best_rows,
        )
        self._epoch = state["epoch"]
        if self._checkpoints is not None:
            self._checkpoints.newest_epoch = self._epoch
        if self._is_out_of_patience():
            self._last_epoch = min(self._last_epoch, state["last_epoch"])

    def _train(self, request: StopRequest) -> None:
        options = self._options
        line_started, totals_before = time.perf_counter(), Totals()
        usage = UsageMeter(self._communicator, self._traffic_log, self._link_types)
        while self._epoch < self._last_epoch:
            self._epoch += 1
            is_last = self._epoch == self._last_epoch
            is_validated = self._epoch % options.eval_every == 0 or is_last
            if self._batches is None:
                validates = is_validated and options.validate_from == "training"
                loss, measured, flags = self._step(request, validates=validates)
            else:
                loss, flags = self._batch_steps(self._batches, request)
                measured = Measured(value=None)
            if is_validated:
                if options.validate_from == "exact" or is_last:
                    [measured], _ = self._validate("val")
                    self._keep_if_better(measured.value, self._epoch)
                totals, of_ranks = self._totals(usage.amounts())
                ranks, links = usage.since_last(of_ranks)
                now = time.perf_counter()
                self._report.epoch(
                    EpochLine(
                        epoch=self._epoch,
                        loss=loss,
                        val=measured.value,
                        others=named_others(val=measured),
                        seconds=now - line_started,
                        bytes_sent=totals.sent - totals_before.sent,
                        row_bytes_sent=totals.rows - totals_before.rows,
                        weight_bytes_sent=totals.weights - totals_before.weights,
                        other_bytes_sent=totals.other - totals_before.other,
                        bytes_skipped=totals.skipped - totals_before.skipped,
                        ranks=ranks,
                        links=links,
                        error_budget=None if self._budget is None else self._budget.summary(self._link_types),
                    )
                )
                line_started, totals_before = now, totals
                if self._is_out_of_patience():
                    self._last_epoch = min(self._last_epoch, self._epoch + options.settle)
            self._save(flags)
        self._require_finite()
        if self._checkpoints is not None and self._checkpoints.newest_epoch != self._epoch:
            self._checkpoints.save(self.state_dict())

    def _save(self, flags: _ControlFlags) -> None:
        checkpoints = self._checkpoints
        if checkpoints is None:
            return
        if flags.stop or flags.checkpoint:
            self._require_finite()
        if flags.stop:
            checkpoints.save(self.state_dict(), must=True)
            with found_by_every_rank():
                raise StoppedError(
                    f"stopped by SIGTERM after epoch {self._epoch}; its checkpoint is in {self._options.checkpoint}, "
                    "and --resume continues from there"
                )
        if flags.checkpoint:
            checkpoints.save(self.state_dict())

    def _is_out_of_patience(self) -> bool:
        stops_early = bool(self._options.patience and self._agreement.num_val)
        return stops_early and self._epoch - self._best.epoch >= self._options.patience

    def _keep_if_better(self, val: float | None, epoch: int) -> None:
        """Keep the present weights, of `epoch` steps, if they are better; without any value the newest are kept."""
        if self._objective.is_better(val, self._best.value) or self._best.value is None:
            self._best = _BestWeights(value=val, epoch=epoch, weights=self._weights())

    def _step(self, request: StopRequest, *, validates: bool) -> tuple[float, Measured, _ControlFlags]:
        """One gradient step.

        Args:
            request: whether this rank got a stop request.
            validates: whether the scores of this pass validate the weights before the step.

        Returns:
            the loss before the step, the mean over all ranks' training nodes or pairs; how good these scores are for
            the validation, if it validates; and what all ranks do after this epoch.
        """
        supervision, epoch = self._training.supervision, self._epoch
        # Kept gradients are those of a larger scale once it has been halved, so all are sent then.
        may_skip = self._options.warmup < epoch <= self._last_epoch - self._options.settle and not self._has_shrunk
        self._has_shrunk = False
        scores_nC = self._training.scores(PassContext(epoch=epoch, training=True, may_skip=may_skip))
        measured = Measured(value=None)
        if validates:
            [measured] = supervision.measure(scores_nC.detach(), "val")
            self._keep_if_better(measured.value, epoch - 1)
        loss = supervision.backward(scores_nC, self._scale.factor, epoch)
        total, _, flags = self._update_by(loss, request)
        return total, measured, flags

    def _batch_steps(self, batches: MiniBatches, request: StopRequest) -> tuple[float, _ControlFlags]:
        """The steps of one epoch on batches: the mean loss of all training nodes, each before its own step, and what
        all ranks do after this epoch."""
        sum_of_losses, sum_of_weights, stops, checkpoints = 0.0, 0.0, False, False
        batches.refresh(self._training.network, self._training.features, self._epoch)
        for step in range(batches.steps):
            loss, weight = batches.backward(self._epoch, step, self._scale.factor)
            total, total_weight, flags = self._update_by(loss, request, weight)
            sum_of_losses, sum_of_weights = sum_of_losses + total, sum_of_weights + total_weight
            stops, checkpoints = stops or flags.stop, checkpoints or flags.checkpoint
        return sum_of_losses / (sum_of_weights or 1.0), _ControlFlags(stop=stops, checkpoint=checkpoints)

    def _update_by(
        self, loss: Tensor, request: StopRequest, weight: Tensor | None = None
    ) -> tuple[float, float, _ControlFlags]:
        """Add up what all ranks have backpropagated, and change the weights by it.

        Args:
            loss: this rank's share.
            request: whether this rank got a stop request.
            weight: what the sum of all shares is divided by, this rank's share of it; None for 1.

        Returns:
            the sum of the losses and that of the weights over all ranks, and what all ranks do after this epoch.
        """
        epoch = self._epoch
        is_due = self._checkpoints is not None and self._checkpoints.is_due(epoch)
        flags = torch.tensor([float(request.is_requested), float(is_due)])
        of_losses = [*([] if weight is None else [weight.reshape(1)]), loss.reshape(1), to_device(flags, loss.device)]
        more, num_last = list(of_losses), sum(map(len, of_losses))
        own_gradient_V = self._owned.flatten_gradients()
        if own_gradient_V is not None:
            more.insert(0, own_gradient_V.square().sum().reshape(1))
        sums = self._all_reduce(self._optimiser.flatten_gradients(), torch.cat(more))
        # The last entry is the square of the gradients of all learnt rows; it is finite if they are.
        gradient_W, are_finite = sums[:-num_last], self._weights_are_finite
        finite = torch.stack([are_finite, gradient_W.isfinite().all()])
        *total_weights, total, stop, checkpoint, weights_are_finite, gradient_is_finite = torch.cat(
            [sums[-num_last:], finite]
        ).tolist()
        total_weight = total_weights[0] if total_weights else 1.0
        if not weights_are_finite:
            raise self._non_finite(_WEIGHTS, epoch - 1)
        if not math.isfinite(total):
            raise self._non_finite(f"the loss is {total}")
        if gradient_is_finite:
            divisor = self._scale.factor * (total_weight or 1.0)
            self._update(gradient_W / divisor, own_gradient_V, self._options.lr * self._factor(epoch))
            self._weights_are_finite = self._optimiser.weights_W.isfinite().all()
        elif self._scale.can_shrink():
            self._scale.shrink()
            self._has_shrunk = True
        else:
            raise self._non_finite("the gradient is not finite")
        return total, total_weight, _ControlFlags(stop=bool(stop), checkpoint=bool(checkpoint))

    def _non_finite(self, what: str, epoch: int | None = None) -> TrainingError:
        """The error that ends a run whose numbers are not finite, the same on every rank; None for this epoch's."""
        epoch = self._epoch if epoch is None else epoch
        fp16_flags = [flag for flag in ("precision", "wire") if getattr(self._options, flag) == "fp16"]
        advice = "".join(f" or --{flag} bf16" for flag in fp16_flags)
        if epoch == 1:
            advice += ", and look for NaN and infinities in the features"
        error = TrainingError(f"{what} in epoch {epoch}; try a smaller --lr than {self._options.lr:g}{advice}")
        error.shared = True
        return error

    def _require_finite(self) -> None:
        """Refuse to continue with weights, or learnt rows of some rank, that are not finite; every rank has to call it.

        Raises:
            TrainingError: some are not finite.
        """
        if not bool(self._weights_are_finite):
            raise self._non_finite(_WEIGHTS)
        if self._owned.names and any(self._communicator.all_reduce_numbers([self._owned.num_odd])):
            raise self._non_finite("learnt rows are not finite")

    def _all_reduce(self, gradient_W: Tensor, more: Tensor) -> Tensor:
        """The sums over all ranks of the weights' gradient, in the type of its wire, and of `more`, in fp32."""
        communicator, wire = self._communicator, TYPES[self._options.weights_wire]
        if wire == gradient_W.dtype or communicator.world == 1:
            return communicator.all_reduce(torch.cat([gradient_W, more]), "weights' gradients")
        return torch.cat(
            [communicator.all_reduce(gradient_W.to(wire), "weights' gradients").float(), communicator.all_reduce(more)]
        )

    def _update(self, gradient_W: Tensor, own_gradient_V: Tensor | None, lr: float) -> None:
        limit, length = self._options.clip_norm, None
        if own_gradient_V is not None:
            gradient_W, square = gradient_W[:-1], gradient_W[-1] / self._scale.factor
            if limit:
                length = (gradient_W.square().sum() + square).sqrt()
            self._owned.step(clipped(own_gradient_V / self._scale.factor, limit, length), lr)
        self._optimiser.step(clipped(gradient_W, limit, length), lr)

    @torch.no_grad()
    def _validate(self, *groups: Group) -> tuple[list[Measured], Tensor]:
        """One exact pass without dropout, or one on sampled neighbourhoods: how good its rows are for each group, and
        this rank's rows [n, C]."""
        if self._evaluation is not None:
            scores_nC = self._evaluation.scores(self._epoch)
            return self._whole.supervision.measure(scores_nC, *groups), scores_nC
        whole = self._whole
        if whole is not self._training:
            whole.network.load_state_dict(self._training.network.state_dict())
        scores_nC = whole.scores(PassContext.evaluation(self._epoch))
        return whole.supervision.measure(scores_nC, *groups), scores_nC

    def totals(self) -> Totals:
        """The bytes of all ranks so far, but for this sum of them; every rank has to call it."""
        return self._totals(())[0]

    def _totals(self, more: Sequence[int]) -> tuple[Totals, list[int]]:
        """The same, and the sums over all ranks of `more` numbers."""
        _, weights, other = self._communicator.sent.by_kind
        saturated = 0 if self._saturation is None else self._saturation.count()
        amounts = [*self._traffic_log.amounts(), weights, other, saturated, *more]
        sums = self._communicator.all_reduce_numbers(amounts)
        sent, skipped, exact, broadcast, weights, other, saturated, *sums_of_more = sums
        if saturated and self._saturation is not None:
            is_new = not self.saturated
            self.saturated = self._saturation.table(self._communicator.all_reduce)
            if is_new and self._communicator.is_main:
                log.warning("%s", in_words(self.saturated))
        totals = Totals(rows=sent, skipped=skipped, exact=exact, broadcast=broadcast, weights=weights, other=other)
        return totals, sums_of_more

    def _shared(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights that are the same on every rank."""
        return {name: value for name, value in weights.items() if name not in self._owned.names}

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self._training.network.state_dict().items()}


def named_others(**of_groups: Measured) -> dict[str, float | None]:
    """Further metrics of groups, by their names in JSON."""
    return {
        f"{group}_{name}": value for group, measured in of_groups.items() for name, value in measured.others.items()
    }


def _other_weights(saved: Mapping[str, Tensor], expected: Mapping[str, Any]) -> str:
    """Why the weights of a checkpoint are not those of this model."""
    more = saved.keys() - expected.keys()
    if not expected.keys() - saved.keys() and more and all(name.endswith("bias_G") for name in more):
        return (
            "the checkpoint was made by a release that gave biases to layers that batch norm follows, and this one "
            "gives them none; continue with that release, or start again with another --checkpoint"
        )
    return "the checkpoint has other weights than this model; give the options that it was made with"
