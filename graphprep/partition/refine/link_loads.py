"""Loads of links and parts, and the order of two states of a partition.

Letters: X nodes of a level, P parts, C limits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.refine import refine_kernels as kernels
from graphprep.partition.refine.refine_kernels import Limits, Links, cost_of


def limits_of(part_X: NDArray[np.int32], weight_XC: NDArray[Any], most_PC: NDArray[np.float64]) -> Limits:
    """The weights of parts and their limits."""
    held = [np.bincount(part_X, weights=weight_X, minlength=len(most_PC)) for weight_X in weight_XC.T]
    return Limits(weight_XC=weight_XC, held_PC=np.stack(held, axis=1), most_PC=most_PC)


def set_loads(links: Links, units_PP: NDArray[np.int64]) -> None:
    """Set the loads of links from what the parts exchange."""
    kernels.set_loads(links, units_PP, np.arange(len(units_PP)))


def slowest(links: Links) -> float:
    """Seconds of the slowest link direction."""
    return float(links.load_D.max(initial=0.0))


def scale(links: Links, reference: float, steps: int, row_weight: float = 0.0) -> None:
    """Set the norm: its reference in seconds, which for a sum (steps 0) is that of one row, and the cost of a row.

    One per cent of all rows costs as much as `row_weight` per cents of every load.
    """
    links.scale[:] = max(reference if steps else float(links.second_D.max(initial=0.0)), 1e-30), steps, 0.0
    if row_weight and links.total[0]:
        links.scale[2] = row_weight * 2**steps * float(cost_of(links)) / int(links.total[0])


def excess(limits: Limits) -> int:
    """The excess over all limits, in whole thousandths."""
    return math.ceil(float(_excess_PC(limits).sum()) * 1000 - 1e-9)


def greatest_excess(limits: Limits) -> float:
    """The greatest excess over a limit, as a share of it; 0 where all are kept."""
    return float(_excess_PC(limits).max(initial=0.0))


def _excess_PC(limits: Limits) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        excess_PC = np.where(np.isfinite(limits.most_PC), limits.held_PC / limits.most_PC - 1, 0.0)
    return np.maximum(excess_PC, 0.0)


def rank(links: Links, limits: Limits) -> tuple[int, float]:
    """Sort key, lower is better: the excess over the limits, then the norm."""
    return excess(limits), float(cost_of(links))
