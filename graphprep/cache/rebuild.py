"""Put the parts together again: the graph in the store's own node order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import part_path
from graphprep.cache.read import PartitionCache
from graphprep.core.csr import from_edges
from graphprep.core.types import Csr, EdgeChunk, EdgeType, LoadedGraph, Treatment


def rebuild_csr(cache: PartitionCache, edge_type: EdgeType, *, parts: Sequence[int] | None = None) -> Csr:
    """All edges of one type as the store had them: rows are global destinations, columns global sources, ascending.

    Args:
        cache: whose edges they are.
        edge_type: of the edges.
        parts: whose nodes keep their in-edges; rows of other parts have none then. None for all.
    """
    return _rebuilt(cache, edge_type, numbered=False, parts=range(cache.num_parts) if parts is None else parts)


def rebuild_edge_arrays(
    cache: PartitionCache, edge_type: EdgeType, names: Sequence[str] | None = None
) -> dict[str, NDArray[Any]]:
    """What else the edges of a type have, or some arrays of that, in the order of `rebuild_csr`."""
    names = cache.edge_arrays(edge_type) if names is None else names
    if not names:
        return {}
    number_E = edge_places(cache, edge_type)
    blocks = list(product(range(cache.num_parts), repeat=2))
    return {
        name: np.concatenate([cache.edge_array(part, edge_type, owner, name) for part, owner in blocks])[number_E]
        for name in names
    }


def edge_places(cache: PartitionCache, edge_type: EdgeType) -> NDArray[np.int64]:
    """Which of the edges in the parts' blocks, block after block, each edge of `rebuild_csr` is: int64 [E].

    Part 0 has the first blocks, from the nodes of part 0, 1 ..., then part 1, and so on.
    """
    found = _rebuilt(cache, edge_type, numbered=True, parts=range(cache.num_parts)).edge_number
    assert found is not None
    return found


def _rebuilt(cache: PartitionCache, edge_type: EdgeType, *, numbered: bool, parts: Sequence[int]) -> Csr:
    chunks = []
    for part in parts:
        rows = cache.node_array(part, edge_type.destination, "global_ids")
        for owner in range(cache.num_parts):
            block = cache.block(part, edge_type, owner)
            name = "global_ids" if owner == part else f"recv_{owner}"
            columns = cache.node_array(part, edge_type.source, name)
            dst = np.repeat(rows, np.diff(block.indptr))
            chunks.append(EdgeChunk(columns[block.indices], dst, None if block.data is None else np.array(block.data)))
    matrix, _ = from_edges(
        chunks,
        num_rows=cache.node_types[edge_type.destination],
        num_sources=cache.node_types[edge_type.source],
        treatment=Treatment(),
        name=edge_type.key,
        numbered=numbered,
    )
    return matrix


def rebuild_rows(cache: PartitionCache, node_type: str, name: str) -> NDArray[Any]:
    """One array of all nodes of a type, as the store had it, after its files were compared with their checksums.

    Raises:
        CacheError: one of them is missing or has changed.
    """
    nodes = [f"{part_path(part)}/nodes/{node_type}" for part in range(cache.num_parts)]
    pieces = [cache.unchanged_array(f"{path}/{name}") for path in nodes]
    whole = np.empty((cache.node_types[node_type], *pieces[0].shape[1:]), pieces[0].dtype)
    for path, piece in zip(nodes, pieces, strict=True):
        whole[cache.unchanged_array(f"{path}/global_ids")] = piece
    return whole


def load_whole(cache: PartitionCache) -> LoadedGraph:
    """The whole graph in memory."""
    return LoadedGraph(
        num_nodes=cache.node_types,
        nodes={
            node_type: {name: rebuild_rows(cache, node_type, name) for name in cache.node_arrays(0, node_type)}
            for node_type in cache.node_types
        },
        edges={kind: rebuild_csr(cache, kind) for kind in cache.edge_types},
        edge_arrays={kind: rebuild_edge_arrays(cache, kind) for kind in cache.edge_types},
    )
