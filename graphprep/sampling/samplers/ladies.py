"""Draw the nodes of each layer together (LADIES, Zou et al. 2019, "Layer-dependent importance sampling for training
deep and large graph convolutional networks").

In a hop, among all in-neighbours of the nodes that the hop before met first, so many are drawn; every edge from one of
them into one of those nodes is in the batch. A neighbour is the more probable the more it counts in the means over
neighbours: in proportion to the sum of squares of its entries in the rows of the mean's matrix.

Each neighbour u has a random number e(u), exponential, by a hash of (seed, epoch, hop, edge type, u); the k smallest
e(u) / q(u) are drawn, q(u) being that sum of squares. With t the next larger one, u is drawn with probability 1 -
exp(-q(u) t) whatever the others' numbers are, and what an edge counts is divided by that. So the sum over the edges of
a batch is on average the mean over all neighbours (bottom-k sampling conditioned on ranks, Cohen and Kaplan 2007).

Letters: n nodes whose neighbours are drawn, M their in-edges, E those in the batch, c different neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers import neighbour_kernels as draws
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SampledBatch, SamplingOptions


class LayerSampler(NeighbourSampler):
    """Draws batches from one graph; the fanouts of the options are nodes a hop and edge type. Threads may share it."""

    def __init__(self, graph: SamplingGraph, options: SamplingOptions) -> None:
        """As of `NeighbourSampler`; options other than fanouts and the seed have no meaning."""
        super().__init__(graph, options)
        self._mean_E = {kind: shares_of_rows(matrix) for kind, matrix in graph.edges.items()}

    def sample(
        self, seeds: Mapping[str, NDArray[np.int64]], *, epoch: int, until_B: NDArray[Any] | None = None
    ) -> SampledBatch:
        """As `NeighbourSampler.sample`; edges have weights and factors."""
        shares: dict[EdgeType, list[NDArray[np.float64]]] = {kind: [] for kind in self.graph.edges}
        self._thread.shares = shares
        batch = super().sample(seeds, epoch=epoch, until_B=until_B)
        edges = {}
        for kind, of_kind in batch.edges.items():
            share_E = np.concatenate(shares[kind])
            weight_E = (self._mean_E[kind][of_kind.number_E] / share_E).astype(np.float32)
            edges[kind] = replace(of_kind, weight_E=weight_E, factor_E=(1 / share_E).astype(np.float32))
        return replace(batch, edges=edges)

    def _draw(
        self,
        kind: EdgeType,
        hop: int,
        nodes_n: NDArray[np.int64],
        until_B: NDArray[Any] | None,  # noqa: ARG002 - there are no times
        tree_n: NDArray[np.int64],  # noqa: ARG002 - nor trees
        key: np.uint64,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        matrix, count = self.graph.edges[kind], self._fanouts[kind][hop]
        offsets_n = draws.count_uniform(matrix.indptr, nodes_n, -1, False)
        number_M = np.empty(offsets_n[-1], np.int64)
        draws.draw_uniform(matrix.indptr, nodes_n, offsets_n, False, key, number_M)
        mean_M = self._mean_E[kind][number_M]
        neighbours, place_M = np.unique(draws.sources_of(matrix.indices, number_M), return_inverse=True)
        squares_c = np.bincount(place_M, weights=mean_M**2).astype(np.float64)  # whole numbers where there are none
        probability_c = _drawn_with(squares_c, neighbours, count, key)
        probability_M = probability_c[place_M]
        is_drawn_M = probability_M > 0
        self._thread.shares[kind].append(probability_M[is_drawn_M])
        before = np.concatenate([[0], np.cumsum(is_drawn_M)])
        return before[offsets_n], number_M[is_drawn_M]


def _drawn_with(
    squares_c: NDArray[np.float64], neighbours_c: NDArray[np.int64], count: int, key: np.uint64
) -> NDArray[np.float64]:
    """The probability with which each neighbour that is drawn was drawn, 0 for the others: float64 [c]."""
    if count < 0 or np.count_nonzero(squares_c) <= count:
        return (squares_c > 0).astype(np.float64)
    value_c = np.full(len(squares_c), np.inf)
    positive = squares_c > 0
    value_c[positive] = draws.exponentials_of(neighbours_c[positive], key) / squares_c[positive]
    threshold = np.partition(value_c, count)[count]
    return np.where(value_c < threshold, -np.expm1(-squares_c * threshold), 0.0)


def shares_of_rows(matrix: Csr) -> NDArray[np.float64]:
    """What each edge counts in the mean over its row, by the edges' weights: float64 [edges]."""
    degree = np.diff(matrix.indptr)
    if matrix.data is None:
        return np.repeat(1 / np.maximum(degree, 1), degree)
    rows = np.repeat(np.arange(matrix.num_rows), degree)
    sums = np.bincount(rows, weights=matrix.data, minlength=matrix.num_rows)
    return np.divide(matrix.data, sums[rows], out=np.zeros(len(rows)), where=sums[rows] != 0)
