"""The place of one node in a cache, and the places of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphprep.cache.read import PartitionCache
from graphprep.core.original_ids import OriginalIds
from graphprep.errors import UsageError

NEIGHBOURS_SHOWN = 20


def node_summary(cache: PartitionCache, text: str) -> dict[str, Any]:
    """A node's part, local row, label and split, its in-neighbours by part, and the parts that get its row.

    Args:
        cache: the cache.
        text: the node's row number in the store, or the id that it had in the source; row=NUMBER or id=ID where a
            number may be both; and TYPE: before it where there are several node types.

    Raises:
        UsageError: there is no such node, or there are two.
    """
    node_type, node, ids = _parse(cache, text)
    part = int(cache.assignment(node_type)[node])
    row = int(np.flatnonzero(cache.node_array(part, node_type, "global_ids") == node)[0])
    arrays = cache.node_arrays(part, node_type)
    neighbours = [_neighbours(cache, part, node_type, row, owner) for owner in range(cache.num_parts)]
    summary = {
        "node_type": node_type,
        "node": node,
        "part": part,
        "rank": cache.attributes["topology"]["ranks"][part]["name"],
        "local_row": row,
        "in_edges": sum(of_part["edges"] for of_part in neighbours),
        "neighbours": [of_part for of_part in neighbours if of_part["edges"]],
        "row_goes_to": [
            peer
            for peer in range(cache.num_parts)
            if peer != part and bool((cache.node_array(part, node_type, f"send_{peer}") == row).any())
        ],
    }
    if "y" in arrays:
        summary["y"] = cache.node_array(part, node_type, "y")[row].tolist()
    if ids is not None:
        summary["original_id"] = ids[node]
    masks = [name for name in ("train", "val", "test") if f"{name}_mask" in arrays]
    return summary | {"splits": [m for m in masks if cache.node_array(part, node_type, f"{m}_mask")[row, 0]]}


def _parse(cache: PartitionCache, text: str) -> tuple[str, int, OriginalIds | None]:
    """The node type and row that `text` means, and the ids that nodes of this type had in the source."""
    types = cache.node_types
    head, colon, rest = text.partition(":")
    only = next(iter(types)) if len(types) == 1 else None
    ids_of_only = None if only is None else cache.original_ids(only)
    if colon and head in types:
        name, row_or_id = head, rest
    elif only is not None and (not colon or (ids_of_only is not None and ids_of_only.numbers is None)):
        name, row_or_id = only, text
    elif colon:
        raise UsageError(f"--node {text}: there is no node type {head!r}; there are {', '.join(types)}")
    else:
        raise UsageError(
            f"--node {text} does not say of which type; give TYPE:NUMBER or TYPE:ID, with one of {', '.join(types)}"
        )
    ids = cache.original_ids(name)
    return name, _row_of(row_or_id, ids, types[name], text), ids


def _row_of(row_or_id: str, ids: OriginalIds | None, count: int, text: str) -> int:
    """The row of row=NUMBER, of id=ID, or of a word that is a row or an id of one node only."""
    kind, equals, word = row_or_id.partition("=")
    if not equals or kind not in ("row", "id"):
        kind, word = "either", row_or_id
    is_row = word.isascii() and word.isdecimal() and len(word) < 19 and int(word) < count
    by_row = int(word) if is_row else None
    by_id = by_row if ids is None else ids.row_of(word)
    if kind == "either" and None not in (by_row, by_id) and by_row != by_id:
        raise UsageError(
            f"--node {text} may be row {by_row} of the store, or the node that the source calls {word}, which is row "
            f"{by_id}; give row={word} or id={word}"
        )
    row = by_row if kind == "row" or (by_id is None and kind == "either") else by_id
    if row is None:
        or_id = "" if ids is None else ", or the id that a node had in the source"
        raise UsageError(f"--node {text} is no node: give a number from 0 to {count - 1}{or_id}")
    return row


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
