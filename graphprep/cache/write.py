"""Write a cache in steps, in bounded memory; the caller renames the folder into place.

    regions       the source's edges, brought together by part in files beside the cache (`regions`)
    halos         of each part: what it receives from whom
    parts         of each part: what it sends, and its edges in blocks
    nodes         each node array, streamed from the source by row range into all parts' files
    root          assignment, traffic, quality; then the manifest

Halos and parts are independent and are made in threads, as many at a time as the memory allows. A step that an earlier
run has finished is kept (`steps`).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep import __version__, csr, memory, progress
from graphprep.cache.array_file import FolderWriter
from graphprep.cache.blocks import Block, Layout, halo, split_edges
from graphprep.cache.features import FeatureOptions, Treat
from graphprep.cache.format import CACHE_FORMAT, CACHE_KIND, part_path, payload_path
from graphprep.cache.manifest import Manifest
from graphprep.cache.regions import Regions, by_part
from graphprep.cache.source import GraphSource
from graphprep.cache.steps import Steps
from graphprep.graph import EdgeType, row_bytes
from graphprep.side_by_side import cores, side_by_side, workers_for
from graphprep.store import ANNDATA_CSR
from graphprep.topology import Topology
from graphprep.traffic import Quality, Traffic

MOST_PIECE_BYTES, LEAST_PIECE_BYTES = 16_000_000, 1_000_000
"""Rows of the source pass through memory in pieces of about this size, an eighth of the room if that is less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContent:
    """All that a cache holds beside the source's own arrays."""

    key: str
    layouts: Mapping[str, Layout]
    """by node type"""
    traffic: Traffic
    quality: Quality
    topology: Topology
    options: Mapping[str, Any]
    features: FeatureOptions = field(default_factory=FeatureOptions)


