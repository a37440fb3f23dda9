"""The edges of one type from a table: ends, weights, times, labels and features by the names of their columns.

Rows are read in batches; the ends, weights and times go on as from any file of edges, and labels and features are kept
beside them. Of a foreign key, a row without a value is no edge; in a table of edges it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.datasets.formats.edge_weights import Weights
from graphprep.datasets.importing.columns import values
from graphprep.datasets.importing.columns.features import Feature, FeatureColumns
from graphprep.datasets.importing.columns.node_table import LabelColumn, checked_times, joined_labels, time_line
from graphprep.datasets.importing.columns.table_source import BATCH_ROWS, EDGE_ROWS, Batch, TableSource
from graphprep.datasets.importing.columns.values import ValueFault
from graphprep.datasets.importing.edges.edge_arrays import weights
from graphprep.datasets.importing.edges.edge_columns import roles
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeRows, Words
from graphprep.datasets.importing.spool import Spool
from graphprep.errors import DatasetError
from graphprep.system import progress

Array = NDArray[Any]
IdKinds = MutableMapping[str, Literal["words", "numbers"]]
"""what the ids of each node type are, as far as that is known"""
FEATURES, LABEL = "features", "label"
"""edge arrays of the store"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTableColumns:
    """A table of edges, and the roles of its columns; each is a name, or a number from 1."""

    source: TableSource
    source_column: str | None = None
    """None: found by its name"""
    target_column: str | None = None
    is_foreign_key: bool = False
    """whether each row of a table of nodes points to another by `target_column`; the source is then the row itself,
    by `source_column`, or by its number if there is none"""
    weight: str | None = None
    time: str | None = None
    label: str | None = None
    features: tuple[Feature, ...] = ()

    def to_json(self) -> dict[str, object]:
        """All but the place of the table."""
        names = ("source_column", "target_column", "is_foreign_key", "weight", "time", "label")
        return {
            **self.source.to_json(),
            **{name: getattr(self, name) for name in names},
            "features": [feature.to_json() for feature in self.features],
        }


