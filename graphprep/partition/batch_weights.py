"""What a cut edge costs where mini-batches are trained: the rows that are fetched over it.

A rank draws neighbours for the seeds that it has, hop after hop, and fetches each row that it meets and does not have.
If it crosses the edge u -> v from v to a node u of another part, it fetches u, and most likely what it then draws for u
too. So the edge weighs, over all hops h: the probability that v is met before hop h, times that of drawing u, times the
rows that u brings with it, its own and those of the hops that follow. A partition of a small cut by these weights
fetches few rows; `graphprep.traffic.visits` says how many, and that decides between partitions.

Letters: N nodes, E edges of the whole graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import UsageError
from graphprep.partition.methods.integer_weights import whole
from graphprep.partition.typed_graph import WholeGraph, joined
from graphprep.traffic.visits import BatchShape, visits_by_hop

MOST_UNITS = 1000.0
"""the mean weight of an edge, which is a whole number, at least 1"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchWeights:
    """A graph whose edges weigh what a step of mini-batches fetches over them."""

    shape: BatchShape
    matrix: Csr
    """in-edges of all types in the common numbering; data are whole numbers in float32"""
    units_a_row: float
    """of these are one row"""

    @classmethod
    def of(cls, graph: WholeGraph, shape: BatchShape) -> BatchWeights:
        """Weigh the edges.

        Raises:
            UsageError: there are no training nodes.
        """
        if graph.training_mask() is None:
            raise UsageError(
                "--for sampling needs training nodes, and the graph has no train_mask with any; leave it out"
            )
        weights = edge_weights(graph, shape)
        rows = np.concatenate(list(weights.values()))
        total = float(rows.sum(dtype=np.float64))
        factor = MOST_UNITS * len(rows) / total if total > 0 else 1.0
        units = np.split(
            whole(rows, scale_up_to=factor).astype(np.float32), np.cumsum([*map(len, weights.values())])[:-1]
        )
        matrices = {
            kind: Csr(indptr=matrix.indptr, indices=matrix.indices, num_sources=matrix.num_sources, data=data)
            for (kind, matrix), data in zip(graph.matrices.items(), units, strict=True)
        }
        matrix = joined(matrices, graph.num_nodes, with_data=True)
        assert matrix.data is not None
        return cls(
            shape=shape,
            matrix=matrix,
            units_a_row=float(matrix.data.sum(dtype=np.float64)) / total if total > 0 else 1.0,
        )

    def undirected(self, clean: Csr) -> Csr:
        """The clean graph with the weights of both directions together."""
        back = csr.transpose(self.matrix)
        data = np.zeros(clean.num_edges, np.float32)
        for matrix in (self.matrix, back):
            _add_to_clean(clean.indptr, clean.indices, matrix.indptr, matrix.indices, matrix.data, data)
        return Csr(indptr=clean.indptr, indices=clean.indices, num_sources=clean.num_sources, data=data)


def edge_weights(graph: WholeGraph, shape: BatchShape) -> dict[EdgeType, NDArray[np.float64]]:
    """float64 [E] by type: rows that a step fetches if the edge is cut, on average over all steps."""
    fanouts = shape.fanouts_by_type(graph.matrices)
    seeds = shape.seed_probabilities(graph.training_masks)
    visits = visits_by_hop(graph.matrices, graph.num_nodes, fanouts, seeds)
    brought = {name: np.ones(count) for name, count in graph.num_nodes.items()}
    weights = {kind: np.zeros(matrix.num_edges) for kind, matrix in graph.matrices.items()}
    for hop in reversed(range(len(shape.fanouts))):
        later = {name: each.copy() for name, each in brought.items()}
        for kind, matrix in graph.matrices.items():
            _weigh(
                matrix.indptr,
                matrix.indices,
                shape.fanouts[hop],
                visits[hop][kind.destination],
                later[kind.source],
                weights[kind],
                brought[kind.destination],
            )
    return weights


@njit(cache=True, nogil=True)
def _weigh(indptr, indices, fanout, visits_rows, later_sources, weight_E, brought_rows):  # type: ignore[no-untyped-def]
    """Add what a hop fetches over each edge, and to each row's node what it brings with it from this hop on."""
    for row in range(len(indptr) - 1):
        degree = indptr[row + 1] - indptr[row]
        drawn = 1.0 if fanout < 0 or fanout >= degree else fanout / degree
        for e in range(indptr[row], indptr[row + 1]):
            weight_E[e] += visits_rows[row] * drawn * later_sources[indices[e]]
            brought_rows[row] += drawn * later_sources[indices[e]]


@njit(cache=True, nogil=True)
def _add_to_clean(clean_indptr, clean_indices, indptr, indices, data, clean_data):  # type: ignore[no-untyped-def]
    """Add the weights of edges to the same entries of a simple graph; columns of both ascend. Loops have none."""
    for row in range(len(indptr) - 1):
        place = clean_indptr[row]
        for e in range(indptr[row], indptr[row + 1]):
            if indices[e] == row:
                continue
            while clean_indices[place] < indices[e]:
                place += 1
            clean_data[place] += data[e]
