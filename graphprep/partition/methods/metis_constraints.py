"""METIS with several balance constraints: run with tighter limits than requested, and again if it exceeds them.

METIS treats its limits as goals: on power-law graphs it ends a few per cent above. It has no lower limits: if the other
parts can hold all of a slow rank's share, it may leave that rank's part empty. The first run gets most of the
allowance, the second less, and a third, with less still, is made only if some part is empty. The best run is returned.

Letters: N nodes, P parts, C constraints.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.methods.metis_ctypes import MetisGraph, MetisLibrary

ASKED_OF_ALLOWANCE = (0.85, 0.5, 0.2)
"""Share of (limit - 1) that each run is given."""
LEAST_LIMIT = 1.001


class Found(NamedTuple):
    """A partition and how far it exceeds the limits."""

    part_N: NDArray[np.int64]
    cut: int
    excess: float
    """The greatest load of a part over its limit plus one node of slack, at least 1."""
    empty: int
    """Parts without a node."""

    @property
    def faults(self) -> tuple[float, int]:
        return self.excess, self.empty


def partition_within(
    metis: MetisLibrary,
    graph: MetisGraph,
    shares_P: NDArray[np.float64],
    limits_C: NDArray[np.float64],
    *,
    seed: int,
) -> Found:
    """A k-way partition that keeps the limits, if METIS finds one.

    Args:
        shares_P: target shares; sums to 1.
        limits_C: greatest share over target share for each constraint; one node of slack comes on top, as always.
        seed: of the first run; the next takes the next.

    Raises:
        MemoryError, RuntimeError: METIS says so.
    """
    found: list[Found] = []
    for attempt, allowance in enumerate(ASKED_OF_ALLOWANCE):
        asked_C = np.maximum(1.0 + (limits_C - 1.0) * allowance, LEAST_LIMIT)
        part_N, cut = metis.partition(graph, shares_P, asked_C, seed=(seed + attempt) % 2**31)
        empty = len(shares_P) - len(np.unique(part_N))
        found.append(Found(part_N, cut, excess(part_N, graph.weights_NC, shares_P, limits_C), empty))
        if found[-1].faults == (1.0, 0) or (attempt == 1 and not empty):
            break
    return min(found, key=lambda each: each.faults)


def excess(
    part_N: NDArray[np.int64],
    weights_NC: NDArray[np.int64],
    shares_P: NDArray[np.float64],
    limits_C: NDArray[np.float64],
) -> float:
    """The greatest load of a part over its limit plus one node of slack; 1.0 where all limits are kept."""
    worst = 1.0
    for weight_N, limit in zip(weights_NC.T, limits_C, strict=True):
        load_P = np.bincount(part_N, weights=weight_N, minlength=len(shares_P))
        allowed_P = limit * shares_P * load_P.sum() + weight_N.max(initial=0)
        worst = max(worst, float((load_P / allowed_P).max()))
    return worst
