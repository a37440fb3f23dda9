"""What a graph store holds, in figures: counts, degrees, labels, splits, provenance."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphprep import csr
from graphprep.store import GraphStore

ROWS_AT_A_TIME = 1 << 20


def store_summary(store: GraphStore) -> dict[str, Any]:
    """The figures of a store as plain JSON values; edges are read one type at a time."""
    attributes = store.attributes
    return {
        "graphprep_format": attributes["graphprep_format"],
        "graphprep_kind": attributes["graphprep_kind"],
        "dataset": store.name,
        "location": store.location,
        "key": store.key,
        "tool_version": attributes["tool_version"],
        "directed": store.directed,
        "nodes": {node_type: _node_summary(store, node_type) for node_type in store.num_nodes},
        "edges": {edge_type.key: _edge_summary(store, edge_type.key) for edge_type in store.num_edges},
        "treatment": attributes["treatment"],
        "source": attributes["source"],
        "notes": attributes["notes"],
    }


def _node_summary(store: GraphStore, node_type: str) -> dict[str, Any]:
    summary: dict[str, Any] = {"count": store.num_nodes[node_type]}
    for name in store.node_arrays(node_type):
        array = store.node_array(node_type, name)
        assert array is not None
        summary[name] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if store.node_array(node_type, "train_mask") is not None:
        masks = ("train_mask", "val_mask", "test_mask")
        summary["splits"] = {name.removesuffix("_mask"): _mask_counts(store, node_type, name) for name in masks}
    labels = store.node_array(node_type, "y")
    if labels is not None and labels.ndim == 1:
        y = np.asarray(labels[:])
        counts = np.bincount(y[y >= 0])
        summary["classes"] = len(counts)
        summary["labelled"] = int(counts.sum())
        summary["nodes_per_class"] = counts.tolist()
    elif labels is not None:
        summary["classes"] = int(labels.shape[1])
    return summary


def _mask_counts(store: GraphStore, node_type: str, name: str) -> list[int]:
    """Nodes in a mask, one number a split."""
    if store.node_array(node_type, name) is None:
        return []
    pieces = [rows.sum(axis=0) for _, rows in store.rows(node_type, name, ROWS_AT_A_TIME)]
    return [int(count) for count in np.sum(pieces, axis=0)] if pieces else []


def _edge_summary(store: GraphStore, key: str) -> dict[str, Any]:
    edge_type = next(kind for kind in store.num_edges if kind.key == key)
    matrix = store.csr(edge_type)
    in_degree = np.diff(matrix.indptr)
    out_degree = np.bincount(matrix.indices, minlength=matrix.num_sources)
    summary: dict[str, Any] = {
        "count": matrix.num_edges,
        "weighted": matrix.data is not None,
        "self_loops": csr.count_self_loops(matrix),
        **store.attributes["edge_counts"][key],
    }
    if matrix.num_rows:
        quantiles = np.quantile(in_degree, [0.5, 0.9, 0.99])
        summary["in_degree"] = {
            "mean": float(in_degree.mean()),
            "median": float(quantiles[0]),
            "p90": float(quantiles[1]),
            "p99": float(quantiles[2]),
            "max": int(in_degree.max()),
        }
    if matrix.num_rows == matrix.num_sources:
        summary["isolated_nodes"] = int(((in_degree == 0) & (out_degree == 0)).sum())
    return summary
