"""Write a cache in steps, in bounded memory; the caller renames the folder into place.

    buckets       the source's edges, grouped by part in temporary files (`edge_buckets`)
    structure     of each part: what it receives and sends, and its edges in blocks (`write_parts`)
    relays        which way each row of a halo comes, where that is faster than from its owner (`relay_arrays`)
    nodes         each node array, streamed from the source by row range into all parts' files
    sums          over neighbours, if they are requested (`aggregate`)
    root          assignment, traffic, quality; then the manifest

A step that an earlier run has finished is kept (`resume`), and buckets are made only for parts that are not written.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.aggregate import aggregate, aggregation_steps
from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.blocks import NodeLayout
from graphprep.cache.edge_buckets import bucket_by_part
from graphprep.cache.feature_rows import Treat, treatment
from graphprep.cache.features import FeatureOptions
from graphprep.cache.format import (
    CACHE_FORMAT,
    CACHE_KIND,
    RELAY_MESSAGES,
    RELAY_ROWS,
    X_AGGREGATED,
    ZARR_JSON,
    part_path,
)
from graphprep.cache.manifest import Manifest
from graphprep.cache.read import map_array
from graphprep.cache.relay_arrays import map_sent, sent_rows, write_relays
from graphprep.cache.resume import ResumableSteps
from graphprep.cache.write_parts import part_steps, write_parts
from graphprep.core.source import GraphSource
from graphprep.core.types import row_bytes
from graphprep.system import memory, progress
from graphprep.system.executor import Executor, Threads
from graphprep.system.threads import cores, side_by_side
from graphprep.topology import Topology
from graphprep.traffic import Quality, RelayedRows, SentRows, Traffic, assess_relays
from graphprep.version import __version__

MOST_PIECE_BYTES, LEAST_PIECE_BYTES = 16_000_000, 1_000_000
"""Rows of the source are read in pieces of about this size, an eighth of the memory budget if that is less."""
SELF_LOOPS = "self-loops"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContent:
    """What a cache holds in addition to the source's own arrays."""

    key: str
    layouts: Mapping[str, NodeLayout]
    """by node type"""
    traffic: Traffic
    quality: Quality
    topology: Topology
    options: Mapping[str, Any]
    features: FeatureOptions = field(default_factory=FeatureOptions)
    relay_row_bytes: int | None = None
    """bytes of a row by which relays are chosen; None for no relays"""
    reference: Mapping[str, Any] | None = None
    """METIS' figures for the same ranks, where a start of METIS was made"""
    fallback: Mapping[str, Any] | None = None
    """the requested methods, the method that was used, and why, where none of the requested ones gave the parts"""


