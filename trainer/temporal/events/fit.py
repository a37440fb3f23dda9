"""The training of TGN on a stream: rounds through the training events, validation, and the test.

In every iteration the ranks of a copy read and write their memory for the next batch of the stream. The ranks whose
turn it is keep what they have read for as many iterations as epochs are trained at once, with other negatives in each.
All ranks that have a batch take its gradient, and one all-reduce adds them: the loss is the mean over a batch (what of,
`EventTask` says), and over the batches that are trained at the time. So a batch that several ranks share has the
gradient that one rank would compute.

A validation depends on weights alone: it begins with an empty memory, reads all training events with the weights as
they are, and then scores and writes the events of the validation, and of the test, batch by batch. So does the test,
with the weights of the best validation.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import TrainingError
from trainer.base.optimiser import clipped, optimiser
from trainer.config.lr_schedule import schedule
from trainer.config.options import Options
from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics, Split
from trainer.temporal.events.evaluation import batches_of, share_of
from trainer.temporal.events.memory import NodeMemory, NodeRows
from trainer.temporal.events.parallelism import Parallelism
from trainer.temporal.events.queries import Queries
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tasks import EventTask
from trainer.temporal.events.tgn import Tgn

log = logging.getLogger("trainer")


@dataclass(slots=True, kw_only=True)
class _Work:
    """A batch that a rank trains on, with the negatives of several epochs."""

    queries: list[Queries]
    """For each epoch that is still to train, the next one first."""
    node_n: Tensor
    """The nodes that were read for all of them, ascending."""
    rows: NodeRows
    num_losses: int
    """Of the whole batch, all shares together."""


class EventFit:
    """One model in training on one stream, on one rank."""

    def __init__(
        self,
        stream: EventStream,
        options: Options,
        parallelism: Parallelism,
        communicator: Communicator,
        task: EventTask,
    ) -> None:
        """Make the weights the same everywhere.

        Args:
            stream: the events.
            options: of the run.
            parallelism: how the ranks divide the work.
            communicator: the ranks of the run.
            task: what is learnt.
        """
        self._stream, self._options, self._parallelism, self._communicator = stream, options, parallelism, communicator
        self._task = task
        rank = communicator.rank
        self._copy, self._epoch, self._share = (
            parallelism.copy_of(rank),
            parallelism.epoch_of(rank),
            parallelism.share_of(rank),
        )
        torch.manual_seed(options.seed)
        self.model = Tgn(
            stream,
            width=options.hidden,
            heads=options.heads,
            num_classes=task.num_classes,
            node_vectors=options.node_vectors,
        ).to(communicator.device)
        self._optimiser = optimiser(
            options.optimiser,
            [(parameter, options.weight_decay) for parameter in self.model.parameters()],
            momentum=options.momentum,
        )
        communicator.broadcast(self._optimiser.weights_W)
        ranks = parallelism.ranks_of_copy(self._copy)
        self._memory = NodeMemory(stream, options.hidden, communicator, ranks, stream.owner_N(len(ranks)))
        self._batches = list(batches_of(*stream.groups()["train"], parallelism.batch_size))
        self._offset = self._copy * len(self._batches) // parallelism.copies
        self._factor = schedule(options.schedule, warmup=options.lr_warmup, epochs=options.epochs)
        self._work: _Work | None = None
        self._iteration = self._first_iteration = 0

    @property
    def num_parameters(self) -> int:
        return len(self._optimiser.weights_W)

    def weights(self) -> dict[str, Tensor]:
        """A copy of the weights, by their names."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Continue with these weights."""
        self.model.load_state_dict(weights)

    def state_dict(self) -> dict[str, Any]:
        """What later rounds depend on beside memory, which is read anew."""
        return {"steps": self._optimiser.steps, "weights": self.weights(), **self._optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any], rounds: int, /) -> None:
        """Continue after `rounds` rounds of a run of the same stream and model."""
        self.load_weights(state["weights"])
        self._optimiser.load_state_dict(state["steps"], {name: state[name] for name in self._optimiser.state_dict()})
        self._iteration = self._first_iteration = rounds * len(self._batches)

    def round(self, number: int, is_last: bool, /) -> float:
        """Go through the training events once; every rank has to call it.

        Args:
            number: of the round, from 0.
            is_last: whether no other round follows; the epochs that began later are then trained to their end.

        Returns:
            the mean loss of its iterations.

        Raises:
            TrainingError: it is not finite.
        """
        self.model.train()
        parallelism = self._parallelism
        lr = self._options.lr * self._factor(min((number + 1) * parallelism.epochs_a_round, self._options.epochs))
        total = torch.zeros((), device=self._communicator.device)
        for _ in self._batches:
            self._open(self._iteration)
            self._iteration += 1
            total += self._step(min(self._iteration - self._first_iteration, parallelism.epochs), lr)
        if is_last:
            for active in range(parallelism.epochs - 1, 0, -1):
                self._step(min(self._iteration - self._first_iteration, active), lr)
        mean = float(total) / len(self._batches)
        if not (math.isfinite(mean) and bool(self._optimiser.weights_W.isfinite().all())):
            error = TrainingError(
                f"the loss or the weights are not finite in epoch {(number + 1) * parallelism.epochs_a_round}; try a "
                f"smaller --lr than {self._options.lr:g}"
            )
            error.shared = True
            raise error
        return mean

    def evaluate(self, *groups: Split, negatives: int) -> list[Metrics]:
        """How good the scores of val, or of val and test, are; every rank has to call it."""
        self.model.eval()
        training_rows = self._memory.save() if self._parallelism.copies > 1 else None
        with torch.no_grad():
            self._memory.reset()
            for first, end in self._batches:
                self._memory.write(self.model.states, first, end)
            metrics = [
                self._task.evaluate(group, self._score, self._communicator, self._parallelism.batch_size, negatives)
                for group in groups
            ]
        if training_rows is not None:
            self._memory.restore(training_rows)
        return metrics

    def _score(self, event_b: Tensor, destination_bm: Tensor, first: int, end: int) -> Tensor:
        queries = Queries.of(self._stream, event_b, destination_bm, self._options.neighbours)
        rows = self._memory.read(queries.node_n)
        self._memory.write(self.model.states, first, end)
        return queries.scores(self.model, self._stream, rows)

    def _open(self, iteration: int) -> None:
        """Read the memory for the next batch, on the ranks whose turn it is, and write its events to it."""
        position = (self._offset + iteration) % len(self._batches)
        if position == 0:
            self._memory.reset()
        first, end = self._batches[position]
        if iteration % self._parallelism.epochs != self._epoch:
            self._memory.read(torch.zeros(0, dtype=torch.int64))
        else:
            event_b = share_of(first, end, self._share, self._parallelism.shares)
            done = iteration // len(self._batches) * self._parallelism.epochs_a_round
            # Epochs count from 1.
            begin = done + self._copy * self._parallelism.epochs + 1
            queries = [self._queries(event_b, epoch) for epoch in range(begin, begin + self._parallelism.epochs)]
            node_n = torch.unique(torch.cat([one.node_n for one in queries]))
            self._work = _Work(
                queries=queries,
                node_n=node_n,
                rows=self._memory.read(node_n),
                num_losses=self._task.num_losses(first, end),
            )
        self._memory.write(self.model.states, first, end)

    def _queries(self, event_b: Tensor, epoch: int) -> Queries:
        return Queries.of(self._stream, event_b, self._task.destinations(event_b, epoch), self._options.neighbours)

    def _step(self, active: int, lr: float) -> Tensor:
        """One change of the weights, by the gradients of all ranks that have a batch: `active` epochs in each copy."""
        loss = torch.zeros((), device=self._communicator.device)
        work = self._work
        queries = work.queries.pop(0) if work is not None and work.queries else None
        if work is not None and queries is not None and len(queries.event_b):
            rows = work.rows
            if len(queries.node_n) < len(work.node_n):
                rows = rows[torch.searchsorted(work.node_n, queries.node_n).to(loss.device)]
            scores = queries.scores(self.model, self._stream, rows)
            each = work.num_losses * active * self._parallelism.copies
            loss = self._task.loss(scores, queries.event_b) / each
            loss.backward()  # type: ignore[no-untyped-call]
        sums = self._communicator.all_reduce(
            torch.cat([self._optimiser.flatten_gradients(), loss.detach().reshape(1)]), "weights' gradients"
        )
        self._optimiser.step(clipped(sums[:-1], self._options.clip_norm), lr)
        return sums[-1]
