"""A complete partition cache from plain arrays, written by following docs/cache-format.md and nothing else.

It shares no code with graphprep, so a trainer that reads these caches shows that the page says enough.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}]


@dataclass(kw_only=True)
class HandmadeGraph:
    """A small graph with everything that a training run needs."""

    src: Array
    dst: Array
    x: Array
    y: Array
    train: Array
    val: Array
    test: Array
    weight: Array | None = None
    edge_attr: Array | None = None
    edge_arrays: dict[str, Array] = field(default_factory=dict)
    node_arrays: dict[str, Array] = field(default_factory=dict)
    num_classes: int = 0
    task: str = "classes"
    masks: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        def column(mask: Array) -> Array:
            return mask.reshape(len(mask), -1).astype(bool)

        self.masks = {
            "train_mask": column(self.train),
            "val_mask": column(self.val),
            "test_mask": column(self.test),
        }
        if not self.num_classes and self.task == "classes" and len(self.y):
            self.num_classes = int(self.y.max()) + 1

    @property
    def num_nodes(self) -> int:
        return len(self.x)


def random_graph(
    *,
    num_nodes: int = 60,
    num_edges: int = 240,
    num_features: int = 6,
    num_classes: int = 3,
    seed: int = 0,
    undirected: bool = False,
    weighted: bool = False,
    loops_and_duplicates: bool = False,
) -> HandmadeGraph:
    """A seeded random graph whose features say something about its classes."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, num_nodes, size=(2, num_edges))
    keep = src != dst
    src, dst = src[keep], dst[keep]
    if loops_and_duplicates:
        loops = rng.choice(num_nodes, num_nodes // 3, replace=False)
        again = rng.integers(0, len(src), len(src) // 4)
        src, dst = np.r_[src, loops, src[again]], np.r_[dst, loops, dst[again]]
    else:
        src, dst = np.unique(np.c_[src, dst], axis=0).T
    if undirected:
        src, dst = np.unique(np.c_[np.r_[src, dst], np.r_[dst, src]], axis=0).T
    y = rng.integers(0, num_classes, num_nodes)
    x = rng.normal(size=(num_nodes, num_features)) + np.eye(num_classes, num_features)[y]
    role = rng.permutation(num_nodes) * 4 // num_nodes
    return HandmadeGraph(
        src=src,
        dst=dst,
        x=x.astype(np.float32),
        y=y.astype(np.int64),
        weight=rng.uniform(0.2, 2.0, len(src)).astype(np.float32) if weighted else None,
        train=role < 2,
        val=role == 2,
        test=role == 3,
        num_classes=num_classes,
    )


def matrix_graph(*, regression: bool = False, seed: int = 0) -> HandmadeGraph:
    """A random graph whose nodes have three labels, or three numbers to predict, a tenth of them unknown."""
    graph, rng = random_graph(seed=seed, weighted=True), np.random.default_rng(seed + 1)
    numbers = graph.x[:, :3] + 0.5 * rng.normal(size=(graph.num_nodes, 3))
    y = (numbers if regression else numbers > 0.4).astype(np.float32)
    y[rng.random(y.shape) < 0.1] = np.nan
    y[:2] = np.nan
    graph.y, graph.task, graph.num_classes = y, "multilabel", 3
    return graph


def flat_topology(num_parts: int) -> dict[str, Any]:
    """P ranks on one switch, in long form."""
    return {
        "name": f"flat-{num_parts}",
        "ranks": [{"name": f"gpu{p}", "machine": "m0"} for p in range(num_parts)],
        "switches": ["switch"],
        "links": [
            {"ends": [f"gpu{p}", "switch"], "type": "network", "gbytes_per_s": 12.5, "latency_us": 10}
            for p in range(num_parts)
        ],
    }


class Writer:
    """Groups and arrays of a cache in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def group(self, name: str, attributes: dict[str, Any]) -> None:
        self._json(name, {"zarr_format": 3, "node_type": "group", "attributes": attributes})

    def array(self, name: str, values: Array, *, payload: bool = True) -> None:
        values = np.ascontiguousarray(values)
        metadata = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(values.shape),
            "data_type": values.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(n, 1) for n in values.shape]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0 if payload else 1,
            "codecs": CODECS,
            "attributes": {"bits_of": "bfloat16"} if values.dtype == np.uint16 else {},
        }
        if values.dtype == bool:
            metadata["fill_value"] = False
        self._json(name, metadata)
        if payload and values.size:
            path = self.folder.joinpath(name, "c", *["0"] * values.ndim)
            path.parent.mkdir(parents=True)
            path.write_bytes(values.tobytes())

    def _json(self, name: str, content: dict[str, Any]) -> None:
        path = self.folder / name / "zarr.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def seal(folder: Path, *, key: str = "0" * 64) -> None:
    """Write the manifest over the files that are there now."""
    for name in ("manifest.json", "manifest.sha256"):
        (folder / name).unlink(missing_ok=True)
    files = {
        path.relative_to(folder).as_posix(): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    text = json.dumps({"graphprep_format": 2, "key": key, "files": files})
    (folder / "manifest.json").write_text(text)
    (folder / "manifest.sha256").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")


def edit_json(path: Path, **changes: Any) -> None:
    """Change top-level keys, or (with a name that is not there) root attributes, of one zarr.json."""
    content = json.loads(path.read_text())
    for name, value in changes.items():
        (content if name in content else content["attributes"])[name] = value
    path.write_text(json.dumps(content))


def make_cache(
    folder: Path,
    graph: HandmadeGraph,
    assignment: Array,
    num_parts: int,
    *,
    index_dtype: str = "int32",
    topology: dict[str, Any] | None = None,
    order_seed: int = 0,
    aggregated: tuple[str, Array] | None = None,
    with_features: bool = True,
) -> Path:
    """Write the cache of `graph` with node i in part `assignment[i]`. Rows inside a part are shuffled.

    Sums of features are given with the name of their rule, a row a node of the graph; features of type uint16 are the
    bits of bfloat16.
    """
    writer = Writer(folder)
    num_nodes = graph.num_nodes
    weight = np.ones(len(graph.src), np.float32) if graph.weight is None else graph.weight
    degree = np.bincount(graph.dst, weight, num_nodes).astype(np.float32)
    rng = np.random.default_rng(order_seed)
    owned = [rng.permutation(np.flatnonzero(assignment == p)) for p in range(num_parts)]
    row_of = np.zeros(num_nodes, np.int64)
    for rows in owned:
        row_of[rows] = np.arange(len(rows))
    src_part, dst_part = assignment[graph.src], assignment[graph.dst]
    traffic = np.zeros((num_parts, num_parts), np.int64)
    cross = np.zeros((num_parts, num_parts), np.int64)
    # sent[p][q]: the local rows of p, ascending, with an edge into q
    sent = [[np.empty(0, np.int64)] * num_parts for _ in range(num_parts)]
    for p in range(num_parts):
        for q in range(num_parts):
            if p != q:
                crossing = (src_part == p) & (dst_part == q)
                sent[p][q] = np.unique(row_of[graph.src[crossing]])
                traffic[p, q], cross[p, q] = len(sent[p][q]), crossing.sum()
    for p in range(num_parts):
        rows = owned[p]
        writer.group(f"parts/{p}", {"part": p, "nodes": {"node": len(rows)}, "index_dtype": index_dtype})
        nodes = f"parts/{p}/nodes/node"
        writer.group(nodes, {})
        writer.array(f"{nodes}/global_ids", rows.astype(np.int64))
        writer.array(f"{nodes}/degree", degree[rows])
        if with_features:
            writer.array(f"{nodes}/x", graph.x[rows])
        if aggregated is not None:
            writer.array(f"{nodes}/x_aggregated", aggregated[1][rows])
        writer.array(f"{nodes}/y", graph.y[rows])
        for name, mask in (graph.masks | graph.node_arrays).items():
            writer.array(f"{nodes}/{name}", mask[rows])
        for q in range(num_parts):
            edges = (src_part == q) & (dst_part == p)
            if q == p:
                columns, num_columns, name = row_of[graph.src[edges]], len(rows), "local"
            else:
                halo = owned[q][sent[q][p]]
                writer.array(f"{nodes}/send_{q}", sent[p][q].astype(index_dtype))
                writer.array(f"{nodes}/recv_{q}", halo.astype(np.int64))
                writer.array(f"{nodes}/halo_degree_{q}", degree[halo])
                columns = np.searchsorted(sent[q][p], row_of[graph.src[edges]])
                num_columns, name = len(halo), f"from_{q}"
            block = f"parts/{p}/edges/node__to__node/{name}"
            row = row_of[graph.dst[edges]]
            order = np.lexsort((columns, row))
            shape = [len(rows), num_columns]
            weighted = graph.weight is not None
            encoding = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
            writer.group(block, {**encoding, "shape": shape, "weighted": weighted})
            indptr = np.r_[0, np.bincount(row, minlength=len(rows)).cumsum()]
            writer.array(f"{block}/indptr", indptr.astype(index_dtype))
            writer.array(f"{block}/indices", columns[order].astype(index_dtype))
            writer.array(f"{block}/data", weight[edges][order].astype(np.float32), payload=weighted)
            if graph.edge_attr is not None:
                writer.array(f"{block}/edge_attr", graph.edge_attr[edges][order])
            for name, values in graph.edge_arrays.items():
                writer.array(f"{block}/{name}", values[edges][order])
    writer.array("assignment", assignment.astype(np.int32))
    writer.array("traffic_rows", traffic)
    writer.array("cross_edges", cross)
    writer.group(
        "",
        {
            "graphprep_format": 2,
            "graphprep_kind": "cache",
            "tool_version": "0",
            "key": "0" * 64,
            "dataset": "handmade",
            "source": {},
            "num_parts": num_parts,
            "node_types": {"node": num_nodes},
            "node_offsets": {"node": 0},
            "edge_types": {"node__to__node": len(graph.src)},
            "directed": not _is_symmetric(graph.src, graph.dst, weight),
            "self_loops": {"node__to__node": int((graph.src == graph.dst).sum())},
            "edge_arrays": {"node__to__node": [*graph.edge_arrays, *["edge_attr"] * (graph.edge_attr is not None)]},
            "num_features": {"node": graph.x.shape[1]},
            "num_classes": {"node": graph.num_classes},
            "num_splits": {"node": graph.masks["train_mask"].shape[1]},
            "task": graph.task,
            "aggregated": {} if aggregated is None else {"node": aggregated[0]},
            "topology": flat_topology(num_parts) if topology is None else topology,
            "slowest_links": [["" if p == q else "network" for q in range(num_parts)] for p in range(num_parts)],
            "options": {},
            "quality": {},
        },
    )
    seal(folder)
    return folder


def _is_symmetric(src: Array, dst: Array, weight: Array) -> bool:
    """Whether every edge has its reverse, of equal weight."""
    edges = sorted(zip(src.tolist(), dst.tolist(), weight.tolist(), strict=True))
    return edges == sorted(zip(dst.tolist(), src.tolist(), weight.tolist(), strict=True))


def traffic_rows(folder: Path, num_parts: int) -> Array:
    """The cache's own count of rows by pair: [P, P], row p column q from p to q."""
    return np.fromfile(folder / "traffic_rows/c/0/0", np.int64).reshape(num_parts, num_parts)
