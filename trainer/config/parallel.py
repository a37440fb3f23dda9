"""The numbers of `--parallel`."""

from __future__ import annotations

from trainer.base.errors import OptionError


def parse_parallel(text: str) -> tuple[int, int, int] | None:
    """The numbers i, j, k of `--parallel`, or None for auto.

    Raises:
        OptionError: it is neither.
    """
    if text == "auto":
        return None
    try:
        i, j, k = (int(word) for word in text.split(","))
    except ValueError:
        i = j = k = 0
    if min(i, j, k) < 1:
        raise OptionError(f"expected auto or three whole numbers from 1 as 2,1,4, not {text!r}")
    return i, j, k
