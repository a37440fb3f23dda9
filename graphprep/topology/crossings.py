"""Which link directions the route of each pair of ranks crosses, as a sparse matrix.

Letters: P ranks, D link directions; direction 0 of link i is row 2i, direction 1 is row 2i + 1.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from graphprep.topology.network import Topology


def crossings(topology: Topology) -> sparse.csr_array:
    """int64 0/1 [D, P * P]: does the route of pair p * P + q cross the link direction?"""
    num_ranks, num_directions = topology.num_ranks, 2 * len(topology.links)
    crossed = [
        (2 * hop.link + hop.direction, p * num_ranks + q)
        for p, routes in enumerate(topology.routes)
        for q, route in enumerate(routes)
        for hop in route
    ]
    direction, pair = np.array(crossed, np.int64).reshape(-1, 2).T
    ones = np.ones(len(crossed), np.int64)
    return sparse.csr_array((ones, (direction, pair)), shape=(num_directions, num_ranks**2))
