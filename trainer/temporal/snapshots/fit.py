"""The training of a model on snapshots: one change of the weights an epoch, by the loss of all training steps.

The loss is the mean over the pairs of all windows of the training and their negatives, or over the states of nodes.
Each rank has the gradient of its group's share, and one all-reduce adds the shares, so the result does not depend on
the groups.

The epochs measure what each snapshot takes. After some of them all ranks fit the same cost to the seconds of all, and
change the groups if the slowest group becomes faster by that.

A validation goes through all snapshots up to the last one that predicts a pair of it, in groups of its own, since it
needs the states after the training's last snapshot.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import TrainingError
from trainer.base.optimiser import clipped, optimiser
from trainer.config.lr_schedule import schedule
from trainer.config.options import Options
from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics, Split
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.groups import (
    Cost,
    balanced_groups,
    equal_groups,
    fitted_cost,
    imbalance,
    loads,
)
from trainer.temporal.snapshots.memory_estimate import rank_bytes
from trainer.temporal.snapshots.network import VECTORS, SnapshotNetwork
from trainer.temporal.snapshots.passes import SnapshotPass
from trainer.temporal.snapshots.tasks import LinkTask, SnapshotTask
from trainer.temporal.snapshots.workers import Workers

log = logging.getLogger("trainer")

_FIRST_FIT = 4
"""The epoch after which the cost is fitted first, to seconds of all but epoch 1, which has what is done once. On a CPU
it is fitted again after 8, 16, 32 .. epochs."""
_WORTH_A_CHANGE = 1.01
"""The slowest group by the slowest of other groups, from which on these replace it."""
_HISTORY_OF_ONE_PIECE = 20
"""Snapshots of a sequence where the state cannot be divided, so that ranks would wait for whole groups."""


@dataclass(slots=True, kw_only=True)
class Groups:
    """The groups of the training, and what is known of them."""

    borders: list[int]
    """Group r has the steps borders[r] .. borders[r + 1] - 1."""
    cost: Cost
    """Fitted, or in units of its own before it is."""
    is_measured: bool = False
    least_seconds: list[float] = field(default_factory=list)
    """Of each step, without waiting, the least in an epoch, which other programs change least; at first empty. Seconds
    of ranks that share a step are added."""

    @property
    def seconds(self) -> list[float]:
        """The sums by group."""
        return loads(self.least_seconds, self.borders) if self.least_seconds else [0.0] * (len(self.borders) - 1)


class SnapshotFit:
    """One model in training on one stream of snapshots, on one rank."""

    def __init__(
        self,
        snapshots: Snapshots,
        options: Options,
        communicator: Communicator,
        workers: Workers,
        *,
        task: SnapshotTask | None = None,
        borders: Sequence[int] | None = None,
        rebalances: bool = True,
    ) -> None:
        """Make the weights the same everywhere.

        Args:
            snapshots: of the stream.
            options: of the run.
            communicator: the ranks of the run.
            workers: of this rank.
            task: what is learnt; None for links.
            borders: of the first groups; None for those with as many events and nodes.
            rebalances: whether measured groups replace them.
        """
        self._snapshots, self._options, self._communicator = snapshots, options, communicator
        self._workers, self._rebalances = workers, rebalances
        self._task: SnapshotTask = LinkTask(snapshots, options) if task is None else task
        self.network = SnapshotNetwork(options, snapshots, num_classes=self._task.num_classes)
        self._optimiser = optimiser(
            options.optimiser,
            [(parameter, options.weight_decay) for parameter in self.network.parameters()],
            momentum=options.momentum,
        )
        communicator.broadcast(self._optimiser.weights_W)
        self._factor = schedule(options.schedule, warmup=options.lr_warmup, epochs=options.epochs)
        self.history = history_of(options)
        num_steps = snapshots.num_steps("train")
        self._edges = [snapshots.num_events(number) for number in range(snapshots.num_steps("test") + 1)]
        self._nodes = [snapshots.num_seen(number) for number in range(snapshots.num_steps("test") + 1)]
        cost = Cost(base=0.0, edge=1.0, node=1.0)
        if borders is not None:
            borders = [min(border, num_steps) for border in borders]
        else:
            borders = balanced_groups(self._costs(cost, num_steps), self.num_groups)
        self.groups = Groups(borders=list(borders), cost=cost)
        self._num_rounds = 0
        group = communicator.rank // snapshots.num_members
        own = range(*self.groups.borders[group : group + 2])
        [self._num_losses] = communicator.all_reduce_numbers([sum(map(self._task.num_losses, own))])

    @property
    def num_groups(self) -> int:
        """Of snapshots; several ranks may share each."""
        return self._communicator.world // self._snapshots.num_members

    @property
    def num_parameters(self) -> int:
        return len(self._optimiser.weights_W)

    def memory_bytes(self) -> list[int]:
        """What each rank will need, about, with the groups as they are."""
        return rank_bytes(self.network, self._snapshots, self._options, self.groups.borders)

    def by_node(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights with learnt rows in the order of the nodes."""
        if VECTORS not in weights:
            return dict(weights)
        rows_NF = torch.empty_like(weights[VECTORS])
        rows_NF[self._snapshots.order_N.to(rows_NF.device)] = weights[VECTORS]
        return {**weights, VECTORS: rows_NF}

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights, by their names."""
        return {name: value.clone() for name, value in self.network.state_dict().items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Continue with these weights."""
        self.network.load_state_dict(weights)

    def state_dict(self) -> dict[str, Any]:
        """What later epochs depend on."""
        groups = self.groups
        return {
            "steps": self._optimiser.steps,
            "weights": self.weights(),
            **self._optimiser.state_dict(),
            "groups": {
                **{"ranks": self._communicator.world, "ranks_per_group": self._snapshots.num_members},
                **{"borders": groups.borders, "is_measured": groups.is_measured, "rounds": self._num_rounds},
                **{"cost": asdict(groups.cost), "least_seconds": groups.least_seconds},
            },
        }

    def load_state_dict(self, state: Mapping[str, Any], _rounds: int, /) -> None:
        """Continue from the state of a run of the same stream and model.

        With as many ranks the groups are those of that run, so that all sums are added in the same order.
        """
        self.load_weights(state["weights"])
        self._optimiser.load_state_dict(state["steps"], {name: state[name] for name in self._optimiser.state_dict()})
        saved = state.get("groups")  # checkpoints of 0.1.0 have none
        sizes = {"ranks": self._communicator.world, "ranks_per_group": self._snapshots.num_members}
        if saved is not None and all(saved[name] == size for name, size in sizes.items()):
            self.groups = Groups(
                borders=list(saved["borders"]),
                cost=Cost(**saved["cost"]),
                is_measured=saved["is_measured"],
                least_seconds=list(saved["least_seconds"]),
            )
            self._num_rounds = saved["rounds"]
        elif self._communicator.is_main:
            log.info(
                "the checkpoint has no groups of snapshots for %d rank(s) with %d a group, so the losses are those of "
                "its run up to rounding",
                *sizes.values(),
            )

    def round(self, number: int, _is_last: bool, /) -> float:
        """One epoch; every rank has to call it.

        Args:
            number: of epochs before it.

        Returns:
            the loss before the change of the weights.

        Raises:
            TrainingError: it, or the weights after it, are not finite.
        """
        options, device = self._options, self._communicator.device
        losses: dict[int, Tensor] = {}

        def finish(step: int, rows_nG: Tensor) -> Tensor:
            loss = self._task.loss(self.network, rows_nG, step, number + 1) / self._num_losses
            losses[step] = loss.detach()
            return loss

        one_pass = self._pass(self.groups.borders, is_training=True)
        one_pass.run(finish)
        loss = torch.zeros((), device=device)
        for step in sorted(losses):
            loss += losses[step]
        gradient_W = self._optimiser.flatten_gradients()
        sums = self._communicator.all_reduce(torch.cat([gradient_W, loss.reshape(1)]), "weights' gradients")
        self._optimiser.step(clipped(sums[:-1], options.clip_norm), options.lr * self._factor(number + 1))
        total = float(sums[-1])
        if not (math.isfinite(total) and bool(self._optimiser.weights_W.isfinite().all())):
            error = TrainingError(
                f"the loss or the weights are not finite in epoch {number + 1}; try a smaller --lr than {options.lr:g}"
            )
            error.shared = True
            raise error
        self._measure(one_pass.seconds)
        return total

    def evaluate(self, *groups: Split, negatives: int) -> list[Metrics]:
        """How well val, or val and test, are predicted; every rank has to call it.

        Args:
            groups: of the split.
            negatives: that each pair is ranked among; ap has the first one of them.
        """
        snapshots = self._snapshots
        scored: dict[Split, dict[int, tuple[Tensor, Tensor]]] = {group: {} for group in groups}

        def finish(step: int, rows_nG: Tensor) -> None:
            for group, of_group in scored.items():
                of_group[step] = self._task.scored(self.network, rows_nG, step, group, negatives)

        num_steps = max(snapshots.num_steps(group) for group in groups)
        borders = balanced_groups(self._costs(self.groups.cost, num_steps), self.num_groups)
        self._pass(borders, is_training=False).run(finish)
        return [
            self._task.metrics([of_group[step] for step in sorted(of_group)], self._communicator, negatives)
            for of_group in scored.values()
        ]

    def _pass(self, borders: Sequence[int], *, is_training: bool) -> SnapshotPass:
        return SnapshotPass(
            self.network,
            self._snapshots,
            self._communicator,
            self._workers,
            borders=borders,
            history=self.history,
            is_training=is_training,
            measures=is_training and self._rebalances and self._num_rounds < _FIRST_FIT,
        )

    def _costs(self, cost: Cost, num_steps: int) -> list[float]:
        """Of the steps: a step reads the edges of its snapshot and scores the pairs of the next one."""
        edges = [self._edges[step] + self._edges[step + 1] for step in range(num_steps)]
        return cost.seconds(edges, self._nodes[:num_steps])

    def _measure(self, seconds: Mapping[int, float]) -> None:
        """Take the seconds of one epoch, and after some fit the cost and change the groups."""
        communicator, groups = self._communicator, self.groups
        num_steps = groups.borders[-1]
        self._num_rounds += 1
        is_later = self._num_rounds > _FIRST_FIT
        if self._num_rounds == 1 or (communicator.device.type != "cpu" and is_later):
            return
        own = torch.zeros(num_steps, dtype=torch.float64, device=communicator.device)
        for step, of_step in seconds.items():
            own[step] = of_step
        seconds_of_all = communicator.all_reduce(own).tolist()
        groups.least_seconds = list(map(min, groups.least_seconds or seconds_of_all, seconds_of_all))
        is_power_of_two = not self._num_rounds & (self._num_rounds - 1)
        if num_steps and self._num_rounds >= _FIRST_FIT and is_power_of_two:
            self._fit_cost(groups.least_seconds)

    def _fit_cost(self, seconds: Sequence[float]) -> None:
        groups, number = self.groups, self.num_groups
        num_steps = len(seconds)
        edges = [self._edges[step] + self._edges[step + 1] for step in range(num_steps)]
        is_first = not groups.is_measured
        groups.cost, groups.is_measured = fitted_cost(seconds, edges, self._nodes[:num_steps]), True
        costs = groups.cost.seconds(edges, self._nodes[:num_steps])
        better, now = balanced_groups(costs, number), imbalance(loads(costs, groups.borders))
        then = imbalance(loads(costs, better))
        changes = self._rebalances and now > then * _WORTH_A_CHANGE
        if self._communicator.is_main and (is_first or changes):
            equal = imbalance(loads(costs, equal_groups(num_steps, number)))
            log.info(
                "a snapshot takes %s; the slowest of %d groups takes %.3f of the mean%s (%.3f with as many snapshots "
                "in each)",
                groups.cost,
                number,
                now,
                f", and {then:.3f} after a change of the groups" if changes else "",
                equal,
            )
        if changes:
            groups.borders = better


def history_of(options: Options) -> int:
    """The snapshots of a sequence; 0 for all."""
    if options.history is not None:
        return options.history
    return _HISTORY_OF_ONE_PIECE if options.model == "gclstm" else 0
