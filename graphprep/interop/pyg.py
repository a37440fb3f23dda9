"""A graph as PyTorch Geometric's Data, or as HeteroData where it has several node or edge types; and back.

Arrays keep their names and dtypes; a mask of one split loses its second dimension, as PyG's own datasets have it.
Weights are `edge_weight`, the times of edges `edge_time`, which of nodes are `time`. `edge_index` comes sorted by
destination. Arrays are copied, since PyTorch cannot hold memory that must not be written.

On the way back every tensor of one row a node or an edge is kept by its name; a line names what is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import OF_THE_CACHE
from graphprep.core.bfloat16 import NAME, is_bfloat16
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeType, LoadedGraph
from graphprep.errors import DatasetError, UsageError
from graphprep.interop.in_memory import ArrayGraph, EdgeColumns, NodeArrays, as_array, own_ids

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

    Attributes = Mapping[str, Any]

ORIGIN = "the Data"


def to_pyg(graph: LoadedGraph) -> Data | HeteroData:
    """The graph with all its arrays, as tensors."""
    from torch_geometric.data import Data, HeteroData

    if graph.is_homogeneous:
        data = Data(num_nodes=graph.num_nodes[HOMOGENEOUS_NODE])
        data.update(_node_tensors(graph, HOMOGENEOUS_NODE) | edge_tensors(graph, HOMOGENEOUS_EDGE))
        return data
    hetero = HeteroData()
    for node_type, count in graph.num_nodes.items():
        hetero[node_type].num_nodes = count
        hetero[node_type].update(_node_tensors(graph, node_type))
    for edge_type in graph.edges:
        hetero[tuple(edge_type)].update(edge_tensors(graph, edge_type))
    return hetero


def tensor(array: NDArray[Any]) -> Tensor:
    """A copy of an array, in this machine's byte order; bfloat16 is torch's own."""
    import torch

    if is_bfloat16(array.dtype):
        return tensor(array[NAME].view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def edge_index(matrix: Csr) -> Tensor:
    """int64 [2, E]: sources above destinations, sorted by destination."""
    destination = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    return tensor(np.stack([matrix.indices.astype(np.int64), destination]))


def flat_mask(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """A mask of one split without its second dimension; any other array as it is."""
    return array[:, 0] if name.endswith("_mask") and array.ndim == 2 and array.shape[1] == 1 else array


def edge_tensors(graph: LoadedGraph, edge_type: Any) -> dict[str, Tensor]:
    """edge_index, edge_weight and the further arrays of one edge type."""
    matrix = graph.edges[edge_type]
    tensors = {"edge_index": edge_index(matrix)}
    if matrix.data is not None:
        tensors["edge_weight"] = tensor(matrix.data)
    for name, array in graph.edge_arrays[edge_type].items():
        tensors["edge_time" if name == "time" else name] = tensor(array)
    return tensors


def _node_tensors(graph: LoadedGraph, node_type: str) -> dict[str, Tensor]:
    return {name: tensor(flat_mask(name, array)) for name, array in graph.nodes[node_type].items()}


def from_pyg(data: Data | HeteroData) -> ArrayGraph:
    """The graph of a Data or HeteroData.

    Args:
        data: with `edge_index`, or `adj_t` as a SparseTensor or one of torch's sparse layouts. Tensors of one row a
            node or an edge are kept by their names: x [N, F], y, masks [N] or [N, S], time, original_id (the nodes' own
            ids, [N]); `edge_weight` or the values of adj_t are the weights, `edge_time` the times.

    Raises:
        UsageError: it is another object, or has no edges.
        DatasetError: a tensor is not what its name says.
    """
    if not hasattr(data, "stores") or not hasattr(data, "node_attrs"):
        raise UsageError(f"{type(data).__name__} is no Data or HeteroData of PyTorch Geometric; give one graph")
    if hasattr(data, "batch") and data.batch is not None:
        raise UsageError("the Data is a batch of several graphs; give one of them, or all as one Data without `batch`")
    ignored: list[str] = []
    nodes: dict[str, NodeArrays] = {}
    edges: dict[EdgeType, EdgeColumns] = {}
    if hasattr(data, "node_types"):
        if not data.node_types:
            raise UsageError("the HeteroData has no node types; set arrays or num_nodes of some")
        for name in data.node_types:
            nodes[name] = _node_arrays(name, data[name], data[name].num_nodes, ignored)
        for kind in data.edge_types:
            edges[EdgeType(*kind)] = _edge_columns(EdgeType(*kind).key, data[kind], ignored)
        ignored += sorted(map(str, data._global_store))
    else:
        of_edges, of_nodes = {*data.edge_attrs(), "adj_t", "edge_index"}, {*data.node_attrs(), "num_nodes"}
        known = dict(data.to_dict())
        edge_store = {name: value for name, value in known.items() if name in of_edges}
        node_store = {name: value for name, value in known.items() if name in of_nodes - of_edges}
        nodes[HOMOGENEOUS_NODE] = _node_arrays("nodes", node_store, data.num_nodes, ignored)
        edges[HOMOGENEOUS_EDGE] = _edge_columns("edges", edge_store, ignored)
        ignored += sorted(known.keys() - edge_store.keys() - node_store.keys())
    remarks = [f"{ORIGIN}: left out: {', '.join(ignored)}"] if ignored else []
    attributes = [name for columns in edges.values() for name in columns.arrays if name != "time"]
    if attributes:
        names = ", ".join(dict.fromkeys(attributes))
        remarks.append(f"{ORIGIN}: {names} of edges is kept as an array; weights of edges are called edge_weight")
    notes = {"ignored": {"data": ignored}} if ignored else {}
    return ArrayGraph(origin=ORIGIN, nodes=nodes, edges=edges, notes=notes, remarks=remarks)


def _node_arrays(name: str, store: Attributes, num_nodes: int | None, ignored: list[str]) -> NodeArrays:
    arrays = _arrays(name, store, num_nodes, ignored, without=("num_nodes",))
    ids = arrays.pop("original_id", None)
    return NodeArrays(
        num_nodes=num_nodes, ids=None if ids is None else own_ids(ids, f"original_id of {name}"), arrays=arrays
    )


def _edge_columns(name: str, store: Attributes, ignored: list[str]) -> EdgeColumns:
    weight = None
    if store.get("edge_index") is not None:
        index = as_array(store["edge_index"], f"edge_index of {name}")
        if index.ndim != 2 or len(index) != 2 or index.dtype.kind not in "iu":
            raise DatasetError(
                f"the edge_index of {name} has shape {list(index.shape)} and dtype {index.dtype}; give integers [2, E]"
            )
        src, dst = index
    elif store.get("adj_t") is not None:
        dst, src, weight = _entries(store["adj_t"], name)
    else:
        raise UsageError(f"the Data has no edge_index or adj_t of {name}; set one")
    arrays = _arrays(name, store, len(src), ignored, without=("edge_index", "adj_t"))
    if "edge_time" in arrays:
        arrays["time"] = arrays.pop("edge_time")
    return EdgeColumns(src=src, dst=dst, weight=arrays.pop("edge_weight", weight), arrays=arrays)


def _entries(adjacency: Any, name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Rows (destinations), columns (sources) and values of a transposed adjacency matrix."""
    if hasattr(adjacency, "coo"):  # SparseTensor
        row, column, value = adjacency.coo()
    else:
        entries = adjacency.to_sparse_coo() if hasattr(adjacency, "to_sparse_coo") else None
        if entries is None or entries.sparse_dim() != 2:
            raise UsageError(f"adj_t of {name} is a {type(adjacency).__name__}; give a sparse matrix or edge_index")
        # Not coalesced, which would add up parallel edges.
        (row, column), value = entries._indices(), entries._values()
    values = None if value is None else as_array(value, f"adj_t of {name}")
    if values is not None and (values.ndim != 1 or bool((values == 1).all())):
        values = None
    return as_array(row, "adj_t"), as_array(column, "adj_t"), values


def _arrays(
    name: str, store: Attributes, rows: int | None, ignored: list[str], *, without: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Tensors and arrays of so many rows; the names of all else are added to those that are ignored."""
    arrays: dict[str, NDArray[Any]] = {}
    for key, value in store.items():
        if key in without or value is None:
            continue
        shape = getattr(value, "shape", ())
        if not shape or (rows is not None and shape[0] != rows) or OF_THE_CACHE.fullmatch(key):
            ignored.append(f"{name} {key}")
        else:
            arrays[key] = as_array(value, f"{key} of {name}")
    return arrays
