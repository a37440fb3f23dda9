"""Write a graph store: node tables, then sorted edges by ranges of whole files, then the root attributes."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, BloscShuffle, Crc32cCodec

from graphprep.core import csr
from graphprep.core.types import NodeTable, Treatment, row_bytes
from graphprep.store.edge_writing import EVERY_CHUNK, rows_a_file, write_by_ranges
from graphprep.store.location import translate_remote_errors
from graphprep.store.metadata import write_root
from graphprep.store.sort import SortedEdges
from graphprep.store.store import ANNDATA_CSR, STORE_FORMAT, STORE_KIND, GraphStore
from graphprep.system import progress
from graphprep.system.executor import Executor, Threads
from graphprep.system.files.atomic import PARTIAL_PREFIX, publish_folder
from graphprep.system.home import is_url
from graphprep.version import __version__

CHUNK_BYTES = 8_000_000
CHUNKS_PER_SHARD = 8
Written = dict[str, dict[str, Any]]
"""shape, dtype and SHA-256 of each array, by path"""


def write_store(
    target: Path | str,
    *,
    name: str,
    key: str,
    source: Mapping[str, Any],
    nodes: Mapping[str, NodeTable],
    edges: Sequence[SortedEdges],
    treatment: Treatment,
    notes: Mapping[str, Any],
    executor: Executor | None = None,
    memory_limit: int | None = None,
) -> GraphStore:
    """Write a store and open it. At a local path it appears whole or not at all.

    Args:
        target: path or fsspec URL; what is there is replaced.
        name: the dataset's name.
        key: 64 hex digits over all that determines the content.
        source: where the data came from: reader, files with their SHA-256.
        nodes: the node tables by type; arrays may be memory maps, they are written in row ranges.
        edges: the sorted edges of each type, read by ranges and piece by piece.
        treatment: what was done to the edges; `edges` carries the counts.
        notes: further facts (how a split was drawn), kept as they are.
        executor: of the ranges of edges; None for threads. Edges in memory are written by threads all the same. Its
            workers reach the target, and edges in files, under the same path.
        memory_limit: bytes that the process may hold, which limits threads; None for half of what is free.
    """
    local = not is_url(str(target))
    partial_place = Path(target).absolute().with_name(f"{PARTIAL_PREFIX}{Path(target).name}") if local else target
    threads = Threads(memory_limit=memory_limit)
    if isinstance(partial_place, Path):
        partial_place.parent.mkdir(parents=True, exist_ok=True)
        if partial_place.exists():
            shutil.rmtree(partial_place)
    with translate_remote_errors(target):
        root = zarr.open_group(str(partial_place), mode="w", zarr_format=3)
        edges = sorted(edges, key=lambda table: table.type)
        written: Written = {}
        with progress.task(f"writing store {name}", total=_num_bytes(nodes, edges), unit="B") as task:
            root.create_group("nodes")
            root.create_group("edges")
            for node_type, node_table in sorted(nodes.items()):
                _write_nodes(root, node_type, node_table, task, written)
            for table in edges:
                by = executor if executor is not None and table.arrays.in_files else threads
                _write_edges(str(partial_place), root.create_group(f"edges/{table.type.key}"), table, by, task, written)
        write_root(
            partial_place,
            {
                "graphprep_format": STORE_FORMAT,
                "graphprep_kind": STORE_KIND,
                "tool_version": __version__,
                "dataset": name,
                "key": key,
                "source": dict(source),
                "directed": any(not table.symmetric for table in edges),
                "treatment": asdict(treatment),
                "node_types": {node_type: node_table.num_nodes for node_type, node_table in sorted(nodes.items())},
                "edge_types": {table.type.key: table.counts.edges for table in edges},
                "edge_counts": {table.type.key: asdict(table.counts) for table in edges},
                "arrays": dict(sorted(written.items())),
                "notes": dict(notes),
            },
        )
    if isinstance(partial_place, Path):
        publish_folder(partial_place, Path(target))
    return GraphStore(target)


def _num_bytes(nodes: Mapping[str, NodeTable], edges: Sequence[SortedEdges]) -> int:
    total = sum(array.nbytes for table in nodes.values() for array in table.arrays().values())
    for table in edges:
        each = csr.index_dtype(table.num_sources)().itemsize + (4 if table.weighted else 0)
        each += sum(row_bytes(rows) for rows in table.attributes.values())
        total += 8 * (table.num_rows + 1) + each * table.counts.edges
    return total


def _write_nodes(root: zarr.Group, node_type: str, table: NodeTable, task: progress.Task, written: Written) -> None:
    group = root.create_group(f"nodes/{node_type}")
    for name, array in table.arrays().items():
        with _Appender(_create(group, name, array.shape, array.dtype), task, written) as appender:
            for start in range(0, len(array), appender.rows_at_a_time):
                appender.add(array[start : start + appender.rows_at_a_time])
    if table.original_id is not None and table.original_id.dtype.kind in "UT":
        words = [str(word).encode() for word in table.original_id]
        group = root.create_group(f"words/{node_type}")
        offsets = np.concatenate([[0], np.cumsum([len(word) for word in words], dtype=np.int64)])
        for name, array in (("offsets", offsets), ("bytes", np.frombuffer(b"".join(words), np.uint8))):
            with _Appender(_create(group, name, array.shape, array.dtype), task, written) as appender:
                appender.add(array)


def _write_edges(
    place: str, group: zarr.Group, table: SortedEdges, executor: Executor, task: progress.Task, written: Written
) -> None:
    """The CSR by ranges, then what needs the edges from front to back: checksums, and the attributes in CSR order."""
    count = table.counts.edges
    group.attrs.update({**ANNDATA_CSR, "shape": [table.num_rows, table.num_sources], "weighted": table.weighted})
    arrays = {
        "indptr": _create(group, "indptr", (table.num_rows + 1,), np.dtype(np.int64)),
        "indices": _create(group, "indices", (count,), np.dtype(csr.index_dtype(table.num_sources))),
    }
    data = _create(group, "data", (count,), np.dtype(np.float32), fill_value=0 if table.weighted else 1)
    if table.weighted:
        arrays["data"] = data
    write_by_ranges(place, arrays, table.arrays, executor=executor, task=task)
    digests = {name: hashlib.sha256() for name in arrays}
    digests["indptr"].update(np.zeros(1, np.int64).data)
    with ExitStack() as stack:
        attributes = {
            name: stack.enter_context(
                _Appender(_create(group, name, (count, *rows.shape[1:]), rows.dtype), task, written)
            )
            for name, rows in table.attributes.items()
        }
        base = 0
        for piece in table.pieces():
            digests["indptr"].update((piece.indptr[1:] + base).data)
            base += piece.num_edges
            digests["indices"].update(piece.indices.data)
            if table.weighted:
                weights = np.ones(piece.num_edges, np.float32) if piece.data is None else piece.data
                digests["data"].update(weights.data)
            for name, appender in attributes.items():
                assert piece.edge_number is not None
                appender.add(_of_edges(table.attributes[name], piece.edge_number))
    written.update({array.path: _facts(array, digests[name].hexdigest()) for name, array in arrays.items()})


def _facts(array: zarr.Array[Any], sha256: str) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": sha256}


def _of_edges(rows: NDArray[Any], edge_number: NDArray[np.int64]) -> NDArray[Any]:
    """The rows of edges by their numbers; zeros for an added self-loop."""
    given = edge_number >= 0
    found = np.zeros((len(edge_number), *rows.shape[1:]), rows.dtype)
    found[given] = rows[edge_number[given]]
    return found


class _Appender:
    """Fills an array from front to back, one whole shard at a time, whatever the length of the pieces it is given.

    When it is done, the array's shape, dtype and the SHA-256 of its content (little-endian, C order) are in `written`.
    """

    def __init__(self, array: zarr.Array[Any], task: progress.Task, written: Written) -> None:
        self._array, self._task, self._written = array, task, written
        self._digest = hashlib.sha256()
        self.rows_at_a_time = rows_a_file(array)
        self._waiting: list[NDArray[Any]] = []
        self._num_waiting = self._done = 0

    def __enter__(self) -> _Appender:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            if self._num_waiting:
                self._flush()
            self._written[self._array.path] = _facts(self._array, self._digest.hexdigest())

    def add(self, piece: NDArray[Any]) -> None:
        """Append rows."""
        while len(piece):
            fits = self.rows_at_a_time - self._num_waiting
            self._waiting.append(piece[:fits])
            self._num_waiting += len(piece[:fits])
            piece = piece[fits:]
            if self._num_waiting == self.rows_at_a_time:
                self._flush()

    def _flush(self) -> None:
        rows = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._array[self._done : self._done + len(rows)] = rows
        self._digest.update(np.ascontiguousarray(rows).data)
        self._task.advance(rows.nbytes)
        self._done += len(rows)
        self._waiting, self._num_waiting = [], 0


def _create(
    group: zarr.Group, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: float = 0
) -> zarr.Array[Any]:
    """An empty array with chunks of whole rows of about CHUNK_BYTES, sharded where it has more than one chunk."""
    bytes_a_row = max(1, dtype.itemsize * math.prod(shape[1:]))
    rows = max(1, CHUNK_BYTES // bytes_a_row)
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
        config=EVERY_CHUNK,
    )