def write_cache(
    folder: Path,
    source: GraphSource,
    content: CacheContent,
    *,
    scratch: Path,
    memory_limit: int | None = None,
    executor: Executor | None = None,
) -> None:
    """Write the cache of a partitioned graph into a folder that the caller will publish.

    Args:
        folder: of the cache; what an earlier run of the same content and scratch has finished there is kept.
        source: the graph.
        content: the assignment with its quality, and the options.
        scratch: a folder for what is not part of the cache; the caller removes it afterwards.
        memory_limit: bytes that this process may hold; None for half of what is free.
        executor: of the parts; None for threads. Its workers reach both folders under the same paths.

    Raises:
        OSError: the disk is full.
    """
    budget = memory.budget(memory_limit)
    steps = ResumableSteps(folder, scratch / "steps", content=_digest(content))
    piece_bytes = max(LEAST_PIECE_BYTES, min(MOST_PIECE_BYTES, budget // 8))
    executor = executor or Threads(memory_limit=memory_limit)
    self_loops = _structure(steps, source, content, scratch / "regions", executor=executor, piece_bytes=piece_bytes)
    content = _with_relays(steps, content, scratch / "relays")
    writing = CacheWriter(source=source, content=content, steps=steps, piece_bytes=piece_bytes)
    for node_type in content.layouts:
        for name in writing.node_arrays(node_type):
            steps.run(f"nodes-{node_type}-{name}", partial(writing.node_array, node_type, name))
    writing.sums(scratch / "features", budget=budget)
    root = FolderWriter(folder)
    writing.root(root, self_loops)
    if steps.kept:
        progress.say(f"{steps.kept} pieces that an earlier run had finished were kept")
    Manifest(key=content.key, files={**steps.files, **root.files}).write(folder)


def _structure(
    steps: ResumableSteps,
    source: GraphSource,
    content: CacheContent,
    scratch: Path,
    *,
    executor: Executor,
    piece_bytes: int,
) -> dict[str, int]:
    """Write what parts receive, send and own of the edges; returns the self-loops by edge type's key.

    Args:
        scratch: a folder for the buckets; created and removed here.
    """
    names = part_steps(content.topology.num_ranks)
    known = steps.remembered(SELF_LOOPS)
    shutil.rmtree(scratch, ignore_errors=True)
    if known is not None and all(map(steps.has, names)):
        for name in names:
            steps.keep(name)
        return known
    scratch.mkdir(parents=True)
    buckets = {
        kind: bucket_by_part(source, kind, content.layouts[kind.destination], scratch, piece_bytes=piece_bytes)
        for kind in source.num_edges
    }
    self_loops = {kind.key: found.num_self_loops for kind, found in buckets.items()}
    steps.remember(SELF_LOOPS, self_loops)
    write_parts(steps, content.layouts, buckets, executor=executor)
    shutil.rmtree(scratch)
    return self_loops


def _with_relays(steps: ResumableSteps, content: CacheContent, scratch: Path) -> CacheContent:
    """Choose relays and write their arrays, if that is wanted; returns the content with their traffic and quality.

    Args:
        scratch: a folder for what is not part of the cache; created and removed here.
    """
    if content.relay_row_bytes is None or content.topology.num_ranks < 2:
        return content
    folder, row_bytes, num_parts = steps.folder, content.relay_row_bytes, content.topology.num_ranks
    sizes = [{kind: len(layout.nodes_P[p]) for kind, layout in content.layouts.items()} for p in range(num_parts)]

    def sent(part: int) -> SentRows:
        return sent_rows(part, num_parts, sizes.__getitem__, partial(map_sent, folder))

    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    steps.run("relays", lambda writer: write_relays(writer, sent, content.topology, row_bytes, scratch=scratch))
    shutil.rmtree(scratch)
    if f"{RELAY_ROWS}/{ZARR_JSON}" not in steps.files:
        return content
    relayed = RelayedRows(rows_SPP=map_array(folder, RELAY_ROWS), messages_SPP=map_array(folder, RELAY_MESSAGES))
    traffic = replace(content.traffic, relayed=relayed)
    quality = assess_relays(content.quality, traffic, content.topology, row_bytes=row_bytes)
    return replace(content, traffic=traffic, quality=quality)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CacheWriter:
    """Writes the node arrays and the root."""

    source: GraphSource
    content: CacheContent
    steps: ResumableSteps
    piece_bytes: int

    @property
    def num_parts(self) -> int:
        return self.content.topology.num_ranks

    def node_arrays(self, node_type: str) -> tuple[str, ...]:
        """The names of the arrays that the cache gets."""
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
            treat = treatment(self.content.features, self.source, node_type, rows_at_a_time)
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

    def sums(self, scratch: Path, *, budget: int) -> None:
        """Write the requested sums over neighbours, unless the source had them.

        Args:
            scratch: a folder for features that the cache does not get; created and removed here.
            budget: bytes that may be in memory.
        """
        features, num_parts, folder = self.content.features, self.num_parts, self.steps.folder
        if features.aggregate_features == "none":
            return
        [node_type], [kind] = self.content.layouts, self.source.num_edges
        if X_AGGREGATED in self.node_arrays(node_type):
            return
        shutil.rmtree(scratch, ignore_errors=True)
        if features.features == "none" and not all(map(self.steps.has, aggregation_steps(num_parts))):
            folder = scratch
            self.node_array(node_type, "x", FolderWriter(folder))
        aggregate(
            self.steps,
            kind,
            features.aggregate_features,
            x_folder=folder,
            dtype=features.dtype_of_sums,
            num_parts=num_parts,
            budget=budget,
        )
        shutil.rmtree(scratch, ignore_errors=True)

    def root(self, writer: FolderWriter, self_loops: Mapping[str, int]) -> None:
        """Write what all parts share: assignment, traffic, quality and the root attributes."""
        source, content = self.source, self.content
        how = content.features.aggregate_features
        writer.group("parts")
        node_types = source.num_nodes
        offsets, at = {}, 0
        for node_type, count in node_types.items():
            offsets[node_type] = at
            at += count
        labels = {node_type: labels_of(source, node_type) for node_type in node_types}
        tasks = [task for task, _ in labels.values() if task != "none"]
        writer.array("assignment", np.concatenate([content.layouts[node_type].part_N for node_type in node_types]))
        writer.array("traffic_rows", content.traffic.rows_PP)
        writer.array("cross_edges", content.traffic.edges_PP)
        self._words(writer)
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
                "self_loops": dict(self_loops),
                "num_features": {node_type: self._num_features(node_type) for node_type in node_types},
                "aggregated": {} if how == "none" else dict.fromkeys(node_types, how),
                "num_classes": {node_type: classes for node_type, (_, classes) in labels.items()},
                "num_splits": {node_type: width_of(source, node_type, "train_mask") for node_type in node_types},
                "task": tasks[0] if tasks else "none",
                "topology": content.topology.to_long_form(),
                "slowest_links": content.topology.slowest_links(),
                "options": dict(content.options),
                "fallback": None if content.fallback is None else dict(content.fallback),
                "quality": content.quality.to_json(),
                "reference": None if content.reference is None else dict(content.reference),
            },
        )

    def _words(self, writer: FolderWriter) -> None:
        """Write original ids that are strings as the store has them; integer ids are node arrays of the parts."""
        found = {kind: ids for kind in self.source.num_nodes if (ids := self.source.original_ids(kind)) is not None}
        words = {kind: ids for kind, ids in found.items() if ids.offsets is not None}
        if words:
            writer.group("words")
        for node_type, ids in words.items():
            assert ids.offsets is not None
            assert ids.text is not None
            writer.group(f"words/{node_type}")
            writer.array(f"words/{node_type}/offsets", ids.offsets)
            writer.array(f"words/{node_type}/bytes", ids.text)

    def _num_features(self, node_type: str) -> int:
        """Columns of the features, or of their sums if the cache has only those."""
        is_summed = self.content.features.aggregate_features != "none"
        if "x" not in self.node_arrays(node_type) and not is_summed:
            return 0
        return width_of(self.source, node_type, "x") or width_of(self.source, node_type, X_AGGREGATED)


