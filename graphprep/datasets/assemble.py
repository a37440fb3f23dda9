"""A RawGraph of one node type from the pieces that a reader has; seeded splits where the source brings none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.splits import SplitRule
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk, EdgeTable, NodeTable, RawGraph
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Sparse

Array = NDArray[Any]
Chunks = Callable[[], Iterator[EdgeChunk]]


def one_type(
    entry: DatasetEntry,
    *,
    num_nodes: int,
    x: Array | None,
    y: Array,
    edges: Sparse | Array,
    masks: Mapping[str, NDArray[np.bool_]] | None,
    more: Mapping[str, Array] | None = None,
    notes: Mapping[str, object] | None = None,
) -> RawGraph:
    """The graph of a registry entry.

    Args:
        entry: for the treatment, and for the seeded splits.
        num_nodes: N.
        x: [N, F], or None.
        y: int64 [N], or bool/float [N, C].
        edges: entries (source, destination), or their array of integers [E, 2]; ids are in range.
        masks: train_mask, val_mask and test_mask, bool [N, S]; None draws the entry's.
        more: further arrays of N rows.
        notes: for the store's attributes.
    """
    said = dict(notes or {})
    if masks is None:
        masks, said["seeded_split"] = drawn_split(entry, y)
    return RawGraph(
        nodes={HOMOGENEOUS_NODE: labelled(num_nodes, x=x, y=y, masks=masks, more=more)},
        edges=(EdgeTable(type=HOMOGENEOUS_EDGE, chunks=stream(edges), num_edges=len(edges)),),
        treatment=entry.edge_treatment,
        notes=said,
    )


def labelled(
    num_nodes: int,
    *,
    y: Array | None,
    masks: Mapping[str, NDArray[np.bool_]],
    x: Array | None = None,
    more: Mapping[str, Array] | None = None,
) -> NodeTable:
    """A table of nodes with its masks by name."""
    return NodeTable(
        num_nodes=num_nodes,
        x=x,
        y=y,
        train_mask=masks.get("train_mask"),
        val_mask=masks.get("val_mask"),
        test_mask=masks.get("test_mask"),
        more=more or {},
    )


def drawn_split(entry: DatasetEntry, y: Array) -> tuple[dict[str, NDArray[np.bool_]], dict[str, Any]]:
    """The entry's seeded splits of `y` as masks, and how they were drawn."""
    masks, how = (entry.split or SplitRule()).draw_and_say(y, entry.name)
    return masks._asdict(), how


def stream(edges: Sparse | Array) -> Chunks:
    """Edges as a function that gives their stream anew at each call."""

    def chunks() -> Iterator[EdgeChunk]:
        if isinstance(edges, Sparse):
            for row, column in edges.entries():
                yield EdgeChunk(row, column)
        else:
            yield EdgeChunk(edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64))

    return chunks
