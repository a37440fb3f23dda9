"""A small graph as NetworkX has it, for looking at, drawing, and comparing with its algorithms; and back.

Edges keep their direction. Parallel edges and several edge types make a MultiDiGraph, anything else a DiGraph. Nodes
are called by their global ids, or by (type, id) where there are several types. NetworkX takes about a kilobyte an edge,
so a graph above a limit is refused.

On the way back attributes of nodes are taken by the names that they get here (x, y, train_mask ...), or as features and
a label by the names that a person gives; of edges `weight` and `time`. Undirected edges go in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.bfloat16 import to_float32
from graphprep.core.choices import LabelTask
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, LoadedGraph
from graphprep.datasets.importing.documents.graph_document import (
    TIMES,
    WEIGHTS,
    GraphDocument,
    attribute_names,
    classes_line,
    edges_of,
    feature_columns,
    label_numbers,
    of_networkx,
    ordered_ids,
)
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.errors import DatasetError, UsageError
from graphprep.interop.in_memory import ArrayGraph, EdgeColumns, NodeArrays
from graphprep.system.packages import required

if TYPE_CHECKING:
    import networkx as nx

LIMIT = 100_000
"""nodes and edges together"""
ORIGIN = "the NetworkX graph"
BY_NAME = ("train_mask", "val_mask", "test_mask", "time")
"""attributes of nodes that are taken where all nodes have them, beside x and y"""


def require_small(num_nodes: int, num_edges: int, limit: int) -> None:
    """Asked before anything is read.

    Raises:
        UsageError: there are more nodes and edges than the limit.
    """
    if num_nodes + num_edges > limit:
        raise UsageError(
            f"a graph of {num_nodes:,} nodes and {num_edges:,} edges is above the limit of {limit:,} for NetworkX; "
            "raise limit=, or use to_scipy or to_pyg"
        )


def to_networkx(graph: LoadedGraph) -> nx.DiGraph | nx.MultiDiGraph:
    """The graph with all its arrays as attributes of nodes and edges."""
    networkx = required("networkx", "NetworkX graphs")
    simple = graph.is_homogeneous and not any(_has_parallels(matrix) for matrix in graph.edges.values())
    result: nx.DiGraph | nx.MultiDiGraph = networkx.DiGraph() if simple else networkx.MultiDiGraph()
    names = {node_type: _names(graph, node_type) for node_type in graph.num_nodes}
    for node_type, arrays in graph.nodes.items():
        for row, name in enumerate(names[node_type]):
            result.add_node(name, **{word: _value(to_float32(array[row])) for word, array in arrays.items()})
    for edge_type, matrix in graph.edges.items():
        kind = {} if graph.is_homogeneous else {"type": edge_type.key}
        further = dict(graph.edge_arrays[edge_type])
        if matrix.data is not None:
            further["weight"] = matrix.data
        destination = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
        sources, destinations = names[edge_type.source], names[edge_type.destination]
        for e, (u, v) in enumerate(zip(matrix.indices.tolist(), destination.tolist(), strict=True)):
            attributes = {word: _value(array[e]) for word, array in further.items()}
            result.add_edge(sources[u], destinations[v], **kind, **attributes)
    return result


def from_networkx(
    graph: nx.Graph, *, features: Sequence[str] | None, label: str | None, task: LabelTask = "auto"
) -> ArrayGraph:
    """A graph of any of NetworkX's classes.

    Args:
        graph: nodes are all whole numbers or all words. Numbers 0 .. N-1 are rows; others are kept as ids, rows being
            in the graph's order.
        features: attributes of nodes, numbers or as many numbers for each node, beside each other; None for `x` if
            there is one.
        label: an attribute of nodes; words are classes in ascending order, and a node without it has none. None for `y`
            if there is one.
        task: what labels are for.

    Raises:
        DatasetError: there is no such attribute, it is neither numbers nor words, or nodes are called otherwise.
    """
    document = of_networkx(graph)
    document = replace(document, nodes=[{key: _plain(value) for key, value in data.items()} for data in document.nodes])
    if not document.ids:
        raise DatasetError(f"{ORIGIN} has no nodes; add some")
    of_nodes, of_edges = attribute_names(document.nodes), attribute_names(document.edges)
    features = (["x"] if "x" in of_nodes else []) if features is None else list(features)
    label = ("y" if "y" in of_nodes else None) if label is None else label
    try:
        ids, order = ordered_ids(document.ids, "auto")
        arrays, classes = _node_arrays(document, features, label, task)
        options = EdgeOptions(weights=bool({*WEIGHTS} & {*of_edges}), times=bool({*TIMES} & {*of_edges}))
        edges = edges_of(Path(ORIGIN), document, options, (*features, label or "", *arrays), order)
    except DatasetError as problem:
        raise DatasetError(f"{ORIGIN} cannot be used: {problem}") from problem
    remarks = [f"{ORIGIN}: {edges.how}"]
    remarks += [classes_line(label, classes)] if label is not None and classes else []
    remarks += [f"{ORIGIN}: left out: {', '.join(edges.ignored)}"] if edges.ignored else []
    arrays = arrays if order is None else {name: array[order] for name, array in arrays.items()}
    return ArrayGraph(
        origin=ORIGIN,
        nodes={HOMOGENEOUS_NODE: NodeArrays(num_nodes=len(document.ids), arrays=arrays, ids=ids)},
        edges={
            HOMOGENEOUS_EDGE: EdgeColumns(
                src=edges.src,
                dst=edges.dst,
                weight=edges.weight,
                arrays={} if edges.time is None else {"time": edges.time},
            )
        },
        notes={"classes": classes} if classes else {},
        remarks=remarks,
    )


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _node_arrays(
    document: GraphDocument, features: Sequence[str], label: str | None, task: LabelTask
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Arrays in the document's order, and the words of the classes."""
    arrays: dict[str, NDArray[Any]] = {}
    classes: list[str] = []
    if features:
        arrays["x"] = np.concatenate([feature_columns(document, name) for name in features], axis=1)
    if label is not None and all(np.ndim(data.get(label, 0)) for data in document.nodes):
        arrays["y"] = np.array([data[label] for data in document.nodes])
    elif label is not None:
        arrays["y"], classes = label_numbers(document, label, task)
    for name in BY_NAME:
        if all(name in data for data in document.nodes):
            arrays[name] = np.array([data[name] for data in document.nodes])
    return arrays, classes


def _names(graph: LoadedGraph, node_type: str) -> list[Any]:
    ids = graph.nodes[node_type].get("n_id", np.arange(graph.num_nodes[node_type])).tolist()
    return ids if graph.is_homogeneous else [(node_type, number) for number in ids]


def _has_parallels(matrix: Csr) -> bool:
    """Whether a column follows itself within a row; equal columns are neighbours."""
    row_E = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    return bool(((np.diff(matrix.indices) == 0) & (np.diff(row_E) == 0)).any())


def _value(entry: Any) -> Any:
    return entry.item() if np.ndim(entry) == 0 else np.array(entry)
