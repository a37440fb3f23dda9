"""The bytes that ranks send each other in a round through the stream: counted, not estimated, where all batches are.

They follow from the stream, the negatives and the division of the ranks alone. Of a large stream some batches are
counted, evenly spread, and stand for all.

Letters: P ranks, S ranks that share a memory, N nodes, n nodes that are read, b events, m destinations of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.config.options import Options
from trainer.temporal.events.evaluation import batches_of, share_of
from trainer.temporal.events.memory import row_bytes
from trainer.temporal.events.negatives import evaluation_key, negative_destinations
from trainer.temporal.events.parallelism import Parallelism
from trainer.temporal.events.queries import Queries
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tasks import EventTask

_INT, _FLOAT = 8, 4
MESSAGES = ("counts", "requests", "memory rows", "states")
"""Three of a read (how many, which, the rows), one of a write."""


@dataclass(slots=True, kw_only=True)
class SentRows:
    """What goes from rank to rank."""

    ranks: int
    exchanges: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MESSAGES, 0.0))
    """How often each message is exchanged."""
    bytes_PP: dict[str, Tensor] = field(init=False)
    """float64 [P, P], from the row's rank to the column's."""

    def __post_init__(self) -> None:
        shape = (self.ranks, self.ranks)
        self.bytes_PP = {name: torch.zeros(shape, dtype=torch.float64) for name in MESSAGES}

    @property
    def total(self) -> float:
        return sum(float(bytes_PP.sum()) for bytes_PP in self.bytes_PP.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOfMessages:
    """What is sent in a round of the training, and in a validation."""

    training: SentRows
    validation: SentRows
    counted: int
    """Batches of the training that were counted."""


class MessageCounter:
    """Counts the messages of the reads and writes of one division of the ranks."""

    def __init__(self, stream: EventStream, options: Options, parallelism: Parallelism, task: EventTask) -> None:
        """Begin to count.

        Args:
            stream: the events.
            options: of the run.
            parallelism: how the ranks are divided.
            task: what is learnt.
        """
        self._stream, self._options, self._parallelism, self._task = stream, options, parallelism, task
        self._group = parallelism.shares * parallelism.epochs
        self._ranks = self._group * parallelism.copies
        self._owner_N = stream.owner_N(self._group)
        self._others_SS = 1 - torch.eye(self._group, dtype=torch.float64)
        self._row_bytes = row_bytes(options.hidden, stream.num_features)

    def count(self, negatives: int, most_batches: int) -> RoundOfMessages:
        """What the first round sends.

        Args:
            negatives: of each event of a validation.
            most_batches: that are counted of the training, and of the validation.
        """
        parallelism, stream = self._parallelism, self._stream
        training, validation = SentRows(ranks=self._ranks), SentRows(ranks=self._ranks)
        batches = list(batches_of(*stream.groups()["train"], parallelism.batch_size))
        chosen = _spread(len(batches), most_batches)
        for copy in range(parallelism.copies):
            offset, first_epoch = copy * len(batches) // parallelism.copies, copy * parallelism.epochs + 1
            for iteration in chosen:
                first, end = batches[(offset + iteration) % len(batches)]
                reader = iteration % parallelism.epochs * parallelism.shares
                for share in range(parallelism.shares):
                    event_b = share_of(first, end, share, parallelism.shares)
                    epochs = range(first_epoch, first_epoch + parallelism.epochs)
                    nodes = torch.cat([self._nodes(event_b, self._task.destinations(event_b, one)) for one in epochs])
                    self._read(training, copy, reader + share, torch.unique(nodes))
                self._write(training, copy, first, end)
        self._finish(training, len(chosen), reads=len(batches), writes=len(batches))
        # A validation writes all training events, then reads and writes its own; its place in a copy is the rank's.
        later = list(batches_of(*stream.groups()["val"], parallelism.batch_size))
        key, counted = evaluation_key(self._options.seed), _spread(len(later), most_batches)
        for first, end in (later[place] for place in counted):
            for rank in range(self._ranks):
                event_b = share_of(first, end, rank, self._ranks)
                negative_bn = negative_destinations(stream, event_b, negatives, key)
                destination_bm = torch.cat([stream.destination_M[event_b].unsqueeze(1), negative_bn], 1)
                self._read(validation, *divmod(rank, self._group), self._nodes(event_b, destination_bm))
            self._write_all(validation, first, end)
        self._finish(validation, len(counted), reads=len(later), writes=len(later))
        writes = SentRows(ranks=self._ranks)
        for first, end in (batches[place] for place in chosen):
            self._write_all(writes, first, end)
        self._finish(writes, len(chosen), reads=0, writes=len(batches))
        validation.exchanges["states"] += writes.exchanges["states"]
        validation.bytes_PP["states"] += writes.bytes_PP["states"]
        return RoundOfMessages(training=training, validation=validation, counted=len(chosen))

    def _nodes(self, event_b: Tensor, destination_bm: Tensor) -> Tensor:
        return Queries.of(self._stream, event_b, destination_bm, self._options.neighbours).node_n

    def _read(self, sent: SentRows, copy: int, place: int, node_n: Tensor) -> None:
        """One rank reads nodes: it asks their owners, and these answer."""
        own, first = copy * self._group + place, copy * self._group
        rows_S = torch.bincount(self._owner_N[node_n], minlength=self._group).double()
        rows_S[place] = 0
        here = slice(first, first + self._group)
        sent.bytes_PP["requests"][own, here] += rows_S * _INT
        sent.bytes_PP["memory rows"][here, own] += rows_S * self._row_bytes

    def _write(self, sent: SentRows, copy: int, first: int, end: int) -> None:
        """Each owner sends the states of its nodes to the others."""
        stream = self._stream
        node_n = torch.unique(torch.cat([stream.source_M[first:end], stream.destination_M[first:end]]))
        rows_S = torch.bincount(self._owner_N[node_n], minlength=self._group).double()
        here = slice(copy * self._group, (copy + 1) * self._group)
        sent.bytes_PP["states"][here, here] += rows_S.unsqueeze(1) * self._others_SS * self._options.hidden * _FLOAT

    def _write_all(self, sent: SentRows, first: int, end: int) -> None:
        for copy in range(self._parallelism.copies):
            self._write(sent, copy, first, end)

    def _finish(self, sent: SentRows, counted: int, *, reads: int, writes: int) -> None:
        """Let the counted batches stand for all; before each read the ranks say how many rows they will ask for."""
        for name in MESSAGES:
            sent.bytes_PP[name] *= max(reads, writes) / counted
            sent.exchanges[name] = float(writes if name == "states" else reads)
        sent.bytes_PP["counts"] = reads * _INT * torch.kron(torch.eye(self._parallelism.copies), self._others_SS)


def _spread(number: int, most: int) -> Sequence[int]:
    """At most so many of the places 0 .. number - 1, evenly spread."""
    return range(number) if number <= most else [place * number // most for place in range(most)]
