"""Integer weights for native libraries: at least 1, and small enough that no sum of them overflows.

A weight of 0 makes METIS leave parts empty and report success; sums beyond 31 bits overflow in the other libraries.

Letters: N nodes, P parts, C constraints.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.methods.base import NodeLoad

MOST_TOTAL = 2**30
"""Sum of all weights, unless there are so many that weights of 1 exceed it."""
ZEROS_SHARE = 0.01
"""Nodes without a load get a weight of 1; loads are scaled up until these are no more of the total than this."""
MOST_OF_SHARE = 0.5
"""The most that one node may weigh, as a share of a part."""


def edge_weights(data: NDArray[np.float32] | None) -> NDArray[np.int64] | None:
    """int64 [E] from the edge counts of a clean graph; None where all are alike, as a library then needs none."""
    if data is None or not len(data) or data.min() == data.max():
        return None
    return whole(data, scale_up_to=1.0)


def node_weights(loads: tuple[NodeLoad, ...], shares_P: NDArray[np.float64]) -> NDArray[np.int64]:
    """int64 [N, C], one column a load.

    A node that is heavier than half of the largest part's share is counted as that half. Its part is over its share
    whatever else it holds, which the one node of slack in every limit covers; the others share out the rest evenly,
    and its part keeps room for the nodes that it needs for its other loads.
    """
    most = MOST_OF_SHARE * float(shares_P.max())
    return np.stack([_column(load.amount_N, most) for load in loads], axis=1)


def _column(amount_N: NDArray[np.int64], most: float) -> NDArray[np.int64]:
    capped_N = capped(amount_N, most)
    total, zeros = float(capped_N.sum()), int((amount_N <= 0).sum())
    if total <= 0:
        return np.ones(len(amount_N), np.int64)
    return whole(capped_N, scale_up_to=max(1.0, zeros / (ZEROS_SHARE * total)))


def capped(amount_N: NDArray[np.int64], most: float) -> NDArray[np.float64]:
    """float64 [N]: no entry is more than `most` of the sum of what is returned; all 0 where only that will do."""
    falling_N = np.sort(amount_N.astype(np.float64))[::-1]
    rest_N = falling_N.sum() - np.concatenate([[0.0], np.cumsum(falling_N[:-1])])
    # With the h heaviest at the cap: cap = most * (h * cap + the rest). The least h will do that leaves none above it.
    heavy = np.arange(min(len(falling_N), int(np.ceil(1 / most))))
    cap_H = most * rest_N[heavy] / (1 - most * heavy)
    fits_H = falling_N[heavy] <= cap_H * (1 + 1e-9)
    cap = float(cap_H[fits_H.argmax()]) if fits_H.any() else 0.0
    return np.minimum(amount_N, cap)


def whole(values: NDArray[Any], *, scale_up_to: float) -> NDArray[np.int64]:
    """`values` in proportion, as whole numbers of at least 1; int64.

    Args:
        values: not negative.
        scale_up_to: greatest factor, as far as the sum stays below MOST_TOTAL.
    """
    total = float(values.sum(dtype=np.float64))
    factor = min(scale_up_to, max(MOST_TOTAL - len(values), len(values)) / total) if total > 0 else 1.0
    weights = np.rint(values * np.float64(factor)).astype(np.int64)
    return np.maximum(weights, 1, out=weights)