def write_cache(
    folder: Path, source: GraphSource, content: CacheContent, *, scratch: Path, memory_limit: int | None = None
) -> None:
    """Write the cache of a partitioned graph into a folder that the caller will publish.

    Args:
        folder: of the cache; what an earlier run of the same content and scratch has finished there is kept.
        source: the graph.
        content: where its nodes go and how good that is.
        scratch: a folder for what is not part of the cache; the caller removes it afterwards.
        memory_limit: bytes that this process may hold; None for half of what is free.

    Raises:
        OSError: the disk is full.
    """
    room = memory.room(memory_limit)
    steps = Steps(folder, scratch / "steps", content=_digest(content))
    regions_folder = scratch / "regions"
    shutil.rmtree(regions_folder, ignore_errors=True)
    regions_folder.mkdir(parents=True)
    piece_bytes = max(LEAST_PIECE_BYTES, min(MOST_PIECE_BYTES, room // 8))
    regions = {
        kind: by_part(source, kind, content.layouts[kind.destination], regions_folder, piece_bytes=piece_bytes)
        for kind in source.num_edges
    }
    writing = Writing(
        source=source,
        content=content,
        steps=steps,
        regions=regions,
        degrees={node_type: _degree(node_type, layout, regions) for node_type, layout in content.layouts.items()},
        piece_bytes=piece_bytes,
    )
    num_parts = content.topology.num_ranks
    workers = workers_for(writing.bytes_of_a_part(), room)
    for what, write in (("halos", writing.halo_step), ("parts", writing.part_step)):
        with progress.task(f"writing {what}", total=num_parts, unit="parts") as task:
            side_by_side([partial(write, part, task) for part in range(num_parts)], workers=workers)
    shutil.rmtree(regions_folder)
    for node_type in content.layouts:
        for name in writing.node_arrays(node_type):
            steps.run(f"nodes-{node_type}-{name}", partial(writing.node_array, node_type, name))
    root = FolderWriter(folder)
    writing.root(root)
    if steps.kept:
        progress.say(f"{steps.kept} pieces that an earlier run had finished were kept")
    Manifest(key=content.key, files={**steps.files, **root.files}).write(folder)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Writing:
    """What all steps of one cache share."""

    source: GraphSource
    content: CacheContent
    steps: Steps
    regions: Mapping[EdgeType, Regions]
    degrees: Mapping[str, NDArray[np.float32]]
    """weighted in-degree over all edge types into a node type, [N]"""
    piece_bytes: int

    @property
    def num_parts(self) -> int:
        return self.content.topology.num_ranks

    def bytes_of_a_part(self) -> int:
        """What it takes to cut the largest part: columns, places, offsets, and a column number a node of the graph."""
        edges = max(
            (int(np.diff(regions.first_edge_P).max()) for regions in self.regions.values()),
            default=0,
        )
        rows = max(int(np.diff(regions.first_row_P).max()) for regions in self.regions.values()) if self.regions else 0
        nodes = max(len(layout.part_N) for layout in self.content.layouts.values())
        has_places = any(regions.weight_E is not None or regions.arrays for regions in self.regions.values())
        return edges * (16 if has_places else 5) + rows * 12 * self.num_parts + nodes * 6

    def halo_step(self, part: int, task: progress.Task) -> None:
        self.steps.run(f"halo-{part}", partial(self._halo, part))
        task.advance()

    def part_step(self, part: int, task: progress.Task) -> None:
        self.steps.run(f"part-{part}", partial(self._part, part))
        task.advance()

    def _halo(self, part: int, writer: FolderWriter) -> None:
        """What a part receives."""
        for node_type, layout in self.content.layouts.items():
            matrices = [regions.matrix(part) for kind, regions in self.regions.items() if kind.source == node_type]
            degree_N = self.degrees[node_type]
            folder = f"{part_path(part)}/nodes/{node_type}"
            for peer, received in enumerate(halo(matrices, [None] * len(matrices), layout, part)):
                if peer != part:
                    writer.array(f"{folder}/recv_{peer}", received)
                    writer.array(f"{folder}/halo_degree_{peer}", degree_N[received])

    def _part(self, part: int, writer: FolderWriter) -> None:
        """What a part owns and sends, and its edges."""
        layouts, num_parts = self.content.layouts, self.num_parts
        blocks = {kind: self._blocks(kind, part) for kind in self.regions}
        largest = max(
            (max(block.csr.num_edges, block.csr.num_sources) for group in blocks.values() for block in group), default=0
        )
        dtype = csr.index_dtype(max(largest, *(len(layout.nodes_P[part]) for layout in layouts.values())))
        root = part_path(part)
        sizes = {node_type: len(layout.nodes_P[part]) for node_type, layout in layouts.items()}
        writer.group(root, {"part": part, "nodes": sizes, "index_dtype": np.dtype(dtype).name})
        writer.group(f"{root}/nodes")
        for node_type, layout in layouts.items():
            folder = f"{root}/nodes/{node_type}"
            writer.group(folder)
            writer.array(f"{folder}/global_ids", layout.nodes_P[part])
            writer.array(f"{folder}/degree", self.degrees[node_type][layout.nodes_P[part]])
            for peer in range(num_parts):
                if peer != part:
                    sent = self._received(peer, node_type, part)
                    writer.array(f"{folder}/send_{peer}", layout.row_N[sent].astype(dtype))
        writer.group(f"{root}/edges")
        for kind, group in blocks.items():
            folder = f"{root}/edges/{kind.key}"
            writer.group(folder)
            for peer, block in enumerate(group):
                path = f"{folder}/local" if peer == part else f"{folder}/from_{peer}"
                _write_block(writer, path, block, dtype)
                for name in self.regions[kind].arrays:
                    assert block.place_E is not None
                    _gather(writer, f"{path}/{name}", self.regions[kind].array(part, name), block.place_E)

    def _blocks(self, kind: EdgeType, part: int) -> list[Block]:
        regions, nodes = self.regions[kind], self.content.layouts[kind.destination].nodes_P[part]
        place_n = np.empty(len(nodes), np.int64)
        place_n[np.argsort(nodes, kind="stable")] = np.arange(len(nodes))
        halo_P = [
            np.empty(0, np.int64) if peer == part else self._received(part, kind.source, peer)
            for peer in range(self.num_parts)
        ]
        return split_edges(
            regions.matrix(part),
            place_n,
            self.content.layouts[kind.source],
            halo_P,
            part,
            with_places=bool(regions.arrays),
        )

    def _received(self, part: int, node_type: str, peer: int) -> NDArray[np.int64]:
        """What the halo step of a part has written: the rows that it gets from a peer; mapped."""
        path = f"{part_path(part)}/nodes/{node_type}/recv_{peer}"
        file = self.steps.folder / payload_path(path, 1)
        if not file.exists():
            return np.empty(0, np.int64)
        received: NDArray[np.int64] = np.memmap(file, np.dtype("<i8"), mode="r")
        return received

    def node_arrays(self, node_type: str) -> tuple[str, ...]:
        """The names of the arrays that the cache is to have."""
        names = self.source.node_arrays(node_type)
        return tuple(name for name in names if name != "x" or self.content.features.features != "none")

    def node_array(self, node_type: str, name: str, writer: FolderWriter) -> None:
        """Stream one array of the source into all parts."""
        stored = self.source.node_array(node_type, name)
        assert stored is not None
        layout = self.content.layouts[node_type]
        paths = [f"{part_path(part)}/nodes/{node_type}/{name}" for part in range(self.num_parts)]
        rows_at_a_time = max(1, self.piece_bytes // 2 // row_bytes(stored))
        dtype = stored.dtype
        treat: Treat = _as_stored
        if name == "x":
            dtype = self.content.features.dtype(stored.dtype)
            treat = self.content.features.treatment(self.source, node_type, rows_at_a_time)
        targets = [
            writer.open_array(path, (len(layout.nodes_P[part]), *stored.shape[1:]), dtype)
            for part, path in enumerate(paths)
        ]
        total = row_bytes(stored) * stored.shape[0]
        with progress.task(f"writing {node_type} {name}", total=total, unit="B") as task:
            for start, rows in self.source.rows(node_type, name, rows_at_a_time):
                _scatter(treat(rows), start, layout, targets)
                task.advance(rows.nbytes)
        sealing = [partial(writer.seal, path, target) for path, target in zip(paths, targets, strict=True)]
        side_by_side(sealing, workers=cores())

    def root(self, writer: FolderWriter) -> None:
        """What all parts share."""
        source, content = self.source, self.content
        writer.group("parts")
        node_types = source.num_nodes
        offsets, at = {}, 0
        for node_type, count in node_types.items():
            offsets[node_type] = at
            at += count
        labels = {node_type: _labels(source, node_type) for node_type in node_types}
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
                "dataset": source.name,
                "source": source.attributes["source"],
                "num_parts": self.num_parts,
                "node_types": node_types,
                "node_offsets": offsets,
                "edge_types": {kind.key: count for kind, count in source.num_edges.items()},
                "edge_arrays": {kind.key: list(source.edge_arrays(kind)) for kind in source.num_edges},
                "directed": source.directed,
                "self_loops": {kind.key: regions.num_self_loops for kind, regions in self.regions.items()},
                "num_features": {
                    node_type: _width(source, node_type, "x") if "x" in self.node_arrays(node_type) else 0
                    for node_type in node_types
                },
                "num_classes": {node_type: classes for node_type, (_, classes) in labels.items()},
                "num_splits": {node_type: _width(source, node_type, "train_mask") for node_type in node_types},
                "task": tasks[0] if tasks else "none",
                "topology": content.topology.to_long_form(),
                "options": dict(content.options),
                "quality": content.quality.to_json(),
            },
        )


def _digest(content: CacheContent) -> str:
    """Of the key and of where every node lies."""
    digest = hashlib.sha256(content.key.encode())
    for node_type, layout in content.layouts.items():
        digest.update(node_type.encode())
        for nodes in layout.nodes_P:
            digest.update(len(nodes).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(nodes).data)
    return digest.hexdigest()


def _degree(node_type: str, layout: Layout, regions: Mapping[EdgeType, Regions]) -> NDArray[np.float32]:
    """Weighted in-degree over all edge types into a node type; float32 [N]."""
    into = [found.degree_N for kind, found in regions.items() if kind.destination == node_type]
    return into[0] if len(into) == 1 else sum(into, start=np.zeros(len(layout.part_N), np.float32))


def _as_stored(rows: NDArray[Any]) -> NDArray[Any]:
    return rows


def _write_block(writer: FolderWriter, path: str, block: Block, dtype: type[np.integer[Any]]) -> None:
    matrix = block.csr
    shape = [matrix.num_rows, matrix.num_sources]
    writer.group(path, {**ANNDATA_CSR, "shape": shape, "weighted": matrix.data is not None})
    writer.array(f"{path}/indptr", matrix.indptr.astype(dtype))
    writer.array(f"{path}/indices", matrix.indices.astype(dtype, copy=False))
    if matrix.data is None:
        writer.ones(f"{path}/data", matrix.num_edges)
    else:
        writer.array(f"{path}/data", matrix.data)


def _gather(writer: FolderWriter, path: str, values_E: NDArray[Any], place_E: NDArray[np.int64]) -> None:
    """Write the rows of a part's edge array that belong to one block."""
    target = writer.open_array(path, (len(place_E), *values_E.shape[1:]), values_E.dtype)
    rows_at_a_time = max(1, MOST_PIECE_BYTES // 2 // row_bytes(values_E))
    for start in range(0, len(place_E), rows_at_a_time):
        target[start : start + rows_at_a_time] = values_E[place_E[start : start + rows_at_a_time]]
    writer.seal(path, target)


def _scatter(rows: NDArray[Any], start: int, layout: Layout, targets: list[NDArray[Any]]) -> None:
    """Put a range of the source's rows where they belong in each part."""
    owner = layout.part_N[start : start + len(rows)]
    by_owner = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[by_owner], np.arange(len(targets) + 1))
    for part, target in enumerate(targets):
        chosen = by_owner[bounds[part] : bounds[part + 1]]
        target[layout.row_N[start + chosen]] = rows[chosen]


def _width(source: GraphSource, node_type: str, name: str) -> int:
    stored = source.node_array(node_type, name)
    return 0 if stored is None else int(stored.shape[1])


def _labels(source: GraphSource, node_type: str) -> tuple[str, int]:
    """The task of a node type and its number of classes."""
    stored = source.node_array(node_type, "y")
    if stored is None:
        return "none", 0
    if len(stored.shape) == 2:
        return "multilabel", int(stored.shape[1])
    largest = max((int(rows.max()) for _, rows in source.rows(node_type, "y", 1 << 22) if len(rows)), default=-1)
    return "classes", largest + 1
