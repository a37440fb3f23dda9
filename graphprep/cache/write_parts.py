"""Write the structure of all parts: the halo, the rows to send, and the edges in one block a source part.

    halo          of each part: the rows that it receives, by peer
    part          of each part: the rows that it sends, and its edges in blocks

Both are made from the buckets (`edge_buckets`), in which the source's edges are grouped by part. Parts are independent
and are written by an executor; the number of threads is limited by memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.blocks import Block, NodeLayout, halo, split_edges
from graphprep.cache.edge_buckets import EdgeBuckets
from graphprep.cache.format import part_path
from graphprep.cache.manifest import FileEntry
from graphprep.cache.read import block_path, map_array
from graphprep.cache.resume import ResumableSteps
from graphprep.core import csr
from graphprep.core.types import EdgeType, row_bytes
from graphprep.store.store import ANNDATA_CSR
from graphprep.system import progress
from graphprep.system.executor import Executor

PIECE_BYTES = 8_000_000
"""Rows of an edge array are gathered in pieces of about this size."""


def part_steps(num_parts: int) -> list[str]:
    """The names of all steps."""
    return [f"{what}-{part}" for what in ("halo", "part") for part in range(num_parts)]


def write_parts(
    steps: ResumableSteps,
    layouts: Mapping[str, NodeLayout],
    buckets: Mapping[EdgeType, EdgeBuckets],
    *,
    executor: Executor,
) -> None:
    """Write the halos, nodes and edges of all parts.

    Args:
        steps: of the cache; steps that an earlier run has finished are kept.
        layouts: part and row of every node, by node type.
        regions: the edges of each type.
        executor: of the parts. Its workers write into the cache's folder and read the files of the buckets.
    """
    part_writer = PartWriter(
        folder=steps.folder,
        layouts=layouts,
        buckets=buckets,
        degrees={node_type: _degree(node_type, layout, buckets) for node_type, layout in layouts.items()},
    )
    for what in ("halo", "part"):
        with progress.task(f"writing {what}s", total=part_writer.num_parts, unit="parts") as task:
            missing = []
            for part in range(part_writer.num_parts):
                if steps.has(f"{what}-{part}"):
                    steps.keep(f"{what}-{part}")
                    task.advance()
                else:
                    missing.append((what, part))
            for part, files in executor.map(_write_one, missing, part_writer, needed=part_writer.bytes_of_a_part()):
                steps.done(f"{what}-{part}", files)
                task.advance()


def _write_one(piece: tuple[str, int], part_writer: PartWriter) -> tuple[int, dict[str, FileEntry]]:
    """Write the halo of a part, or the rest of it; returns the part and the manifest's entries."""
    what, part = piece
    writer = FolderWriter(part_writer.folder)
    (part_writer.write_halo if what == "halo" else part_writer.write_part)(part, writer)
    return part, writer.files


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartWriter:
    """Writes halos and parts. It is pickled for worker processes."""

    folder: Path
    """of the cache"""
    layouts: Mapping[str, NodeLayout]
    """by node type"""
    buckets: Mapping[EdgeType, EdgeBuckets]
    degrees: Mapping[str, NDArray[np.float32]]
    """weighted in-degree over all edge types into a node type, [N]"""

    @property
    def num_parts(self) -> int:
        return next(iter(self.layouts.values())).num_parts

    def bytes_of_a_part(self) -> int:
        """Memory to write the largest part: columns, places, offsets, and a column number a node of the graph."""
        edges = max(
            (int(np.diff(buckets.first_edge_P).max()) for buckets in self.buckets.values()),
            default=0,
        )
        rows = max(int(np.diff(buckets.first_row_P).max()) for buckets in self.buckets.values()) if self.buckets else 0
        nodes = max(len(layout.part_N) for layout in self.layouts.values())
        has_places = any(buckets.weight_E is not None or buckets.arrays for buckets in self.buckets.values())
        return edges * (16 if has_places else 5) + rows * 12 * self.num_parts + nodes * 6

    def write_halo(self, part: int, writer: FolderWriter) -> None:
        """Write the rows that a part receives."""
        for node_type, layout in self.layouts.items():
            matrices = [buckets.matrix(part) for kind, buckets in self.buckets.items() if kind.source == node_type]
            degree_N = self.degrees[node_type]
            folder = f"{part_path(part)}/nodes/{node_type}"
            for peer, received in enumerate(halo(matrices, [None] * len(matrices), layout, part)):
                if peer != part:
                    writer.array(f"{folder}/recv_{peer}", received)
                    writer.array(f"{folder}/halo_degree_{peer}", degree_N[received])

    def write_part(self, part: int, writer: FolderWriter) -> None:
        """Write the nodes that a part owns, the rows that it sends, and its edges."""
        layouts, num_parts = self.layouts, self.num_parts
        blocks = {kind: self._blocks(kind, part) for kind in self.buckets}
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
                path = block_path(part, kind, peer)
                _write_block(writer, path, block, dtype)
                for name in self.buckets[kind].arrays:
                    assert block.place_E is not None
                    _gather(writer, f"{path}/{name}", self.buckets[kind].array(part, name), block.place_E)

    def _blocks(self, kind: EdgeType, part: int) -> list[Block]:
        buckets, nodes = self.buckets[kind], self.layouts[kind.destination].nodes_P[part]
        place_n = np.empty(len(nodes), np.int64)
        place_n[np.argsort(nodes, kind="stable")] = np.arange(len(nodes))
        halo_P = [
            np.empty(0, np.int64) if peer == part else self._received(part, kind.source, peer)
            for peer in range(self.num_parts)
        ]
        return split_edges(
            buckets.matrix(part),
            place_n,
            self.layouts[kind.source],
            halo_P,
            part,
            with_places=bool(buckets.arrays),
        )

    def _received(self, part: int, node_type: str, peer: int) -> NDArray[np.int64]:
        """The rows that a part receives from a peer, mapped from what the halo step wrote."""
        return map_array(self.folder, f"{part_path(part)}/nodes/{node_type}/recv_{peer}")


def _degree(node_type: str, layout: NodeLayout, buckets: Mapping[EdgeType, EdgeBuckets]) -> NDArray[np.float32]:
    """Weighted in-degree over all edge types into a node type; float32 [N]."""
    into = [found.degree_N for kind, found in buckets.items() if kind.destination == node_type]
    return into[0] if len(into) == 1 else sum(into, start=np.zeros(len(layout.part_N), np.float32))


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
    rows_at_a_time = max(1, PIECE_BYTES // row_bytes(values_E))
    for start in range(0, len(place_E), rows_at_a_time):
        target[start : start + rows_at_a_time] = values_E[place_E[start : start + rows_at_a_time]]
    writer.seal(path, target)