def _digest(content: CacheContent) -> str:
    """SHA-256 of the key and of the assignment."""
    digest = hashlib.sha256(content.key.encode())
    for node_type, layout in content.layouts.items():
        digest.update(node_type.encode())
        for nodes in layout.nodes_P:
            digest.update(len(nodes).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(nodes).data)
    return digest.hexdigest()


def _as_stored(rows: NDArray[Any]) -> NDArray[Any]:
    return rows


def _scatter(rows: NDArray[Any], start: int, layout: NodeLayout, targets: list[NDArray[Any]]) -> None:
    """Copy a range of the source's rows to their rows in each part."""
    owner = layout.part_N[start : start + len(rows)]
    by_owner = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[by_owner], np.arange(len(targets) + 1))
    for part, target in enumerate(targets):
        chosen = by_owner[bounds[part] : bounds[part + 1]]
        target[layout.row_N[start + chosen]] = rows[chosen]


def width_of(source: GraphSource, node_type: str, name: str) -> int:
    """Columns of an array of a node type; 0 where it has none of this name."""
    stored = source.node_array(node_type, name)
    return 0 if stored is None else int(stored.shape[1])


def labels_of(source: GraphSource, node_type: str) -> tuple[str, int]:
    """The task of a node type and its number of classes."""
    stored = source.node_array(node_type, "y")
    if stored is None:
        return "none", 0
    if len(stored.shape) == 2:
        return "multilabel", int(stored.shape[1])
    largest = max((int(rows.max()) for _, rows in source.rows(node_type, "y", 1 << 22) if len(rows)), default=-1)
    return "classes", largest + 1
