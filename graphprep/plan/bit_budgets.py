"""Budgets of error or bytes by which a run chooses bits and age of its rows, and what pilots show of them.

What a budget sends is known only from a run: of an error budget all, of a byte budget how the bytes are divided among
layers and directions. So each has a pilot, whose training passes give shares of the exact bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OF_EXACT = ("wire", "staleness", "staleness_grad")
"""The options that a budget chooses."""


@dataclass(frozen=True, slots=True)
class BitBudget:
    """One of the trainer's options with its value."""

    option: str
    share: float

    @property
    def options(self) -> dict[str, float]:
        return {self.option: self.share}

    @property
    def name(self) -> str:
        return f"--{self.option.replace('_', '-')} {self.share:g}"


BUDGETS = (BitBudget("byte_budget", 0.1), BitBudget("byte_budget", 0.04), BitBudget("error_budget", 0.5))
"""Those that a search considers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPilot:
    """A short run with a budget."""

    budget: BitBudget
    values: Sequence[float]
    """The validation after each epoch; larger is better."""
    shares: Mapping[tuple[int, str], float]
    """By layer and direction: what training passes sent, as a share of exact rows in fp32."""


def sent_shares(exchanges: Iterable[Mapping[str, Any]], epochs: int) -> dict[tuple[int, str], float]:
    """The shares of training passes in a run that was validated after each epoch and tested, always with exact rows.

    Args:
        exchanges: of its result, by layer and direction.
        epochs: how many it had.
    """
    found = {}
    for row in exchanges:
        sent, exact = float(row["bytes_sent"]), float(row["bytes_exact_boundary"])
        if row["direction"] == "forward":
            evaluations = exact * (epochs + 1) / (2 * epochs + 1)
            sent, exact = sent - evaluations, exact - evaluations
        if row["layer"] >= 2 and exact > 0:
            found[row["layer"], row["direction"]] = min(1.0, max(0.0, sent / exact))
    return found
