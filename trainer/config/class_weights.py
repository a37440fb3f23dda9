"""`--class-weights`: a word, or a list of numbers."""

from __future__ import annotations

from trainer.base.errors import OptionError

_LEAST, _GREATEST = 1e-6, 1e6
"""Of a class's weight: so that fp32 holds the sums of losses."""


def listed_weights(text: str) -> list[float] | None:
    """The weights listed by `--class-weights`, None for `none` and `balanced`.

    Raises:
        OptionError: it is neither a word nor a list of numbers from 0.
    """
    if text in ("none", "balanced"):
        return None
    try:
        weights = [float(word) for word in text.split(",")]
    except ValueError:
        weights = [-1.0]
    if not all(weight == 0 or _LEAST <= weight <= _GREATEST for weight in weights) or not any(weights):
        raise OptionError(
            f"expected none, balanced, or numbers that are 0 or from {_LEAST:g} to {_GREATEST:g} with commas between, "
            f"not {text!r}"
        )
    return weights
