"""Take edges out of a batch that would tell a model what it is to predict: those between the ends of a pair.

As `exclude` of DGL's `as_edge_prediction_sampler`. A training edge that is both a seed and an edge of the graph is
found without learning anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.sampling.samplers.neighbour import SampledBatch, SampledEdges
from graphprep.sampling.seeds import BatchSeeds


def without_pairs(
    sampled: SampledBatch, of_batch: BatchSeeds, num_pairs: int, excluded: Mapping[EdgeType, bool]
) -> SampledBatch:
    """A batch without the edges between both ends of one of its pairs. All nodes stay.

    Args:
        sampled: the batch.
        of_batch: its seeds: first the pairs, then random ones, which stay.
        num_pairs: how many are no random pairs.
        excluded: the edge types, and whether they hold the pairs' reverses. A type from and to one node type holds
            both directions whatever is said.
    """
    kind = of_batch.of
    assert isinstance(kind, EdgeType)
    label_index = of_batch.arrays["edge_label_index"]
    assert not isinstance(label_index, int)
    source = of_batch.seeds[kind.source][label_index[0, :num_pairs]]
    destination = of_batch.seeds[kind.destination][label_index[1, :num_pairs]]
    edges = dict(sampled.edges)
    for each, is_reverse in excluded.items():
        begins, ends = sampled.nodes[each.source].ids_n, sampled.nodes[each.destination].ids_n
        from_E, to_E = begins[edges[each].source_E], ends[edges[each].destination_E]
        if each.source == each.destination:
            first, second = np.concatenate([source, destination]), np.concatenate([destination, source])
        else:
            first, second = (destination, source) if is_reverse else (source, destination)
        edges[each] = _where(edges[each], ~_are_among(from_E, to_E, first, second))
    return replace(sampled, edges=edges)


def _are_among(
    from_E: NDArray[np.int64], to_E: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each edge is one of some pairs."""
    width = 1 + max(int(to_E.max(initial=0)), int(second.max(initial=0)))
    return np.isin(from_E * width + to_E, first * width + second)


def _where(edges: SampledEdges, stays_E: NDArray[np.bool_]) -> SampledEdges:
    ends = np.cumsum(edges.per_hop)
    before = np.concatenate([[0], np.cumsum(stays_E)])
    counts = np.diff(before[np.concatenate([[0], ends])])
    return SampledEdges(
        source_E=edges.source_E[stays_E],
        destination_E=edges.destination_E[stays_E],
        number_E=edges.number_E[stays_E],
        weight_E=None if edges.weight_E is None else edges.weight_E[stays_E],
        per_hop=tuple(int(count) for count in counts),
    )
