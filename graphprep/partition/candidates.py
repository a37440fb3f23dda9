"""The methods by name: each turns a clean graph and target shares into an assignment of all nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.graph import Csr
from graphprep.partition import floors, placement
from graphprep.partition.metis import metis
from graphprep.partition.request import PartitionRequest


def assign(
    method: str, clean: Csr, *, shares_P: NDArray[np.float64], request: PartitionRequest, scratch: Path
) -> NDArray[np.int32]:
    """Assign every node to a part, isolated nodes where there is room.

    Args:
        method: "metis", "metis-recursive", "ldg" or "random".
        clean: square, symmetric, no self-loops, no duplicates.
        shares_P: the share of nodes that each part should get; sums to 1.
        request: seed and imbalance are used.
        scratch: an existing folder for temporary files.

    Returns:
        int32 [N]; no part is empty as long as there are as many nodes as parts.

    Raises:
        PartitionError: METIS died or returned what is not a partition.
    """
    connected_N = placement.connected_nodes(clean)
    inner = placement.subgraph_of_connected(clean, connected_N)
    if method == "random":
        inner_assignment = floors.at_random(inner.num_rows, shares_P=shares_P, seed=request.seed)
    elif method == "ldg" or inner.num_rows <= len(shares_P):
        # METIS fails on fewer nodes than parts, and there is nothing to cut well either.
        inner_assignment = floors.ldg(inner, shares_P=shares_P, seed=request.seed, imbalance=request.imbalance)
    else:
        inner_assignment = metis(
            inner,
            shares_P=shares_P,
            recursive=method == "metis-recursive",
            seed=request.seed,
            imbalance=request.imbalance,
            scratch=scratch,
        )
    assignment_N = placement.place_isolated(inner_assignment, connected_N, shares_P)
    return placement.fill_empty_parts(assignment_N, len(shares_P))
