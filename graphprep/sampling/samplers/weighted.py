"""Draw neighbours in proportion to their edges' weights, for sums that are right on average.

Neighbours are drawn as `NeighbourSampler` draws them with `weighted`: those of the smallest e / w, for an exponential
number e of each edge and its weight w. One more than are needed is drawn, of which the greatest value t is left out.
Then an edge is drawn with probability 1 - exp(-w t) whatever the others' numbers are, and counts that many times less
(bottom-k sampling conditioned on ranks, Cohen and Kaplan 2007).

Letters: n nodes whose neighbours are drawn, E edges drawn, M edges of the whole graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.csr_kernels import mixed
from graphprep.core.types import EdgeType
from graphprep.errors import UsageError
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SampledBatch, SamplingOptions
from graphprep.sampling.samplers.neighbour_kernels import value_of


class WeightedSampler(NeighbourSampler):
    """Draws batches from one graph. Edge types without weights are drawn evenly. Threads may share it."""

    def __init__(self, graph: SamplingGraph, options: SamplingOptions) -> None:
        """As of `NeighbourSampler`; of the options it reads the fanouts, the seed and `every_node` alone.

        Raises:
            UsageError: there are no weights, or some are negative.
        """
        weights = [matrix.data for matrix in graph.edges.values() if matrix.data is not None]
        if not weights:
            raise UsageError("--draw weighted needs weights of edges, and the graph has none; leave it out")
        if any(bool((weight_M < 0).any()) for weight_M in weights):
            raise UsageError("--draw weighted cannot draw edges of negative weight, which the graph has; leave it out")
        super().__init__(graph, options)

    def sample(
        self, seeds: Mapping[str, NDArray[np.int64]], *, epoch: int, until_B: NDArray[Any] | None = None
    ) -> SampledBatch:
        """As `NeighbourSampler.sample`; edges that have weights have a `factor_E`."""
        factors: dict[EdgeType, list[NDArray[np.float32]]] = {
            kind: [] for kind, matrix in self.graph.edges.items() if matrix.data is not None
        }
        self._thread.factors = factors
        batch = super().sample(seeds, epoch=epoch, until_B=until_B)
        with_factors = {
            kind: replace(batch.edges[kind], factor_E=np.concatenate(of_kind)) for kind, of_kind in factors.items()
        }
        return replace(batch, edges={**batch.edges, **with_factors})

    def _draw(
        self,
        kind: EdgeType,
        hop: int,
        nodes_n: NDArray[np.int64],
        until_B: NDArray[Any] | None,
        tree_n: NDArray[np.int64],
        key: np.uint64,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        matrix, fanout = self.graph.edges[kind], self._fanouts[kind][hop]
        if matrix.data is None:
            return super()._draw(kind, hop, nodes_n, until_B, tree_n, key)
        limits = self._limits(kind, matrix.data, until_B, tree_n)
        one_more = fanout + 1 if fanout >= 0 else fanout
        offsets_n, number_E, value_E = self._smallest(matrix, nodes_n, one_more, limits, key)
        if fanout < 0:
            factor_E = np.ones(len(number_E), np.float32)
        else:
            offsets_n, number_E, factor_E = _without_greatest(
                matrix.indptr, nodes_n, offsets_n, matrix.data, fanout, key, number_E, value_E
            )
        self._thread.factors[kind].append(factor_E)
        return offsets_n, number_E


@njit(cache=True, nogil=True)
def _without_greatest(  # type: ignore[no-untyped-def]
    indptr, nodes_n, offsets_n, weight_M, fanout, key, number_E, value_E
):
    """What is left of each node's edges without that of the greatest value, where they are more than `fanout`.

    Returns:
        where the edges of each node begin, their numbers, and 1 / the probability of each.
    """
    kept_n = np.zeros(len(nodes_n) + 1, np.int64)
    number, factor = np.empty(len(number_E), np.int64), np.empty(len(number_E), np.float32)
    at = 0
    for i in range(len(nodes_n)):
        first, end = offsets_n[i], offsets_n[i + 1]
        node = nodes_n[i]
        of_node = mixed(key, node)
        for k in range(first, end):
            e = number_E[k]
            share = 1.0
            if end - first > fanout:
                greatest, weight = value_E[first], np.float64(weight_M[e])
                if value_of(of_node, e - indptr[node], weight) >= greatest:
                    continue
                share = -np.expm1(-weight * greatest)
            number[at], factor[at] = e, 1.0 / share
            at += 1
        kept_n[i + 1] = at
    return kept_n, number[:at].copy(), factor[:at].copy()
