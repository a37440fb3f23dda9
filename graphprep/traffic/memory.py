"""The memory limit of partitioning: a linear estimate of each rank's memory, and target shares that respect it.

    memory(rank) = EDGE_BYTES * in-edges + held bytes * (NODE_ROWS * nodes + HALO_ROWS * halo rows)

An edge is an index and a value of 4 bytes in the matrix and again in its transpose. A node keeps its row before and
after a layer and the gradients of both; a halo row is received, and a partial sum goes back for it. A row that is held
has the bytes of a row that is sent, and no fewer than `LEAST_ROW_BYTES`: features and hidden layers are wider than what
the last layer sends. Deeper networks keep more; a larger `--row-bytes` accounts for that. Only ranks that state
`memory_gb` have a limit. This is no estimate of a run: `graphprep plan` asks the trainer for that
(`graphprep.plan.trainer_memory`).

Letters: P parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.topology import Topology
from graphprep.traffic.work import Limit, speed_shares

EDGE_BYTES, NODE_ROWS, HALO_ROWS = 16, 4, 2
LEAST_ROW_BYTES = 1024
"""Of a row in memory: 256 values in fp32."""
SHARE_BEFORE_HALO = 0.8
"""Share of a rank's memory for its nodes and in-edges; the rest is for the halo, which is not known beforehand."""


def memory_of(
    in_edges_P: NDArray[np.int64], nodes_P: NDArray[np.int64], halo_rows_P: NDArray[np.int64], row_bytes: int
) -> NDArray[np.int64]:
    """Bytes that each rank needs; int64 [P]."""
    held_bytes = max(row_bytes, LEAST_ROW_BYTES)
    return np.asarray(EDGE_BYTES * in_edges_P + held_bytes * (NODE_ROWS * nodes_P + HALO_ROWS * halo_rows_P))


def bytes_without_halo(num_edges: int, num_nodes: int, row_bytes: int) -> int:
    """Bytes that all ranks need together for nodes and in-edges."""
    return EDGE_BYTES * num_edges + max(row_bytes, LEAST_ROW_BYTES) * NODE_ROWS * num_nodes


def capacities(topology: Topology) -> NDArray[np.float64] | None:
    """Bytes of each rank, float64 [P], infinite where it is not stated; None where no rank states it."""
    stated = [rank.memory_gb for rank in topology.ranks]
    if all(memory is None for memory in stated):
        return None
    return np.array([np.inf if memory is None else memory * 1e9 for memory in stated])


def memory_limit(topology: Topology, memory_P: NDArray[np.int64]) -> Limit | None:
    """The memory limit and the rank with the largest share of its memory; None where no rank states it."""
    capacity_P = capacities(topology)
    if capacity_P is None:
        return None
    value = float((memory_P / capacity_P).max())
    return Limit(what="memory", limit=1.0, value=value, met=value <= 1.0)


def target_shares(topology: Topology, total_bytes: float) -> NDArray[np.float64]:
    """Each rank's target share of everything: by speed, but no more than its memory takes; sums to 1.

    What a rank cannot hold is shared among the others by their speed. Where all memory together is too small, shares
    follow memory, and every rank exceeds its limit by the same factor.

    Args:
        topology: of P ranks.
        total_bytes: of all nodes and edges, without halos.
    """
    shares_P, capacity_P = speed_shares(topology), capacities(topology)
    if capacity_P is None or total_bytes <= 0:
        return shares_P
    most_P = SHARE_BEFORE_HALO * capacity_P / total_bytes
    if most_P.sum() <= 1.0:
        return np.asarray(most_P / most_P.sum())
    full_P = np.zeros(len(shares_P), np.bool_)
    target_P = shares_P
    while (target_P > most_P * (1 + 1e-12)).any():
        full_P |= target_P >= most_P
        left = 1.0 - most_P[full_P].sum()
        target_P = np.where(full_P, most_P, shares_P * left / shares_P[~full_P].sum())
    return np.asarray(target_P)
