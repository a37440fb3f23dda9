"""The nodes of one type from a table: ids, labels, split, times and features by the names of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.datasets.formats.labels import checked_labels
from graphprep.datasets.importing.columns import values
from graphprep.datasets.importing.columns.features import Categories, Feature, FeatureColumns
from graphprep.datasets.importing.columns.table_source import Batch, TableSource
from graphprep.datasets.importing.columns.values import ValueFault
from graphprep.datasets.importing.node_ids import Original
from graphprep.datasets.importing.spool import Spool
from graphprep.datasets.importing.table_files import NO_SPLIT, SPLIT_NAMES, word_array
from graphprep.errors import DatasetError
from graphprep.system.nearest import nearest

Array = NDArray[Any]
SPLITS = ("train", "val", "test")
MOST_LABELS = 100_000
CLASSES_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumns:
    """A table of nodes, and the roles of its columns; each is a name, or a number from 1."""

    source: TableSource
    id: str | None = None
    """None: nodes are the rows, 0 .. N-1"""
    label: tuple[str, ...] = ()
    """one: classes or numbers to predict; several: as many labels or numbers a node"""
    split: str | None = None
    split_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by train, val and test the values that say so; none: the usual words"""
    time: str | None = None
    features: tuple[Feature, ...] = ()

    def to_json(self) -> dict[str, object]:
        """All but the place of the table."""
        return {
            **self.source.to_json(),
            "id": self.id,
            "label": list(self.label),
            "split": self.split,
            "split_values": {part: list(words) for part, words in self.split_values.items()},
            "time": self.time,
            "features": [feature.to_json() for feature in self.features],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """What a table says about the nodes of a type."""

    num_nodes: int
    ids: Original | None
    """[N]; None where they are the rows"""
    arrays: Mapping[str, Array]
    """x, y, masks and time, by name in NodeTable"""
    line: str
    """how it was read, for people"""
    described: Mapping[str, object]
    """for the store's attributes: the names of classes, and of what each feature came from"""


def read_nodes(columns: NodeColumns, *, task: LabelTask, words: bool) -> NodeRows:
    """All of a table of nodes.

    Args:
        columns: their roles.
        task: what the labels are for.
        words: whether ids are words, whatever they look like.

    Raises:
        DatasetError: with its place, a value that does not fit; a column is not there; an id is there twice.
    """
    source = columns.source
    name_of = source.column
    id_column = None if columns.id is None else name_of(columns.id, "id")
    split_column = None if columns.split is None else name_of(columns.split, "split")
    time_column = None if columns.time is None else name_of(columns.time, "time")
    label_columns = [name_of(column, "label") for column in columns.label]
    features = [one.model_copy(update={"column": name_of(one.column, "features")}) for one in columns.features]
    spool = Spool()
    ids = IdColumn(id_column, words=words)
    labels = [LabelColumn(column, task, spool) for column in label_columns]
    split = SplitColumn(split_column, columns.split_values)
    times: list[Array] = []
    dates = False
    made = FeatureColumns(features, spool, source.called)
    used = [*label_columns, *(feature.column for feature in features)]
    used += [column for column in (id_column, split_column, time_column) if column is not None]
    num_rows = 0
    for batch in source.batches(used or [source.names()[0]]):
        ids.add(batch)
        for label in labels:
            label.add(batch)
        split.add(batch)
        if time_column is not None:
            run, dates = checked_times(batch, time_column, dates if times else None)
            times.append(run)
        made.add(batch)
        num_rows += batch.num_rows
    if not num_rows:
        raise DatasetError(f"{source.called} has no rows")
    arrays: dict[str, Array] = {}
    lines = [f"{num_rows:,} rows"]
    described: dict[str, object] = {}
    lines.append("rows are the ids" if id_column is None else f"ids from column {id_column!r}")
    original = ids.finish(source.called)
    if labels:
        arrays["y"], line, classes = joined_labels(labels, task, source.called)
        lines.append(line)
        described |= {"classes": classes} if classes else {}
    if split_column is not None:
        arrays |= split.masks(source.called)
        lines.append(f"the split from column {split_column!r}")
    if time_column is not None:
        arrays["time"] = np.concatenate(times)
        lines.append(time_line("times", time_column, dates=dates))
    if features:
        arrays["x"] = made.finish()
        described["features"] = made.facts()
        lines += made.lines()
    left = [name for name in source.names() if name not in used]
    lines += [f"left out: {', '.join(map(repr, left))}"] if left else []
    return NodeRows(
        num_nodes=num_rows,
        ids=original,
        arrays=arrays,
        line=f"{source.path.name}: {'; '.join(lines)}",
        described=described,
    )


def checked_times(batch: Batch, column: str, dates: bool | None) -> tuple[Array, bool]:
    """The times of some rows, and whether they are dates; `dates` is whether those before were.

    Raises:
        DatasetError: with its place, one is missing, is no time, or is of another kind than those before.
    """
    try:
        times, are_dates = values.times(batch.columns[column])
        if dates is not None and dates != are_dates:
            raise ValueFault(0, "times are numbers in some rows and dates in others; write all in one way")
    except ValueFault as problem:
        raise DatasetError(f"{batch.place(problem.position, column)}: {problem}") from problem
    return times, are_dates


def time_line(what: str, column: str, *, dates: bool) -> str:
    """How times were read, for people."""
    return f"{what} from column {column!r}" + (", dates as seconds since 1970 (UTC)" if dates else "")


class IdColumn:
    """The ids of the nodes: whole numbers if all are, else words."""

    def __init__(self, column: str | None, *, words: bool) -> None:
        self._column, self._words = column, words
        self._batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        """Take in some rows.

        Raises:
            DatasetError: with its place, one is missing.
        """
        if self._column is None:
            return
        array = batch.columns[self._column]
        try:
            texts = values.words(array)
        except ValueFault as problem:
            raise DatasetError(f"{batch.place(problem.position, self._column)}: {problem}") from problem
        if texts.null_count:
            row = int(np.argmax(texts.is_null().to_numpy(zero_copy_only=False)))
            raise DatasetError(f"{batch.place(row, self._column)}: there is no id")
        if values.is_fractions(array):
            raise DatasetError(
                f"{batch.place(0, self._column)}: ids are whole numbers or words, and these are fractions"
            )
        self._batches.append(Batch(batch.reader, batch.start, {self._column: array}, batch.num_rows))

    def finish(self, called: str) -> Original | None:
        """[N]

        Raises:
            DatasetError: with both places, an id is there twice, or is negative.
        """
        if self._column is None:
            return None
        column = self._column
        pieces = None if self._words else self._numbers()
        ids: Original
        if pieces is not None:
            ids = np.concatenate(pieces)
            if (low := ids < 0).any():
                row = int(np.argmax(low))
                raise DatasetError(
                    f"{self._place(row)}: the id {ids[row]} is negative; `ids: words` keeps it as a word"
                )
        else:
            texts = [text for batch in self._batches for text in values.words(batch.columns[column]).to_pylist()]
            try:
                ids = word_array(texts)
            except DatasetError as problem:
                raise DatasetError(f"{called}, column {column!r}: {problem}") from problem
        order = np.argsort(ids, kind="stable")
        twice = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        if len(twice):
            first, second = (int(order[twice[0] + more]) for more in (0, 1))
            raise DatasetError(
                f"{self._place(second)}: the id {ids[second]!s} is there already, in {self._place(first)}; ids tell "
                "nodes apart"
            )
        return ids

    def _numbers(self) -> list[NDArray[np.int64]] | None:
        """Only types say that numbers are words, but text has none: there digits are numbers."""
        pieces = []
        for batch in self._batches:
            array = batch.columns[self._column or ""]
            if values.is_words(array) and not batch.reader.is_text:
                return None
            piece = values.whole_numbers(array)
            if piece is None:
                return None
            pieces.append(piece)
        return pieces

    def _place(self, row: int) -> str:
        for batch in self._batches:
            if row < batch.num_rows:
                return batch.place(row, self._column)
            row -= batch.num_rows
        raise IndexError(row)


class SplitColumn:
    """Which part of the split each node is in."""

    def __init__(self, column: str | None, said: Mapping[str, tuple[str, ...]]) -> None:
        """`said`: the values by part; none for the usual words."""
        self._column, self._said = column, bool(said)
        self._part_of = {word: part for part, words in said.items() for word in words} or {
            **SPLIT_NAMES,
            **dict.fromkeys(NO_SPLIT, ""),
        }
        self._parts: list[Array] = []

    def add(self, batch: Batch) -> None:
        """Take in some rows.

        Raises:
            DatasetError: with its place, a value that is none of them.
        """
        if self._column is None:
            return
        try:
            coded = values.words(batch.columns[self._column]).dictionary_encode()
        except ValueFault as problem:
            raise DatasetError(f"{batch.place(problem.position, self._column)}: {problem}") from problem
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
        numbers = []
        for place, word in enumerate(coded.dictionary.to_pylist()):
            part = self._part_of.get(word if self._said else word.lower())
            if part is None:
                row = int(np.argmax(codes == place))
                known = list(self._part_of) if self._said else ["train", "val", "test"]
                raise DatasetError(
                    f"{batch.place(row, self._column)}: {values.shown(word)} is no part of the split"
                    f"{nearest(word, known) or ''}; it has {', '.join(known)} or nothing"
                    + ("" if self._said else "; `split_values` says what other words mean")
                )
            numbers.append(SPLITS.index(part) if part else -1)
        self._parts.append(np.array([*numbers, -1], np.int8)[codes])

    def masks(self, called: str) -> dict[str, Array]:
        """bool [N, 1], by name in NodeTable.

        Raises:
            DatasetError: no node is in any part.
        """
        parts = np.concatenate(self._parts)
        if (parts < 0).all():
            raise DatasetError(f"{called}, column {self._column!r}: no node is in train, val or test")
        return {f"{part}_mask": (parts == number)[:, None] for number, part in enumerate(SPLITS)}


class LabelColumn:
    """Labels: whole numbers, numbers to predict, or words, whose order numbers the classes."""

    def __init__(self, column: str, task: LabelTask, spool: Spool) -> None:
        self.column, self.task = column, task
        self._words = Categories(spool)
        self._numbers: list[Array] | None = []
        self._is_whole = True

    def add(self, batch: Batch) -> None:
        """Take in some rows.

        Raises:
            DatasetError: with its place, one is no label.
        """
        array = batch.columns[self.column]
        try:
            if self._numbers is not None and not (values.is_words(array) and not batch.reader.is_text):
                try:
                    numbers = values.numbers(array)
                except ValueFault:
                    if self.task == "regression" or not values.is_words(array):
                        raise
                    self._numbers = None
                else:
                    self._numbers.append(numbers)
                    there = values.words(array).drop_null()
                    self._is_whole &= len(there) == 0 or values.whole_numbers(there) is not None
            elif self.task == "regression":
                raise ValueFault(0, "the labels are words, and `task: regression` predicts numbers")
            else:
                self._numbers = None
            self._words.add(array, MOST_LABELS, "it is no label")
        except ValueFault as problem:
            raise DatasetError(f"{batch.place(problem.position, self.column)}: {problem}") from problem

    def numbers(self) -> Array | None:
        """float64 [N] with NaN for none; None where they are words."""
        return None if self._numbers is None else np.concatenate(self._numbers)

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are whole."""
        return self._is_whole

    def classes(self) -> tuple[NDArray[np.int64], list[str]]:
        """int64 [N] with -1 for none, and the names of the classes."""
        self._words.finish()
        return self._words.codes(slice(None)), self._words.classes


def joined_labels(labels: Sequence[LabelColumn], task: LabelTask, called: str) -> tuple[Array, str, list[str]]:
    """y as a store has it, how it was read, and the names of its classes if they are words.

    Raises:
        DatasetError: they are no labels.
    """
    names = ", ".join(repr(label.column) for label in labels)
    columns = [label.numbers() for label in labels]
    classes: list[str] = []
    try:
        if len(labels) > 1:
            numbers = [column for column in columns if column is not None]
            if len(numbers) < len(labels):
                raise DatasetError("several labels a node are columns of numbers, and some have words")
            table = np.column_stack(numbers)
            whole = all(label.is_whole for label in labels) and not np.isnan(table).any()
            y = checked_labels(table.astype(np.int64) if whole else table, task=task, origin=called)
        elif columns[0] is None:
            y, classes = labels[0].classes()
            if not classes:
                raise DatasetError("no node has a label")
        elif np.isnan(columns[0]).all():
            raise DatasetError("no node has a label")
        elif labels[0].is_whole and task != "regression":
            y = checked_labels(np.nan_to_num(columns[0], nan=-1).astype(np.int64), task=task, origin=called)
        else:
            y = checked_labels(columns[0][:, None], task=task, origin=called, is_table=True)
    except DatasetError as problem:
        raise DatasetError(f"{called}, column {names}: {problem}") from problem
    if classes:
        shown = ", ".join(f"{number} is {word!r}" for number, word in enumerate(classes[:CLASSES_SHOWN]))
        more = ", ..." if len(classes) > CLASSES_SHOWN else ""
        return y, f"labels from column {names}, {len(classes):,} classes: {shown}{more}", classes
    what = "classes" if y.ndim == 1 else "numbers to predict or several labels a node"
    return y, f"labels from column {names}, {what}", []
