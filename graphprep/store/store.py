"""The graph store: one Zarr group per graph, compressed, read and written in row ranges.

    nodes/<type>/x, y, train_mask, ...                       rows in the dataset's own node order
    edges/<src>__<relation>__<dst>/indptr, indices, data     CSR, rows are destinations; edge features in CSR order
    words/<type>/offsets, bytes                              ids of the source that are words, UTF-8, one after another

Chunks hold about 8 MB and are compressed by blosc (lz4, shuffle) under a CRC-32C, so that a flipped bit is an error and
not a different graph; big arrays gather eight chunks in a shard, so that a billion edges are some dozens of files.
The root attributes are written last, and on a local disk the folder is renamed into place: a store without them is not
a store. Any fsspec URL works where a path does; there the attributes alone say that the store is whole. They hold a
SHA-256 of every array's content and of every zarr.json: metadata are compared with theirs whenever they are read,
arrays where all of one is read. Row offsets and columns are looked through before they are given away.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
import zarr.errors
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.original_ids import OriginalIds
from graphprep.core.row_ranges import row_ranges
from graphprep.core.types import Csr, EdgeType, LoadedGraph, NodeTable, chosen_edge_type, row_bytes
from graphprep.errors import DatasetError, GraphprepError
from graphprep.store.location import can_list, files_below, read_file, translate_remote_errors
from graphprep.store.metadata import CHECKSUMS, groups_of, root_is_unchanged
from graphprep.store.regular_store import RegularFiles
from graphprep.system import memory, progress
from graphprep.system.files.output_path import ZARR_JSON
from graphprep.system.home import find_store, is_url
from graphprep.system.threads import cores, side_by_side

if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csr_array
    from torch_geometric.data import Data, HeteroData

STORE_FORMAT = 1
STORE_KIND = "store"
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
MOST_FILES = 1_000_000
"""of one array; those of its shards that are written here have hundreds of megabytes"""
EXPLAINED = (
    OSError,
    ImportError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
)
"""What a reader of a store has words of its own for: all that Zarr has been seen to raise at damaged files."""
ANNDATA_CSR = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}


@dataclass(frozen=True, slots=True, eq=False)
class StoredArray:
    """One array of a store, lazily: slice it by row range.

    Raises:
        DatasetError: when it is sliced, and a chunk is damaged or cannot be reached.
    """

    store: GraphStore
    path: str
    """in the store"""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes before compression."""
        return self.dtype.itemsize * math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any, /) -> NDArray[Any]:
        return self.store._read(self.path, rows)


