"""Measures rows while a run goes on, and chooses from that with how many bits and how often they are sent again.

Epochs come in cycles of 9. Rows of its first epoch are compared with those of the next eight; then all ranks sum what
each has measured of its own rows, a few dozen numbers a link, and choose the same (`trainer.exchange.bit_choice`).

With `--error-budget` they choose what takes the fewest seconds on links within the error that is allowed. Until the
first choice every row is sent in every epoch, in the fewest of 4 bits a value and more that the budget allows. The
choice rests on what was measured before it, and in the first epochs gradients soon become less alike. So the first
choice uses a quarter of the square of the budget, and each one at most twice as much as the one before it. If a
measurement shows a larger error than the budget, the next choice uses less in proportion.

With `--byte-budget` they choose the smallest error within the bytes that are allowed, whatever that error is. Until the
first choice every row is sent in every epoch, in the most bits that keep within them, or in 2; if that is more than
they allow, what is left of the run has so much less.

Letters: K layers and directions, P ranks, M numbers.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trainer.base.traffic_log import Direction
from trainer.dist.communicator import Communicator
from trainer.exchange.bit_choice import (
    AGES,
    EXACT,
    Choice,
    LinkKey,
    Measured,
    choose,
    error_of,
    unmeasured,
    unmeasured_within,
    weights_of,
)
from trainer.exchange.packed_rows import BITS, NARROW_BITS, message_bytes

log = logging.getLogger("trainer")

WINDOW = max(AGES)
"""The longest change that is measured"""
CYCLE = WINDOW + 1
"""Epochs from one choice to the next"""
_ROUNDED = (*NARROW_BITS, 16)
_LEAST_SHARE, _FIRST_SHARE, _GROWTH, _MARGIN = 0.05, 0.25, 2.0, 0.9
"""The margin is for what the formula leaves out, and for errors that grow until they are measured."""
_BYTE_MARGIN = 0.95
"""This one is for rows that are sent earlier than their age where ages change, and for the last cycle."""
_CHOICES = [Choice(bits, age) for bits in BITS for age in AGES]


class RowNumbers(NamedTuple):
    """What a rank measured of the rows that it sends to one peer: tensors of one number each."""

    rows: int
    width: int
    sent: int
    """Bytes since the last time."""
    square: Tensor
    applied: Tensor
    """|X - C|^2 / |X|^2, by the copy C that the receiver had, without what old masks do to it"""
    drift: Sequence[Tensor]
    """By epochs since the reference, from 1 to `WINDOW`."""
    residual: Sequence[Tensor]
    rounding: Sequence[Tensor]
    """By `_ROUNDED`"""


class ErrorBudget:
    """The choices of a run; the same on all ranks."""

    def __init__(
        self,
        budget: float | None,
        communicator: Communicator,
        seconds_a_byte: Callable[[int, int], float],
        *,
        byte_share: float = 1.0,
        epochs: int = 0,
        stored_bytes: int,
    ) -> None:
        """Begin with as many bits for every link as the budget allows at least.

        Args:
            budget: the error that is allowed, E of `trainer.exchange.bit_choice`, above 0; None where bytes decide.
            byte_share: the share of the bytes that training passes may send, where they decide.
            epochs: of the run, over which the bytes are divided.
            communicator: the ranks of the run.
            seconds_a_byte: of the slowest link from one rank to another.
            stored_bytes: of a value of the rows.
        """
        self._budget, self._communicator, self._seconds_a_byte = budget, communicator, seconds_a_byte
        self._stored_bytes, self._byte_share, self._epochs = stored_bytes, byte_share, epochs
        self._first = unmeasured_within(byte_share, BITS) if budget is None else unmeasured(budget)
        self._sent_bytes = 0.0
        """of all ranks since the first epoch"""
        self._first_epoch: int | None = None
        self._decided_in = 0
        self._share = _FIRST_SHARE
        """Of the square of the budget, that the next choice may use."""
        self._choices: dict[LinkKey, Choice] = {}
        self._shapes: dict[LinkKey, tuple[int, int]] = {}
        self._weights: dict[LinkKey, float] = {}
        self._errors: dict[LinkKey, float] = {}
        self.measured_error: float | None = None
        """Of what receivers had, before the newest choice"""
        self.predicted_error: float | None = None
        self.greatest_error: float | None = None
        """The greatest of all measured errors"""
        self._numbers: dict[tuple[int, Direction], dict[int, RowNumbers]] = {}

    def begin(self, epoch: int) -> int:
        """Begin an epoch, if it has not begun, and choose where it is time; every rank calls it alike.

        Returns:
            how many epochs before it the cycle's first one was.
        """
        if self._first_epoch is None:
            self._first_epoch = epoch
        phase = (epoch - self._first_epoch) % CYCLE
        if not phase and self._decided_in != epoch:
            self._decided_in = epoch
            if self._numbers:
                self._choose(epoch)
        return phase

    def choice(self, layer: int, direction: Direction, source: int, destination: int) -> Choice:
        """How the rows are sent."""
        return self._choices.get(LinkKey(layer, direction, source, destination), self._first)

    def note(self, layer: int, direction: Direction, peer: int, numbers: RowNumbers) -> None:
        """Take what was measured of the rows to a peer."""
        self._numbers.setdefault((layer, direction), {})[peer] = numbers

    def _choose(self, epoch: int) -> None:
        links, is_first = self._gathered(), not self._choices
        weights = weights_of(links)
        self.measured_error = math.sqrt(math.fsum(weights[key] * one.applied for key, one in links.items()))
        self.greatest_error = max(self.measured_error, self.greatest_error or 0.0)
        if self._budget is None:
            self._choices = choose(
                links,
                weights,
                {key: {choice: self._bytes(key, choice) for choice in _CHOICES} for key in links},
                enough=self._allowed_bytes(epoch, math.fsum(self._bytes(key, EXACT) for key in links)),
            )
        else:
            if not is_first:
                of_budget = (_MARGIN * self._budget / max(self.measured_error, 1e-30)) ** 2
                self._share = min(1.0, max(_LEAST_SHARE, self._share * min(of_budget, _GROWTH)))
            costs = {key: {choice: self._seconds(key, choice) for choice in _CHOICES} for key in links}
            self._choices = choose(links, weights, costs, _MARGIN * self._budget * math.sqrt(self._share))
        self._weights = weights
        self._errors = {key: math.sqrt(links[key].square_error(choice)) for key, choice in self._choices.items()}
        self.predicted_error = error_of(links, self._choices, weights)
        self._numbers = {}
        if self._communicator.is_main:
            log.log(logging.INFO if is_first else logging.DEBUG, "from epoch %d on: %s", epoch, self.in_words())

    def _allowed_bytes(self, epoch: int, exact: float) -> float:
        """What is left of the bytes for each epoch from this one on.

        Args:
            epoch: that begins.
            exact: the bytes of an epoch in which all rows are sent exactly.
        """
        done = epoch - (self._first_epoch or epoch)
        left = max(self._epochs - epoch + 1, CYCLE)
        return max(0.0, _BYTE_MARGIN * self._byte_share * exact * (done + left) - self._sent_bytes) / left

    def _gathered(self) -> dict[LinkKey, Measured]:
        """What all ranks have measured of links with rows."""
        world, rank = self._communicator.world, self._communicator.rank
        keys = sorted(self._numbers)
        size = 5 + 2 * WINDOW + len(_ROUNDED)
        numbers_KPPM = torch.zeros(len(keys), world, world, size, dtype=torch.float64, device=self._communicator.device)
        for place, key in enumerate(keys):
            for peer, (rows, width, sent, square, applied, drift, residual, rounding) in self._numbers[key].items():
                measured = torch.stack([square, applied, *drift, *residual, *rounding]).double()
                numbers_KPPM[place, rank, peer, :3] = torch.tensor([rows, width, sent], dtype=torch.float64)
                # An infinity times nothing would be no number in a sum.
                numbers_KPPM[place, rank, peer, 3:] = measured.nan_to_num(nan=1e300, posinf=1e300)
        found = {}
        for (layer, way), of_key in zip(
            keys, self._communicator.all_reduce(numbers_KPPM, "who sends").tolist(), strict=True
        ):
            for source, of_source in enumerate(of_key):
                for destination, (rows, width, sent, square, applied, *more) in enumerate(of_source):
                    if not rows:
                        continue
                    self._sent_bytes += sent
                    link = LinkKey(layer, way, source, destination)
                    self._shapes[link] = int(rows), int(width)
                    found[link] = Measured(
                        square=square,
                        applied=applied,
                        drift=[0.0, *more[: WINDOW - 1]],
                        residual=[0.0, *more[WINDOW : 2 * WINDOW]],
                        rounding=dict(zip(_ROUNDED, more[2 * WINDOW :], strict=True)),
                    )
        return found

    def _bytes(self, key: LinkKey, choice: Choice) -> float:
        """An epoch's."""
        return message_bytes(choice.bits, *self._shapes[key], self._stored_bytes) / choice.age

    def _seconds(self, key: LinkKey, choice: Choice) -> float:
        return self._bytes(key, choice) * self._seconds_a_byte(key.source, key.destination)

    def table(self, link_types: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """One row a link, with its newest choice.

        Args:
            link_types: the type of the slowest link from rank p (row) to rank q (column).
        """
        return [
            {
                **key._asdict(),
                "link_type": link_types[key.source][key.destination],
                "bits": choice.bits,
                "age": choice.age,
                "bytes_an_epoch": self._bytes(key, choice),
                "bytes_exact": self._bytes(key, EXACT),
                "error": self._errors[key],
                "weight": self._weights[key],
            }
            for key, choice in sorted(self._choices.items())
        ]

    def summary(self, link_types: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The errors, and of each layer, direction and type of link the mean bits and age, for a line of an epoch."""
        groups: defaultdict[tuple[int, str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for row in self.table(link_types):
            groups[row["layer"], row["direction"], row["link_type"]].append(row)
        return {
            "budget": self._budget,
            "byte_budget": self._byte_share if self._budget is None else None,
            "predicted_error": self.predicted_error,
            "measured_error": self.measured_error,
            "greatest_error": self.greatest_error,
            "links": [
                {
                    **dict(zip(("layer", "direction", "link_type"), key, strict=True)),
                    "bits": sum(row["bits"] for row in rows) / len(rows),
                    "age": sum(row["age"] for row in rows) / len(rows),
                    "bytes_saved": sum(row["bytes_exact"] - row["bytes_an_epoch"] for row in rows),
                }
                for key, rows in sorted(groups.items())
            ],
        }

    def in_words(self) -> str:
        """The newest choices, by layer and direction, as a sentence."""
        groups: defaultdict[tuple[int, str], list[LinkKey]] = defaultdict(list)
        for key in sorted(self._choices):
            groups[key.layer, key.direction].append(key)
        parts = []
        for (layer, direction), keys in groups.items():
            counts: defaultdict[Choice, int] = defaultdict(int)
            for key in keys:
                counts[self._choices[key]] += 1
            of_group = ", ".join(
                f"{number} of {len(keys)} pairs {choice.bits} bits every {choice.age} epochs"
                for choice, number in sorted(counts.items())
            )
            parts.append(f"layer {layer} {direction}: {of_group}")
        option = f"--byte-budget {self._byte_share:g}" if self._budget is None else f"--error-budget {self._budget:g}"
        return f"{option}, predicted error {self.predicted_error:.3g}: {'; '.join(parts)}"
