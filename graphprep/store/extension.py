"""A store and the new nodes and edges of a user's files, put together as the graph of a new store.

Nodes of the store keep their rows; new ones follow in the order of the table that lists them, else in ascending order
of their ids. Files name old and new nodes by the ids that they have in the store, and by row numbers where it has none.
The edges are those of the store, then the new ones, sorted and treated together as those of the store were. So the new
store has the arrays that an import of all files together gives, where that gives the nodes the same order.

Arrays of nodes are copied by ranges of rows; what is larger than memory goes through a file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.row_ranges import row_ranges
from graphprep.core.types import EdgeChunk, EdgeTable, EdgeType, Ids, NodeTable, RawGraph, Rows, Treatment, row_bytes
from graphprep.datasets.importing import tables
from graphprep.datasets.importing.added_ids import AddedIds
from graphprep.datasets.importing.columns.edge_table import FEATURES, LABEL, IdKinds
from graphprep.datasets.importing.columns.refit import refitted_classes, refitted_features
from graphprep.datasets.importing.edges.edge_formats import WHOLE_GRAPH, format_of
from graphprep.datasets.importing.import_request import EdgeFiles, ImportRequest
from graphprep.datasets.importing.node_files import NodeData, NodeFiles, load_mask, load_nodes
from graphprep.datasets.importing.node_ids import ListedIds, NodeIds, Original, RowNumbers, require_same_kind
from graphprep.datasets.importing.spool import KEPT_BYTES, Spool
from graphprep.datasets.importing.table_files import word_array
from graphprep.datasets.importing.typed_edges import TypedEdges, scan
from graphprep.datasets.importing.user_files import open_edge_files
from graphprep.errors import DatasetError, UsageError
from graphprep.store.store import BYTES_AT_A_TIME, EDGES_AT_A_TIME, GraphStore
from graphprep.system import home, memory, progress
from graphprep.system.executor import Executor
from graphprep.system.files.scratch import RowSink

Array = NDArray[Any]
EXTENDS = "extends"
"""in the attribute `source` of a store: the store that it was made from, with that one's own `source`"""
KEPT_SHARE = 4
"""parsed edges may take this part of the memory that is free, as in an import"""
IDS = "original_id"
MASKS = ("train_mask", "val_mask", "test_mask")
OF_FILES = {"x": "--features", "y": "--labels", "time": "--node-times"}
"""the option that gives an array of nodes"""


def origin_of(store: GraphStore) -> dict[str, Any]:
    """What a store that extends this one keeps of it, in `source`, for those who compare the two."""
    return {
        "dataset": store.name,
        "key": store.key,
        "node_types": store.num_nodes,
        "edge_types": {kind.key: count for kind, count in store.num_edges.items()},
        "source": store.attributes["source"],
    }


def extended(
    store: GraphStore, request: ImportRequest, *, memory_limit: int | None = None, executor: Executor | None = None
) -> RawGraph:
    """The graph of a store with new nodes and edges.

    Args:
        store: stays as it is; all that is read of it is compared with its checksums.
        request: the files of the new nodes and edges. Its treatment is that of the store, or not given.
        memory_limit, executor: as for `user_files.read_files`.

    Raises:
        DatasetError: a file is not what it should be, or does not fit the store.
        UsageError: options that do not go together, or another treatment than that of the store.
    """
    with memory.limited(memory_limit):
        return _Extension(store, request).graph(memory_limit, executor)


