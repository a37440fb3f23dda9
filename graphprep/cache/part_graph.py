"""A part as one graph: its own nodes first, then the halo, and all its in-edges in one matrix.

The cache keeps a block a peer, since a trainer receives from one peer at a time; other tools want one matrix. Columns
count the part's own nodes and then its halo, owner by owner. Within a row edges come in the order of their sources'
global ids, which is the store's, so that each edge knows its number there: the first edge of its destination in the
whole graph plus its place in the row. Memory is one part's, plus one int64 a node of the graph for those first edges.

Letters: n nodes of the part, H halo rows, N nodes of the whole graph, E edges of the part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.types import Csr, EdgeType, LoadedGraph
from graphprep.errors import UsageError

MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartNodes:
    """The nodes of one type that a part owns or needs."""

    own_n: NDArray[np.int64]
    """global ids, in the part's order"""
    halo_H: NDArray[np.int64]
    """global ids, by owner, each owner's in the order of its rows"""
    halo_part_H: NDArray[np.int32]
    """who owns them"""
    halo_row_H: NDArray[np.int64]
    """their rows there"""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Global ids of all columns: own nodes, then the halo."""
        return np.concatenate([self.own_n, self.halo_H])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartEdges:
    """The in-edges of one type that a part owns."""

    csr: Csr
    """n rows; columns index `PartNodes.ids` of the source type"""
    number_E: NDArray[np.int64]
    """which edge of the store's CSR each one is"""
    arrays: dict[str, NDArray[Any]]
    """what else the edges have, by name"""


def require_part(cache: PartitionCache, part: int) -> None:
    """Raises:
    UsageError: the cache has no such part.
    """
    if not 0 <= part < cache.num_parts:
        raise UsageError(f"there is no part {part} in {cache.folder}: parts are 0 .. {cache.num_parts - 1}")


def part_nodes(cache: PartitionCache, part: int, node_type: str) -> PartNodes:
    """Which nodes of a type a part owns and needs."""
    peers = [peer for peer in range(cache.num_parts) if peer != part]
    received = [cache.node_array(part, node_type, f"recv_{peer}") for peer in peers]
    rows = [cache.node_array(peer, node_type, f"send_{part}") for peer in peers]
    return PartNodes(
        own_n=np.asarray(cache.node_array(part, node_type, "global_ids")),
        halo_H=_joined(received, np.int64),
        halo_part_H=np.repeat(np.array(peers, np.int32), [len(ids) for ids in received]),
        halo_row_H=_joined(rows, np.int64),
    )


def part_edges(
    cache: PartitionCache, part: int, edge_type: EdgeType, sources: PartNodes, first_edge_N: NDArray[np.int64]
) -> PartEdges:
    """All in-edges of a part.

    Args:
        cache, part, edge_type: which.
        sources: the part's nodes of the source type.
        first_edge_N: what `first_edges` gives for the edge type.
    """
    rows, columns, weights = [], [], []
    first_column = {part: 0}
    at = len(sources.own_n)
    for peer in range(cache.num_parts):
        if peer != part:
            first_column[peer] = at
            at += int(np.count_nonzero(sources.halo_part_H == peer))
        block = cache.block(part, edge_type, peer)
        rows.append(np.repeat(np.arange(block.num_rows), np.diff(block.indptr)))
        columns.append(block.indices.astype(np.int64) + first_column[peer])
        weights.append(block.data)
    row_E, column_E = np.concatenate(rows), np.concatenate(columns)
    order_E = np.lexsort((sources.ids[column_E], row_E))
    destinations = cache.node_array(part, edge_type.destination, "global_ids")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row_E, minlength=len(destinations)))]).astype(np.int64)
    row_E = row_E[order_E]
    weighted = [data for data in weights if data is not None]
    return PartEdges(
        csr=Csr(
            indptr=indptr,
            indices=column_E[order_E],
            data=np.concatenate(weighted)[order_E] if weighted else None,
            num_sources=at,
        ),
        number_E=first_edge_N[destinations[row_E]] + np.arange(len(row_E)) - indptr[row_E],
        arrays={
            name: np.concatenate([cache.edge_array(part, edge_type, peer, name) for peer in range(cache.num_parts)])[
                order_E
            ]
            for name in cache.edge_arrays(edge_type)
        },
    )


def first_edges(cache: PartitionCache, edge_type: EdgeType) -> NDArray[np.int64]:
    """int64 [N + 1]: where each destination's edges begin in the store's CSR."""
    count_N = np.zeros(cache.node_types[edge_type.destination] + 1, np.int64)
    for part in range(cache.num_parts):
        ids = cache.node_array(part, edge_type.destination, "global_ids")
        for owner in range(cache.num_parts):
            count_N[ids + 1] += np.diff(cache.block(part, edge_type, owner).indptr)
    return np.cumsum(count_N)


def with_halo(cache: PartitionCache, part: int, node_type: str, name: str) -> NDArray[Any]:
    """One array of a part's own nodes and then of its halo, whose rows come from their owners."""
    own = cache.node_array(part, node_type, name)
    peers = [peer for peer in range(cache.num_parts) if peer != part]
    halo = [cache.node_array(q, node_type, name)[cache.node_array(q, node_type, f"send_{part}")] for q in peers]
    return np.concatenate([own, *halo])


def load_part(cache: PartitionCache, part: int, numbers: Mapping[str, NDArray[np.int64]] | None = None) -> LoadedGraph:
    """A part with its halo, in memory.

    Beside the store's arrays each node type has `n_id`, the global ids, and `own_mask`, which is false on the halo. A
    halo node has its features and labels, but is in no split here, since it is trained on where it is owned.

    Args:
        cache, part: which.
        numbers: `first_edges` of each edge type by key, where many parts are loaded.

    Raises:
        UsageError: the cache has no such part.
    """
    require_part(cache, part)
    nodes = {node_type: part_nodes(cache, part, node_type) for node_type in cache.node_types}
    edges = {
        kind: part_edges(
            cache,
            part,
            kind,
            nodes[kind.source],
            first_edges(cache, kind) if numbers is None else numbers[kind.key],
        )
        for kind in cache.edge_types
    }
    return LoadedGraph(
        num_nodes={node_type: len(found.ids) for node_type, found in nodes.items()},
        nodes={node_type: _arrays(cache, part, node_type, found) for node_type, found in nodes.items()},
        edges={kind: found.csr for kind, found in edges.items()},
        edge_arrays={kind: {**found.arrays, "e_id": found.number_E} for kind, found in edges.items()},
    )


def _arrays(cache: PartitionCache, part: int, node_type: str, found: PartNodes) -> dict[str, NDArray[Any]]:
    own_mask = np.arange(len(found.ids)) < len(found.own_n)
    arrays: dict[str, NDArray[Any]] = {"n_id": found.ids, "own_mask": own_mask}
    for name in cache.node_arrays(part, node_type):
        arrays[name] = with_halo(cache, part, node_type, name)
        if name in MASKS:
            arrays[name][len(found.own_n) :] = False
    return arrays


def _joined(arrays: list[NDArray[Any]], dtype: type[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)
