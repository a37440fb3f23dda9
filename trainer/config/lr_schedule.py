"""The learning rate of every epoch, as a function of the epoch's number alone, so that a resumed run has the same.

    constant                --lr throughout
    cosine, cosine:FLOOR    from --lr down to FLOOR * lr (0) at the last of --epochs, along half a cosine
    step:N, step:N:FACTOR   times FACTOR (0.1) after every N epochs, at most 1

Before that, `--lr-warmup N` rises from lr / N in the first epoch to lr in the N-th.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trainer.base.errors import OptionError

Schedule = Callable[[int], float]
"""From an epoch's number, from 1, to the factor on `--lr`."""


def schedule(text: str, *, warmup: int, epochs: int) -> Schedule:
    """The schedule that `text` names.

    Args:
        text: as above.
        warmup: epochs in which the factor rises; the schedule itself starts after them.
        epochs: of the run.

    Raises:
        OptionError: it names none.
    """
    shape = _shape(text, max(epochs - warmup, 1))

    def factor(epoch: int) -> float:
        return epoch / warmup if epoch <= warmup else shape(epoch - warmup)

    return factor


def _shape(text: str, length: int) -> Schedule:
    name, *words = text.split(":")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [float("nan")]
    if name == "constant" and not numbers:
        return lambda _epoch: 1.0
    if name == "cosine" and len(numbers) <= 1 and all(0 <= floor <= 1 for floor in numbers):
        [floor] = numbers or [0.0]
        # The last epoch has the floor; the first one the full step.
        return lambda epoch: floor + (1 - floor) * (1 + math.cos(math.pi * (epoch - 1) / max(length - 1, 1))) / 2
    if name == "step" and 1 <= len(numbers) <= 2 and numbers[0] >= 1 and numbers[0].is_integer():
        every, factor = numbers if len(numbers) == 2 else (numbers[0], 0.1)
        if 0 < factor <= 1:
            return lambda epoch: factor ** ((epoch - 1) // int(every))
    raise OptionError(f"expected constant, cosine[:FLOOR] or step:N[:FACTOR], not {text!r}")
