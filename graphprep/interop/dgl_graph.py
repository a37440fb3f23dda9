"""A graph of DGL's, homogeneous or of several types, as arrays.

DGL itself is not imported: everything is read through the graph's own methods. Its usual names `feat` and `label` stand
for x and y, and `w`, `weight` or `edge_weight` of edges for the weights.
"""

from __future__ import annotations

from typing import Any

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.errors import UsageError
from graphprep.interop.in_memory import ArrayGraph, EdgeColumns, NodeArrays, as_array

ORIGIN = "the DGLGraph"
OF_NODES = {"feat": "x", "label": "y"}
WEIGHTS = ("edge_weight", "weight", "w")
PLAIN = "_N"
"""DGL's name of the nodes of a graph without types"""
INTERNAL = "_"
"""begins the names of DGL's own arrays: ids in another graph, types before they were merged"""


def from_dgl(graph: Any) -> ArrayGraph:
    """The graph of a DGLGraph.

    Args:
        graph: arrays of nodes and edges are kept by their names: x or feat [N, F], y or label, masks [N].

    Raises:
        UsageError: it is another object.
        DatasetError: an array is not what its name says.
    """
    if not all(hasattr(graph, name) for name in ("canonical_etypes", "ntypes", "edges", "nodes")):
        raise UsageError(f"{type(graph).__name__} is no DGLGraph; give one graph")
    plain = list(graph.ntypes) == [PLAIN] and len(graph.canonical_etypes) == 1
    remarks: list[str] = []
    nodes: dict[str, NodeArrays] = {}
    for name in graph.ntypes:
        arrays = {}
        for key, value in graph.nodes[name].data.items():
            known = OF_NODES.get(key, key)
            if key.startswith(INTERNAL):
                remarks.append(f"{ORIGIN}: left out: {key} of nodes")
                continue
            if known != key:
                remarks.append(f"{ORIGIN}: {key} of nodes is taken for {known}")
            arrays[known] = as_array(value, f"{key} of {name}")
        nodes[HOMOGENEOUS_NODE if plain else name] = NodeArrays(num_nodes=graph.num_nodes(name), arrays=arrays)
    edges: dict[EdgeType, EdgeColumns] = {}
    for kind in graph.canonical_etypes:
        src, dst = graph.edges(etype=kind, order="eid")
        of_edges = graph.edges[kind].data
        remarks += [f"{ORIGIN}: left out: {key} of edges" for key in of_edges if key.startswith(INTERNAL)]
        arrays = {
            key: as_array(value, f"{key} of edges") for key, value in of_edges.items() if not key.startswith(INTERNAL)
        }
        weights = next((key for key in WEIGHTS if key in arrays), None)
        weight = None if weights is None else arrays.pop(weights)
        if weight is not None and weight.ndim == 2 and weight.shape[1] == 1:
            weight = weight[:, 0]
        edges[HOMOGENEOUS_EDGE if plain else EdgeType(*kind)] = EdgeColumns(
            src=as_array(src, "edges"), dst=as_array(dst, "edges"), weight=weight, arrays=arrays
        )
    return ArrayGraph(origin=ORIGIN, nodes=nodes, edges=edges, remarks=remarks)
