"""The shares of the edges to train on, to validate and to test, as one option has them. No torch here."""

from __future__ import annotations

import re

from trainer.base.errors import OptionError


def edge_shares(text: str) -> tuple[float, float, float]:
    """The shares of a text such as 0.85,0.05,0.1.

    Raises:
        OptionError: it is something else, the shares are not 1 together, or there is none to train on.
    """
    try:
        train, val, test = (float(word) for word in text.split(","))
    except ValueError:
        raise OptionError(f"expected three shares with commas between, as 0.85,0.05,0.1, not {text!r}") from None
    if not (0 < train <= 1 and 0 <= val < 1 and 0 <= test < 1 and abs(train + val + test - 1) < 1e-6):
        raise OptionError(f"expected shares that are 1 together, the first above 0, not {text}")
    return train, val, test


def check_edge_split(text: str) -> None:
    """See that a text is shares, or may be the name of an array.

    Raises:
        OptionError: it is neither.
    """
    if not is_array_name(text):
        edge_shares(text)


def is_array_name(text: str) -> bool:
    """Whether a split of the edges is the name of an array, and not shares."""
    return re.fullmatch(r"[A-Za-z_][\w.-]*", text) is not None


def edge_counts(text: str, num_pairs: int) -> tuple[int, int, int]:
    """How many of `num_pairs` are to train on, to validate and to test; the last two rounded down, as by PyG."""
    _, val, test = edge_shares(text)
    # A share of 0.1 of 10 is 1, although 0.1 is a little less in binary.
    num_val, num_test = (int(share * num_pairs + 1e-6) for share in (val, test))
    return num_pairs - num_val - num_test, num_val, num_test
