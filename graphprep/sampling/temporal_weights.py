"""What drawn edges count where each seed has a time, from the edges that are not later than it.

Degrees, sums of weights and self-loops are those that the graph had when the seed was: what came later changes nothing
of its batch. With all edges not later than the seeds the weights are those of `edge_weights`.

Letters: n nodes of a type in the batch, in the trees of all seeds; B seeds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType
from graphprep.sampling.edge_weights import EdgeWeights, RowFacts, Sums
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.neighbour import SampledBatch
from graphprep.sampling.samplers.neighbour_kernels import facts_until

_NONE, _NO_WEIGHTS = np.empty(0, np.int64), np.empty(0, np.float32)


def weights_until(
    graph: SamplingGraph, sums: Sums, batch: SampledBatch, until_B: NDArray[Any]
) -> tuple[SampledBatch, dict[EdgeType, EdgeWeights]]:
    """The weights of the edges of each type in a batch.

    Args:
        graph: with times.
        sums: what edges count.
        batch: with a tree for each seed.
        until_B: the times of the seeds.

    Returns:
        The batch, whose edges have their weights in the graph as `data_E`; and by type what the edges count, for which
        the numbers of nodes are their places in the batch.
    """
    weights, edges = {}, dict(batch.edges)
    for kind, matrix in graph.edges.items():
        nodes = batch.nodes[kind.destination]
        assert nodes.tree_n is not None
        # What the last hop has added is no destination; of a source only gcn reads the degree.
        count = len(nodes.ids_n) if sums == "gcn" else sum(nodes.per_hop[:-1])
        data_M = _NO_WEIGHTS if matrix.data is None or sums == "messages" else matrix.data
        degree_n, sum_n, has_loop_n = facts_until(
            matrix.indptr,
            matrix.indices,
            nodes.ids_n[:count],
            data_M,
            graph.edge_times.get(kind, _NONE),
            graph.node_times.get(kind.source, _NONE),
            until_B[nodes.tree_n[:count]],
        )
        placed = Csr(
            indptr=np.concatenate([[0], np.cumsum(degree_n)]),
            indices=matrix.indices[:0],
            num_sources=len(batch.nodes[kind.source].ids_n),
        )
        weights[kind] = EdgeWeights.of_facts(
            placed, RowFacts(degree_N=degree_n, sum_N=sum_n, has_loop_N=has_loop_n), sums
        )
        if len(data_M):
            edges[kind] = replace(edges[kind], data_E=data_M[edges[kind].number_E])
    return replace(batch, edges=edges), weights
