"""The numbers of neighbours that are drawn for a node in each layer."""

from __future__ import annotations

from trainer.base.errors import OptionError

EVERY = -1
"""all neighbours"""


def listed_fanouts(text: str) -> list[int]:
    """The numbers of `15,10` or `15,all`, the last layer's first.

    Raises:
        OptionError: they are no whole numbers from 0 on, or -1.
    """
    words = [word.strip().replace("all", "-1") for word in text.split(",")]
    numbers = [int(word) for word in words if word.removeprefix("-").isdecimal() and len(word) < 10]
    if len(numbers) != len(words) or any(number < EVERY for number in numbers):
        raise OptionError(f"expected whole numbers from 0 on, or all, with commas between, as 15,10, not {text!r}")
    return numbers
