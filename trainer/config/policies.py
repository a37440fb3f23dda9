"""When rows are sent again: one decision an epoch for each layer, direction and source rank.

A receiver keeps the last rows that it got, and uses them as long as their source does not send. Let
`age` be how many epochs old the copy would be if the source did not send in this epoch:

    none            always send
    fixed:K         send when age reaches K: every K epochs, all sources in the same one
    adaptive:AGE    send before age exceeds AGE. Sources take turns: source p of P sends in the epochs that are
                    p (AGE + 1) / P, rounded down, beyond a multiple of AGE + 1, so that the links carry about the
                    same in every epoch where `fixed` loads all of them at once and then none
    variation:T     send when the rows that some peer needs have changed by more than T since they were last delivered:
                    |now - then| / |then|, Frobenius norms. `variation:T:AGE` also bounds the age; without it, by 20

A policy without its number has the one that was chosen from measurements (docs/training-measurements.md): fixed:4,
adaptive:3, variation:0.8.

Decisions are pure functions of numbers that are the same on all ranks, except for the change, which the source alone
knows; the one policy that looks at it has its decisions gathered (one byte a source) before anybody waits for rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from trainer.base.errors import OptionError

_OLDEST_UNDER_VARIATION = 20
_CHOSEN = {"fixed": "fixed:4", "adaptive": "adaptive:3", "variation": "variation:0.8"}
"""A policy without its number."""
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessQuery:
    """The state of one source's copy, from which a policy decides."""

    epoch: int
    age: int
    """Epochs since the copy was delivered, at least 1."""
    source: int
    """Rank that the rows belong to, of `world` ranks."""
    world: int
    change: float = math.nan
    """|now - then| / |then| over the rows that are sent; NaN where it is not known or not a number."""


class Policy(Protocol):
    """When a source sends its rows again."""

    @property
    def keeps(self) -> bool:
        """Whether a source may skip epochs, so that receivers have to keep their rows."""

    @property
    def watches(self) -> bool:
        """Whether decisions depend on the change."""

    def is_due(self, query: StalenessQuery) -> bool:
        """Whether the source has to send in this epoch."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every `period` epochs."""

    period: int
    watches = False

    @property
    def keeps(self) -> bool:
        return self.period > 1

    def is_due(self, query: StalenessQuery) -> bool:
        return query.age >= self.period


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Before a copy gets older than `oldest` epochs; sources take turns."""

    oldest: int
    watches = False

    @property
    def keeps(self) -> bool:
        return self.oldest > 0

    def is_due(self, query: StalenessQuery) -> bool:
        period = self.oldest + 1
        turn = query.source * period // query.world
        return query.age > self.oldest or query.epoch % period == turn


@dataclass(frozen=True, slots=True)
class Variation:
    """When the rows have changed by more than `threshold`, or would get older than `oldest` epochs."""

    threshold: float
    oldest: int = _OLDEST_UNDER_VARIATION
    watches = True

    @property
    def keeps(self) -> bool:
        return self.oldest > 0

    def is_due(self, query: StalenessQuery) -> bool:
        # Not "change > threshold": rows that hold a NaN are always sent.
        return query.age > self.oldest or not query.change <= self.threshold


def policy(text: str) -> Policy:
    """The policy that an option names.

    Raises:
        OptionError: there is no such policy.
    """
    name, *numbers = _CHOSEN.get(text, text).split(":")
    match name, len(numbers):
        case "none", 0:
            return Fixed(1)
        case "fixed", 1:
            return Fixed(_number(text, numbers[0], int, 1))
        case "adaptive", 1:
            return Adaptive(_number(text, numbers[0], int, 0))
        case "variation", 1:
            return Variation(_number(text, numbers[0], float, 0))
        case "variation", 2:
            return Variation(_number(text, numbers[0], float, 0), _number(text, numbers[1], int, 0))
    raise _refused(text)


def _number(text: str, digits: str, convert: Callable[[str], _Number], least: int) -> _Number:
    try:
        value = convert(digits)
    except ValueError:
        raise _refused(text) from None
    if not least <= value < math.inf:
        raise _refused(text)
    return value


def _refused(text: str) -> OptionError:
    return OptionError(
        f"{text!r} is no staleness policy; choose none, fixed, fixed:K (K from 1), adaptive, adaptive:AGE (from 0), "
        "variation, variation:T (T from 0) or variation:T:AGE"
    )
