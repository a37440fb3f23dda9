"""The topology of a store or a cache in memory, for samplers: in-edges by destination, their weights and times.

Numbers of nodes and of edges are the store's, whichever parts a cache has, so that draws do not depend on the parts.
Memory: 4 bytes an edge (8 from 2^31 nodes on), 8 a node, and 4 more an edge for weights and 8 for times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr, rebuild_edge_arrays, rebuild_rows
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import DatasetError, UsageError
from graphprep.store.store import GraphStore

TimesOf = Literal["edges", "nodes"]
TIME = "time"
"""the name of the array of times, of edges and of nodes"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SamplingGraph:
    """What samplers read. Threads share it."""

    num_nodes: Mapping[str, int]
    """by node type, in name order"""
    edges: Mapping[EdgeType, Csr]
    """in-edges by type, in key order; columns ascend within a row"""
    edge_times: Mapping[EdgeType, NDArray[Any]] = field(default_factory=dict)
    """int64 or float64 [E] of the edge types that have times, in the order of `edges`"""
    node_times: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """int64 or float64 [N] of the node types that have times"""


def sampling_graph(source: GraphStore | PartitionCache, *, times_of: TimesOf | None = None) -> SamplingGraph:
    """Read the topology.

    Args:
        source: a store or a cache.
        times_of: whose array `time` says from when on an edge may be used: that of edges, or of nodes where they begin.

    Raises:
        UsageError: these have no times.
        DatasetError, CacheError: a file is damaged or has changed, or times are not one number each, or NaN.
    """
    num_nodes = source.node_types if isinstance(source, PartitionCache) else source.num_nodes
    kinds = source.edge_types if isinstance(source, PartitionCache) else list(source.num_edges)
    return with_times(
        SamplingGraph(num_nodes=num_nodes, edges={kind: _edges(source, kind) for kind in kinds}), source, times_of
    )


def with_times(graph: SamplingGraph, source: GraphStore | PartitionCache, times_of: TimesOf | None) -> SamplingGraph:
    """The graph with the times of its edges or nodes, read from where it comes from.

    Raises:
        UsageError, DatasetError: as for `sampling_graph`.
    """
    kinds, num_nodes = list(graph.edges), graph.num_nodes
    edge_times: dict[EdgeType, NDArray[Any]] = {}
    node_times: dict[str, NDArray[Any]] = {}
    if times_of == "edges":
        edge_times = {kind: edge_rows(source, kind, [TIME])[TIME] for kind in kinds if TIME in source.edge_arrays(kind)}
    elif times_of == "nodes":
        node_times = {name: times_of_nodes(source, name) for name in num_nodes if TIME in node_arrays(source, name)}
    if times_of is not None and not edge_times and not node_times:
        raise UsageError(f"the {times_of} have no array {TIME!r}; import the graph with their times, or use none")
    return replace(
        graph,
        edge_times={kind: _as_times(times, kind.key) for kind, times in edge_times.items()},
        node_times=node_times,
    )


def times_of_nodes(source: GraphStore | PartitionCache, node_type: str) -> NDArray[Any]:
    """The times of all nodes of a type, as the kernels take them.

    Raises:
        UsageError: they have none.
        DatasetError, CacheError: as for `sampling_graph`.
    """
    if TIME not in node_arrays(source, node_type):
        raise UsageError(f"nodes of type {node_type} have no array {TIME!r}, and so no times of their own")
    return _as_times(node_rows(source, node_type, TIME), node_type)


def without_pairs(
    matrix: Csr, first_K: NDArray[np.int64], second_K: NDArray[np.int64], *, numbered: bool = False
) -> Csr:
    """The edges but those between the two nodes of some pairs, in both directions; self-loops stay.

    With `numbered` the result's `edge_number` says which edges of `matrix` they are.
    """
    destination_E = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    stays_E = ~np.isin(
        _pair_keys(matrix.indices, destination_E, matrix.num_rows), _pair_keys(first_K, second_K, matrix.num_rows)
    )
    stays_E |= matrix.indices == destination_E
    before = np.concatenate([[0], np.cumsum(stays_E)])
    return replace(
        matrix,
        indptr=before[matrix.indptr],
        indices=matrix.indices[stays_E],
        data=None if matrix.data is None else matrix.data[stays_E],
        edge_number=np.flatnonzero(stays_E) if numbered else None,
    )


def _pair_keys(first: NDArray[Any], second: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    """A number for each pair, whichever node is the first."""
    keys: NDArray[np.int64] = np.minimum(first, second).astype(np.int64) * num_nodes + np.maximum(first, second)
    return keys


def node_arrays(source: GraphStore | PartitionCache, node_type: str) -> tuple[str, ...]:
    """The names of the arrays that nodes of a type have in the store."""
    return source.node_arrays(0, node_type) if isinstance(source, PartitionCache) else source.node_arrays(node_type)


def node_rows(source: GraphStore | PartitionCache, node_type: str, name: str) -> NDArray[Any]:
    """One array of all nodes of a type in memory, in the store's order."""
    if isinstance(source, PartitionCache):
        return rebuild_rows(source, node_type, name)
    found = source.node_array(node_type, name)
    assert found is not None
    return found[:]


def edge_rows(
    source: GraphStore | PartitionCache, edge_type: EdgeType, names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Some arrays of all edges of a type in memory, in the store's order."""
    if isinstance(source, PartitionCache):
        return rebuild_edge_arrays(source, edge_type, names)
    return {name: source.edge_array(edge_type, name)[:] for name in names}


def _edges(source: GraphStore | PartitionCache, edge_type: EdgeType) -> Csr:
    return rebuild_csr(source, edge_type) if isinstance(source, PartitionCache) else source.csr(edge_type)


def _as_times(times: NDArray[Any], name: str) -> NDArray[Any]:
    """Times as the kernels take them.

    Raises:
        DatasetError: they are not one number each.
    """
    if times.ndim != 1 or times.dtype.kind not in "iuf":
        raise DatasetError(f"the times of {name} are {times.dtype} of shape {times.shape}, not one number each")
    if times.dtype.kind == "f" and np.isnan(times).any():
        raise DatasetError(f"time {np.flatnonzero(np.isnan(times))[0]} of {name} is NaN; give each one a time")
    return times.astype(np.float64 if times.dtype.kind == "f" else np.int64, copy=False)
