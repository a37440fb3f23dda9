"""Arrays of NumPy, PyTorch or pandas as a graph: one node type, or several by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, EdgeType
from graphprep.datasets.importing.node_ids import Original
from graphprep.errors import UsageError
from graphprep.interop.in_memory import ArrayGraph, EdgeColumns, NodeArrays, as_array, own_ids, rows_of_ids

Array = NDArray[Any]
ORIGIN = "the arrays"
EDGE_NAMES = {"edge_weight": "weight", "edge_time": "time"}


def from_arrays(nodes: Mapping[str, Mapping[str, Any]], edges: Mapping[EdgeType, Mapping[str, Any]]) -> ArrayGraph:
    """The graph of arrays.

    Args:
        nodes: by type: `num_nodes`, `ids`, and arrays by name. A type with `ids` is named by these in edges.
        edges: by (source, relation, destination): `edge_index` [2, E] or two columns, `edge_weight`, `edge_time` and
            other arrays by name. Words as ends are ids; without `ids` the nodes are the words, in ascending order.

    Raises:
        DatasetError: an array is none, or an edge names an unknown node.
        UsageError: edges without `edge_index`, or of a shape that is none.
    """
    is_plain = list(edges) == [HOMOGENEOUS_EDGE]
    ends = {kind: _ends(kind, fields, is_plain=is_plain) for kind, fields in edges.items()}
    ids: dict[str, Original] = {}
    for name in (*nodes, *(name for kind in ends for name in kind[::2])):
        own = nodes.get(name, {}).get("ids")
        words = [
            side for kind, sides in ends.items() for end, side in zip(kind[::2], sides, strict=True) if end == name
        ]
        if own is not None:
            ids[name] = own_ids(as_array(own, f"ids of {name}"), f"ids of {name}")
        elif any(side.dtype.kind in "OUT" for side in words) and name not in ids:
            ids[name] = own_ids(np.unique(np.concatenate([side.astype(np.str_) for side in words])), f"nodes {name}")
    return ArrayGraph(
        origin=ORIGIN,
        nodes={name: _node_arrays(name, nodes.get(name, {}), ids.get(name)) for name in {**nodes, **ids}},
        edges={kind: _columns(kind, ends[kind], fields, ids) for kind, fields in edges.items()},
    )


def _ends(kind: EdgeType, fields: Mapping[str, Any], *, is_plain: bool) -> tuple[Array, Array]:
    what = "edge_index" if is_plain else f"edge_index of {kind.key}"
    if fields.get("edge_index") is None:
        raise UsageError(f"there is no {what}; give sources and destinations, [2, E]")
    index = fields["edge_index"]
    if isinstance(index, tuple | list) and len(index) == 2:
        src, dst = (as_array(side, what) for side in index)
    else:
        array = as_array(index, what)
        if array.ndim != 2 or len(array) != 2:
            turned = "; transpose it" if array.ndim == 2 and array.shape[1] == 2 else ""
            raise UsageError(f"{what} has shape {list(array.shape)}, and [2, E] is sources above destinations{turned}")
        src, dst = array
    return src, dst


def _node_arrays(name: str, fields: Mapping[str, Any], ids: Original | None) -> NodeArrays:
    arrays = {
        key: as_array(value, f"{key} of {name}")
        for key, value in fields.items()
        if key not in ("num_nodes", "ids") and value is not None
    }
    num_nodes = fields.get("num_nodes")
    if num_nodes is None and ids is not None:
        num_nodes = len(ids)
    return NodeArrays(num_nodes=None if num_nodes is None else int(num_nodes), arrays=arrays, ids=ids)


def _columns(
    kind: EdgeType, ends: tuple[Array, Array], fields: Mapping[str, Any], ids: Mapping[str, Original]
) -> EdgeColumns:
    src, dst = (
        rows_of_ids(side, ids[name], "edge_index") if name in ids else side
        for name, side in zip(kind[::2], ends, strict=True)
    )
    arrays = {
        EDGE_NAMES.get(key, key): as_array(value, key)
        for key, value in fields.items()
        if key != "edge_index" and value is not None
    }
    return EdgeColumns(src=src, dst=dst, weight=arrays.pop("weight", None), arrays=arrays)
