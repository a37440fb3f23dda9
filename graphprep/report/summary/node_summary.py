"""The figures of the nodes of one type in a store: arrays, labels, splits and features.

Labels and masks are read whole, in ranges of rows. Of features that take more than SAMPLED_BYTES, blocks of rows spread
evenly over the nodes are read, and the summary says how many rows were read.

Letters: N nodes, F features, C classes, S splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import row_bytes
from graphprep.interop.prediction_table import class_names
from graphprep.store.store import GraphStore

ROWS_AT_A_TIME = 1 << 20
SAMPLED_BYTES = 128_000_000
SAMPLED_BLOCKS = 16
SPLIT_NAMES = ("train", "val", "test")
PAIRS = (("train", "val"), ("train", "test"), ("val", "test"))


def node_summary(store: GraphStore, node_type: str, label_N: NDArray[np.int32] | None) -> dict[str, Any]:
    """The figures of one node type as plain JSON values.

    Args:
        store: the graph.
        node_type: one of its node types.
        label_N: from `class_labels`.
    """
    summary: dict[str, Any] = {"count": store.num_nodes[node_type]}
    for name in store.node_arrays(node_type):
        array = store.node_array(node_type, name)
        assert array is not None
        summary[name] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if store.node_array(node_type, "x") is not None:
        summary["features"] = _features(store, node_type)
    if label_N is not None:
        counts = np.bincount(label_N[label_N >= 0])
        summary |= {"classes": len(counts), "labelled": int(counts.sum()), "nodes_per_class": counts.tolist()}
        if (names := class_names(store.attributes, node_type)) is not None:
            summary["class_names"] = list(names)
    elif (labels := store.node_array(node_type, "y")) is not None and labels.ndim == 2:
        summary["classes"] = int(labels.shape[1])
    if store.node_array(node_type, "train_mask") is not None:
        summary |= _splits(store, node_type, label_N)
    return summary


def class_labels(store: GraphStore, node_type: str) -> NDArray[np.int32] | None:
    """int32 [N], -1 for unlabelled; None where nodes have no class or several."""
    labels = store.node_array(node_type, "y")
    if labels is None or labels.ndim != 1 or labels.dtype.kind not in "iu":
        return None
    pieces = [rows.astype(np.int32) for _, rows in store.rows(node_type, "y", ROWS_AT_A_TIME)]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _splits(store: GraphStore, node_type: str, label_N: NDArray[np.int32] | None) -> dict[str, Any]:
    """Nodes in each mask, in two masks of one split, in none; of the first split also by class."""
    present = [name for name in SPLIT_NAMES if store.node_array(node_type, f"{name}_mask") is not None]
    num_classes = 0 if label_N is None else int(label_N.max(initial=-1)) + 1
    masks = {name: store.node_array(node_type, f"{name}_mask") for name in present}
    num_splits = masks["train"].shape[1]  # type: ignore[union-attr]
    counts = {name: np.zeros(num_splits, np.int64) for name in present}
    leaked = {pair: np.zeros(num_splits, np.int64) for pair in PAIRS if set(pair) <= set(present)}
    in_none = np.zeros(num_splits, np.int64)
    unlabelled = {name: np.zeros(num_splits, np.int64) for name in present}
    by_class = {name: np.zeros(num_classes, np.int64) for name in present}
    for start in range(0, store.num_nodes[node_type], ROWS_AT_A_TIME):
        rows = {name: np.asarray(mask[start : start + ROWS_AT_A_TIME]) for name, mask in masks.items()}  # type: ignore[index]
        for name, mask_NS in rows.items():
            counts[name] += mask_NS.sum(axis=0)
        for (one, other), count_S in leaked.items():
            count_S += (rows[one] & rows[other]).sum(axis=0)
        in_none += (~np.logical_or.reduce(list(rows.values()))).sum(axis=0)
        if label_N is not None:
            label = label_N[start : start + ROWS_AT_A_TIME]
            for name, mask_NS in rows.items():
                unlabelled[name] += (mask_NS & (label < 0)[:, None]).sum(axis=0)
                label_of_first = label[mask_NS[:, 0] & (label >= 0)]
                by_class[name] += np.bincount(label_of_first, minlength=num_classes)
    splits: dict[str, Any] = {
        "splits": {name: counts[name].tolist() if name in counts else [] for name in SPLIT_NAMES},
        "leaked": {f"{one}_and_{other}": count_S.tolist() for (one, other), count_S in leaked.items()},
        "in_no_split": in_none.tolist(),
    }
    if label_N is not None:
        splits["unlabelled_in_splits"] = {name: count_S.tolist() for name, count_S in unlabelled.items()}
        splits["first_split_per_class"] = {name: count_C.tolist() for name, count_C in by_class.items()}
    return splits


def _features(store: GraphStore, node_type: str) -> dict[str, Any]:
    """Zeros, empty rows, constant columns, values that are not finite."""
    array = store.node_array(node_type, "x")
    assert array is not None
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    looked_at = zeros = not_finite = empty_rows = 0
    least_F, most_F = np.full(width, np.inf), np.full(width, -np.inf)
    for rows in _blocks_of(store, node_type):
        x_NF = rows.reshape(len(rows), width).astype(np.float64 if rows.dtype.itemsize > 4 else np.float32)
        finite_NF = np.isfinite(x_NF)
        if not finite_NF.all():
            not_finite += int((~finite_NF).sum())
            x_NF[~finite_NF] = 0
        filled_N = np.count_nonzero(x_NF, axis=1)
        looked_at += len(x_NF)
        zeros += x_NF.size - int(filled_N.sum())
        empty_rows += int((filled_N == 0).sum())
        if len(x_NF):
            np.minimum(least_F, x_NF.min(axis=0), out=least_F)
            np.maximum(most_F, x_NF.max(axis=0), out=most_F)
    entries = looked_at * width
    return {
        "rows_looked_at": looked_at,
        "is_whole": looked_at == store.num_nodes[node_type],
        "zero_share": zeros / entries if entries else 0.0,
        "not_finite": not_finite,
        "empty_rows": empty_rows,
        "constant_columns": int((least_F == most_F).sum()) if looked_at else 0,
        "min": float(least_F.min()) if entries else None,
        "max": float(most_F.max()) if entries else None,
    }


def _blocks_of(store: GraphStore, node_type: str) -> Iterator[NDArray[Any]]:
    """All rows of x, or evenly spread blocks of them, in pieces of an eighth of SAMPLED_BYTES or less."""
    array = store.node_array(node_type, "x")
    assert array is not None
    num_nodes, bytes_a_row = store.num_nodes[node_type], max(1, row_bytes(array))
    most = SAMPLED_BYTES // SAMPLED_BLOCKS // bytes_a_row
    block = max(1, most)
    step = max(block, -(-num_nodes // SAMPLED_BLOCKS))
    for start in range(0, num_nodes, step):
        yield np.asarray(array[start : start + block])
