"""A small graph as NetworkX has it: for looking at, drawing, and comparing with its algorithms.

Edges keep their direction. Parallel edges and several edge types make a MultiDiGraph, anything else a DiGraph. Nodes
are called by their global ids, or by (type, id) where there are several types. NetworkX takes about a kilobyte an edge,
so a graph above a limit is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphprep.core.bfloat16 import to_float32
from graphprep.core.types import Csr, LoadedGraph
from graphprep.errors import UsageError
from graphprep.system.packages import required

if TYPE_CHECKING:
    import networkx as nx

LIMIT = 100_000
"""nodes and edges together"""


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


def _names(graph: LoadedGraph, node_type: str) -> list[Any]:
    ids = graph.nodes[node_type].get("n_id", np.arange(graph.num_nodes[node_type])).tolist()
    return ids if graph.is_homogeneous else [(node_type, number) for number in ids]


def _has_parallels(matrix: Csr) -> bool:
    """Whether a column follows itself within a row; equal columns are neighbours."""
    row_E = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    return bool(((np.diff(matrix.indices) == 0) & (np.diff(row_E) == 0)).any())


def _value(entry: Any) -> Any:
    return entry.item() if np.ndim(entry) == 0 else np.array(entry)
