"""A graph as PyTorch Geometric's Data, or as HeteroData where it has several node or edge types.

Arrays keep their names and dtypes; a mask of one split loses its second dimension, as PyG's own datasets have it.
Weights are `edge_weight`, the times of edges `edge_time`, which of nodes are `time`. `edge_index` comes sorted by
destination. Arrays are copied, since PyTorch cannot hold memory that must not be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.bfloat16 import NAME, is_bfloat16
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, LoadedGraph

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData


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
