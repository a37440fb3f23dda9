"""Write a cache: part by part, the manifest last; the caller renames the folder into place.

Node arrays are streamed out of the store by row range and scattered into the parts' files, so that features never have
to fit in memory; edges are cut one part at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep import __version__, csr, progress
from graphprep.cache.array_file import FolderWriter
from graphprep.cache.blocks import Layout, halo, split_edges
from graphprep.cache.format import CACHE_FORMAT, CACHE_KIND, part_path
from graphprep.cache.manifest import Manifest
from graphprep.graph import Csr, EdgeType
from graphprep.store import ANNDATA_CSR, GraphStore
from graphprep.topology import Topology
from graphprep.traffic import Quality, Traffic

ROWS_BYTES = 64_000_000
"""Node arrays pass through memory in pieces of about this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContent:
    """All that a cache holds beside the store's own node arrays."""

    key: str
    matrices: Mapping[EdgeType, Csr]
    layouts: Mapping[str, Layout]
    """by node type"""
    traffic: Traffic
    quality: Quality
    topology: Topology
    options: Mapping[str, Any]


def write_cache(folder: Path, store: GraphStore, content: CacheContent) -> None:
    """Write the cache of a partitioned store into a folder that the caller will publish.

    What an earlier run left in `folder` is removed first.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    writer = FolderWriter(folder)
    num_parts = content.topology.num_ranks
    halos = _halos(content, num_parts)
    degrees = {node_type: _degree(content, node_type) for node_type in content.layouts}
    with progress.task("writing parts", total=num_parts, unit="parts") as task:
        writer.group("parts")
        for part in range(num_parts):
            _write_part(writer, content, halos, degrees, part)
            task.advance()
    _write_node_arrays(writer, store, content, num_parts)
    _write_root(writer, store, content, num_parts)
    Manifest(key=content.key, files=writer.files).write(folder)


Halos = dict[str, list[list[NDArray[np.int64]]]]
"""by node type: [part][owner] -> global ids"""


def _halos(content: CacheContent, num_parts: int) -> Halos:
    halos: Halos = {}
    for node_type, layout in content.layouts.items():
        leaving = [(kind, matrix) for kind, matrix in content.matrices.items() if kind.source == node_type]
        halos[node_type] = [
            halo(
                [matrix for _, matrix in leaving],
                [content.layouts[kind.destination].nodes_P[part] for kind, _ in leaving],
                layout,
                part,
            )
            for part in range(num_parts)
        ]
    return halos


def _write_part(
    writer: FolderWriter, content: CacheContent, halos: Halos, degrees: Mapping[str, NDArray[np.float32]], part: int
) -> None:
    num_parts = content.topology.num_ranks
    root = part_path(part)
    blocks = {
        kind: split_edges(
            matrix,
            content.layouts[kind.destination].nodes_P[part],
            content.layouts[kind.source],
            halos[kind.source][part],
            part,
        )
        for kind, matrix in content.matrices.items()
    }
    largest = max(max(block.num_edges, block.num_sources) for group in blocks.values() for block in group)
    dtype = csr.index_dtype(largest)
    sizes = {node_type: len(layout.nodes_P[part]) for node_type, layout in content.layouts.items()}
    writer.group(root, {"part": part, "nodes": sizes, "index_dtype": np.dtype(dtype).name})
    writer.group(f"{root}/nodes")
    for node_type, layout in content.layouts.items():
        folder = f"{root}/nodes/{node_type}"
        writer.group(folder)
        degree_N = degrees[node_type]
        writer.array(f"{folder}/global_ids", layout.nodes_P[part])
        writer.array(f"{folder}/degree", degree_N[layout.nodes_P[part]])
        for peer in range(num_parts):
            if peer != part:
                received = halos[node_type][part][peer]
                writer.array(f"{folder}/send_{peer}", layout.row_N[halos[node_type][peer][part]].astype(dtype))
                writer.array(f"{folder}/recv_{peer}", received)
                writer.array(f"{folder}/halo_degree_{peer}", degree_N[received])
    writer.group(f"{root}/edges")
    for kind, group in blocks.items():
        folder = f"{root}/edges/{kind.key}"
        writer.group(folder)
        for peer, block in enumerate(group):
            _write_block(writer, f"{folder}/local" if peer == part else f"{folder}/from_{peer}", block, dtype)


def _write_block(writer: FolderWriter, path: str, block: Csr, dtype: type[np.integer[Any]]) -> None:
    shape = [block.num_rows, block.num_sources]
    writer.group(path, {**ANNDATA_CSR, "shape": shape, "weighted": block.data is not None})
    writer.array(f"{path}/indptr", block.indptr.astype(dtype))
    writer.array(f"{path}/indices", block.indices.astype(dtype))
    if block.data is None:
        writer.ones(f"{path}/data", block.num_edges)
    else:
        writer.array(f"{path}/data", block.data)


def _degree(content: CacheContent, node_type: str) -> NDArray[np.float32]:
    """Weighted in-degree over all edge types into this type; float32 [N]."""
    total = np.zeros(len(content.layouts[node_type].part_N), np.float32)
    for kind, matrix in content.matrices.items():
        if kind.destination == node_type:
            total += csr.weighted_in_degree(matrix)
    return total


def _write_node_arrays(writer: FolderWriter, store: GraphStore, content: CacheContent, num_parts: int) -> None:
    for node_type, layout in content.layouts.items():
        for name in store.node_arrays(node_type):
            stored = store.node_array(node_type, name)
            assert stored is not None
            paths = [f"{part_path(part)}/nodes/{node_type}/{name}" for part in range(num_parts)]
            targets = [
                writer.open_array(path, (len(layout.nodes_P[part]), *stored.shape[1:]), stored.dtype)
                for part, path in enumerate(paths)
            ]
            row_bytes = max(1, stored.dtype.itemsize * int(np.prod(stored.shape[1:])))
            rows_at_a_time = max(1, ROWS_BYTES // row_bytes)
            with progress.task(f"writing {node_type} {name}", total=stored.nbytes, unit="B") as task:
                for start, rows in store.rows(node_type, name, rows_at_a_time):
                    _scatter(rows, start, layout, targets)
                    task.advance(rows.nbytes)
            for path, target in zip(paths, targets, strict=True):
                writer.seal(path, target)


def _scatter(rows: NDArray[Any], start: int, layout: Layout, targets: list[NDArray[Any]]) -> None:
    """Put a range of the store's rows where they belong in each part."""
    owner = layout.part_N[start : start + len(rows)]
    by_owner = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[by_owner], np.arange(len(targets) + 1))
    for part, target in enumerate(targets):
        chosen = by_owner[bounds[part] : bounds[part + 1]]
        target[layout.row_N[start + chosen]] = rows[chosen]


