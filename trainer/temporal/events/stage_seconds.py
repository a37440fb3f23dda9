"""The seconds of the stages of a batch, measured on some batches of the stream on one rank, without messages.

    queries    the neighbours and negatives of a rank's share of the batch
    read       the rows of memory, where this process has all of them
    gradients  forward and backward
    weights    the optimiser's step
    write      the events of the batch into memory
    score      of a validation: queries, rows and forward

Rows of memory are as they would be in training: the batches before those that are measured are written first.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from trainer.config.options import Options
from trainer.dist.communicator import Communicator
from trainer.temporal.events.evaluation import batches_of, share_of
from trainer.temporal.events.memory import NodeMemory
from trainer.temporal.events.negatives import evaluation_key, negative_destinations
from trainer.temporal.events.parallelism import Parallelism
from trainer.temporal.events.queries import Queries
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tasks import EventTask
from trainer.temporal.events.tgn import model_and_optimiser

STAGES = ("queries", "read", "gradients", "weights", "write")
_WRITTEN, _WARM, _MEASURED = 60, 2, 8
"""Batches that fill the memory, that make torch allocate and compile, and whose seconds count."""


class StageSeconds:
    """Measures one division of the ranks."""

    def __init__(
        self,
        stream: EventStream,
        options: Options,
        parallelism: Parallelism,
        communicator: Communicator,
        task: EventTask,
        negatives: int,
    ) -> None:
        """Make a model.

        Args:
            stream: the events.
            options: of the run.
            parallelism: of which one rank is measured.
            communicator: of this process alone.
            task: what is learnt.
            negatives: of each event of a validation.
        """
        self._negatives = negatives
        self._stream, self._options, self._parallelism, self._task = stream, options, parallelism, task
        self._device = communicator.device
        self._model, self._optimiser = model_and_optimiser(
            stream, options, num_classes=task.num_classes, device=self._device
        )
        self._memory = NodeMemory(stream, options.hidden, communicator, [0], stream.owner_N(1))
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    def measure(self) -> dict[str, float]:
        """The median seconds of each stage of a batch, and of scoring one."""
        batches = list(batches_of(*self._stream.groups()["train"], self._parallelism.batch_size))
        first = max(0, min(len(batches) // 2, len(batches) - _WARM - _MEASURED))
        for batch in batches[max(0, first - _WRITTEN) : first]:
            self._memory.write(self._model.states, *batch)
        measured = batches[first : first + _WARM + _MEASURED]
        for number, batch in enumerate(measured):
            if number == min(_WARM, len(measured) - 1):
                self._seconds.clear()
            self._train(*batch)
            self._score(*batch)
        # The median: one batch may wait for what else the machine does.
        return {name: statistics.median(seconds) for name, seconds in self._seconds.items()}

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._seconds[name].append(time.perf_counter() - begun)

    def _train(self, first: int, end: int) -> None:
        """One iteration of a rank: it reads one batch in as many iterations as epochs are trained at once, and then
        trains it with the negatives of each."""
        parallelism, options = self._parallelism, self._options
        self._model.train()
        event_b = share_of(first, end, 0, parallelism.shares)
        with self._stage("queries"):
            queries = self._queries(event_b, self._task.destinations(event_b, 1))
        with self._stage("read"):
            rows = self._memory.read(queries.node_n)
        with self._stage("gradients"):
            scores = queries.scores(self._model, self._stream, rows)
            loss = self._task.loss(scores, event_b) / self._task.num_losses(first, end)
            loss.backward()  # type: ignore[no-untyped-call]
        with self._stage("weights"):
            self._optimiser.step(self._optimiser.flatten_gradients(), options.lr)
        with self._stage("write"):
            self._memory.write(self._model.states, first, end)

    @torch.no_grad()
    def _score(self, first: int, end: int) -> None:
        self._model.eval()
        parallelism = self._parallelism
        ranks = parallelism.shares * parallelism.epochs * parallelism.copies
        event_b = share_of(first, end, 0, ranks)
        with self._stage("score"):
            destination_bm = self._stream.destination_M[event_b].unsqueeze(1)
            if not self._task.num_classes:
                key = evaluation_key(self._options.seed)
                negative_bn = negative_destinations(self._stream, event_b, self._negatives, key)
                destination_bm = torch.cat([destination_bm, negative_bn], 1)
            queries = self._queries(event_b, destination_bm)
            queries.scores(self._model, self._stream, self._memory.read(queries.node_n))

    def _queries(self, event_b: torch.Tensor, destination_bm: torch.Tensor) -> Queries:
        return Queries.of(self._stream, event_b, destination_bm, self._options.neighbours)
