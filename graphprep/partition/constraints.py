"""Node loads and their balance constraints: nodes, in-edges, work, training nodes, and those of each type.

Letters: N nodes.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.methods.base import NodeLoad
from graphprep.partition.typed_graph import WholeGraph
from graphprep.traffic import EDGE_COST, LIMITS, NODE_COST, TRAINING_IMBALANCE


def node_loads(
    in_degree_N: NDArray[np.int64],
    train_mask: NDArray[np.bool_] | None,
    *,
    imbalance: float,
    limits: Collection[str] = LIMITS,
) -> tuple[NodeLoad, ...]:
    """The loads of a graph whatever its types.

    Nodes come first and are always included, without a limit if none is requested. Work follows from nodes and in-edges
    and is a load of its own only where one of these is free.

    Args:
        in_degree_N: int64 [N].
        train_mask: bool [N], or None.
        imbalance: largest share over target share.
        limits: of LIMITS, the loads that are kept within it.
    """
    loads = [_load("nodes", np.ones(len(in_degree_N), np.int64), imbalance if "nodes" in limits else math.inf)]
    if "in-edges" in limits:
        loads.append(_load("in-edges", in_degree_N, imbalance))
    if "work" in limits and not {"nodes", "in-edges"} <= set(limits):
        loads.append(_load("work", np.rint(EDGE_COST * in_degree_N + NODE_COST), imbalance))
    if "training-nodes" in limits and train_mask is not None and train_mask.any():
        loads.append(_load("training nodes", train_mask, max(imbalance, TRAINING_IMBALANCE)))
    return tuple(loads)


def loads_of(graph: WholeGraph, *, imbalance: float, limits: Collection[str] = LIMITS) -> tuple[NodeLoad, ...]:
    """The loads of a graph, those of its types last. See `node_loads`."""
    in_degree_N = np.diff(graph.matrix.indptr)
    loads = list(node_loads(in_degree_N, graph.training_mask(), imbalance=imbalance, limits=limits))
    if "types" not in limits or not graph.has_several_types:
        return tuple(loads)
    for name in graph.num_nodes:
        amount_N = np.zeros(len(in_degree_N), np.int64)
        graph.by_type(amount_N)[name][:] = 1
        loads.append(_load(f"nodes of {name}", amount_N, imbalance))
    for kind, matrix in graph.matrices.items():
        amount_N = np.zeros(len(in_degree_N), np.int64)
        graph.by_type(amount_N)[kind.destination][:] = np.diff(matrix.indptr)
        loads.append(_load(f"in-edges of {kind.key}", amount_N, imbalance))
    return tuple(loads)


def _load(what: str, amount_N: NDArray[np.generic], limit: float) -> NodeLoad:
    return NodeLoad(what=what, amount_N=amount_N.astype(np.int64, copy=False), limit=limit)
