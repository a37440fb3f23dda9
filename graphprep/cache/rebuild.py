"""Put the parts together again: the graph in the store's own node order."""

from __future__ import annotations

import numpy as np

from graphprep.cache.read import PartitionCache
from graphprep.csr import from_edges
from graphprep.graph import Csr, EdgeChunk, EdgeType, Treatment


def rebuild_csr(cache: PartitionCache, edge_type: EdgeType) -> Csr:
    """All edges of one type as the store had them: rows are global destinations, columns global sources, ascending."""
    chunks = []
    for part in range(cache.num_parts):
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
    )
    return matrix
