"""Features from columns of a table: numbers, categories, lists of numbers, and words by their hash.

Columns are read batch by batch. What has to be known of all rows (the classes of a category, a mean) is known at the
end, when the values are written beside each other, float32 [rows, F]. Letters: F features.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from graphprep.datasets.importing.columns import values
from graphprep.datasets.importing.columns.table_source import Batch
from graphprep.datasets.importing.columns.values import ValueFault
from graphprep.datasets.importing.spool import Column as SpooledColumn
from graphprep.datasets.importing.spool import Spool
from graphprep.errors import DatasetError
from graphprep.system import home
from graphprep.system.files.scratch import RowSink
from graphprep.system.yaml_config import FaultAt, StrictModel

Array = NDArray[Any]
FeatureKind = Literal["auto", "number", "one-hot", "codes", "list", "hash"]
DEFAULT_WIDTH = 64
"""columns of words that are hashed"""
MOST_ONE_HOT, MOST_CODES = 1_000, 100_000
CLASSES_SHOWN = 12
ROWS_AT_A_TIME = 1 << 18
TOKEN_GAPS = r"[^\p{L}\p{N}]+"


def _column(name: object) -> object:
    """A column's name, or its number as a name."""
    return str(name) if type(name) is int else name


ColumnName = Annotated[str, BeforeValidator(_column)]


class Feature(StrictModel):
    """A column that is a feature, and what is made of it."""

    column: ColumnName
    kind: Annotated[FeatureKind, Field(alias="as")] = "auto"
    """auto: by the type, in text by the first value: numbers, lists, else one-hot"""
    fill: Literal["mean"] | float | None = None
    """of numbers: what stands for a missing one; None: that is an error"""
    normalise: Literal["none", "standard", "minmax"] = "none"
    """of numbers and lists: standard subtracts the mean and divides by the standard deviation, minmax maps to 0 .. 1"""
    width: PositiveInt | None = None
    """of hash: how many columns"""

    @model_validator(mode="after")
    def _fits(self) -> Feature:
        if self.fill is not None and self.kind not in ("auto", "number"):
            raise FaultAt(f"fill is for numbers, and {self.column!r} is read as {self.kind}", ("fill",))
        if self.normalise != "none" and self.kind not in ("auto", "number", "list"):
            raise FaultAt(f"normalise is for numbers, and {self.column!r} is read as {self.kind}", ("normalise",))
        if self.width is not None and self.kind != "hash":
            raise FaultAt("width is for `as: hash`", ("width",))
        return self

    def to_json(self) -> dict[str, object]:
        """What is written of it."""
        return self.model_dump(by_alias=True)


def _feature(value: object) -> object:
    return value if isinstance(value, dict) else {"column": value}


Features = Annotated[list[Annotated[Feature, BeforeValidator(_feature)]], Field(min_length=1)]


class FeatureColumns:
    """The features of one table, filled batch by batch."""

    def __init__(self, features: Sequence[Feature], spool: Spool, called: str) -> None:
        """`features` name columns that are there; `called` is what messages call the table."""
        self._called = called
        self._columns = [_Undecided(feature, spool) for feature in features]
        self._rows = 0

    def add(self, batch: Batch) -> None:
        """Take in some rows.

        Raises:
            DatasetError: with its place, a value that does not fit.
        """
        for column in self._columns:
            column.add(batch)
        self._rows += batch.num_rows

    def finish(self) -> Array:
        """float32 [rows, F]; call it when all rows are there.

        Raises:
            DatasetError: a column has no values, or too many classes.
        """
        try:
            made = [column.finished() for column in self._columns]
        except DatasetError as problem:
            raise DatasetError(f"{self._called}: {problem}") from problem
        width = sum(column.width for column in made)
        folder = home.home()
        folder.mkdir(parents=True, exist_ok=True)
        sink = RowSink((self._rows, width), np.dtype(np.float32), folder)
        for start in range(0, self._rows, ROWS_AT_A_TIME):
            rows = slice(start, min(start + ROWS_AT_A_TIME, self._rows))
            sink.add(np.concatenate([column.rows(rows) for column in made], axis=1))
        return sink.array()

    def lines(self) -> list[str]:
        """How each column was read, for people; after `finish`."""
        return [column.finished().line() for column in self._columns]

    def facts(self) -> list[dict[str, object]]:
        """The same for a store's attributes: the columns of x in their order, with the names of classes."""
        return [{**column.finished().facts(), "width": column.finished().width} for column in self._columns]