@dataclass(frozen=True, slots=True)
class _Extension:
    store: GraphStore
    request: ImportRequest

    def graph(self, memory_limit: int | None, executor: Executor | None) -> RawGraph:
        store = self.store
        self._check_types()
        treatments = self._treatments()
        known = {name: self._known_ids(name) for name in store.num_nodes}
        words = {name: ids is not None and ids.dtype.kind in "UT" for name, ids in known.items()}
        request = replace(self.request, ids="words") if all(words.values()) else self.request
        data = {
            name: self._load(name, files, words=words[name] or request.ids == "words")
            for name, files in request.nodes.items()
        }
        counts = {name: self._count(name, of_type, known[name]) for name, of_type in data.items()}
        kinds: IdKinds = {name: "words" if are_words else "numbers" for name, are_words in words.items()}
        edges = open_edge_files(request, counts, executor, kinds)
        for typed in edges:
            self._take_counts(counts, known, typed)
        ids = {
            name: self._ids(name, data.get(name, NodeData()), counts.get(name), known[name]) for name in store.num_nodes
        }
        spool = Spool(min(KEPT_BYTES, memory.budget(memory_limit) // KEPT_SHARE))
        with progress.task("reading the edges", unit="edges") as task:
            scanned = [scan(typed, ids, spool, task, executor) for typed in edges]
        lines = [f"{file.path.name}: {file.read_as()}" for typed in edges for file in typed.files]
        nodes: dict[str, NodeTable] = {}
        for name, count in store.num_nodes.items():
            total, original = ids[name].close()
            nodes[name] = self._table(name, data.get(name, NodeData()), total, original, lines)
            named = "by row numbers" if original is None else "by their ids"
            lines.append(f"nodes {name}: {count:,} of {store.name} and {total - count:,} new ones, named {named}")
        new_edges = [
            self._refitted(typed, table)
            for typed, part in zip(edges, scanned, strict=True)
            for table in part.tables(ids)
        ]
        store.require_unchanged("edges/")
        return RawGraph(
            nodes=nodes,
            edges=tuple(
                self._edges(kind, [table for table in new_edges if table.type == kind], treatments[kind], lines)
                for kind in store.num_edges
            ),
            treatment=Treatment(**store.attributes["treatment"]),
            notes={
                **{name: note for name, note in store.attributes.get("notes", {}).items() if name != "anyway"},
                "read_as": lines,
            },
        )

    def _check_types(self) -> None:
        """
        Raises:
            DatasetError: the store has no such types.
            UsageError: a file is no list of edges.
        """
        store = self.store
        for part in self.request.edges:
            if part.table is not None and part.table.is_foreign_key and part.table.source_column is None:
                raise UsageError(
                    f"edges {part.type.key} count the rows of a table from 0, where with --extend new rows follow old "
                    "ones; give the table a key"
                )
            for path in () if part.table is not None else part.paths:
                if format_of(path, part.format) in WHOLE_GRAPH:
                    raise UsageError(
                        f"{path} is a whole graph, but --extend takes files of new edges, and tables of new nodes"
                    )
        for name in self.request.nodes:
            if name not in store.num_nodes:
                raise DatasetError(
                    f"{store.name} has nodes of the types {', '.join(store.num_nodes)} and none called {name!r}; name "
                    "its types in a schema (--schema)"
                )
        for part in self.request.edges:
            for kind in _types_of(part):
                if kind not in store.num_edges:
                    known = ", ".join(other.key for other in store.num_edges)
                    raise DatasetError(f"{store.name} has edges of the types {known} and none called {kind.key}")

    def _treatments(self) -> dict[EdgeType, Treatment]:
        """What is done to the edges of each type.

        Raises:
            UsageError: the request has another treatment, or that of the store cannot be done to more edges.
        """
        store, notes = self.store, self.store.attributes.get("notes", {})
        own = notes.get("treatments", {})
        found = {kind: Treatment(**own.get(kind.key, store.attributes["treatment"])) for kind in store.num_edges}
        for part in self.request.edges:
            requested = part.treatment or self.request.treatment
            for kind in _types_of(part):
                treatment = found[kind]
                if requested not in (Treatment(), treatment):
                    raise UsageError(
                        f"new edges {kind.key} are treated as those of {store.name} were ({_words_of(treatment)}); "
                        "leave other treatments (undirected, duplicates, self-loops) away"
                    )
                merged = treatment.duplicates == "mean" or (treatment.undirected and treatment.duplicates == "sum")
                if merged:
                    raise UsageError(
                        f"edges {kind.key} of {store.name} were merged ({_words_of(treatment)}), and it does not keep "
                        "how many there were, so none can be added; import all files together"
                    )
        return found

    def _known_ids(self, name: str) -> Original | None:
        """The ids of a type's nodes by row; None for row numbers."""
        ids = self.store.original_ids(name)
        if ids is None or ids.numbers is not None:
            return None if ids is None else ids.numbers
        return word_array(ids.array().tolist())

    def _load(self, name: str, files: NodeFiles, *, words: bool) -> NodeData:
        """The arrays of the new nodes; `num_nodes` of the request counts all."""
        added = None
        if files.num_nodes is not None:
            added = files.num_nodes - self.store.num_nodes[name]
            if added < 0:
                raise UsageError(
                    f"--num-nodes {files.num_nodes} is fewer than the {self.store.num_nodes[name]:,} nodes that "
                    f"{self.store.name} has; give the number of all nodes, old and new"
                )
        data = load_nodes(replace(files, num_nodes=added or None), words=words)
        origin = next(iter(data.origin.values()), name)
        return replace(data, arrays=self._refit(data.arrays, ("x", "y"), data.described, self._described(name), origin))

    def _described(self, kind: str, prefix: str = "") -> dict[str, Any]:
        """How features and labels of a type were made, where that is known; `prefix` is edge_ for an edge type."""
        notes = self.store.attributes.get("notes", {})
        found = {}
        for fact in ("features", "classes"):
            by_type = notes.get(f"{prefix}{fact}")
            found[fact] = by_type.get(kind) if isinstance(by_type, dict) else by_type
        return found

    def _refitted(self, typed: TypedEdges, table: EdgeTable) -> EdgeTable:
        """New edges, with features and labels made as those of the store."""
        file, before = typed.files[0], self._described(typed.type.key, "edge_")
        arrays = self._refit(table.attributes, (FEATURES, LABEL), file.described(), before, str(file.path))
        return replace(table, attributes=arrays)

    def _refit(
        self,
        arrays: Mapping[str, Array],
        names: tuple[str, str],
        now: Mapping[str, Any],
        before: Mapping[str, Any],
        origin: str,
    ) -> dict[str, Array]:
        """New arrays, with the features and labels of these names made as those of the store."""
        made, (x, y) = dict(arrays), names
        try:
            if x in made:
                made[x] = refitted_features(made[x], now.get("features"), before["features"], self.store.name)
            if y in made:
                made[y] = refitted_classes(made[y], now.get("classes"), before["classes"], self.store.name)
        except DatasetError as problem:
            raise DatasetError(f"{origin} cannot be used: {problem}") from problem
        return made

    def _count(self, name: str, data: NodeData, known: Original | None) -> int | None:
        """How many nodes there will be, where ids are row numbers and a file or a person says it."""
        files = self.request.nodes[name]
        added = 0 if files.num_nodes == self.store.num_nodes[name] else data.known_count()
        if data.ids is not None or added is None:
            return None
        if known is not None:
            origin = next(iter(data.origin.values()), "--num-nodes")
            raise DatasetError(
                f"{origin} says how many new nodes of the type {name!r} there are but not their ids, which nodes of "
                f"{self.store.name} have; give a table with a column of ids (--id-column)"
            )
        return self.store.num_nodes[name] + added

    def _take_counts(
        self, counts: dict[str, int | None], known: Mapping[str, Original | None], typed: TypedEdges
    ) -> None:
        """Add how many nodes the files of edges say that there are."""
        for file in typed.files:
            if arrays := file.node_arrays():
                raise DatasetError(
                    f"{file.path} has arrays of nodes ({', '.join(arrays)}) beside the edges; with --extend give those "
                    "of the new nodes in files of their own"
                )
            pairs = ((typed.type.source, file.num_sources), (typed.type.destination, file.num_destinations))
            for name, count in pairs:
                if count is None or count == counts.get(name):
                    continue
                if known[name] is not None:
                    raise DatasetError(
                        f"{file.path} says that there are {count:,} nodes, so its ids are row numbers, but nodes of "
                        f"{self.store.name} have ids of their own; name these in a table of edges"
                    )
                if counts.get(name) is not None or count < self.store.num_nodes[name]:
                    expected = counts.get(name) or f"at least {self.store.num_nodes[name]:,}"
                    raise DatasetError(
                        f"{file.path} says that there are {count:,} nodes of the type {name!r}, but there are "
                        f"{expected}, those of {self.store.name} among them"
                    )
                counts[name] = count

    def _ids(self, name: str, data: NodeData, count: int | None, known: Original | None) -> NodeIds:
        """What the ids of a type mean."""
        whose = self.store.name
        if count is not None:
            return RowNumbers(count)
        known_ids = np.arange(self.store.num_nodes[name]) if known is None else known
        if data.ids is None:
            return AddedIds(known_ids, whose)
        table, new = data.ids.table, data.ids.ids
        try:
            require_same_kind(new, known_ids, whose)
        except DatasetError as problem:
            raise DatasetError(f"{table} cannot be used: {problem}") from problem
        if known_ids.dtype.kind in "UT":
            old_words, new_words = known_ids.tolist(), new.tolist()
            twice = sorted(set(old_words).intersection(new_words))
            together = word_array([*old_words, *new_words])
        else:
            twice = np.intersect1d(new, known_ids).tolist()
            together = np.concatenate([known_ids, new])
        if twice:
            raise DatasetError(
                f"{table} lists the node {twice[0]}, which {whose} has already ({len(twice):,} such nodes); it lists "
                "new nodes only, and those that are there keep what they have"
            )
        return ListedIds(together, f"{table} and is not in {whose}")

    def _table(self, name: str, data: NodeData, total: int, original: Original | None, lines: list[str]) -> NodeTable:
        """All arrays of a type, old rows first."""
        store, count = self.store, self.store.num_nodes[name]
        names = [array for array in store.node_arrays(name) if array != IDS]
        new: dict[str, Array] = {**data.arrays, **self._masks(name, data, count, total)}
        for array, rows in new.items():
            if array not in names:
                raise DatasetError(
                    f"{data.origin.get(array, data.masks.get(array, array))} gives {array} of the new nodes, which "
                    f"{name} nodes of {store.name} do not have; leave it away, or import all files together"
                )
            if len(rows) != total - count:
                raise DatasetError(
                    f"{data.origin.get(array, array)} has {len(rows):,} rows of {array} for {total - count:,} new nodes"
                )
        made: dict[str, Array] = {}
        for array in names:
            stored = store.node_array(name, array)
            assert stored is not None
            if array not in new:
                new[array] = self._absent(name, array, stored, total - count, lines)
            made[array] = self._appended(name, array, stored, new[array], str(data.origin.get(array, array)))
        fields = {array: rows for array, rows in made.items() if array in ("x", "y", *MASKS)}
        more = {array: rows for array, rows in made.items() if array not in fields}
        return NodeTable(num_nodes=total, original_id=original, more=more, **fields)

    def _masks(self, name: str, data: NodeData, count: int, total: int) -> dict[str, Array]:
        """The masks of the new nodes, as many splits as the store has; lists name rows of the new store, or ids."""
        found: dict[str, Array] = {array: rows for array, rows in data.arrays.items() if array in MASKS}
        for array, path in data.masks.items():
            listed = None if data.ids is not None else tables.load_mask_array(path, data.options)
            if listed is None or tables.is_mask(listed, total - count):
                found[array] = load_mask(path, total - count, data)
                continue
            rows = load_mask(path, total, data)
            if rows[:count].any():
                raise DatasetError(
                    f"{path} names the node {int(rows[:count].any(axis=1).argmax())}, which {self.store.name} has "
                    "already and which keeps its split; name new nodes only"
                )
            found[array] = rows[count:]
        for array, rows in found.items():
            stored = self.store.node_array(name, array)
            if stored is not None and rows.shape[1] == 1:
                found[array] = np.repeat(rows, stored.shape[1], axis=1)
        return found

    def _absent(self, name: str, array: str, stored: Rows, added: int, lines: list[str]) -> Array:
        """What new nodes have of an array that no file gives."""
        shape = (added, *stored.shape[1:])
        if array in MASKS or not added:
            if added and array == "train_mask":
                lines.append(f"nodes {name}: new ones are in no split; --train, --val, --test or --split-column say so")
            return np.zeros(shape, stored.dtype)
        if array == "y" and stored.dtype.kind != "b":
            lines.append(f"nodes {name}: new ones have no labels; --labels gives them")
            return np.full(shape, np.nan if stored.dtype.kind == "f" else -1, stored.dtype)
        if array in OF_FILES:
            raise DatasetError(
                f"{name} nodes of {self.store.name} have {array}, and no file gives it of the {added:,} new ones; give "
                f"it with {OF_FILES[array]}"
            )
        raise DatasetError(
            f"{name} nodes of {self.store.name} have an array {array}, which no file of an import can give of the "
            f"{added:,} new ones; make the store of all nodes anew"
        )

    def _appended(self, name: str, array: str, stored: Rows, new: Array, origin: str) -> Array:
        """The rows of the store, then new ones."""
        if (new.dtype, new.shape[1:]) != (stored.dtype, stored.shape[1:]):
            raise DatasetError(
                f"{origin} has {array} of {_described(new)} for new nodes, but {name} nodes of {self.store.name} have "
                f"{_described(stored)}; give the same columns and dtype"
            )
        folder = home.home()
        folder.mkdir(parents=True, exist_ok=True)
        sink = RowSink((stored.shape[0] + len(new), *stored.shape[1:]), stored.dtype, folder)
        at_once = max(1, BYTES_AT_A_TIME // row_bytes(stored))
        for _, rows in self.store.rows(name, array, at_once):
            sink.add(rows)
        for start in range(0, len(new), at_once):
            sink.add(new[start : start + at_once])
        return sink.array()

    def _edges(self, kind: EdgeType, added: Sequence[EdgeTable], treatment: Treatment, lines: list[str]) -> EdgeTable:
        """The edges of one type, those of the store first."""
        store, names = self.store, self.store.edge_arrays(kind)
        added = [table for table in added if table.num_edges]
        are_weighted = any(_is_weighted(table) for table in added)
        if added and store.is_weighted(kind) and not are_weighted:
            raise DatasetError(
                f"edges {kind.key} of {store.name} have weights, and the new ones have none; give them with --weights "
                "or --weight COLUMN"
            )
        if are_weighted and not store.is_weighted(kind):
            lines.append(f"edges {kind.key}: those of {store.name} have no weights, and get the weight 1")
        for table in added:
            if absent := sorted({*names} - {*table.attributes}):
                how = "give it with --edge-times" if absent[0] == "time" else "files of an import cannot give it"
                raise DatasetError(
                    f"edges {kind.key} of {store.name} have {absent[0]}, and the new ones have none; {how}"
                )
            if more := sorted({*table.attributes} - {*names}):
                raise DatasetError(
                    f"the new edges {kind.key} have {more[0]}, which those of {store.name} do not have; leave it away"
                )
        weighted = are_weighted or store.is_weighted(kind)
        return EdgeTable(
            type=kind,
            chunks=lambda: itertools.chain(self._stored_edges(kind, weighted), *(table.chunks() for table in added)),
            release=partial(_release, added),
            num_edges=store.num_edges[kind] + sum(table.num_edges or 0 for table in added),
            attributes={name: self._edge_array(kind, name, added) for name in names},
            treatment=treatment,
        )

    def _stored_edges(self, kind: EdgeType, weighted: bool) -> Iterator[EdgeChunk]:
        for start, stop in row_ranges(self.store.indptr(kind), EDGES_AT_A_TIME):
            rows = self.store.csr_rows(kind, start, stop)
            src: Ids = rows.indices  # type: ignore[assignment]
            dst = np.repeat(np.arange(start, stop, dtype=src.dtype), np.diff(rows.indptr))
            weight = np.ones(rows.num_edges, np.float32) if weighted and rows.data is None else rows.data
            yield EdgeChunk(src, dst, weight)

    def _edge_array(self, kind: EdgeType, name: str, added: Sequence[EdgeTable]) -> Array:
        stored = self.store.edge_array(kind, name)
        new: list[Array] = [table.attributes[name] for table in added]
        for rows in new:
            if (rows.dtype, rows.shape[1:]) != (stored.dtype, stored.shape[1:]):
                raise DatasetError(
                    f"{name} of the new edges {kind.key} is of {_described(rows)}, but those of {self.store.name} have "
                    f"{_described(stored)}; give the same columns and dtype"
                )
        sink = RowSink((len(stored) + sum(map(len, new)), *stored.shape[1:]), stored.dtype, home.home())
        at_once = max(1, BYTES_AT_A_TIME // row_bytes(stored))
        for start in range(0, len(stored), at_once):
            sink.add(stored[start : start + at_once])
        for rows in new:
            sink.add(rows)
        return sink.array()


def _types_of(part: EdgeFiles) -> list[EdgeType]:
    """The edge type of files, and that of their reverses."""
    kind = part.type
    reverse = [] if part.reverse is None else [EdgeType(kind.destination, part.reverse, kind.source)]
    return [kind, *reverse]


def _release(added: Sequence[EdgeTable]) -> None:
    for table in added:
        table.release()


def _is_weighted(table: EdgeTable) -> bool:
    return any(chunk.weight is not None for chunk in itertools.islice(table.chunks(), 1))


def _described(rows: Rows) -> str:
    return f"{rows.dtype} [{', '.join(['N', *map(str, rows.shape[1:])])}]"


def _words_of(treatment: Treatment) -> str:
    direction = "undirected" if treatment.undirected else "directed"
    return f"{direction}, duplicates {treatment.duplicates}, self-loops {treatment.self_loops}"