class GraphStore:
    """A finished store, opened for reading; arrays are read at access."""

    def __init__(self, location: str | Path) -> None:
        """Open the store at a path or fsspec URL.

        Raises:
            DatasetError: there is none, it is unfinished, or its format is unknown.
        """
        self.location = str(location)
        try:
            with translate_remote_errors(self.location, unless=EXPLAINED):
                local = not is_url(self.location)
                place = RegularFiles(self.location, read_only=True) if local else self.location
                self._root = zarr.open_group(place, mode="r", zarr_format=3)
                self.attributes: dict[str, Any] = dict(self._root.attrs)
        except (FileNotFoundError, zarr.errors.GroupNotFoundError, zarr.errors.NodeTypeValidationError) as error:
            if self._has_damaged_root():
                raise DatasetError(f"{location} is damaged: its zarr.json describes no group; {AGAIN}") from error
            raise DatasetError(f"{location} is not a graph store; run `graphprep fetch` or `import`") from error
        except ImportError as error:
            raise DatasetError(f"{location} cannot be opened: {error}; install the package that it names") from error
        except OSError as error:
            raise DatasetError(f"{location} cannot be opened ({error}); check the place and the network") from error
        except EXPLAINED as error:
            unknown = "protocol" in str(error).lower()
            reason = f"cannot be opened ({error})" if unknown else f"is damaged: its zarr.json cannot be read ({error})"
            raise DatasetError(f"{location} {reason}; {AGAIN}") from error
        self._arrays: dict[str, zarr.Array[Any]] = {}
        kind, version = self.attributes.get("graphprep_kind"), self.attributes.get("graphprep_format")
        if kind != STORE_KIND:
            if kind in ("event-store", "events"):
                found = "an event store" if kind == "event-store" else "an event cache"
                raise DatasetError(
                    f"{location} is {found}, for temporal models; give a graph store, as importing without --events "
                    "makes, or use `graphprep partition --for events` of an event store"
                )
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
        if not root_is_unchanged(self._file(ZARR_JSON), self.attributes):
            raise DatasetError(f"{location} is damaged: its zarr.json has changed since it was written; {AGAIN}")
        if (malformed := _malformed(self.attributes)) is not None:
            raise DatasetError(f"{location} is damaged: its zarr.json has a wrong {malformed}; {AGAIN}")

    def _has_damaged_root(self) -> bool:
        return not is_url(self.location) and os.path.lexists(Path(self.location) / ZARR_JSON)

    def _file(self, name: str) -> bytes:
        """The content of a file of the store."""
        try:
            return read_file(self.location, name)
        except OSError as error:
            raise DatasetError(f"{self.location}: {name} is missing or cannot be read ({error}); {AGAIN}") from error

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

    def node_array(self, node_type: str, name: str) -> StoredArray | None:
        """One array of a node type, lazily: slice it by row range. None if the type has no such array."""
        return self._stored(f"nodes/{node_type}/{name}") if name in self.node_arrays(node_type) else None

    def edge_array(self, edge_type: EdgeType, name: str) -> StoredArray:
        """Edge features, times and the like of one edge type, lazily, in CSR order."""
        return self._stored(f"edges/{edge_type.key}/{name}")

    def _stored(self, path: str) -> StoredArray:
        found = self._array(path)
        return StoredArray(self, path, np.dtype(found.dtype), tuple(found.shape))

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:
        """The names of the arrays that edges of this type have in addition to the CSR's own."""
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

    def node_table(self, node_type: str) -> NodeTable:
        """All arrays of a node type in memory; `original_id` are numbers or words, None where ids are row numbers."""
        arrays = {name: self._read(f"nodes/{node_type}/{name}") for name in self.node_arrays(node_type)}
        more = {name: arrays.pop(name) for name in arrays.keys() - NodeTable.__dataclass_fields__.keys()}
        ids = self.original_ids(node_type)
        original = None if ids is None else ids.array() if ids.numbers is not None else ids.array().astype(np.str_)
        arrays.pop("original_id", None)
        return NodeTable(num_nodes=self.num_nodes[node_type], more=more, original_id=original, **arrays)

    def csr(self, edge_type: EdgeType) -> Csr:
        """All in-edges of one type in memory, after they were compared with their checksums.

        Raises:
            DatasetError: they have changed, a chunk is damaged, or row offsets or columns are out of range.
        """
        found = self.csr_rows(edge_type, 0, self.num_nodes[edge_type.destination])
        for name in ("indptr", "indices", "data") if self.is_weighted(edge_type) else ("indptr", "indices"):
            digest = hashlib.sha256(np.ascontiguousarray(getattr(found, name)).data)
            self._require_digest(f"edges/{edge_type.key}/{name}", digest.hexdigest())
        return found

    def csr_rows(self, edge_type: EdgeType, start: int, stop: int) -> Csr:
        """The in-edges of destination rows start .. stop-1, as a CSR of stop - start rows.

        Raises:
            DatasetError: a chunk is damaged, or row offsets or columns are out of range.
        """
        path = f"edges/{edge_type.key}"
        offsets = self._read(f"{path}/indptr", slice(start, stop + 1))
        edges = slice(int(offsets[0]), int(offsets[-1]))
        found = Csr(
            indptr=offsets - offsets[0],
            indices=self._read(f"{path}/indices", edges),
            data=self._read(f"{path}/data", edges) if self.is_weighted(edge_type) else None,
            num_sources=self.num_nodes[edge_type.source],
        )
        if (problem := csr.range_fault(found)) is not None:
            raise DatasetError(f"{self.location}: {path} is damaged: {problem}, counted from row {start} on; {AGAIN}")
        return found

    def indptr(self, edge_type: EdgeType) -> NDArray[np.int64]:
        """Where the in-edges of each destination row begin; int64 [N + 1].

        Raises:
            DatasetError: a chunk is damaged, or the numbers do not ascend from 0 to the number of edges.
        """
        found, count = self._read(f"edges/{edge_type.key}/indptr"), self.num_edges[edge_type]
        where = f"{self.location}: edges/{edge_type.key} is damaged"
        if found[0] != 0 or found[-1] != count:
            raise DatasetError(
                f"{where}: row offsets run from {found[0]} to {found[-1]}, its attributes say {count} edges; {AGAIN}"
            )
        fall = np.flatnonzero(found[1:] < found[:-1])
        if len(fall):
            raise DatasetError(f"{where}: row offsets fall at row {fall[0]}; {AGAIN}")
        return found

    def is_weighted(self, edge_type: EdgeType) -> bool:
        """Whether the edges of this type have weights other than 1."""
        return f"edges/{edge_type.key}/data" in self.attributes["arrays"]

    def rows(self, node_type: str, name: str, rows_at_a_time: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """A node array as (first row, rows) pieces, in order.

        Raises:
            DatasetError: a chunk is damaged; or, after the last piece, the whole differs from its checksum.
        """
        yield from self._pieces(f"nodes/{node_type}/{name}", rows_at_a_time)

    def _pieces(self, path: str, rows_at_a_time: int) -> Iterator[tuple[int, NDArray[Any]]]:
        digest = hashlib.sha256()
        for start in range(0, self._array(path).shape[0], rows_at_a_time):
            piece = self._read(path, slice(start, start + rows_at_a_time))
            digest.update(np.ascontiguousarray(piece).data)
            yield start, piece
        self._require_digest(path, digest.hexdigest())

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
        from graphprep.interop.scipy_matrix import to_scipy

        return to_scipy(self.csr(chosen_edge_type(self.num_edges, edge_type)))

    def to_pyg(self) -> Data | HeteroData:
        """The whole graph as PyTorch Geometric has it."""
        from graphprep.interop.pyg import to_pyg

        return to_pyg(self.loaded())

    def to_networkx(self, *, limit: int | None = None) -> nx.DiGraph | nx.MultiDiGraph:
        """The whole graph for NetworkX.

        Raises:
            UsageError: it has more nodes and edges than `limit` (100,000 unless given).
        """
        from graphprep.interop import networkx_graph

        most = networkx_graph.LIMIT if limit is None else limit
        networkx_graph.require_small(sum(self.num_nodes.values()), sum(self.num_edges.values()), most)
        return networkx_graph.to_networkx(self.loaded())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from graphprep.report.notebook import store_html

        return store_html(self)

    def require_unchanged(self, prefix: str = "") -> None:
        """Read all arrays below a path and compare them with their checksums, before they are copied piece by piece.

        Raises:
            DatasetError: one of them has changed or is damaged.
        """
        paths = [path for path in self.attributes["arrays"] if path.startswith(prefix)]
        total = sum(self._array(path).nbytes for path in paths)
        with progress.task("comparing arrays with their checksums", total=total, unit="B") as task:

            def check(path: str) -> None:
                for _, piece in self._pieces(path, max(1, BYTES_AT_A_TIME // row_bytes(self._array(path)))):
                    task.advance(piece.nbytes)

            side_by_side([partial(check, path) for path in paths], workers=cores())

    def _require_digest(self, path: str, found: str) -> None:
        if path in self.attributes["arrays"] and found != self.attributes["arrays"][path]["sha256"]:
            raise DatasetError(f"{self.location}: {path} has changed since it was written; {AGAIN}")

    def check(self) -> tuple[str, ...]:
        """Read everything: metadata, which files there are, checksums of all arrays, and the validity of every CSR.

        Returns:
            What could not be checked, a sentence each.

        Raises:
            DatasetError: the first thing that is wrong.
        """
        unchecked = self._check_metadata()
        self.require_unchanged()
        for node_type, count in self.num_nodes.items():
            for name in self.node_arrays(node_type):
                found = self._array(f"nodes/{node_type}/{name}").shape[0]
                if found != count:
                    raise DatasetError(f"{self.location}: {name} has {found} rows for {count} {node_type}s; {AGAIN}")
        for edge_type, count in self.num_edges.items():
            for name in self.edge_arrays(edge_type):
                if self.edge_array(edge_type, name).shape[0] != count:
                    raise DatasetError(f"{self.location}: edges/{edge_type.key}/{name} has not {count} rows; {AGAIN}")
            for start, stop in row_ranges(self.indptr(edge_type), EDGES_AT_A_TIME):
                if (problem := csr.fault(self.csr_rows(edge_type, start, stop))) is not None:
                    raise DatasetError(
                        f"{self.location}: edges/{edge_type.key} is damaged: {problem}, counted from row {start} on; "
                        f"{AGAIN}"
                    )
        return unchecked

    def _check_metadata(self) -> tuple[str, ...]:
        """Check every zarr.json, and that the store has exactly the files that it should have.

        Returns, Raises: as `check`.
        """
        unchecked = []
        sums = self.attributes.get(CHECKSUMS)
        edge_groups = {f"edges/{kind.key}": kind for kind in self.num_edges}
        arrays = {*self.attributes["arrays"], *(f"{path}/data" for path in edge_groups)}
        groups = {"nodes", "edges", *edge_groups, *(f"nodes/{name}" for name in self.num_nodes), *groups_of(arrays)}
        for path in sorted(groups):
            self._require_metadata(path)
        for path in sorted(arrays):
            self._array(path)
        if sums is None:
            unchecked.append("zarr.json of the root, groups and arrays: this store was written without checksums of it")
            for path, kind in edge_groups.items():
                shape = [self.num_nodes[kind.destination], self.num_nodes[kind.source]]
                expected = {**ANNDATA_CSR, "shape": shape, "weighted": self.is_weighted(kind)}
                if dict(self._group(path).attrs) != expected:
                    raise DatasetError(f"{self.location}: the attributes of {path} are not {expected}; {AGAIN}")
        elif strange := (groups | arrays) ^ sums.keys():
            raise DatasetError(f"{self.location}: {sorted(strange)[0]} is no array or group of this store; {AGAIN}")
        if not can_list(self.location):
            unchecked.append("which files there are: a web server does not say it")
            return tuple(unchecked)
        expected_files = {ZARR_JSON, *(f"{path}/{ZARR_JSON}" for path in groups | arrays)}
        for path in self.attributes["arrays"]:
            expected_files |= _chunk_files(self._array(path))
        found = files_below(self.location)
        if missing := expected_files - found:
            raise DatasetError(f"{self.location}: {sorted(missing)[0]} is missing; {AGAIN}")
        if extra := found - expected_files:
            raise DatasetError(
                f"{self.location}: {sorted(extra)[0]} does not belong to the store; remove it or {AGAIN}"
            )
        return tuple(unchecked)

    def _require_metadata(self, path: str) -> None:
        """Compare the zarr.json of a group or array with its checksum, if the store has those."""
        content, sums = self._file(f"{path}/{ZARR_JSON}"), self.attributes.get(CHECKSUMS)
        if sums is not None and hashlib.sha256(content).hexdigest() != sums.get(path):
            raise DatasetError(f"{self.location}: {path}/{ZARR_JSON} has changed since it was written; {AGAIN}")

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Says which array or group is damaged where Zarr raises an error of its own."""
        try:
            with translate_remote_errors(self.location, unless=EXPLAINED):
                yield
        except EXPLAINED as error:
            raise DatasetError(f"{self.location}: {path} is damaged ({error}); {AGAIN}") from error

    def _group(self, path: str) -> zarr.Group:
        with self._explained(path):
            found = self._root.get(path)
        if not isinstance(found, zarr.Group):
            raise DatasetError(f"{self.location}: {path} is no group; {AGAIN}")
        return found

    def _names(self, prefix: str) -> tuple[str, ...]:
        """The arrays that were written below a path, in name order."""
        return tuple(sorted(path.removeprefix(prefix) for path in self.attributes["arrays"] if path.startswith(prefix)))

    def _array(self, path: str) -> zarr.Array[Any]:
        """The array at `path`, as it was written and with all its chunks, which Zarr would take for zeros if absent."""
        if path not in self._arrays:
            if CHECKSUMS in self.attributes:
                self._require_metadata(path)
            with self._explained(path):
                found = self._root.get(path)
            written = self.attributes["arrays"].get(path)
            if not isinstance(found, zarr.Array):
                raise DatasetError(f"{self.location}: {path} is missing; {AGAIN}")
            if written is None:  # the weights of unweighted edges, which have no chunks
                self._arrays[path] = found
                return found
            if [list(found.shape), str(found.dtype)] != [written["shape"], written["dtype"]]:
                raise DatasetError(
                    f"{self.location}: {path} is {found.dtype} {list(found.shape)}, but {written['dtype']} "
                    f"{written['shape']} was written; {AGAIN}"
                )
            if (claim := _absurd(found)) is not None:
                raise DatasetError(f"{self.location}: {path} is damaged: its zarr.json claims {claim}; {AGAIN}")
            with self._explained(path):
                absent, files = absent_files(found)
            if absent:
                raise DatasetError(f"{self.location}: {path} lacks {absent} of its {files} chunk files; {AGAIN}")
            self._arrays[path] = found
        return self._arrays[path]

    def _read(self, path: str, rows: Any = slice(None)) -> NDArray[Any]:
        found = self._array(path)
        with self._explained(path):
            read = np.asarray(found[rows])
        if isinstance(rows, slice) and rows == slice(None):
            self._require_digest(path, hashlib.sha256(np.ascontiguousarray(read).data).hexdigest())
        return read


def open_store(location: str | Path | GraphStore) -> GraphStore:
    """A graph store: a dataset's name, a path, or an fsspec URL. Nothing is read before it is asked for.

    Args:
        location: a store that is open already is given back.

    Raises:
        DatasetError: there is none, it is damaged, unfinished or of an unknown format.
    """
    if isinstance(location, GraphStore):
        return location
    if not isinstance(location, str | Path):
        raise DatasetError(
            f"a {type(location).__name__} is no graph store; graphprep.from_pyg and the like make one of it"
        )
    return GraphStore(find_store(str(location)))


def _chunk_files(array: zarr.Array[Any]) -> set[str]:
    """The names of the files that hold an array, from the store on."""
    rest = "/0" * (array.ndim - 1)
    return {f"{array.path}/c/{number}{rest}" for number in range(_num_files(array))}


def _num_files(array: zarr.Array[Any]) -> int:
    """How many files hold an array, by its shape."""
    return -(-array.shape[0] // (array.shards or array.chunks)[0]) if array.size else 0


def absent_files(array: zarr.Array[Any]) -> tuple[int, int]:
    """How many of the files of an array are not there, and how many there should be."""
    files = _num_files(array)
    return files - array.nchunks_initialized // (array.shards[0] // array.chunks[0] if array.shards else 1), files


def _absurd(array: zarr.Array[Any]) -> str | None:
    """What the metadata of an array claim that no store has; Zarr would count the files and fill the chunks."""
    if (files := _num_files(array)) > MOST_FILES:
        return f"the shape {list(array.shape)}, so {files:,} files"
    if (size := math.prod(array.chunks) * array.dtype.itemsize) > memory.available():
        return f"chunks of {progress.format_bytes(size)}, more than fit into memory"
    return None


def _malformed(attributes: Mapping[str, Any]) -> str | None:
    """The name of a root attribute that is not of the form which a reader relies on, None if there is none."""
    name = ""
    try:
        for name in ("node_types", "edge_types"):
            if not all(type(count) is int and count >= 0 for count in attributes[name].values()):
                return name
        kinds = [EdgeType.from_key(key) for key in attributes["edge_types"]]
        if not {end for kind in kinds for end in (kind.source, kind.destination)} <= attributes["node_types"].keys():
            return name
        name = "edge_counts"
        if attributes[name].keys() != attributes["edge_types"].keys():
            return name
        name = "arrays"
        for written in attributes[name].values():
            shape, _, sha256 = written["shape"], np.dtype(written["dtype"]), written["sha256"]
            if not (shape and all(type(side) is int and side >= 0 for side in shape) and len(sha256) == 64):
                return name
        name = "source"
        attributes[name].get("reader")
    except (TypeError, ValueError, AttributeError, LookupError, GraphprepError):
        return name
    return None
