"""Events from edges with times, in any format and table that edges are imported from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import EventReader, EventRows, NodesOfEvents
from graphprep.datasets.formats.edge_weights import as_float32
from graphprep.datasets.importing.columns.edge_table import FEATURES, LABEL
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeRows
from graphprep.datasets.importing.events.two_kinds import TwoKinds
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import NodeData, load_nodes
from graphprep.datasets.importing.typed_edges import codes_of
from graphprep.datasets.importing.user_files import open_edge_files
from graphprep.datasets.importing.user_graph import ids_of
from graphprep.errors import DatasetError, UsageError

Array = NDArray[Any]


class EdgeEvents(EventReader):
    """Files of edges with times; weights are a feature of the events, and so are the features of a table."""

    def __init__(self, request: ImportRequest, *, words_unless_numbers: bool = False) -> None:
        """Open the files.

        Args:
            request: of one edge type.
            words_unless_numbers: whether ids of text are words where the first rows say so.

        Raises:
            DatasetError: a file is not what it should be.
        """
        [part] = request.edges
        if part.table is None:
            part = replace(part, options=replace(part.options, times=True))
        elif part.table.time is None:
            raise DatasetError(f"{part.table.source.called}: events need times; name the column by `time`")
        if words_unless_numbers and request.ids == "auto" and part.paths and not _has_numbers(part.paths[0]):
            request = replace(request, ids="words")
        request = replace(request, edges=(part,))
        names = dict.fromkeys((part.type.source, part.type.destination))
        data = {name: load_nodes(request.nodes[name], words=request.ids == "words") for name in names}
        self._require_features_alone(data)
        counts = {name: None if found.ids is not None else found.known_count() for name, found in data.items()}
        [self._typed] = open_edge_files(request, counts)
        self._ids = {name: ids_of(found) for name, found in data.items()}
        self._data, self._words = data, {name: found.original for name, found in data.items()}
        self.type = part.type
        self._weighted = part.options.weights if part.table is None else part.table.weight is not None
        described = part.table
        self._has_table_features = described is not None and bool(described.features)
        self._has_table_states = described is not None and described.label is not None
        self._table_features: Array | None = None
        self._table_states: Array | None = None
        if self._has_table_features or self._has_table_states:
            self._read_columns()
        of_table = 0 if self._table_features is None else int(self._table_features.shape[1])
        self.num_features, self.has_states = of_table + int(self._weighted), self._table_states is not None

    @staticmethod
    def _require_features_alone(data: Mapping[str, NodeData]) -> None:
        """Refuse what a table says of nodes that event stores do not keep."""
        for name, found in data.items():
            if others := sorted({*found.arrays, *found.masks} - {"x"}):
                what = "labels" if others[0] == "y" else others[0]
                raise UsageError(
                    f"nodes {name} have {what}, and event stores keep their features alone; leave that out"
                )
        widths = {None if (x := found.arrays.get("x")) is None else x.shape[1:] for found in data.values()}
        if len(widths) > 1:
            raise UsageError(
                f"nodes {' and '.join(data)} have features of different widths, and event stores have one row a node; "
                "give both as many columns, or none"
            )

    def _read_columns(self) -> None:
        """Features and labels of a table, which are known when all of it has been read."""
        [file] = self._typed.files
        for _ in file.rows():
            pass
        arrays = file.edge_arrays()
        if FEATURES in arrays:
            x = arrays[FEATURES]
            self._table_features = x if x.ndim == 2 else x.reshape(len(x), -1)
        if LABEL in arrays:
            states = arrays[LABEL]
            if states.ndim != 1 or states.dtype.kind not in "iub":
                raise DatasetError(f"{file.path}: the label of events is not one class; leave `label` out")
            self._table_states = states

    def rows(self) -> Iterator[EventRows]:
        start = 0
        for file in self._typed.files:
            for run in file.rows():
                if run.time is None:
                    raise DatasetError(f"{file.path} has no times; name their column with --time")
                _require_finite(file, run.time, start)
                stop = start + run.num_edges
                yield EventRows(
                    source=codes_of(file, "source", run.src, self._ids[self.type.source]),
                    destination=codes_of(file, "destination", run.dst, self._ids[self.type.destination]),
                    time=run.time,
                    x=self._features(run, start, stop),
                    y=None if self._table_states is None else self._table_states[start:stop].astype(np.int64),
                )
                start = stop

    def _features(self, run: EdgeRows, start: int, stop: int) -> NDArray[np.float32] | None:
        columns: list[NDArray[np.float32]] = []
        if self._weighted:
            weight = np.ones(run.num_edges, np.float32) if run.weight is None else as_float32(run.weight)
            columns.append(weight[:, None])
        if self._table_features is not None:
            columns.append(self._table_features[start:stop].astype(np.float32))
        return np.concatenate(columns, axis=1) if columns else None

    def nodes(self) -> NodesOfEvents:
        source, destination = self.type.source, self.type.destination
        if source != destination:
            of_both = TwoKinds(self._ids[source], self._ids[destination], self.type).nodes()
            first, second = (self._data[name].arrays.get("x") for name in (source, destination))
            if first is None or second is None:
                return of_both
            both = np.concatenate([first, second])
            _require_rows(both, of_both.num_nodes, self._data[source].origin["x"])
            return replace(of_both, x=both)
        data, ids = self._data[source], self._ids[source]
        num_nodes, original = ids.close()
        x = data.arrays.get("x")
        if x is not None:
            _require_rows(x, num_nodes, data.origin["x"])
        original = original if data.original is None else data.original
        return NodesOfEvents(num_nodes=num_nodes, sources=ids.rows, destinations=ids.rows, x=x, original_id=original)

    def read_as(self) -> list[str]:
        return [f"{file.path.name}: {file.read_as()}" for file in self._typed.files]


def _require_rows(x: Array, num_nodes: int, origin: str) -> None:
    if len(x) != num_nodes:
        raise DatasetError(f"{origin} has {len(x):,} rows of features for {num_nodes:,} nodes")


def _require_finite(file: EdgeFile, times: Array, start: int) -> None:
    if times.dtype.kind == "f" and not np.isfinite(times).all():
        row = int(np.flatnonzero(~np.isfinite(times))[0])
        raise DatasetError(
            f"{file.path}: event {start + row + 1} has the time {times[row]}, which is no point in time; remove it"
        )


def _has_numbers(path: Any) -> bool:
    """Whether the ends of the first row are whole numbers."""
    from graphprep.datasets.formats.text_file import first_bytes

    lines = first_bytes(path, 1 << 16).split(b"\n")
    fields: Sequence[bytes] = lines[1].split(b",") if len(lines) > 1 else []
    return len(fields) > 2 and all(field.strip().strip(b'"').isdigit() for field in fields[1:3])
