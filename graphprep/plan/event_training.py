"""What training TGN on an event cache takes: the trainer's answer, and the seconds of its messages on links.

The trainer chooses the division of the ranks as a run would, counts what they send, and measures the stages of a batch,
in one process a rank side by side. It is a program of its own and nothing of it is imported here.

Letters: P ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.plan.trainer_memory import ask_trainer
from graphprep.system.threads import cores
from graphprep.traffic import LinkModel

MODULE = "trainer.temporal.events.expected"
SECONDS = 600.0
MOST_PROCESSES = 8
"""side by side; more ranks on one machine are assumed to be as fast as so many"""
TRAINED = ("queries", "read", "gradients", "weights", "write")
"""stages of a batch of the training"""
GRADIENT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """What is sent from rank to rank in a round, by message."""

    exchanges: Mapping[str, float]
    """how often"""
    bytes_PP: Mapping[str, NDArray[np.float64]]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Messages:
        """From the trainer's answer."""
        return cls(
            exchanges=plain["exchanges"], bytes_PP={name: np.asarray(rows) for name, rows in plain["bytes"].items()}
        )

    def seconds(self, model: LinkModel) -> float:
        """On the slowest link direction of each exchange, one exchange after the other."""
        return sum(
            number * float(model.seconds(self.bytes_PP[name] / number, 1).max(initial=0.0))
            for name, number in self.exchanges.items()
            if number
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTraining:
    """What a run would need and send."""

    answer: Mapping[str, Any]
    """the trainer's"""
    stages: Mapping[str, float]
    """seconds of a batch, and of scoring one, on the slowest of the ranks that were measured"""
    training: Messages
    validation: Messages

    @property
    def weight_bytes(self) -> int:
        """Of all ranks in a round: a ring of all gradients and the loss in each iteration."""
        ranks = len(self.answer["memory"])
        return int(2 * (ranks - 1) * (self.answer["parameters"] + 1) * GRADIENT_BYTES * self.answer["batches"])

    def weight_seconds(self, model: LinkModel) -> float:
        """Of the gradients' all-reduce in a round, as a ring in the order of ranks."""
        ranks = len(self.answer["memory"])
        if ranks == 1:
            return 0.0
        piece_PP = np.zeros((ranks, ranks))
        piece_PP[np.arange(ranks), (np.arange(ranks) + 1) % ranks] = (self.answer["parameters"] + 1) / ranks
        step = float(model.seconds(piece_PP, GRADIENT_BYTES).max())
        return float(2 * (ranks - 1) * step * self.answer["batches"])

    @property
    def training_seconds(self) -> float:
        """Of computing in a round."""
        return float(self.answer["batches"]) * sum(self.stages[name] for name in TRAINED)

    @property
    def validation_seconds(self) -> float:
        """Of computing in a validation, which writes all events of the training and scores and writes its own."""
        batches, later = self.answer["batches"], self.answer["val_batches"]
        return float((batches + later) * self.stages["write"] + later * self.stages["score"])


def expected_training(cache: Path, words: Sequence[str], *, ranks: int, available: int | None) -> EventTraining:
    """Ask the trainer.

    Args:
        cache: the folder.
        words: options of the trainer.
        ranks: that would train.
        available: bytes of all machines; None for those of this one.

    Raises:
        UsageError, CacheError, TrainingError: the trainer refuses, or cannot be started.
    """
    processes = min(ranks, MOST_PROCESSES)
    request = {
        "cache": str(cache.absolute()),
        "arguments": ["--model=tgn", *words],
        "ranks": ranks,
        "available": available,
        "measure": True,
    }
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // processes))}
    with ThreadPoolExecutor(processes) as pool:
        asked = [
            pool.submit(ask_trainer, MODULE, request, seconds=SECONDS, variables=threads) for _ in range(processes)
        ]
        answers = [one.result() for one in asked]
    stages = {name: max(one["seconds"][name] for one in answers) for name in answers[0]["seconds"]}
    return EventTraining(
        answer=answers[0],
        stages=stages,
        training=Messages.of(answers[0]["training"]),
        validation=Messages.of(answers[0]["validation"]),
    )


def bytes_by_type(model: LinkModel, *of_parts: tuple[Messages, float]) -> list[dict[str, Any]]:
    """The bytes that cross each type of link, by message; each part counts so many times."""
    rows = []
    by_message = {
        name: model.crossings_of_types(sum(times * part.bytes_PP[name] for part, times in of_parts))  # type: ignore[arg-type]
        for name in of_parts[0][0].bytes_PP
    }
    for number, name in enumerate(model.types):
        of_type = {message: float(sums[number]) for message, sums in by_message.items()}
        rows.append({"type": name, "bytes": sum(of_type.values()), "bytes_by_message": of_type})
    return rows
