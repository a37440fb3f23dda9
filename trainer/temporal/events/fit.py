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
from trainer.base.optimiser import clipped
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
from trainer.temporal.events.tgn import model_and_optimiser

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
        self.model, self._optimiser = model_and_optimiser(
            stream, options, num_classes=task.num_classes, device=communicator.device
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
        """What later rounds depend on, also memory; every rank has to call it."""
        state = {"steps": self._optimiser.steps, "weights": self.weights(), **self._optimiser.state_dict()}
        return state | {
            "parallel": self._parallelism.numbers,
            "batch_size": self._parallelism.batch_size,
            "rounds": self._iteration // len(self._batches),
            "first_iteration": self._first_iteration,
            "memory": self._all_memory(),
            "work": self._all_work(),
        }

    def load_state_dict(self, state: Mapping[str, Any], rounds: int, /) -> None:
        """Continue after `rounds` rounds of a run of the same stream and model; every rank has to call it."""
        self.load_weights(state["weights"])
        self._optimiser.load_state_dict(state["steps"], {name: state[name] for name in self._optimiser.state_dict()})
        self._iteration = self._first_iteration = rounds * len(self._batches)
        if not self._has_place(state, rounds):
            self._warn_of_memory(state)
            return
        self._first_iteration = state["first_iteration"]
        if state["memory"] is not None:
            self._memory.restore(state["memory"][self._copy][self._memory.own_nodes].to(self._communicator.device))
        if state["work"]:
            self._work = self._resumed_work(state["work"][self._communicator.rank])

    def _has_place(self, state: Mapping[str, Any], rounds: int) -> bool:
        """Whether a checkpoint has the place of each copy in the stream, for this division of the ranks."""
        parallelism = self._parallelism
        names = ("parallel", "batch_size", "rounds")
        return [state.get(name) for name in names] == [parallelism.numbers, parallelism.batch_size, rounds]

    def _warn_of_memory(self, state: Mapping[str, Any]) -> None:
        parallelism, earlier = self._parallelism, state.get("parallel")
        # With j = k = 1 each round begins with an empty memory, and no epoch has begun.
        if self._communicator.is_main and (parallelism.epochs_a_round > 1 or math.prod((earlier or [1])[1:]) > 1):
            log.warning(
                "the checkpoint is of --parallel %s and this run has %s, so its node memory is not read: a copy that "
                "begins within the stream has not read what comes before, and epochs that had begun are not trained to "
                "their end",
                "an earlier release" if earlier is None else ",".join(map(str, earlier)),
                ",".join(map(str, parallelism.numbers)),
            )

    def _all_memory(self) -> Tensor | None:
        """On the main rank the memory of all copies, [k, N, V]; None where a round begins with an empty one, as that of
        one copy does."""
        copies = self._parallelism.copies
        if copies == 1:
            return None
        owner_N = self._stream.owner_N(self._communicator.world // copies)
        counts = torch.bincount(owner_N, minlength=self._communicator.world // copies).tolist()
        rows = self._communicator.gather_rows(self._memory.save(), counts * copies)
        if rows is None:
            return None
        return rows.cpu().view(copies, len(owner_N), -1)[:, owner_N.argsort(stable=True).argsort()]

    def _all_work(self) -> list[dict[str, Any]]:
        """What each rank has read for epochs that have begun; none where one is trained at once."""
        if self._parallelism.epochs == 1:
            return []
        communicator, work = self._communicator, self._work
        node_n, packed_nV, rest = torch.zeros(0, dtype=torch.int64), self._memory.save()[:0], 0
        if work is not None and work.queries:
            node_n, packed_nV, rest = work.node_n, work.rows.packed_nV, len(work.queries)
        facts = communicator.all_gather_object({"rest": rest, "rows": len(node_n)})
        counts = [fact["rows"] for fact in facts]
        nodes, rows = (communicator.gather_rows(one, counts) for one in (node_n, packed_nV))
        if nodes is None or rows is None:
            return []
        return [
            {"rest": fact["rest"], "nodes": of_rank.clone(), "rows": packed.clone()}
            for fact, of_rank, packed in zip(
                facts, torch.split(nodes.cpu(), counts), torch.split(rows.cpu(), counts), strict=True
            )
        ]

    def _resumed_work(self, saved: Mapping[str, Any]) -> _Work | None:
        """The batch that this rank has opened last, with the negatives of the epochs that are still to train."""
        if not saved["rest"]:
            return None
        last = self._iteration - 1
        opened = last - (last - self._epoch) % self._parallelism.epochs
        return _Work(
            queries=self._all_queries(opened)[-saved["rest"] :],
            node_n=saved["nodes"],
            rows=NodeRows(packed_nV=saved["rows"].to(self._communicator.device), width=self._options.hidden),
            num_losses=self._task.num_losses(*self._batch(opened)),
        )

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
            self._first_iteration = self._iteration  # of whatever follows in another run
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
        first, end = self._batch(iteration)
        if first == self._batches[0][0]:
            self._memory.reset()
        if iteration % self._parallelism.epochs != self._epoch:
            self._memory.read(torch.zeros(0, dtype=torch.int64))
        else:
            queries = self._all_queries(iteration)
            node_n = torch.unique(torch.cat([one.node_n for one in queries]))
            self._work = _Work(
                queries=queries,
                node_n=node_n,
                rows=self._memory.read(node_n),
                num_losses=self._task.num_losses(first, end),
            )
        self._memory.write(self.model.states, first, end)

    def _batch(self, iteration: int) -> tuple[int, int]:
        """The batch that this rank's copy reads in an iteration."""
        return self._batches[(self._offset + iteration) % len(self._batches)]

    def _all_queries(self, iteration: int) -> list[Queries]:
        """This rank's share of that batch, with the negatives of each epoch that is trained on it."""
        parallelism = self._parallelism
        event_b = share_of(*self._batch(iteration), self._share, parallelism.shares)
        done = iteration // len(self._batches) * parallelism.epochs_a_round
        # Epochs count from 1.
        begin = done + self._copy * parallelism.epochs + 1
        return [self._queries(event_b, epoch) for epoch in range(begin, begin + parallelism.epochs)]

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
