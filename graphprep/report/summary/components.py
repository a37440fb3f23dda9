"""The number of weak components of a cache's graph, by union-find over its blocks, one block in memory at a time.

A node is numbered by its part, its type and its local row; a column of a block from another part is a row of that
part's list of rows to send.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.csr import index_dtype
from graphprep.report.summary import edge_kernels as kernels


def count_components(cache: PartitionCache) -> int:
    """Weak components over all node and edge types; a node without edges is one."""
    places = [(part, node_type) for part in range(cache.num_parts) for node_type in cache.node_types]
    sizes = {part: cache.part_sizes(part) for part in range(cache.num_parts)}
    starts = accumulate((sizes[part][node_type] for part, node_type in places), initial=0)
    first = dict(zip(places, starts, strict=False))
    total = sum(cache.node_types.values())
    parent_N: NDArray[Any] = np.arange(total, dtype=index_dtype(total))
    for kind in cache.edge_types:
        for part in range(cache.num_parts):
            for owner in range(cache.num_parts):
                block = cache.block(part, kind, owner)
                if not block.num_edges:
                    continue
                columns = block.indices
                if owner != part:
                    columns = cache.node_array(owner, kind.source, f"send_{part}")[columns]
                first_row, first_column = first[part, kind.destination], first[owner, kind.source]
                kernels.join_rows(np.asarray(block.indptr), np.asarray(columns), first_row, first_column, parent_N)
    size_N = np.zeros(total, parent_N.dtype)
    kernels.component_sizes(parent_N, size_N)
    return int((size_N > 0).sum())
