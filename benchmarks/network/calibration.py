"""What the cost model does not know of a network: what share of a link messages get, and what starting exchanges takes.

`tc` counts whole frames, as a cable does: of 1,514 bytes 1,448 are a message's, and acknowledgements of what comes the
other way take some more. What is left is not always full, since senders on a busy processor wait for their turn. And
before the first byte moves, all ranks have to arrive at an exchange, and each receiver has to tell each sender that it
is ready.

Both are fitted to three of the measured configurations, METIS's parts of the block model on three kinds of machines,
which are left out of everything that predictions are judged by:

    seconds of an epoch = exchanges * start + bottlenecks / share        by least squares of relative errors
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from benchmarks.network.exchange_time import EXCHANGES

GRAPH, PARTS = "sbm", "metis"
CALIBRATING = ("4x1-unequal", "2x2-unequal", "4x1-equal")
"""The machines that it is measured on for that."""
MOST_SHARE = 1448 / 1514
"""Of a full frame, that are a message's."""


def calibrates(row: Mapping[str, Any]) -> bool:
    """Whether a measured configuration is one of the three."""
    return row["graph"] == GRAPH and row["parts"] == PARTS and row["links"] in CALIBRATING


def fitted(bottlenecks: Sequence[float], measured: Sequence[float]) -> tuple[float, float]:
    """(share, start) with the least relative errors of EXCHANGES * start + bottlenecks / share.

    Three configurations can hardly tell a slower link from a longer start, so the share is at most MOST_SHARE.
    """
    weight = 1 / np.array(measured)
    sides = np.stack([np.array(bottlenecks) * weight, EXCHANGES * weight], axis=1)
    inverse_share, start = lsq_linear(sides, np.ones(len(measured)), bounds=([1 / MOST_SHARE, 0], np.inf)).x
    return float(1 / inverse_share), float(start)
