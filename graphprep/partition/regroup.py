"""Change the number of parts of an assignment: neighbouring parts are merged, or each part is split.

    merge    parts g K/P .. (g + 1) K/P - 1 become part g; each such group must be on one machine
    split    part p is divided into f, which become parts p f .. p f + f - 1

Ranks that are next to each other in a topology's order are near each other, so both keep the
assignment's locality on the links.

Letters: N nodes, P parts as they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.errors import PartitionError
from graphprep.partition.methods.subgraph import induced
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import progress
from graphprep.topology import Topology


def require_multiple(num_parts: int, num_new: int) -> None:
    """Raises:
    PartitionError: parts cannot be split into so many.
    """
    _factor(num_new, num_parts, f"{num_parts} parts cannot be split into {num_new}")


def merged(part_N: NDArray[np.int32], topology: Topology, num_new: int) -> NDArray[np.int32]:
    """The assignment to fewer parts; int32 [N].

    Args:
        part_N: int32 [N].
        topology: the one that the parts were made for.
        num_new: the new number of parts.

    Raises:
        PartitionError: the number does not divide that of the parts, or a group would lie on two machines.
    """
    factor = _factor(topology.num_ranks, num_new, f"{topology.num_ranks} parts cannot be merged into {num_new}")
    for first in range(0, topology.num_ranks, factor):
        machines = {rank.machine for rank in topology.ranks[first : first + factor]}
        if len(machines) > 1:
            raise PartitionError(
                f"parts {first} to {first + factor - 1} of {topology.name} lie on machines "
                f"{', '.join(sorted(machines))}, so they cannot become one part; partition anew for another topology"
            )
    return part_N // np.int32(factor)


def split(
    graph: WholeGraph, part_N: NDArray[np.int32], num_parts: int, num_new: int, request: PartitionRequest, scratch: Path
) -> NDArray[np.int32]:
    """The assignment to more parts; int32 [N].

    Args:
        graph: of N nodes.
        part_N: int32 [N], from 0 to num_parts - 1.
        num_parts: how many parts there are.
        num_new: the new number of parts.
        request: method, seed and limits of each division.
        scratch: an existing folder for temporary files.

    Raises:
        PartitionError: the number is no multiple of that of the parts, or a part has too few nodes.
    """
    factor = _factor(num_new, num_parts, f"{num_parts} parts cannot be split into {num_new}")
    matrix, mask_N = graph.matrix, graph.training_mask()
    new_N = part_N * np.int32(factor)
    with progress.task("splitting parts", total=num_parts, unit="parts") as task:
        for part in range(num_parts):
            inside_N = part_N == part
            inner = induced(matrix.indptr, matrix.indices, None, inside_N)
            inner_matrix = Csr(indptr=inner.indptr, indices=inner.indices, num_sources=len(inner.nodes))
            piece = WholeGraph.of_one_type(inner_matrix, None if mask_N is None else mask_N[inside_N])
            result, _ = partition(piece, Topology.flat(factor), request, scratch=scratch)
            new_N[inside_N] += result.assignment
            task.advance()
    return new_N


def _factor(many: int, few: int, what: str) -> int:
    """The quotient of the two numbers of parts, if it is whole."""
    if few < 1 or many <= few or many % few:
        raise PartitionError(f"{what}: the larger number has to be a multiple of the smaller one")
    return many // few
