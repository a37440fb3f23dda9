"""What some seeds of a batch need of it, where its nodes were drawn for all seeds together.

Every part draws the whole batch, by the same hashes, and takes from it what its own seeds reach. So a batch is the same
for any number of parts, and nothing is said between them.

Letters: n nodes of a type in the whole batch, E edges of a type in it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.sampling.samplers.neighbour import SampledBatch, SampledEdges, SampledNodes
from graphprep.sampling.samplers.numbering_kernels import ABSENT


def reached_from(
    batch: SampledBatch, seeds: Mapping[str, NDArray[np.int64]], *, num_hops: int | None = None
) -> SampledBatch:
    """The nodes and edges of a batch that some of its nodes reach hop by hop.

    Args:
        batch: with the edges of each hop into all nodes that were there before it; or with all edges among its nodes.
        seeds: by type, each once.
        num_hops: of a batch with all edges among its nodes; None for those that the batch has.
    """
    number_n = {name: np.full(len(nodes.ids_n), ABSENT, np.int64) for name, nodes in batch.nodes.items()}
    places: dict[str, list[NDArray[np.int64]]] = {}
    for name, nodes in batch.nodes.items():
        mine = seeds.get(name, np.empty(0, np.int64))
        order_n = np.argsort(nodes.ids_n, kind="stable")
        places[name] = [order_n[np.searchsorted(nodes.ids_n, mine, sorter=order_n)]]
        number_n[name][places[name][0]] = np.arange(len(mine))
    drawn: dict[EdgeType, list[tuple[NDArray[np.int64], ...]]] = {kind: [] for kind in batch.edges}
    hops = num_hops if num_hops is not None else len(next(iter(batch.edges.values())).per_hop)
    for hop in range(hops):
        count = {name: sum(map(len, of_type)) for name, of_type in places.items()}
        added: dict[str, list[NDArray[np.int64]]] = {name: [] for name in places}
        for kind, edges in batch.edges.items():
            first = 0 if num_hops is not None else sum(edges.per_hop[:hop])
            end = len(edges.number_E) if num_hops is not None else first + edges.per_hop[hop]
            destination_E = number_n[kind.destination][edges.destination_E[first:end]]
            is_needed_E = (destination_E != ABSENT) & (destination_E < count[kind.destination])
            needed = first + np.flatnonzero(is_needed_E)
            destination_E = destination_E[is_needed_E]
            order_E = np.argsort(destination_E, kind="stable")
            needed, destination_E = needed[order_E], destination_E[order_E]
            of_sources = number_n[kind.source]
            source_E = edges.source_E[needed]
            new = np.unique(source_E[of_sources[source_E] == ABSENT])
            of_sources[new] = count[kind.source] + sum(map(len, added[kind.source])) + np.arange(len(new))
            added[kind.source].append(new)
            drawn[kind].append((of_sources[source_E], destination_E, needed))
        for name, of_type in added.items():
            places[name].append(np.concatenate([np.empty(0, np.int64), *of_type]))
    return SampledBatch(
        nodes={
            name: SampledNodes(
                ids_n=batch.nodes[name].ids_n[np.concatenate(of_type)], per_hop=tuple(map(len, of_type)), tree_n=None
            )
            for name, of_type in places.items()
        },
        edges={kind: _edges(batch.edges[kind], of_kind) for kind, of_kind in drawn.items()},
    )


def _edges(whole: SampledEdges, hops: list[tuple[NDArray[np.int64], ...]]) -> SampledEdges:
    source_E, destination_E, place_E = (np.concatenate(arrays) for arrays in zip(*hops, strict=True))
    return SampledEdges(
        source_E=source_E,
        destination_E=destination_E,
        number_E=whole.number_E[place_E],
        per_hop=tuple(len(places) for _, _, places in hops),
        factor_E=None if whole.factor_E is None else whole.factor_E[place_E],
    )