class _Undecided:
    """A column whose kind its first value decides, if nobody said it."""

    def __init__(self, feature: Feature, spool: Spool) -> None:
        self.feature = feature
        self._spool = spool
        self._made: _Made | None = None if feature.kind == "auto" else _KINDS[feature.kind](feature, spool)
        self._waiting: list[Batch] = []
        """whose values are all missing"""
        self._finished = False

    def add(self, batch: Batch) -> None:
        self._waiting.append(batch)
        name = self.feature.column
        for waiting in self._waiting if self._is_decided(batch) else ():
            assert self._made is not None
            try:
                self._made.add(waiting.columns[name])
            except ValueFault as problem:
                value = waiting.columns[name][problem.position].as_py()
                is_guess = self.feature.kind == "auto" and self._made.feature.kind == "number"
                advice = "; `as: one-hot` reads words" if is_guess and isinstance(value, str) and value.strip() else ""
                raise DatasetError(f"{waiting.place(problem.position, name)}: {problem}{advice}") from problem
        self._waiting = [] if self._made is not None else self._waiting

    def _is_decided(self, batch: Batch) -> bool:
        """Whether it is known what the column is, now that there are these rows."""
        if self._made is None:
            try:
                kind = _kind_of(batch.columns[self.feature.column])
            except ValueFault as problem:
                raise DatasetError(f"{batch.place(problem.position, self.feature.column)}: {problem}") from problem
            if kind is not None:
                self._made = _KINDS[kind](self.feature.model_copy(update={"kind": kind}), self._spool)
        return self._made is not None

    def finished(self) -> _Made:
        if self._made is None:
            raise DatasetError(f"the column {self.feature.column!r} has no value in any row, so it is no feature")
        if not self._finished:
            self._made.finish()
            self._finished = True
            if self.feature.kind == "auto" and isinstance(self._made, _OneHot):
                self._made.require_words()
        return self._made


def _kind_of(array: Any) -> FeatureKind | None:
    """What the type of a column, or the first of its words, looks like; None if there is none.

    Raises:
        ValueFault: they are of a type that is no feature.
    """
    if values.is_lists(array):
        return "list"
    if array.null_count == len(array):
        return None
    if not values.is_words(array):
        values.numbers(array)
        return "number"
    there = values.words(array).drop_null()
    if not len(there):
        return None
    try:
        values.numbers(there.slice(0, 1))
    except ValueFault:
        text = str(there[0].as_py())
        return "list" if text.startswith("[") and text.endswith("]") else "one-hot"
    return "number"


class _Made(ABC):
    """A column of one kind."""

    width = 1

    def __init__(self, feature: Feature, spool: Spool) -> None:
        self.feature = feature
        self._kept = SpooledColumn(spool)
        self._values: Array = np.zeros(0, np.float32)
        self._missing = 0

    @abstractmethod
    def add(self, array: Any) -> None:
        """Take in the values of some rows.

        Raises:
            ValueFault: one does not fit.
        """

    def finish(self) -> None:
        """All rows are there."""
        self._values = self._kept.whole()
        self._kept.release()

    @abstractmethod
    def rows(self, rows: slice) -> NDArray[np.float32]:
        """[n, width]"""

    @abstractmethod
    def line(self) -> str:
        """How it was read, for people."""

    def facts(self) -> dict[str, object]:
        """The same for a store's attributes."""
        return {"column": self.feature.column, "as": self.feature.kind}