def _write_root(writer: FolderWriter, store: GraphStore, content: CacheContent, num_parts: int) -> None:
    node_types = store.num_nodes
    offsets, at = {}, 0
    for node_type, count in node_types.items():
        offsets[node_type] = at
        at += count
    labels = {node_type: _labels(store, node_type) for node_type in node_types}
    tasks = [task for task, _ in labels.values() if task != "none"]
    writer.array("assignment", np.concatenate([content.layouts[node_type].part_N for node_type in node_types]))
    writer.array("traffic_rows", content.traffic.rows_PP)
    writer.array("cross_edges", content.traffic.edges_PP)
    writer.group(
        "",
        {
            "graphprep_format": CACHE_FORMAT,
            "graphprep_kind": CACHE_KIND,
            "tool_version": __version__,
            "key": content.key,
            "dataset": store.name,
            "source": store.attributes["source"],
            "num_parts": num_parts,
            "node_types": node_types,
            "node_offsets": offsets,
            "edge_types": {kind.key: matrix.num_edges for kind, matrix in content.matrices.items()},
            "directed": store.directed,
            "self_loops": {kind.key: csr.count_self_loops(matrix) for kind, matrix in content.matrices.items()},
            "num_features": {node_type: _width(store, node_type, "x") for node_type in node_types},
            "num_classes": {node_type: classes for node_type, (_, classes) in labels.items()},
            "num_splits": {node_type: _width(store, node_type, "train_mask") for node_type in node_types},
            "task": tasks[0] if tasks else "none",
            "topology": content.topology.to_long_form(),
            "options": dict(content.options),
            "quality": content.quality.to_json(),
        },
    )


def _width(store: GraphStore, node_type: str, name: str) -> int:
    stored = store.node_array(node_type, name)
    return 0 if stored is None else int(stored.shape[1])


def _labels(store: GraphStore, node_type: str) -> tuple[str, int]:
    """The task of a node type and its number of classes."""
    stored = store.node_array(node_type, "y")
    if stored is None:
        return "none", 0
    if stored.ndim == 2:
        return "multilabel", int(stored.shape[1])
    largest = max((int(rows.max()) for _, rows in store.rows(node_type, "y", 1 << 22) if len(rows)), default=-1)
    return "classes", largest + 1
