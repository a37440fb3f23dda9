"""Where one node of a cache lies, and where its neighbours do."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphprep.cache.read import PartitionCache
from graphprep.core.original_ids import OriginalIds
from graphprep.errors import UsageError

NEIGHBOURS_SHOWN = 20


def node_summary(cache: PartitionCache, asked: str) -> dict[str, Any]:
    """A node's part, local row, label and split, its in-neighbours by part, and the parts that get its row.

    Args:
        cache: the cache.
        asked: the node's row number in the store, or the id that it had in the source; row=NUMBER or id=ID where a
            number may be both; and TYPE: before it where there are several node types.

    Raises:
        UsageError: there is no such node, or there are two.
    """
    node_type, node, ids = _parsed(cache, asked)
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
    if "y" in cache.node_arrays(part, node_type):
        found["y"] = cache.node_array(part, node_type, "y")[row].tolist()
    if ids is not None:
        found["original_id"] = ids[node]
    masks = [name for name in ("train", "val", "test") if f"{name}_mask" in cache.node_arrays(part, node_type)]
    found["splits"] = [name for name in masks if cache.node_array(part, node_type, f"{name}_mask")[row, 0]]
    return found


def _parsed(cache: PartitionCache, asked: str) -> tuple[str, int, OriginalIds | None]:
    """The node type and row that a person means, and the ids that nodes of this type had in the source."""
    types = cache.node_types
    head, colon, rest = asked.partition(":")
    if colon and head in types:
        name, which = head, rest
    elif len(types) == 1:
        name, which = next(iter(types)), asked
        ids = cache.original_ids(name)
        if colon and (ids is None or ids.numbers is not None):
            raise UsageError(f"--node {asked}: there is no node type {head!r}; there are {', '.join(types)}")
    elif colon:
        raise UsageError(f"--node {asked}: there is no node type {head!r}; there are {', '.join(types)}")
    else:
        raise UsageError(
            f"--node {asked} does not say of which type; give TYPE:NUMBER or TYPE:ID, with one of {', '.join(types)}"
        )
    ids = cache.original_ids(name)
    return name, _row_of(which, ids, types[name], asked), ids


def _row_of(which: str, ids: OriginalIds | None, count: int, asked: str) -> int:
    """The row that is meant by row=NUMBER, id=ID, or by one of the two that only one node has."""
    way, equals, rest = which.partition("=")
    if not equals or way not in ("row", "id"):
        way, rest = "either", which
    row = int(rest) if rest.isascii() and rest.isdecimal() and len(rest) < 19 and int(rest) < count else None
    by_id = row if ids is None else ids.row_of(rest)
    if way == "row" or ids is None:
        found = row
    elif way == "id":
        found = by_id
    elif None not in (row, by_id) and row != by_id:
        raise UsageError(
            f"--node {asked} may be row {row} of the store, or the node that the source calls {rest}, which is row "
            f"{by_id}; give row={rest} or id={rest}"
        )
    else:
        found = row if by_id is None else by_id
    if found is None:
        also = "" if ids is None else ", or the id that a node had in the source"
        raise UsageError(f"--node {asked} is no node: give a number from 0 to {count - 1}{also}")
    return found


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
