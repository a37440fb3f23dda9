"""Degrees of nodes as figures: quantiles, a histogram by powers of two, the share of the most connected nodes.

Letters: N nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOP_SHARE = 0.01
TOP_NODES = 5


def degree_summary(degree_N: NDArray[np.integer[Any]]) -> dict[str, Any]:
    """Figures of the degrees of at least one node, as plain JSON values.

    `top_share` is the share of all edges at the hundredth of the nodes with the most edges (one node at least);
    `histogram` has one row a range `low` .. `high` of degrees, with the `nodes` in it.
    """
    median, p90, p99 = np.quantile(degree_N, [0.5, 0.9, 0.99])
    total, top = int(degree_N.sum(dtype=np.int64)), max(1, int(len(degree_N) * TOP_SHARE))
    ascending = np.partition(degree_N, len(degree_N) - top)
    return {
        "mean": float(degree_N.mean()),
        "median": float(median),
        "p90": float(p90),
        "p99": float(p99),
        "max": int(degree_N.max()),
        "top_share": float(ascending[len(degree_N) - top :].sum(dtype=np.int64)) / total if total else 0.0,
        "histogram": _histogram(degree_N),
    }


def most_connected(
    in_degree_N: NDArray[np.integer[Any]], out_degree_N: NDArray[np.integer[Any]]
) -> list[dict[str, int]]:
    """The nodes with the most edges of both directions, in descending order."""
    degree_N = in_degree_N.astype(np.int64) + out_degree_N
    size = min(TOP_NODES, len(degree_N))
    top = np.argpartition(-degree_N, size - 1)[:size] if size else np.zeros(0, np.int64)
    ordered = top[np.lexsort([top, -degree_N[top]])]
    return [
        {"node": int(node), "in_degree": int(in_degree_N[node]), "out_degree": int(out_degree_N[node])}
        for node in ordered
    ]


def _histogram(degree_N: NDArray[np.integer[Any]]) -> list[dict[str, int]]:
    most = int(degree_N.max())
    lows = [0, *(1 << power for power in range(max(1, most).bit_length()))]
    counts, _ = np.histogram(degree_N, bins=[*lows, lows[-1] * 2 if lows[-1] else 1])
    highs = [*(low - 1 for low in lows[1:]), max(lows[-1], most)]
    return [
        {"low": low, "high": high, "nodes": int(count)} for low, high, count in zip(lows, highs, counts, strict=True)
    ]
