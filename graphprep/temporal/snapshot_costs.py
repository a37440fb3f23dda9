"""What each snapshot of a stream costs: a + b events + c active nodes, with given or fitted coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import UsageError
from graphprep.temporal.events import EventSource
from graphprep.temporal.format import DESTINATION, SOURCE
from graphprep.temporal.stream_kernels import count_active


def active_nodes(events: EventSource, offsets_T: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many different nodes have an event in each snapshot; int64 [T]."""
    nodes_T = np.zeros(len(offsets_T) - 1, np.int64)
    stamp_N = np.full(events.num_nodes, -1, np.int64)
    snapshot = first_event = 0
    for source_m, destination_m in zip(events.rows(SOURCE), events.rows(DESTINATION), strict=True):
        snapshot = count_active(source_m, destination_m, first_event, offsets_T, snapshot, stamp_N, nodes_T)
        first_event += len(source_m)
    return nodes_T


def snapshot_costs(
    events_T: NDArray[np.int64], nodes_T: NDArray[np.int64], coefficients: Sequence[float]
) -> NDArray[np.float64]:
    """a + b events + c nodes of each snapshot; float64 [T]."""
    a, b, c = coefficients
    cost_T: NDArray[np.float64] = a + b * events_T + c * nodes_T
    return cost_T


def fit_costs(
    events_T: NDArray[np.int64], nodes_T: NDArray[np.int64], seconds_T: NDArray[np.float64]
) -> tuple[float, float, float]:
    """The coefficients a, b and c, none below 0, whose costs are nearest to measured seconds (least squares).

    Args:
        events_T, nodes_T: of the snapshots that were measured.
        seconds_T: of each, by the clock.

    Raises:
        UsageError: there are none, lengths differ, or a measurement is not finite.
    """
    from scipy.optimize import nnls

    if not len(seconds_T) or not len(events_T) == len(nodes_T) == len(seconds_T):
        raise UsageError(
            f"{len(seconds_T)} measured seconds do not fit {len(events_T)} snapshots; give the seconds of each"
        )
    if not np.isfinite(seconds_T).all():
        raise UsageError("a measured number of seconds is not finite; measure again")
    columns = np.stack([np.ones(len(events_T)), events_T, nodes_T], axis=1).astype(np.float64)
    scale = np.maximum(columns.max(axis=0), 1.0)  # columns of one size, as nnls compares them
    found, _ = nnls(columns / scale, np.asarray(seconds_T, np.float64))
    a, b, c = (found / scale).tolist()
    return a, b, c
