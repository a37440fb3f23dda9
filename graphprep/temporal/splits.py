"""Splits by time: events to train, then to validate, then to test. Events of equal times are never on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import UsageError

DEFAULT_SHARES = (0.7, 0.15, 0.15)


def split_by_time(time_M: NDArray[Any], shares: Sequence[float] = DEFAULT_SHARES) -> tuple[int, int]:
    """The first event to validate and the first event to test.

    Where a border would fall between events of equal times, all of them go to the earlier side.

    Args:
        time_M: ascending.
        shares: of the events to train, to validate and to test; their sum is 1.

    Raises:
        UsageError: the shares are not three positive numbers of sum 1, or one of the three has no event.
    """
    if len(shares) != 3 or not all(share > 0 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        words = ",".join(f"{share:g}" for share in shares)
        raise UsageError(f"--split {words} is not three positive shares of sum 1; give e.g. 0.7,0.15,0.15")
    count = len(time_M)
    borders = []
    for share in (shares[0], shares[0] + shares[1]):
        last = min(count, max(1, round(share * count))) - 1
        borders.append(int(np.searchsorted(time_M, time_M[last], side="right")) if count else 0)
    validation, test = borders
    if not 0 < validation < test < count:
        raise UsageError(
            f"{count} events cannot be split by time into {shares[0]:g}, {shares[1]:g} and {shares[2]:g}: a part would "
            "have no event, since events of equal times stay together; give other shares with --split, or more events"
        )
    return validation, test
