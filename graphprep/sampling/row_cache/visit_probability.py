"""How probable it is that a batch needs a node's row, from the fanouts alone (VIP, Kaler et al. 2023, "Communication-
efficient graph neural networks with probabilistic neighborhood expansion analysis and caching", SALIENT++).

A node is needed if it is a seed or was drawn in a hop. Node v is in the frontier of a hop with probability p(v); for
each edge u -> v then, v draws u with probability min(1, fanout / degree of v). Draws of different nodes are taken to be
independent of each other, and so are the nodes of a frontier.

Letters: N nodes of a type, E edges of a type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.sampling.graph import SamplingGraph


def visit_probabilities(
    graph: SamplingGraph,
    fanouts: Mapping[EdgeType, Sequence[int]],
    seed_probability: Mapping[str, NDArray[np.float64]],
) -> dict[str, NDArray[np.float64]]:
    """The probability that a batch needs the row of each node, by type: float64 [N].

    Args:
        graph: the topology.
        fanouts: of each edge type in each hop, from the seeds on; below 0 is all. In each hop all nodes that were met
            so far draw.
        seed_probability: by type, how probable it is that each node is a seed of a batch: for training nodes the batch
            size over their number, else 0. Types without seeds may be left out.
    """
    missed = {
        name: 1 - np.asarray(seed_probability.get(name, np.zeros(count)), np.float64)
        for name, count in graph.num_nodes.items()
    }
    for hop in range(max((len(numbers) for numbers in fanouts.values()), default=0)):
        before = {name: each.copy() for name, each in missed.items()}
        for kind, numbers in fanouts.items():
            matrix = graph.edges[kind]
            _draw(matrix.indptr, matrix.indices, numbers[hop], before[kind.destination], missed[kind.source])
    return {name: 1 - each for name, each in missed.items()}


@njit(cache=True, nogil=True)
def _draw(indptr, indices, fanout, missed_rows, missed_sources):  # type: ignore[no-untyped-def]
    """Multiply the probability that a node is not met by that of each node it leads to not to draw it."""
    for row in range(len(indptr) - 1):
        degree = indptr[row + 1] - indptr[row]
        if degree == 0 or missed_rows[row] == 1:
            continue
        drawn = 1.0 if fanout < 0 or fanout >= degree else fanout / degree
        stays = 1 - drawn * (1 - missed_rows[row])
        for e in range(indptr[row], indptr[row + 1]):
            missed_sources[indices[e]] *= stays
