"""OGB's raw layout in .npz, inside the downloaded zip; ogbn-papers100M and ogbl-vessel have it.

    raw/data.npz            edge_index [2, E], num_nodes_list [1], num_edges_list [1], node_feat, node_NAME, edge_NAME
    raw/node-label.npz      node_label [N, tasks], NaN for none

With several types each array is a file of its own with one member a type (a triplet is joined by ___):

    raw/edge_index_dict.npz, num_nodes_dict.npz, num_edges_dict.npz, node_NAME.npz, edge_NAME.npz, node-label.npz

The arrays of ogbn-papers100M are 83 GB. None is ever whole in memory: they go from the archive to a scratch file, piece
by piece, and are mapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.datasets.formats.large_arrays import stored_array
from graphprep.datasets.readers.ogb.csv_member import require_rows
from graphprep.datasets.readers.ogb.layout import Array, Layout, node_type_name, only_one
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

CHUNK_EDGES = 1 << 21
NPY = ".npy"


class BinaryLayout(Layout):
    """With one type of nodes."""

    def __init__(self, path: Path, top: str) -> None:
        """
        Args:
            path: the zip archive.
            top: the folder in it that holds raw/.

        Raises:
            DatasetError: the counts, or the lists of types, are missing or wrong.
        """
        self.path, self.raw, self.folder = path, f"{top}/raw", path.parent
        self._edge_index: dict[EdgeType, Array] = {}
        self._read_types()

    def node_names(self, node_type: str) -> tuple[str, ...]:
        return self._names("node_", node_type)

    def edge_names(self, edge_type: EdgeType) -> tuple[str, ...]:
        return self._names("edge_", "___".join(edge_type))

    def node_array(self, node_type: str, name: str) -> Array:
        rows = self.node_counts[node_type]
        return self._rows(*self._place(f"node_{name}", node_type), rows, "nodes")

    def edge_array(self, edge_type: EdgeType, name: str, repeat: int) -> Array:
        rows = self.edge_counts[edge_type]
        return self._rows(*self._place(f"edge_{name}", "___".join(edge_type)), rows, "edges", repeat)

    def labels(self, node_type: str) -> Array | None:
        name = f"{self.raw}/node-label.npz"
        key = self._label_key(node_type)
        with Archive(self.path) as archive:
            if name not in archive:
                return None
        with self._npz(name) as arrays:
            if f"{key}{NPY}" not in arrays:
                return None
            table = stored_array(arrays, f"{key}{NPY}", self.folder)
        require_rows(name, len(table) if table.ndim else 0, self.node_counts[node_type], "nodes")
        return table.reshape(len(table), -1)

    def endpoints(self, edge_type: EdgeType) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        index = self._index(edge_type)
        for start in range(0, index.shape[1], CHUNK_EDGES):
            run = index[:, start : start + CHUNK_EDGES]
            yield run[0].astype(np.int64), run[1].astype(np.int64)

    def _index(self, edge_type: EdgeType) -> Array:
        """Both ends of all edges, integers [2, E]; kept, since edges are read more than once."""
        if edge_type not in self._edge_index:
            member, key = self._place("edge_index", "___".join(edge_type))
            with self._npz(member) as arrays:
                index = stored_array(arrays, key, self.folder)
            if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
                raise DatasetError(
                    f"its array {key} has shape {index.shape} and dtype {index.dtype}, not [2, E] of ids"
                )
            self._edge_index[edge_type] = index
        return self._edge_index[edge_type]

    def _rows(self, member: str, key: str, rows: int, what: str, repeat: int = 1) -> Array:
        with self._npz(member) as arrays:
            table = stored_array(arrays, key, self.folder, repeat=repeat, finite=True)
        require_rows(f"{member}, array {key},", len(table) // repeat if table.ndim else 0, rows, what)
        return table.reshape(len(table), -1)

    @contextmanager
    def _npz(self, name: str) -> Iterator[Archive]:
        with Archive(self.path) as archive, archive.searchable(name, self.folder) as stream, Archive(stream) as arrays:
            yield arrays

    def _read_types(self) -> None:
        member = f"{self.raw}/data.npz"
        with self._npz(member) as arrays:
            self._keys = tuple(name.removesuffix(NPY) for name in arrays.names)
            nodes, edges = (stored_array(arrays, f"num_{what}_list{NPY}", self.folder) for what in ("nodes", "edges"))
        self.node_counts = {HOMOGENEOUS_NODE: only_one(nodes, f"its member {member}", "nodes")}
        self.edge_counts = {HOMOGENEOUS_EDGE: only_one(edges, f"its member {member}", "edges")}

    def _names(self, prefix: str, key: str) -> tuple[str, ...]:  # noqa: ARG002
        return tuple(
            name.removeprefix(prefix) for name in self._keys if name.startswith(prefix) and name != "edge_index"
        )

    def _place(self, name: str, key: str) -> tuple[str, str]:  # noqa: ARG002
        return f"{self.raw}/data.npz", f"{name}{NPY}"

    def _label_key(self, node_type: str) -> str:  # noqa: ARG002
        return "node_label"


class TypedBinaryLayout(BinaryLayout):
    """With several types."""

    def _read_types(self) -> None:
        with Archive(self.path) as archive:
            files = [PurePosixPath(name).name for name in archive.names if str(PurePosixPath(name).parent) == self.raw]
        plain = {name.removesuffix(".npz") for name in files if name.endswith(".npz")}
        self._files = {name: self._keys_of(name) for name in sorted(plain) if name.startswith(("node_", "edge_"))}
        counts = {what: self._counts(what) for what in ("nodes", "edges")}
        self.node_counts = {node_type_name(key): count for key, count in counts["nodes"].items()}
        self.edge_counts = {}
        for key, count in sorted(counts["edges"].items()):
            parts = key.split("___")
            if len(parts) != 3 or {parts[0], parts[2]} - self.node_counts.keys():
                raise DatasetError(f"its edge type {key!r} does not join two of its node types")
            self.edge_counts[EdgeType(*(node_type_name(part) for part in parts))] = count

    def _keys_of(self, name: str) -> tuple[str, ...]:
        with self._npz(f"{self.raw}/{name}.npz") as arrays:
            return tuple(member.removesuffix(NPY) for member in arrays.names)

    def _counts(self, what: str) -> dict[str, int]:
        member = f"{self.raw}/num_{what}_dict.npz"
        with self._npz(member) as arrays:
            return {
                name.removesuffix(NPY): only_one(stored_array(arrays, name, self.folder), f"its member {member}", what)
                for name in arrays.names
            }

    def _names(self, prefix: str, key: str) -> tuple[str, ...]:
        return tuple(
            name.removeprefix(prefix).removesuffix("_dict")
            for name, keys in self._files.items()
            if name.startswith(prefix) and key in keys and name != "edge_index_dict"
        )

    def _place(self, name: str, key: str) -> tuple[str, str]:
        file = name if name in self._files else f"{name}_dict"
        return f"{self.raw}/{file}.npz", f"{key}{NPY}"

    def _label_key(self, node_type: str) -> str:
        return node_type
