"""OGB's raw layout in gzipped CSV, inside the downloaded zip; most datasets have it.

    raw/num-node-list, num-edge-list        one count a graph, and there is one graph
    raw/edge                                source,destination
    raw/node-feat, edge-feat                optional
    raw/node_NAME, edge_NAME                the additional files of OGB's table
    raw/node-label                          one column a task

With several types:

    raw/num-node-dict                       a line of node types, a line of counts
    raw/triplet-type-list                   source,relation,destination
    raw/relations/S___R___D/                edge, num-edge-list, edge-feat, edge_NAME
    raw/node-feat/TYPE/                     node-feat, node_NAME
    raw/nodetype-has-label                  a line of node types, a line of True and False
    raw/node-label/TYPE/node-label

In ogbn-proteins the file of node_species is called species.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.datasets.readers.ogb.csv_member import CsvMember, record, require_rows, words
from graphprep.datasets.readers.ogb.layout import FEATURES, Array, Layout, count_of, node_type_name, only_one
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

END = ".csv.gz"
TRUTH = {"True": True, "False": False}


class TextLayout(Layout):
    """With one type of nodes."""

    def __init__(self, path: Path, top: str, node_files: tuple[str, ...], edge_files: tuple[str, ...]) -> None:
        """
        Args:
            path: the zip archive.
            top: the folder in it that holds raw/.
            node_files, edge_files: the additional files, as OGB's table has them.

        Raises:
            DatasetError: the counts, or the lists of types, are missing or wrong.
        """
        self.path, self.raw = path, f"{top}/raw"
        self._node_files, self._edge_files = node_files, edge_files
        self._labelled: frozenset[str] = frozenset()
        """the types that the archive says have labels"""
        with Archive(path) as archive:
            self._members = frozenset(archive.names)
            self._read_types(archive)

    def node_names(self, node_type: str) -> tuple[str, ...]:
        names = (FEATURES, *(name.removeprefix("node_") for name in self._node_files))
        return tuple(name for name in names if self._node_member(node_type, name) in self._members)

    def edge_names(self, edge_type: EdgeType) -> tuple[str, ...]:
        names = (FEATURES, *(name.removeprefix("edge_") for name in self._edge_files))
        return tuple(name for name in names if self._edge_member(edge_type, name) in self._members)

    def node_array(self, node_type: str, name: str) -> Array:
        with Archive(self.path) as archive:
            member = CsvMember(archive, self._node_member(node_type, name))
            return member.array(self.node_counts[node_type], self.path.parent, what="nodes")

    def edge_array(self, edge_type: EdgeType, name: str, repeat: int) -> Array:
        with Archive(self.path) as archive:
            member = CsvMember(archive, self._edge_member(edge_type, name))
            return member.array(self.edge_counts[edge_type], self.path.parent, what="edges", repeat=repeat)

    def labels(self, node_type: str) -> Array | None:
        name = self._label_member(node_type)
        if name not in self._members and node_type not in self._labelled:
            return None
        with Archive(self.path) as archive:
            pieces = list(CsvMember(archive, name).pieces(np.float64, gaps=True))
        table = np.concatenate(pieces) if pieces else np.zeros((0, 1))
        require_rows(name, len(table), self.node_counts[node_type], "nodes")
        return table

    def endpoints(self, edge_type: EdgeType) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        with Archive(self.path) as archive:
            member = CsvMember(archive, f"{self._edge_folder(edge_type)}/edge{END}")
            member.require_columns(2)
            for piece in member.pieces(np.int64):
                yield np.ascontiguousarray(piece[:, 0]), np.ascontiguousarray(piece[:, 1])

    def _read_types(self, archive: Archive) -> None:
        self.node_counts = {HOMOGENEOUS_NODE: _count(archive, f"{self.raw}/num-node-list{END}", "nodes")}
        self.edge_counts = {HOMOGENEOUS_EDGE: _count(archive, f"{self.raw}/num-edge-list{END}", "edges")}

    def _node_folder(self, node_type: str) -> str:  # noqa: ARG002
        return self.raw

    def _edge_folder(self, edge_type: EdgeType) -> str:  # noqa: ARG002
        return self.raw

    def _label_member(self, node_type: str) -> str:  # noqa: ARG002
        return f"{self.raw}/node-label{END}"

    def _node_member(self, node_type: str, name: str) -> str:
        folder = self._node_folder(node_type)
        if name == FEATURES:
            return f"{folder}/node-feat{END}"
        plain = f"{folder}/{name}{END}"
        return plain if name == "species" and plain in self._members else f"{folder}/node_{name}{END}"

    def _edge_member(self, edge_type: EdgeType, name: str) -> str:
        return f"{self._edge_folder(edge_type)}/edge{'-' if name == FEATURES else '_'}{name}{END}"


class TypedTextLayout(TextLayout):
    """With several types."""

    def _read_types(self, archive: Archive) -> None:
        counts = record(archive, f"{self.raw}/num-node-dict{END}", int)
        self.node_counts = {
            node_type_name(word): count_of(count, f"nodes of type {word}") for word, count in counts.items()
        }
        triplets = words(archive, f"{self.raw}/triplet-type-list{END}")
        self.edge_counts = {}
        for triplet in sorted(triplets):
            if len(triplet) != 3:
                raise DatasetError(f"its list of edge types has the line {triplet}, not source, relation, destination")
            edge_type = EdgeType(*(node_type_name(word) for word in triplet))
            for end in (edge_type.source, edge_type.destination):
                if end not in self.node_counts:
                    raise DatasetError(f"its edge type {edge_type.key} has the node type {end}, which is not counted")
            if edge_type in self.edge_counts:
                raise DatasetError(f"its list of edge types has {edge_type.key} twice")
            name = f"{self._edge_folder(edge_type)}/num-edge-list{END}"
            self.edge_counts[edge_type] = _count(archive, name, f"edges {edge_type.key}")
        labelled = f"{self.raw}/nodetype-has-label{END}"
        flags = record(archive, labelled, TRUTH.__getitem__) if labelled in self._members else {}
        self._labelled = frozenset(node_type for node_type, has_label in flags.items() if has_label)
        if unknown := self._labelled - self.node_counts.keys():
            raise DatasetError(f"its labels are of the node type {min(unknown)}, which is not counted")

    def _node_folder(self, node_type: str) -> str:
        return f"{self.raw}/node-feat/{node_type}"

    def _edge_folder(self, edge_type: EdgeType) -> str:
        return f"{self.raw}/relations/{'___'.join(edge_type)}"

    def _label_member(self, node_type: str) -> str:
        return f"{self.raw}/node-label/{node_type}/node-label{END}"


def _count(archive: Archive, name: str, what: str) -> int:
    return only_one(CsvMember(archive, name).column(), f"its member {name}", what)
