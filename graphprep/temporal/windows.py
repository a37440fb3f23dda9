"""Windows of time and the snapshots that they cut a stream of events into."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import UsageError
from graphprep.temporal.format import SECONDS

MOST_SNAPSHOTS = 10_000_000


def window_seconds(text: str, flag: str = "--window") -> float:
    """The seconds of a window such as `1d`, `6h`, `30min` or `90s`; `flag` gave it.

    Raises:
        UsageError: it is not a positive number with a unit of time.
    """
    match = re.fullmatch(r"([0-9]*\.?[0-9]+) *([a-z]+)", text.strip())
    units = ", ".join(SECONDS)
    if match is None or match[2] not in SECONDS or not float(match[1]) > 0:
        raise UsageError(f"{flag} {text} is not a positive number with one of the units {units}; give e.g. 1d")
    return float(match[1]) * SECONDS[match[2]]


def in_units(seconds: float, unit: str) -> float:
    """A window in a unit of time; a whole number wherever it is one up to rounding."""
    window = seconds / SECONDS[unit]
    nearest = round(window)
    return float(nearest) if nearest and math.isclose(window, nearest, rel_tol=1e-9) else window


def snapshot_offsets(time_M: NDArray[Any], window: float) -> NDArray[np.int64]:
    """The first event of each window, and the number of events at the end; int64 [T + 1].

    Windows follow each other from the first event's time on; window t has the events of times from first + t * window
    up to below first + (t + 1) * window. Windows without events are there too.

    Args:
        time_M: ascending.
        window: in the unit of the times.

    Raises:
        UsageError: there is no event, or there would be very many windows.
    """
    if not len(time_M):
        raise UsageError("a stream without events has no snapshots; import events first")
    first, span = time_M[0], float(time_M[-1] - time_M[0])
    if span / window >= MOST_SNAPSHOTS:
        raise UsageError(
            f"times span {span / window:,.0f} windows, and {MOST_SNAPSHOTS:,} is the most; give a longer --window"
        )
    count = math.floor(span / window) + 1
    borders = first + np.arange(1, count) * (int(window) if float(window).is_integer() else window)
    return np.concatenate([[0], np.searchsorted(time_M, borders, side="left"), [len(time_M)]]).astype(np.int64)
