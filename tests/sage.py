"""One GraphSAGE layer over a whole graph, by SciPy alone: what every export is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch_geometric.nn import SAGEConv

from graphprep.store.store import GraphStore


def sage_layer(store: GraphStore, conv: SAGEConv) -> NDArray[np.float32]:
    """The mean over in-edges (parallel ones count each, weights do not) and the node itself, each by its own matrix."""
    matrix = store.to_scipy()
    matrix.data = np.ones_like(matrix.data)
    x = store.node_table("node").x
    assert x is not None
    mean = (matrix @ x) / np.maximum(np.diff(matrix.indptr), 1)[:, None]
    neighbours, self_ = conv.lin_l, conv.lin_r
    weight, bias = neighbours.weight.detach().numpy(), neighbours.bias.detach().numpy()
    layer: NDArray[np.float32] = mean @ weight.T + bias + x @ self_.weight.detach().numpy().T
    return layer
