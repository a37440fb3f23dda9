"""Edge weights as stores and the trainer have them: float32, which holds whole numbers up to 2^24 exactly.

Readers give weights as their file has them, float32 or float64. They are rounded in one place, so that whole numbers
which float32 cannot hold (counts, identifiers, amounts of money) are not changed without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.system import progress

Weights = NDArray[np.float32] | NDArray[np.float64]


class Rounded(NamedTuple):
    """Whole numbers among weights that float32 cannot hold."""

    number: int = 0
    first: float = 0.0
    """one of them; 0 if there are none"""

    def __add__(self, other: Rounded) -> Rounded:  # type: ignore[override]
        return Rounded(self.number + other.number, self.first if self.number else other.first)


def as_float32(weights: Weights) -> NDArray[np.float32]:
    """The weights, rounded; all are finite in it."""
    return weights.astype(np.float32, copy=False)


def rounded_in(weights: Weights | None) -> Rounded:
    """What `as_float32` changes among whole numbers."""
    if weights is None or weights.dtype == np.float32:
        return Rounded()
    changed = np.flatnonzero(as_float32(weights) != weights)
    changed = changed[weights[changed] == np.floor(weights[changed])]
    return Rounded(len(changed), float(weights[changed[0]])) if len(changed) else Rounded()


def say_rounded(path: Path, rounded: Iterable[Rounded]) -> None:
    """Warn of a file's weights that are not what it says, if there are any."""
    total = sum(rounded, Rounded())
    if total.number:
        progress.warn(
            f"{path}: {total.number:,} weights are whole numbers above 2^24 that float32 rounds, as "
            f"{total.first:.0f} to {float(np.float32(total.first)):.0f}"
        )
