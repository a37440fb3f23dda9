"""A graph that is in memory already, as arrays of any library, on its way to a store.

    graph = ArrayGraph(origin="the Data", nodes={"node": NodeArrays(num_nodes=3)}, edges={...})
    raw = graph.to_raw(options)

The functions of this folder make one of a library's own object. All that the importer of files checks is checked here
too, by the same code. Letters: N nodes, E edges, F features, C classes, S splits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.splits import SplitRule
from graphprep.core.types import EdgeType, RawGraph, Treatment
from graphprep.core.validate import MASKS
from graphprep.datasets.importing.edges.edge_arrays import EdgeArrays
from graphprep.datasets.importing.edges.saved_pyg import TYPE_NAME
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import NodeData
from graphprep.datasets.importing.node_ids import Original
from graphprep.datasets.importing.options import ImportOptions
from graphprep.datasets.importing.table_files import word_array
from graphprep.datasets.importing.typed_edges import TypedEdges
from graphprep.datasets.importing.user_graph import build, checked_arrays
from graphprep.errors import DatasetError
from graphprep.system import progress

Array = NDArray[Any]
DIGEST_BYTES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeArrays:
    """The nodes of one type."""

    num_nodes: int | None = None
    """None: the rows of x or y, else the ids that occur"""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """x [N, F], y, train_mask [N] or [N, S], val_mask, test_mask, time and others, one row a node"""
    ids: Original | None = None
    """[N]: the nodes' own ids by row, where these are not the row numbers; edges name rows"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeColumns:
    """The edges of one type."""

    src: Array
    """whole numbers [E]: rows"""
    dst: Array
    weight: Array | None = None
    """[E]"""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """time and others, one row an edge"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayGraph:
    """A graph as arrays."""

    origin: str
    """what messages call it: the Data, the matrix"""
    nodes: Mapping[str, NodeArrays]
    edges: Mapping[EdgeType, EdgeColumns]
    notes: Mapping[str, object] = field(default_factory=dict)
    """facts for the store's attributes"""
    remarks: Sequence[str] = ()
    """sentences about what was taken as what"""

    def to_raw(self, options: ImportOptions, *, memory_limit: int | None = None) -> RawGraph:
        """The graph, checked, with splits drawn where there are labels and no masks.

        Args:
            options: treatment, task and splits; those about files are not looked at.
            memory_limit: bytes that the process may use; None for half of what is free.

        Raises:
            DatasetError: an array is not what it should be, or two do not fit together.
        """
        request = ImportRequest(
            nodes={},
            edges=(),
            treatment=Treatment(
                undirected=options.undirected, duplicates=options.duplicates, self_loops=options.self_loops
            ),
            split=SplitRule(seed=options.seed, splits=options.splits),
        )
        for name in (*self.nodes, *(word for edge_type in self.edges for word in edge_type)):
            if not TYPE_NAME.fullmatch(name):
                raise DatasetError(
                    f"{self.origin} has the type name {name!r}; names of types are letters, digits, '.', '-' and "
                    "single '_' between them"
                )
        ends = {name for edge_type in self.edges for name in (edge_type.source, edge_type.destination)}
        nodes = {name: self._node_data(name, options) for name in (*self.nodes, *sorted(ends - {*self.nodes}))}
        typed = [self._typed_edges(edge_type, columns) for edge_type, columns in self.edges.items()]
        raw = build(request, nodes, typed, notes=self.notes, memory_limit=memory_limit)
        # The stream has the order of the arrays, as all further arrays of the edges have it.
        further = [columns.arrays for columns in self.edges.values()]
        edges = [replace(table, attributes=arrays) for table, arrays in zip(raw.edges, further, strict=True)]
        return replace(raw, edges=tuple(edges))

    def with_ids(self, name: str, ids: Array) -> ArrayGraph:
        """The same graph, whose nodes of a type have ids of their own, by row."""
        nodes = replace(self.nodes[name], ids=own_ids(ids, f"ids of {name}"))
        return replace(self, nodes={**self.nodes, name: nodes})

    def digest(self) -> str:
        """64 hex digits over all that is in the graph."""
        digest = hashlib.sha256()
        for name, array in self._all_arrays():
            is_words = array.dtype.kind in "OUT"
            digest.update(f"{name}\0{'words' if is_words else array.dtype.str}\0{array.shape}\0".encode())
            rows = max(1, DIGEST_BYTES // max(1, array[:1].nbytes)) if array.ndim else 1
            for start in range(0, len(array), rows):
                some = array[start : start + rows]
                digest.update("\0".join(some.tolist()).encode() if is_words else np.ascontiguousarray(some).data)
        return digest.hexdigest()

    def _all_arrays(self) -> Iterator[tuple[str, Array]]:
        for name, nodes in sorted(self.nodes.items()):
            yield f"{name} {nodes.num_nodes}", np.zeros(0)
            yield from ((f"{name} {key}", array) for key, array in sorted(nodes.arrays.items()))
            if nodes.ids is not None:
                yield f"{name} ids", nodes.ids
        for edge_type, columns in sorted(self.edges.items()):
            for key, array in (("src", columns.src), ("dst", columns.dst), ("weight", columns.weight)):
                if array is not None:
                    yield f"{edge_type.key} {key}", array
            yield from ((f"{edge_type.key} {key}", array) for key, array in sorted(columns.arrays.items()))

    def _node_data(self, name: str, options: ImportOptions) -> NodeData:
        nodes, origin = self.nodes.get(name, NodeArrays()), f"{self.origin} ({name})"
        arrays = checked_arrays(origin, nodes.arrays, nodes.num_nodes, options.task)
        masks = [mask for mask in MASKS if mask in arrays]
        if masks and (absent := [mask for mask in MASKS if mask not in arrays]):  # which the trainer needs
            progress.say(f"{origin} has {' and '.join(masks)} and no {' or '.join(absent)}: no node is in the latter")
            arrays |= {mask: np.zeros_like(arrays[masks[0]]) for mask in absent}
        return NodeData(
            arrays=arrays,
            counts={} if nodes.num_nodes is None else {origin: nodes.num_nodes},
            origin=dict.fromkeys(arrays, origin),
            original=nodes.ids,
        )

    def _typed_edges(self, edge_type: EdgeType, columns: EdgeColumns) -> TypedEdges:
        for name, array in columns.arrays.items():
            if len(array) != len(columns.src):
                raise DatasetError(
                    f"{self.origin}: the edges {edge_type.key} have {len(columns.src):,} sources and {len(array):,} "
                    f"rows of {name}; give one row an edge"
                )
        time = columns.arrays.get("time")
        edges = EdgeArrays(path=Path(self.origin), src=columns.src, dst=columns.dst, weight=columns.weight, time=time)
        return TypedEdges(type=edge_type, files=[edges])


def as_array(value: object, what: str) -> Array:
    """A tensor, a table's column, a list or any other array as NumPy's, which shares its memory where it can.

    Args:
        value: bfloat16 becomes float32, and a sparse matrix a dense one.
        what: begins the error.

    Raises:
        DatasetError: it is no array of numbers, truth values or words.
    """
    if hasattr(value, "detach"):
        import torch

        tensor = value.as_tensor() if hasattr(value, "as_tensor") else value.detach()
        tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
        tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        value = tensor.cpu().resolve_conj().resolve_neg().numpy()
    elif hasattr(value, "toarray"):
        value = value.toarray()
    try:
        array = np.asarray(value)
    except ValueError as problem:  # rows of unequal length
        raise DatasetError(f"{what} is no array ({problem}); give rows of equal length") from problem
    if array.dtype.kind == "O" and all(isinstance(one, str) for one in array.flat):
        return array
    if array.dtype.kind not in "biufUT":
        kind = f"dtype {array.dtype}" if array.ndim else f"the type {type(value).__name__}"
        raise DatasetError(f"{what} is of {kind}, which is no array of real numbers or words; give one")
    return array


def own_ids(ids: Array, what: str) -> Original:
    """Ids of nodes as a store keeps them: int64, or words.

    Raises:
        DatasetError: they are neither, or one is there twice.
    """
    if ids.ndim != 1 or ids.dtype.kind not in "iuOUT":
        raise DatasetError(f"{what} has shape {ids.shape} and dtype {ids.dtype}; give one number or word a node")
    kept: Original = ids.astype(np.int64) if ids.dtype.kind in "iu" else word_array(ids.tolist())
    ascending = np.sort(kept)
    if (twice := np.flatnonzero(ascending[1:] == ascending[:-1])).size:
        raise DatasetError(f"{what} has {ascending[twice[0]]} twice; ids tell nodes apart")
    return kept


def rows_of_ids(ends: Array, ids: Original, what: str) -> NDArray[np.int64]:
    """The row of each end of an edge.

    Raises:
        DatasetError: one is not among the ids, or ends are words where ids are numbers.
    """
    if (ids.dtype.kind == "T") != (ends.dtype.kind in "OUT"):
        raise DatasetError(f"{what}: ends of edges and ids have to be both numbers or both words")
    named = word_array(ends.tolist()) if ids.dtype.kind == "T" else ends
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], named), max(0, len(ids) - 1))
    if (odd := np.flatnonzero(ids[order][place] != named)).size:
        raise DatasetError(f"{what} names the node {named[odd[0]]}, which is not among the ids")
    return order[place].astype(np.int64)