class TableEdges(EdgeFile):
    """A table of edges, opened."""

    def __init__(self, columns: EdgeTableColumns, type: EdgeType, id_kinds: IdKinds) -> None:
        """Find the columns.

        Args:
            columns: their roles.
            type: of the edges.
            id_kinds: of node types; what is not known is added when the first ids are read.

        Raises:
            DatasetError: the table is not there, or has no such column.
        """
        source = columns.source
        self.path, self.columns, self.type, self._id_kinds = source.path, columns, type, id_kinds
        self._source, self._target = self._ends()
        self._weight = None if columns.weight is None else source.column(columns.weight, "weight")
        self._time = None if columns.time is None else source.column(columns.time, "time")
        self._label = None if columns.label is None else source.column(columns.label, "label")
        self._features = [
            one.model_copy(update={"column": source.column(one.column, "features")}) for one in columns.features
        ]
        ends = [self._source, self._target, self._weight, self._time, self._label]
        self._used = [name for name in ends if name is not None] + [one.column for one in self._features]
        if not columns.is_foreign_key:
            self.ignored = tuple(f"column {name!r}" for name in source.names() if name not in self._used)
        self._run: tuple[Batch, NDArray[np.int64]] | None = None
        self._skipped = 0
        self._dates: bool | None = None
        self._arrays: dict[str, Array] = {}
        self._described: dict[str, object] = {}
        self._lines: list[str] = []

    def _ends(self) -> tuple[str | None, str]:
        columns, source = self.columns, self.columns.source
        said = [
            None if column is None else source.column(column, end)
            for column, end in ((columns.source_column, "source"), (columns.target_column, "target"))
        ]
        if columns.is_foreign_key and said[1] is not None:
            return said[0], said[1]
        if said[0] is not None and said[1] is not None:
            return said[0], said[1]
        names = source.names()
        guess = roles(names, len(names), weights=False, times=False)
        if guess is None or said != [None, None]:
            raise DatasetError(
                f"{source.called} has the columns {', '.join(names)}; name both ends of an edge by `source_column` and "
                "`target_column`"
            )
        src, dst = names[guess.src], names[guess.dst]
        progress.say(f"{source.called}: edges run from column {src!r} to column {dst!r}, by their names or places")
        return src, dst

    def read_as(self) -> str:
        """How it was read, for people; after `rows`."""
        words = ["a row" if self._source is None else f"column {self._source!r}", f"column {self._target!r}"]
        lines = [f"{self.type.key} from {words[0]} to {words[1]}"]
        lines += [] if self._weight is None else [f"weights from column {self._weight!r}"]
        lines += [] if self._time is None else [time_line("times", self._time, dates=bool(self._dates))]
        lines += self._lines
        if self._skipped:
            lines.append(f"{self._skipped:,} rows have no {self._target!r} and are no edge")
        return "; ".join(lines)

    def edge_arrays(self) -> Mapping[str, Array]:
        """Labels and features, one row an edge; after `rows`."""
        return self._arrays

    def described(self) -> Mapping[str, object]:
        """Classes and features for the store's attributes; after `rows`."""
        return self._described

    def rows(self) -> Iterator[EdgeRows]:
        """All edges in the table's order.

        Raises:
            DatasetError: with its place, a value is missing or does not fit; the table is damaged.
        """
        spool = Spool()
        features = FeatureColumns(self._features, spool, self.columns.source.called)
        label = None if self._label is None else LabelColumn(self._label, "auto", spool)
        self._skipped, self._dates = 0, None
        is_narrow = all(feature.kind not in ("list", "hash") for feature in self._features)
        rows = EDGE_ROWS if is_narrow else BATCH_ROWS
        done = 0
        for batch in self.columns.source.batches(self._used, rows):
            kept, places = self._edges_of(batch)
            self._run = batch, places
            if label is not None:
                label.add(kept)
            features.add(kept)
            if kept.num_rows:
                yield self._edge_rows(kept, places + done)
            done += batch.num_rows
        if label is not None:
            y, line, classes = joined_labels([label], "auto", self.columns.source.called)
            self._arrays[LABEL], self._lines = y, [line]
            self._described |= {"classes": classes} if classes else {}
        if self._features:
            self._arrays[FEATURES] = features.finish()
            self._described["features"] = features.facts()
            self._lines += features.lines()

    def place_of(self, end: Literal["source", "destination"], position: int) -> str:
        """Where an end of an edge of the last run is: file, line or row, and column."""
        assert self._run is not None
        batch, places = self._run
        return batch.place(int(places[position]), self._source if end == "source" else self._target)

    def _edges_of(self, batch: Batch) -> tuple[Batch, NDArray[np.int64]]:
        """The rows that are edges, and which these are."""
        missing = np.zeros(batch.num_rows, np.bool_)
        for column in (self._source, self._target):
            if column is None:
                continue
            absent = self._texts(batch, column).is_null().to_numpy(zero_copy_only=False)
            if absent.any() and not (self.columns.is_foreign_key and column == self._target):
                row = int(np.argmax(absent))
                raise DatasetError(f"{batch.place(row, column)}: there is no id, so the row is no edge")
            missing |= absent
        self._skipped += int(missing.sum())
        if not missing.any():
            return batch, np.arange(batch.num_rows)
        import pyarrow as pa

        places = np.flatnonzero(~missing)
        kept = {name: array.take(pa.array(places)) for name, array in batch.columns.items()}
        return Batch(batch.reader, batch.start, kept, len(places)), places

    def _edge_rows(self, batch: Batch, rows: NDArray[np.int64]) -> EdgeRows:
        weight = time = None
        if self._weight is not None:
            weight = self._weights(batch, self._weight)
        if self._time is not None:
            time, self._dates = checked_times(batch, self._time, self._dates)
        src = rows if self._source is None else self._ids(batch, self._source, self.type.source)
        return EdgeRows(src, self._ids(batch, self._target, self.type.destination), weight, time)

    def _weights(self, batch: Batch, column: str) -> Weights:
        try:
            numbers = values.numbers(batch.columns[column])
            if (absent := np.isnan(numbers)).any():
                raise ValueFault(int(np.argmax(absent)), "there is no weight")
        except ValueFault as problem:
            raise DatasetError(f"{self._place(problem.position, column)}: {problem}") from problem
        try:
            return weights(numbers, batch.start)
        except DatasetError as problem:
            raise DatasetError(f"{batch.reader.called}, column {column!r}: {problem}") from problem

    def _ids(self, batch: Batch, column: str, node_type: str) -> NDArray[np.int64] | Words:
        """Ids as those of their node type are: words or numbers; the first rows decide where nothing else does."""
        array = batch.columns[column]
        kind = self._id_kinds.get(node_type)
        whole = None
        if kind != "words":
            try:
                whole = values.whole_numbers(array)
            except ValueFault as problem:
                raise DatasetError(f"{batch.reader.called}, column {column!r}: {problem}") from problem
        if kind is None:
            typed_words = values.is_words(array) and not batch.reader.is_text
            kind = self._id_kinds[node_type] = "words" if whole is None or typed_words else "numbers"
        if kind == "numbers":
            if whole is None:
                row = next(row for row in range(len(array)) if values.whole_numbers(array.slice(row, 1)) is None)
                value = self._texts(batch, column)[row].as_py()
                raise DatasetError(
                    f"{self._place(row, column)}: {values.shown(value)} is no id, as ids of the nodes {node_type} are "
                    "whole numbers; `ids: words` reads all as words"
                )
            return whole
        coded = self._texts(batch, column).dictionary_encode()
        return Words(coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist())

    def _place(self, position: int, column: str) -> str:
        assert self._run is not None
        batch, places = self._run
        return batch.place(int(places[position]), column)

    def _texts(self, batch: Batch, column: str) -> Any:
        try:
            return values.words(batch.columns[column])
        except ValueFault as problem:
            raise DatasetError(f"{batch.place(problem.position, column)}: {problem}") from problem