class _Numbers(_Made):
    """A number a row, or a list of numbers."""

    def __init__(self, feature: Feature, spool: Spool) -> None:
        super().__init__(feature, spool)
        self._shift = self._scale = np.zeros(0)
        self._mean = 0.0

    def add(self, array: Any) -> None:
        numbers = values.numbers(array)
        missing = np.isnan(numbers)
        if missing.any():
            if self.feature.fill is None:
                raise ValueFault(
                    int(np.argmax(missing)), "there is no number; give `fill: 0`, `fill: mean` or another number"
                )
            self._missing += int(missing.sum())
        self._kept.add(numbers)

    def finish(self) -> None:
        super().finish()
        if self.feature.fill == "mean" and self._missing == len(self._values):
            raise DatasetError(f"the column {self.feature.column!r} has no number, so it has no mean; give `fill: 0`")
        if self.feature.fill == "mean":
            there = len(self._values) - self._missing
            self._mean = sum(float(np.nansum(block, dtype=np.float64)) for block in self._blocks()) / max(1, there)
        self._normalise()

    def _blocks(self) -> list[Array]:
        """Fixed runs of rows, so that sums do not depend on how a file is read."""
        table = self._values.reshape(-1, self.width)
        return [table[start : start + ROWS_AT_A_TIME] for start in range(0, len(table), ROWS_AT_A_TIME)]

    def _filled(self, block: Array) -> NDArray[np.float64]:
        fill = self.feature.fill
        wide = block.astype(np.float64)
        return wide if fill is None else np.where(np.isnan(wide), self._mean if fill == "mean" else fill, wide)

    def _normalise(self) -> None:
        """What is subtracted, and what the difference is multiplied by."""
        blocks, rows = self._blocks(), max(1, len(self._values) // self.width)
        shift, scale = np.zeros(self.width), np.ones(self.width)
        if self.feature.normalise == "standard":
            shift = sum((self._filled(block).sum(axis=0) for block in blocks), shift) / rows
            squares = sum(
                (np.square(self._filled(block) - shift).sum(axis=0) for block in blocks), np.zeros(self.width)
            )
            scale = np.sqrt(squares / rows)
        elif self.feature.normalise == "minmax" and blocks:
            shift = np.min([self._filled(block).min(axis=0) for block in blocks], axis=0)
            scale = np.max([self._filled(block).max(axis=0) for block in blocks], axis=0) - shift
        self._shift, self._scale = shift, np.where(scale > 0, scale, 1.0)

    def rows(self, rows: slice) -> NDArray[np.float32]:
        table = self._values.reshape(-1, self.width)[rows]
        normalised: NDArray[np.float32] = ((self._filled(table) - self._shift) / self._scale).astype(np.float32)
        return normalised

    def line(self) -> str:
        column, feature = self.feature.column, self.feature
        words = [f"numbers from column {column!r}"] if self.width == 1 else []
        if feature.normalise == "standard":
            words.append("less the mean of all rows, divided by their standard deviation")
        elif feature.normalise == "minmax":
            words.append("mapped to 0 .. 1 by the least and the largest of all rows")
        if self._missing:
            fill = f"the mean {self._mean:.6g}" if feature.fill == "mean" else f"{feature.fill:g}"
            words.append(f"{self._missing:,} missing, filled by {fill}")
        return ", ".join(words)

    def facts(self) -> dict[str, object]:
        facts = {**super().facts(), "missing": self._missing}
        if self.feature.fill is not None:
            facts["fill"] = self._mean if self.feature.fill == "mean" else self.feature.fill
        if self.feature.normalise != "none":
            facts |= {"subtracted": self._shift.tolist(), "divided_by": self._scale.tolist()}
        return facts


class _Lists(_Numbers):
    """A list of as many numbers in each row."""

    def __init__(self, feature: Feature, spool: Spool) -> None:
        super().__init__(feature, spool)
        self.width = 0

    def add(self, array: Any) -> None:
        flat, width = values.lists(array)
        if self.width and len(flat) and width != self.width:
            raise ValueFault(0, f"the list has {width} values where others have {self.width}")
        self.width = width or self.width
        self._kept.add(flat)

    def finish(self) -> None:
        self.width = self.width or 1
        super().finish()

    def line(self) -> str:
        words = super().line()
        return f"{self.width} numbers from the lists of column {self.feature.column!r}{', ' if words else ''}{words}"


class Categories:
    """Words, numbered as they are first seen, and by their order in the end."""

    def __init__(self, spool: Spool) -> None:
        self._code: dict[str, int] = {}
        self._kept = SpooledColumn(spool)
        self._new_code = np.zeros(0, np.int64)
        self.missing = 0
        self.classes: list[str] = []
        self._codes: Array = np.zeros(0, np.int32)

    def add(self, array: Any, most: int, what: str) -> None:
        """Take in the values of some rows.

        Raises:
            ValueFault: there are more than `most` different ones; `what` says what to do.
        """
        coded = values.words(array).dictionary_encode()
        known = self._code
        distinct = [known.setdefault(word, len(known)) for word in coded.dictionary.to_pylist()]
        if len(known) > most:
            raise ValueFault(0, f"there are more than {most:,} different values; {what}")
        places = coded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        codes = np.array([*distinct, -1], np.int32)[places]
        self.missing += int((codes < 0).sum())
        self._kept.add(codes)

    def finish(self) -> None:
        """Put the classes into order: of numbers if all are whole numbers, else of words."""
        self.classes = sorted(self._code)
        if all(word.removeprefix("-").isdecimal() for word in self.classes):
            self.classes.sort(key=lambda word: (int(word), word))
        self._new_code = np.full(len(self.classes) + 1, -1, np.int64)
        for number, word in enumerate(self.classes):
            self._new_code[self._code[word]] = number
        self._codes = self._kept.whole()
        self._kept.release()

    def codes(self, rows: slice) -> NDArray[np.int64]:
        """The class of each of these rows, -1 where the value is missing."""
        codes: NDArray[np.int64] = self._new_code[self._codes[rows]]
        return codes

    def shown(self) -> str:
        """The classes, for people."""
        more = ", ..." if len(self.classes) > CLASSES_SHOWN else ""
        return f"{len(self.classes):,} classes: {', '.join(map(values.shown, self.classes[:CLASSES_SHOWN]))}{more}"


class _OneHot(_Made):
    """A column for each class, 1 where the row has it."""

    def __init__(self, feature: Feature, spool: Spool) -> None:
        super().__init__(feature, spool)
        self.categories = Categories(spool)

    def add(self, array: Any) -> None:
        self.categories.add(array, MOST_ONE_HOT, "`as: hash` or `as: codes` takes more")

    def finish(self) -> None:
        self.categories.finish()
        self.width = max(1, len(self.categories.classes))

    def require_words(self) -> None:
        """See that not some of the classes are numbers and others words, as of a column of numbers with mistakes.

        Raises:
            DatasetError: it is so.
        """
        classes = self.categories.classes
        numbers = [word for word in classes if values.is_number(word)]
        if 0 < len(numbers) < len(classes):
            other = next(word for word in classes if not values.is_number(word))
            raise DatasetError(
                f"the column {self.feature.column!r} has numbers ({values.shown(numbers[0])}) and words "
                f"({values.shown(other)}); say `as: number` or `as: one-hot`"
            )

    def rows(self, rows: slice) -> NDArray[np.float32]:
        has_class: Array = self.categories.codes(rows)[:, None] == np.arange(self.width)
        return has_class.astype(np.float32)

    def line(self) -> str:
        missing = f", {self.categories.missing:,} missing, which have none" if self.categories.missing else ""
        return f"one-hot from column {self.feature.column!r}, {self.categories.shown()}{missing}"

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "classes": self.categories.classes, "missing": self.categories.missing}


