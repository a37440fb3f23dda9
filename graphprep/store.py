"""The graph store: one Zarr group per graph, compressed, read and written in row ranges.

    nodes/<type>/x, y, train_mask, ...                       rows in the dataset's own node order
    edges/<src>__<relation>__<dst>/indptr, indices, data     CSR, rows are destinations; edge features in CSR order
    words/<type>/offsets, bytes                              ids of the source that are words, UTF-8, one after another

Chunks hold about 8 MB and are compressed by blosc (lz4, shuffle) under a CRC-32C, so that a flipped bit is an error and
not a different graph; big arrays gather eight chunks in a shard, so that a billion edges are some dozens of files.
The root attributes are written last, and on a local disk the folder is renamed into place: a store without them is not
a store. Any fsspec URL works where a path does; there the attributes alone say that the store is whole.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, BloscShuffle, Crc32cCodec

from graphprep import __version__, csr, progress
from graphprep.edge_writing import EVERY_CHUNK, rows_a_file, write_by_ranges
from graphprep.errors import DatasetError
from graphprep.executor import Executor, Threads
from graphprep.graph import Csr, EdgeType, LoadedGraph, NodeTable, Treatment, chosen_edge_type, row_bytes
from graphprep.home import is_url
from graphprep.original_ids import OriginalIds
from graphprep.publish import PARTIAL_PREFIX, publish_folder
from graphprep.row_ranges import row_ranges
from graphprep.sorted_edges import SortedEdges
from graphprep.store_place import reached

if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csr_array
    from torch_geometric.data import Data, HeteroData

STORE_FORMAT = 1
STORE_KIND = "store"
CHUNK_BYTES = 8_000_000
CHUNKS_PER_SHARD = 8
AGAIN = "fetch or import it again with --replace"
ATTRIBUTES = (
    "tool_version",
    "dataset",
    "key",
    "source",
    "directed",
    "node_types",
    "edge_types",
    "edge_counts",
    "arrays",
)
"""What a reader relies on."""
BYTES_AT_A_TIME = 64_000_000
EDGES_AT_A_TIME = 1 << 22
EXPLAINED = (OSError, ImportError, ValueError, TypeError, KeyError, RuntimeError)
"""What a reader of a store has words of its own for."""
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
            with reached(self.location, but=EXPLAINED):
                self._root = zarr.open_group(self.location, mode="r", zarr_format=3)
                self.attributes: dict[str, Any] = dict(self._root.attrs)
        except (FileNotFoundError, zarr.errors.GroupNotFoundError, zarr.errors.NodeTypeValidationError) as error:
            raise DatasetError(f"{location} is not a graph store; run `graphprep fetch` or `import`") from error
        except ImportError as error:
            raise DatasetError(f"{location} cannot be opened: {error}; install the package that it names") from error
        except OSError as error:
            raise DatasetError(f"{location} cannot be opened ({error}); check the place and the network") from error
        except (ValueError, TypeError, KeyError) as error:
            unknown = "protocol" in str(error).lower()
            reason = f"cannot be opened ({error})" if unknown else f"is damaged: its zarr.json cannot be read ({error})"
            raise DatasetError(f"{location} {reason}; {AGAIN}") from error
        self._arrays: dict[str, zarr.Array[Any]] = {}
        kind, version = self.attributes.get("graphprep_kind"), self.attributes.get("graphprep_format")
        if kind != STORE_KIND:
            found = "a partition cache" if kind == "cache" else "not a finished graph store"
            raise DatasetError(f"{location} is {found}; give a store, or run `graphprep fetch` or `import` again")
        if version != STORE_FORMAT:
            raise DatasetError(
                f"{location} has store format {version}, this release reads format {STORE_FORMAT}; "
                "make it again with this release, or install the one that wrote it"
            )
        absent = [name for name in ATTRIBUTES if name not in self.attributes]
        if absent:
            raise DatasetError(f"{location} is damaged: its zarr.json has no {absent[0]}; {AGAIN}")

    def __reduce__(self) -> tuple[type[GraphStore], tuple[str]]:
        """Another process opens the store by itself."""
        return GraphStore, (self.location if is_url(self.location) else str(Path(self.location).absolute()),)

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
        """Whether some edge lacks its reverse, of equal weight."""
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
        return self._names(f"nodes/{node_type}/")

    def node_array(self, node_type: str, name: str) -> zarr.Array[Any] | None:
        """One array of a node type, lazily: slice it by row range. None if the type has no such array."""
        return self._array(f"nodes/{node_type}/{name}") if name in self.node_arrays(node_type) else None

    def edge_array(self, edge_type: EdgeType, name: str) -> zarr.Array[Any]:
        """Edge features, times and the like of one edge type, lazily, in CSR order."""
        return self._array(f"edges/{edge_type.key}/{name}")

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:
        """The names of the arrays that edges of this type have beside the CSR's own."""
        names = self._names(f"edges/{edge_type.key}/")
        return tuple(name for name in names if name not in ("indptr", "indices", "data"))

    def original_ids(self, node_type: str) -> OriginalIds | None:
        """The ids that the nodes of a type had in the source, by row; None where these are the row numbers.

        `.array()` is all of them (int64 [N], or N strings), `[row]` that of one row, `.row_of(id)` the way back.
        """
        if "original_id" in self.node_arrays(node_type):
            return OriginalIds(numbers=self._read(f"nodes/{node_type}/original_id"))
        if not self._names(f"words/{node_type}/"):
            return None
        offsets, text = (self._read(f"words/{node_type}/{name}") for name in ("offsets", "bytes"))
        return OriginalIds.of_words(offsets, text, self.location, DatasetError)

    def original_words(self, node_type: str) -> list[str] | None:
        """The ids that the nodes of a type had in the source, where those were words; all in memory."""
        ids = self.original_ids(node_type)
        return None if ids is None or ids.numbers is not None else ids.array().tolist()

    def node_table(self, node_type: str) -> NodeTable:
        """All arrays of a node type in memory; `original_id` are numbers or words, None where ids are row numbers."""
        arrays = {name: self._read(f"nodes/{node_type}/{name}") for name in self.node_arrays(node_type)}
        more = {name: arrays.pop(name) for name in arrays.keys() - NodeTable.__dataclass_fields__.keys()}
        ids = self.original_ids(node_type)
        original = None if ids is None else ids.array() if ids.numbers is not None else ids.array().astype(np.str_)
        arrays.pop("original_id", None)
        return NodeTable(num_nodes=self.num_nodes[node_type], more=more, original_id=original, **arrays)

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

    def indptr(self, edge_type: EdgeType) -> NDArray[np.int64]:
        """Where the in-edges of each destination row begin; int64 [N + 1]."""
        return self._read(f"edges/{edge_type.key}/indptr")

    def is_weighted(self, edge_type: EdgeType) -> bool:
        """Whether the edges of this type have weights other than 1."""
        return f"edges/{edge_type.key}/data" in self.attributes["arrays"]

    def rows(self, node_type: str, name: str, rows_at_a_time: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """A node array as (first row, rows) pieces, in order."""
        for start in range(0, self.num_nodes[node_type], rows_at_a_time):
            yield start, self._read(f"nodes/{node_type}/{name}", slice(start, start + rows_at_a_time))

    def loaded(self) -> LoadedGraph:
        """The whole graph in memory."""
        kinds = list(self.num_edges)
        return LoadedGraph(
            num_nodes=self.num_nodes,
            nodes={
                node_type: {name: self._read(f"nodes/{node_type}/{name}") for name in self.node_arrays(node_type)}
                for node_type in self.num_nodes
            },
            edges={kind: self.csr(kind) for kind in kinds},
            edge_arrays={
                kind: {name: self._read(f"edges/{kind.key}/{name}") for name in self.edge_arrays(kind)}
                for kind in kinds
            },
        )

    def to_scipy(self, edge_type: Sequence[str] | str | None = None) -> csr_array:
        """The edges of one type (its key, or nothing if there is one) as a SciPy array, rows are destinations."""
        from graphprep.convert.scipy_matrix import to_scipy

        return to_scipy(self.csr(chosen_edge_type(self.num_edges, edge_type)))

    def to_pyg(self) -> Data | HeteroData:
        """The whole graph as PyTorch Geometric has it."""
        from graphprep.convert.pyg import to_pyg

        return to_pyg(self.loaded())

    def to_networkx(self, *, limit: int | None = None) -> nx.DiGraph | nx.MultiDiGraph:
        """The whole graph for NetworkX.

        Raises:
            UsageError: it has more nodes and edges than `limit` (100,000 unless given).
        """
        from graphprep.convert import networkx_graph

        most = networkx_graph.LIMIT if limit is None else limit
        networkx_graph.require_small(sum(self.num_nodes.values()), sum(self.num_edges.values()), most)
        return networkx_graph.to_networkx(self.loaded())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from graphprep.inspect.notebook import store_html

        return store_html(self)

    def check(self) -> None:
        """Read everything: checksums of all arrays, and the validity of every CSR.

        Raises:
            DatasetError: the first thing that is wrong.
        """
        total = sum(self._array(path).nbytes for path in self.attributes["arrays"])
        with progress.task("checking arrays", total=total, unit="B") as task:
            for path, written in self.attributes["arrays"].items():
                array = self._array(path)
                digest = hashlib.sha256()
                rows = max(1, BYTES_AT_A_TIME // row_bytes(array))
                for start in range(0, array.shape[0], rows):
                    piece = self._read(path, slice(start, start + rows))
                    digest.update(piece.tobytes())
                    task.advance(piece.nbytes)
                if digest.hexdigest() != written["sha256"]:
                    raise DatasetError(f"{self.location}: {path} has changed since it was written; {AGAIN}")
        for node_type, count in self.num_nodes.items():
            for name in self.node_arrays(node_type):
                found = self._array(f"nodes/{node_type}/{name}").shape[0]
                if found != count:
                    raise DatasetError(f"{self.location}: {name} has {found} rows for {count} {node_type}s; {AGAIN}")
        for edge_type, count in self.num_edges.items():
            for name in self.edge_arrays(edge_type):
                if self.edge_array(edge_type, name).shape[0] != count:
                    raise DatasetError(f"{self.location}: edges/{edge_type.key}/{name} has not {count} rows; {AGAIN}")
            problem = self._fault(edge_type, count)
            if problem:
                raise DatasetError(f"{self.location}: edges/{edge_type.key} is damaged: {problem}; {AGAIN}")

    def _fault(self, edge_type: EdgeType, count: int) -> str | None:
        """What makes the edges of a type invalid, in words, or None; they are read by ranges of rows."""
        indptr = self.indptr(edge_type)
        if indptr[0] != 0 or indptr[-1] != count:
            return f"row offsets run from {indptr[0]} to {indptr[-1]}, its attributes say {count} edges"
        fall = np.flatnonzero(indptr[1:] < indptr[:-1])
        if len(fall):
            return f"row offsets fall at row {fall[0]}"
        for start, stop in row_ranges(indptr, EDGES_AT_A_TIME):
            problem = csr.fault(self.csr_rows(edge_type, start, stop))
            if problem is not None:
                return f"{problem}, counted from row {start} on"
        return None

    def _names(self, prefix: str) -> tuple[str, ...]:
        """The arrays that were written below a path, in name order."""
        return tuple(sorted(path.removeprefix(prefix) for path in self.attributes["arrays"] if path.startswith(prefix)))

    def _array(self, path: str) -> zarr.Array[Any]:
        """The array at `path`, as it was written and with all its chunks, which Zarr would take for zeros if absent."""
        if path not in self._arrays:
            try:
                with reached(self.location, but=EXPLAINED):
                    found = self._root.get(path)
            except (ValueError, TypeError, KeyError, OSError, ImportError) as error:
                raise DatasetError(f"{self.location}: {path} is damaged ({error}); {AGAIN}") from error
            written = self.attributes["arrays"].get(path)
            if not isinstance(found, zarr.Array) or written is None:
                raise DatasetError(f"{self.location}: {path} is missing; {AGAIN}")
            if [list(found.shape), str(found.dtype)] != [written["shape"], written["dtype"]]:
                raise DatasetError(
                    f"{self.location}: {path} is {found.dtype} {list(found.shape)}, but {written['dtype']} "
                    f"{written['shape']} was written; {AGAIN}"
                )
            files = -(-found.shape[0] // (found.shards or found.chunks)[0]) if found.size else 0
            chunks_a_file = found.shards[0] // found.chunks[0] if found.shards else 1
            absent = files - found.nchunks_initialized // chunks_a_file
            if absent:
                raise DatasetError(f"{self.location}: {path} lacks {absent} of its {files} chunk files; {AGAIN}")
            self._arrays[path] = found
        return self._arrays[path]

    def _read(self, path: str, rows: slice = slice(None)) -> NDArray[Any]:
        found = self._array(path)
        try:
            with reached(self.location, but=EXPLAINED):
                return np.asarray(found[rows])
        except (ValueError, RuntimeError, OSError, KeyError) as error:
            raise DatasetError(f"{self.location}: {path} is damaged ({error}); {AGAIN}") from error


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
    partial = Path(target).absolute().with_name(f"{PARTIAL_PREFIX}{Path(target).name}") if local else target
    threads = Threads(memory_limit=memory_limit)
    if isinstance(partial, Path):
        partial.parent.mkdir(parents=True, exist_ok=True)
        if partial.exists():
            shutil.rmtree(partial)
    with reached(target):
        root = zarr.open_group(str(partial), mode="w", zarr_format=3)
        edges = sorted(edges, key=lambda table: table.type)
        written: Written = {}
        with progress.task(f"writing store {name}", total=_num_bytes(nodes, edges), unit="B") as task:
            root.create_group("nodes")
            root.create_group("edges")
            for node_type, node_table in sorted(nodes.items()):
                _write_nodes(root, node_type, node_table, task, written)
            for table in edges:
                by = executor if executor is not None and table.arrays.in_files else threads
                _write_edges(str(partial), root.create_group(f"edges/{table.type.key}"), table, by, task, written)
        root.attrs.update(
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
            }
        )
    if isinstance(partial, Path):
        publish_folder(partial, Path(target))
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
    if table.original_id is not None and table.original_id.dtype.kind == "U":
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
