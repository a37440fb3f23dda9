"""The graph store: one Zarr group per graph, compressed, read and written in row ranges.

    nodes/<type>/x, y, train_mask, ...                       rows in the dataset's own node order
    edges/<src>__<relation>__<dst>/indptr, indices, data     CSR, rows are destinations

Chunks hold about 8 MB and are compressed by blosc (lz4, shuffle) under a CRC-32C, so that a flipped bit is an error and
not a different graph; big arrays gather sixteen chunks in a shard, so that a billion edges are some dozens of files.
The root attributes are written last, and on a local disk the folder is renamed into place: a store without them is not
a store. Any fsspec URL works where a path does; there the attributes alone say that the store is whole.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, BloscShuffle, Crc32cCodec

from graphprep import __version__, csr, progress
from graphprep.csr import EdgeCounts
from graphprep.errors import DatasetError
from graphprep.graph import Csr, EdgeType, NodeTable, Treatment
from graphprep.home import is_url
from graphprep.publish import PARTIAL_PREFIX, publish_folder

STORE_FORMAT = 1
STORE_KIND = "store"
CHUNK_BYTES = 8_000_000
CHUNKS_PER_SHARD = 16
ANNDATA_CSR = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}


class GraphStore:
    """A finished store, opened for reading; nothing is read before it is asked for."""

    def __init__(self, location: str | Path) -> None:
        """Open the store at a path or fsspec URL.

        Raises:
            DatasetError: there is none, it is unfinished, or its format is unknown.
        """
        self.location = str(location)
        try:
            self._root = zarr.open_group(self.location, mode="r", zarr_format=3)
        except (FileNotFoundError, zarr.errors.GroupNotFoundError, zarr.errors.NodeTypeValidationError) as error:
            raise DatasetError(f"{location} is not a graph store; run `graphprep fetch` or `import`") from error
        except ValueError as error:
            raise DatasetError(
                f"{location} is damaged: its zarr.json cannot be read ({error}); fetch it again"
            ) from error
        self._arrays: dict[str, zarr.Array[Any]] = {}
        self.attributes: dict[str, Any] = dict(self._root.attrs)
        kind, version = self.attributes.get("graphprep_kind"), self.attributes.get("graphprep_format")
        if kind != STORE_KIND:
            found = "a partition cache" if kind == "cache" else "not a finished graph store"
            raise DatasetError(f"{location} is {found}; give a store, or run `graphprep fetch` or `import` again")
        if version != STORE_FORMAT:
            raise DatasetError(
                f"{location} has store format {version}, this release reads format {STORE_FORMAT}; "
                "make it again with this release, or install the one that wrote it"
            )

    @property
    def name(self) -> str:
        """The dataset's name."""
        return str(self.attributes["dataset"])

    @property
    def key(self) -> str:
        """64 hex digits over all that determined the content."""
        return str(self.attributes["key"])

    @property
    def directed(self) -> bool:
        """Whether some edge lacks its reverse."""
        return bool(self.attributes["directed"])

    @property
    def num_nodes(self) -> dict[str, int]:
        """Nodes by type, in name order."""
        return {str(name): int(count) for name, count in self.attributes["node_types"].items()}

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """Directed edges by type, in key order."""
        return {EdgeType.from_key(key): int(count) for key, count in self.attributes["edge_types"].items()}

    def node_arrays(self, node_type: str) -> tuple[str, ...]:
        """The names of the arrays that nodes of this type have."""
        return tuple(sorted(name for name, _ in self._group(f"nodes/{node_type}").arrays()))

    def node_array(self, node_type: str, name: str) -> zarr.Array[Any] | None:
        """One array of a node type, lazily: slice it by row range. None if the type has no such array."""
        return self._array(f"nodes/{node_type}/{name}") if name in self.node_arrays(node_type) else None

    def node_table(self, node_type: str) -> NodeTable:
        """All arrays of a node type in memory."""
        arrays = {name: self._read(f"nodes/{node_type}/{name}") for name in self.node_arrays(node_type)}
        return NodeTable(num_nodes=self.num_nodes[node_type], **arrays)

    def csr(self, edge_type: EdgeType) -> Csr:
        """All in-edges of one type in memory."""
        return self.csr_rows(edge_type, 0, self.num_nodes[edge_type.destination])

    def csr_rows(self, edge_type: EdgeType, start: int, stop: int) -> Csr:
        """The in-edges of destination rows start .. stop-1, as a CSR of stop - start rows."""
        path = f"edges/{edge_type.key}"
        offsets = self._read(f"{path}/indptr", slice(start, stop + 1))
        edges = slice(int(offsets[0]), int(offsets[-1]))
        return Csr(
            indptr=offsets - offsets[0],
            indices=self._read(f"{path}/indices", edges),
            data=self._read(f"{path}/data", edges) if self.is_weighted(edge_type) else None,
            num_sources=self.num_nodes[edge_type.source],
        )

    def is_weighted(self, edge_type: EdgeType) -> bool:
        """Whether the edges of this type have weights other than 1."""
        return bool(self._group(f"edges/{edge_type.key}").attrs["weighted"])

    def rows(self, node_type: str, name: str, rows_at_a_time: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """A node array as (first row, rows) pieces, in order."""
        for start in range(0, self.num_nodes[node_type], rows_at_a_time):
            yield start, self._read(f"nodes/{node_type}/{name}", slice(start, start + rows_at_a_time))

    def check(self) -> None:
        """Read everything: checksums of all chunks, shapes, and the validity of every CSR.

        Raises:
            DatasetError: the first thing that is wrong.
        """
        for node_type, count in self.num_nodes.items():
            for name in self.node_arrays(node_type):
                found = len(self._read(f"nodes/{node_type}/{name}"))
                if found != count:
                    raise DatasetError(
                        f"{self.location}: nodes/{node_type}/{name} has {found} rows for {count} nodes; fetch it again"
                    )
        for edge_type, count in self.num_edges.items():
            matrix = self.csr(edge_type)
            problem = csr.fault(matrix)
            if problem is None and matrix.num_edges != count:
                problem = f"it holds {matrix.num_edges} edges, its attributes say {count}"
            if problem:
                raise DatasetError(f"{self.location}: edges/{edge_type.key} is damaged: {problem}; fetch it again")

    def _group(self, path: str) -> zarr.Group:
        found = self._root.get(path)
        if not isinstance(found, zarr.Group):
            raise DatasetError(f"{self.location}: {path} is missing; fetch or import it again")
        return found

    def _array(self, path: str) -> zarr.Array[Any]:
        """The array at `path`, with all its chunks there: to Zarr an absent chunk is no error but zeros."""
        if path not in self._arrays:
            found = self._root.get(path)
            if not isinstance(found, zarr.Array):
                raise DatasetError(f"{self.location}: {path} is missing; fetch or import it again")
            if not path.endswith("/data") or self._root[path.removesuffix("/data")].attrs["weighted"]:
                files = -(-found.shape[0] // (found.shards or found.chunks)[0])
                chunks_a_file = found.shards[0] // found.chunks[0] if found.shards else 1
                absent = files - found.nchunks_initialized // chunks_a_file
                if absent:
                    raise DatasetError(
                        f"{self.location}: {path} lacks {absent} of its {files} chunk files; fetch or import it again"
                    )
            self._arrays[path] = found
        return self._arrays[path]

    def _read(self, path: str, rows: slice = slice(None)) -> NDArray[Any]:
        found = self._array(path)
        try:
            return np.asarray(found[rows])
        except (ValueError, RuntimeError, OSError, KeyError) as error:
            raise DatasetError(f"{self.location}: {path} is damaged ({error}); fetch or import it again") from error


def write_store(
    target: Path | str,
    *,
    name: str,
    key: str,
    source: Mapping[str, Any],
    nodes: Mapping[str, NodeTable],
    edges: Mapping[EdgeType, tuple[Csr, EdgeCounts]],
    treatment: Treatment,
    notes: Mapping[str, Any],
) -> GraphStore:
    """Write a store and open it. At a local path it appears whole or not at all.

    Args:
        target: path or fsspec URL; what is there is replaced.
        name: the dataset's name.
        key: 64 hex digits over all that determines the content.
        source: where the data came from: reader, files with their SHA-256.
        nodes, edges: the graph, by node and edge type.
        treatment: what was done to the edges; `edges` carries the counts.
        notes: further facts (how a split was drawn), kept as they are.
    """
    local = not is_url(str(target))
    partial = Path(target).with_name(f"{PARTIAL_PREFIX}{Path(target).name}") if local else target
    if isinstance(partial, Path):
        partial.parent.mkdir(parents=True, exist_ok=True)
        if partial.exists():
            shutil.rmtree(partial)
    root = zarr.open_group(str(partial), mode="w", zarr_format=3)
    with progress.task(f"writing store {name}", total=_num_bytes(nodes, edges), unit="B") as task:
        root.create_group("nodes")
        root.create_group("edges")
        for node_type, table in sorted(nodes.items()):
            group = root.create_group(f"nodes/{node_type}")
            for array_name, array in table.arrays().items():
                _write(group, array_name, array, task)
        for edge_type, (matrix, _) in sorted(edges.items()):
            group = root.create_group(f"edges/{edge_type.key}")
            group.attrs.update(
                {**ANNDATA_CSR, "shape": [matrix.num_rows, matrix.num_sources], "weighted": matrix.data is not None}
            )
            _write(group, "indptr", matrix.indptr, task)
            _write(group, "indices", matrix.indices, task)
            if matrix.data is None:
                _create(group, "data", (matrix.num_edges,), np.dtype(np.float32), fill_value=1)
            else:
                _write(group, "data", matrix.data, task)
    root.attrs.update(
        {
            "graphprep_format": STORE_FORMAT,
            "graphprep_kind": STORE_KIND,
            "tool_version": __version__,
            "dataset": name,
            "key": key,
            "source": dict(source),
            "directed": any(not csr.is_symmetric(matrix) for matrix, _ in edges.values()),
            "treatment": asdict(treatment),
            "node_types": {node_type: table.num_nodes for node_type, table in sorted(nodes.items())},
            "edge_types": {edge_type.key: matrix.num_edges for edge_type, (matrix, _) in sorted(edges.items())},
            "edge_counts": {edge_type.key: asdict(counts) for edge_type, (_, counts) in sorted(edges.items())},
            "notes": dict(notes),
        }
    )
    if isinstance(partial, Path):
        publish_folder(partial, Path(target))
    return GraphStore(target)


def _num_bytes(nodes: Mapping[str, NodeTable], edges: Mapping[EdgeType, tuple[Csr, EdgeCounts]]) -> int:
    total = sum(array.nbytes for table in nodes.values() for array in table.arrays().values())
    for matrix, _ in edges.values():
        total += matrix.indptr.nbytes + matrix.indices.nbytes + (0 if matrix.data is None else matrix.data.nbytes)
    return total


def _create(
    group: zarr.Group, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: float = 0
) -> zarr.Array[Any]:
    """An empty array with chunks of whole rows of about CHUNK_BYTES, sharded where it has more than one shard."""
    row_bytes = max(1, dtype.itemsize * math.prod(shape[1:]))
    rows = max(1, CHUNK_BYTES // row_bytes)
    widths = tuple(max(1, width) for width in shape[1:])
    sharded = shape[0] > rows
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=(rows if sharded else max(1, shape[0]), *widths),
        shards=(rows * CHUNKS_PER_SHARD, *widths) if sharded else None,
        compressors=[
            BloscCodec(typesize=dtype.itemsize, cname="lz4", clevel=5, shuffle=BloscShuffle.shuffle),
            Crc32cCodec(),
        ],
        fill_value=fill_value,
        config={"write_empty_chunks": True},
    )


def _write(group: zarr.Group, name: str, array: NDArray[Any], task: progress.Task) -> None:
    """Write an array one shard of rows at a time."""
    stored = _create(group, name, array.shape, array.dtype)
    rows = (stored.shards or stored.chunks)[0]
    for start in range(0, len(array), rows):
        piece = array[start : start + rows]
        stored[start : start + rows] = piece
        task.advance(piece.nbytes)
