"""Where one node of a cache lies, and where its neighbours do."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError

NEIGHBOURS_SHOWN = 20


def node_summary(cache: PartitionCache, asked: str) -> dict[str, Any]:
    """A node's part, local row, label and split, its in-neighbours by part, and the parts that get its row.

    Args:
        cache: the cache.
        asked: the node's number in the store, or TYPE:NUMBER where there are several node types.

    Raises:
        UsageError: there is no such node.
    """
    node_type, node = _parsed(cache, asked)
    part = int(cache.assignment(node_type)[node])
    row = int(np.flatnonzero(cache.node_array(part, node_type, "global_ids") == node)[0])
    neighbours = [_neighbours(cache, part, node_type, row, owner) for owner in range(cache.num_parts)]
    receivers = [
        peer
        for peer in range(cache.num_parts)
        if peer != part and bool((cache.node_array(part, node_type, f"send_{peer}") == row).any())
    ]
    found = {
        "node_type": node_type,
        "node": node,
        "part": part,
        "rank": cache.attributes["topology"]["ranks"][part]["name"],
        "local_row": row,
        "in_edges": sum(of_part["edges"] for of_part in neighbours),
        "neighbours": [of_part for of_part in neighbours if of_part["edges"]],
        "row_goes_to": receivers,
    }
    for name in ("y", "original_id"):
        if name in cache.node_arrays(part, node_type):
            found[name] = cache.node_array(part, node_type, name)[row].tolist()
    masks = [name for name in ("train", "val", "test") if f"{name}_mask" in cache.node_arrays(part, node_type)]
    found["splits"] = [name for name in masks if cache.node_array(part, node_type, f"{name}_mask")[row, 0]]
    return found


def _parsed(cache: PartitionCache, asked: str) -> tuple[str, int]:
    """The node type and number that a person means."""
    types = cache.node_types
    node_type, colon, number = asked.rpartition(":")
    if not colon and len(types) > 1:
        raise UsageError(f"--node {asked} does not say of which type; give TYPE:NUMBER, with one of {', '.join(types)}")
    name = node_type if colon else next(iter(types))
    if name not in types:
        raise UsageError(f"--node {asked}: there is no node type {name!r}; there are {', '.join(types)}")
    if not (number.isascii() and number.isdecimal()) or int(number) >= types[name]:
        raise UsageError(f"--node {asked} is no node: give a number from 0 to {types[name] - 1}")
    return name, int(number)


def _neighbours(cache: PartitionCache, part: int, node_type: str, row: int, owner: int) -> dict[str, Any]:
    """The in-edges of a local row from one part, and the first of the nodes that they come from."""
    edges, first = 0, []
    for kind in cache.edge_types:
        if kind.destination != node_type:
            continue
        block = cache.block(part, kind, owner)
        columns = block.indices[int(block.indptr[row]) : int(block.indptr[row + 1])]
        edges += len(columns)
        name = "global_ids" if owner == part else f"recv_{owner}"
        nodes = cache.node_array(part, kind.source, name)[columns[:NEIGHBOURS_SHOWN]].tolist()
        first += [node if len(cache.node_types) == 1 else f"{kind.source}:{node}" for node in nodes]
    return {"part": owner, "edges": edges, "first": first[:NEIGHBOURS_SHOWN]}
