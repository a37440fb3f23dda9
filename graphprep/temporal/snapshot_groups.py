"""Groups of consecutive snapshots, one a rank, whose largest cost is as small as it can be.

The optimum of the contiguous partition problem is found by bisection: whether groups of at most a given cost suffice is
answered by filling one group after the other, and the largest cost of an answer is the next upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import PartitionError


def balanced_groups(cost_T: NDArray[np.float64], num_groups: int) -> NDArray[np.int16]:
    """The group of each snapshot; int16 [T], ascending, every group with a snapshot.

    Raises:
        PartitionError: there are more groups than snapshots.
    """
    count = len(cost_T)
    if count < num_groups:
        raise PartitionError(
            f"{count} snapshots cannot be divided into {num_groups} groups; give a shorter --window, fewer --parts, or "
            "--ranks-per-group"
        )
    sums_T = np.concatenate([[0.0], np.cumsum(cost_T, dtype=np.float64)])
    low, high = float(sums_T[-1]) / num_groups, float(sums_T[-1])
    best = _filled(sums_T, num_groups, high)
    high = _largest(sums_T, best)
    while low < high and low < (middle := (low + high) / 2) < high:
        borders = _filled(sums_T, num_groups, middle)
        largest = _largest(sums_T, borders)
        if largest <= middle:
            best, high = borders, largest
        else:
            low = middle
    return np.repeat(np.arange(num_groups, dtype=np.int16), np.diff(best))


def group_figures(
    cost_T: NDArray[np.float64], group_T: NDArray[np.int16], num_groups: int, coefficients: Sequence[float]
) -> dict[str, Any]:
    """What groups cost, for the root of a cache.

    Args:
        coefficients: of a snapshot, an event and a node, by which costs were computed.
    """
    cost_P = np.bincount(group_T, weights=cost_T, minlength=num_groups)
    mean, heaviest = float(cost_P.mean()), int(cost_T.argmax())
    return {
        "coefficients": list(coefficients),
        "cost": cost_P.tolist(),
        "count": np.bincount(group_T, minlength=num_groups).tolist(),
        "imbalance": float(cost_P.max()) / mean,
        "heaviest": heaviest,
        "heaviest_share": float(cost_T[heaviest]) / mean,
    }


def _filled(sums_T: NDArray[np.float64], num_groups: int, limit: float) -> NDArray[np.int64]:
    """Borders of groups that are filled up to a limit one after the other; the last one has all that remains."""
    count = len(sums_T) - 1
    borders = [0]
    for group in range(num_groups - 1):
        start = borders[-1]
        fits = int(np.searchsorted(sums_T, sums_T[start] + limit, side="right")) - 1
        borders.append(min(max(start + 1, fits), count - (num_groups - 1 - group)))
    return np.array([*borders, count], np.int64)


def _largest(sums_T: NDArray[np.float64], borders: NDArray[np.int64]) -> float:
    return float(np.diff(sums_T[borders]).max())