class _Codes(_OneHot):
    """The number of the class."""

    def add(self, array: Any) -> None:
        self.categories.add(array, MOST_CODES, "`as: hash` takes more")

    def finish(self) -> None:
        self.categories.finish()

    def rows(self, rows: slice) -> NDArray[np.float32]:
        return self.categories.codes(rows)[:, None].astype(np.float32)

    def line(self) -> str:
        missing = f", {self.categories.missing:,} missing, which are -1" if self.categories.missing else ""
        return f"numbers of classes from column {self.feature.column!r}, {self.categories.shown()}{missing}"


class _Hashed(_Made):
    """Words of a text, each added to or subtracted from the column that its hash chooses; rows have length 1."""

    def __init__(self, feature: Feature, spool: Spool) -> None:
        super().__init__(feature, spool)
        self.width = feature.width or DEFAULT_WIDTH

    def add(self, array: Any) -> None:
        import pyarrow.compute as pc

        texts = values.words(array)
        self._missing += texts.null_count
        tokens = pc.split_pattern_regex(pc.utf8_lower(pc.fill_null(texts, "")), TOKEN_GAPS)
        lengths = pc.list_value_length(tokens).to_numpy(zero_copy_only=False)
        coded = pc.list_flatten(tokens).dictionary_encode()
        places = np.array([self._place(word) for word in coded.dictionary.to_pylist()]).reshape(-1, 2)
        codes = coded.indices.to_numpy(zero_copy_only=False)
        cells = np.repeat(np.arange(len(lengths)), lengths) * self.width + places[codes, 0].astype(np.int64)
        sums: Array = np.bincount(cells, places[codes, 1], len(lengths) * self.width).reshape(-1, self.width)
        lengths_of_rows = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        self._kept.add((sums / lengths_of_rows).astype(np.float32).ravel())

    def _place(self, word: str) -> tuple[int, float]:
        """The column of a word and its sign; an empty word counts nothing."""
        if not word:
            return 0, 0.0
        digest = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        return (digest >> 1) % self.width, 1.0 if digest & 1 else -1.0

    def rows(self, rows: slice) -> NDArray[np.float32]:
        return self._values.reshape(-1, self.width)[rows]

    def line(self) -> str:
        missing = f", {self._missing:,} missing, which are 0" if self._missing else ""
        return (
            f"words of column {self.feature.column!r} by the hash BLAKE2b of each, with a sign, in {self.width} "
            f"columns, rows of length 1{missing}"
        )


_KINDS: dict[str, Callable[[Feature, Spool], _Made]] = {
    "number": _Numbers,
    "list": _Lists,
    "one-hot": _OneHot,
    "codes": _Codes,
    "hash": _Hashed,
}
