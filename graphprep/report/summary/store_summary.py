"""The figures of a graph store: counts, degrees, components, homophily, labels, splits, features, provenance.

Everything is read in ranges of rows, edges once (`edge_scan`); sampled figures are marked as such.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.report.summary.degrees import degree_summary, most_connected
from graphprep.report.summary.edge_scan import EdgeFindings, Findings, scan_edges
from graphprep.report.summary.node_summary import class_labels, node_summary
from graphprep.report.summary.store_warnings import warnings_of
from graphprep.store.store import GraphStore
from graphprep.system.executor import Executor


def store_summary(store: GraphStore, *, executor: Executor | None = None) -> dict[str, Any]:
    """The figures of a store as plain JSON values; `executor` scans the edges, threads do without one."""
    attributes = store.attributes
    labels = {node_type: class_labels(store, node_type) for node_type in store.num_nodes}
    findings = scan_edges(
        store, {name: label_N for name, label_N in labels.items() if label_N is not None}, executor=executor
    )
    summary = {
        "graphprep_format": attributes["graphprep_format"],
        "graphprep_kind": attributes["graphprep_kind"],
        "dataset": store.name,
        "location": store.location,
        "key": store.key,
        "tool_version": attributes["tool_version"],
        "directed": store.directed,
        "num_nodes": sum(store.num_nodes.values()),
        "num_edges": sum(store.num_edges.values()),
        "bytes": sum(_bytes(array) for array in attributes["arrays"].values()),
        "nodes": {
            node_type: node_summary(store, node_type, labels[node_type])
            | {"isolated_nodes": int((_degree(store, findings, node_type) == 0).sum())}
            for node_type in store.num_nodes
        },
        "edges": {kind.key: _edge_summary(store, kind, edges) for kind, edges in findings.edges.items()},
        "components": {"count": findings.components, "largest_nodes": findings.largest_component},
        "treatment": attributes["treatment"],
        "source": attributes["source"],
        "notes": attributes["notes"],
    }
    return summary | {"warnings": warnings_of(summary)}


def _bytes(array: dict[str, Any]) -> int:
    """Of an array before compression."""
    return int(np.dtype(array["dtype"]).itemsize * np.prod(array["shape"], dtype=np.int64))


def _degree(store: GraphStore, findings: Findings, node_type: str) -> NDArray[np.int64]:
    """Edges of all types and both directions at each node of a type."""
    degree_N = np.zeros(store.num_nodes[node_type], np.int64)
    for kind, edges in findings.edges.items():
        if kind.destination == node_type:
            degree_N += edges.in_degree_N
        if kind.source == node_type:
            degree_N += edges.out_degree_N
    return degree_N


def _edge_summary(store: GraphStore, kind: EdgeType, findings: EdgeFindings) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "count": store.num_edges[kind],
        "weighted": store.is_weighted(kind),
        "self_loops": findings.self_loops,
        **store.attributes["edge_counts"][kind.key],
        "duplicates": findings.duplicates,
        "one_way": findings.one_way,
        "homophily": findings.homophily,
    }
    if len(findings.in_degree_N):
        summary["in_degree"] = degree_summary(findings.in_degree_N)
    if len(findings.out_degree_N):
        summary["out_degree"] = degree_summary(findings.out_degree_N)
    if kind.source == kind.destination and len(findings.in_degree_N):
        isolated_N = (findings.in_degree_N == 0) & (findings.out_degree_N == 0)
        summary["isolated_nodes"] = int(isolated_N.sum())
        summary["most_connected"] = most_connected(findings.in_degree_N, findings.out_degree_N)
    return summary
