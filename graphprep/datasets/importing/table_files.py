"""Arrays of numbers about nodes from .npy, .npz, text tables and .parquet, before anything is checked.

Nothing here unpickles. A .npy file is mapped into memory, so it may be larger than it. A table (.csv, .tsv, .txt,
.parquet) may have a column of ids, numbers or words, which say to which node a row belongs; its other columns are
numbers. A column that numbers the rows, as pandas and R write it, is left out; an index that pandas keeps in Parquet,
or a first column without a name, that has the numbers 0 .. N-1 in another order puts the rows into that order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.arrays import map_npy, npy_header
from graphprep.datasets.formats.pandas_index import INDEX_PREFIX, pandas_index
from graphprep.datasets.formats.text_dialect import NAMELESS, Dialect, is_number
from graphprep.datasets.formats.text_file import PACKED, unpacked_name
from graphprep.datasets.formats.text_table import line_of, read_text_table
from graphprep.datasets.importing.edges.edge_columns import column_place
from graphprep.errors import DatasetError
from graphprep.system import memory, progress
from graphprep.system.files.archive import Archive
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import HEAD_BYTES, substitute

Array = NDArray[Any]
WORDS = np.dtypes.StringDType()
TEXT = (".csv", ".tsv", ".txt")
TABLES = (*TEXT, ".parquet", ".pq")
LONGEST_WORD = 500
"""letters of an id"""
ID_NAMES = ("id", "ids", "node", "node_id", "nodeid", "index", "idx", "vertex", "vertex_id")
SHOWN_NAMES = 6
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
NO_SPLIT = ("", "none", "nan", "null", "na", "unlabelled", "unlabeled", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How to read a table, where a person says it, and what else is known."""

    header: bool | None = None
    """of text: whether the first line names the columns; None to tell it"""
    delimiter: str | None = None
    """of text: as in `Dialect`; None to tell it"""
    id_column: str | None = None
    """the name or number of the column of ids; None: rows are in order"""
    words: bool = False
    """whether ids are words, whatever they look like"""
    columns: tuple[str, ...] = ()
    """names or numbers of the columns to take; none for all"""
    left_out: tuple[str, ...] = ()
    """those not to take"""
    split_column: str | None = None
    """the column that says which part of the split a node is in"""
    rows: int | None = None
    """how many there should be, if that is known"""
    read_as: list[str] = field(default_factory=list)
    """what was taken as what is added here, for people"""

    def named(self) -> tuple[str, ...]:
        """Columns that must be there."""
        return tuple(column for column in (self.id_column, self.split_column) if column is not None)


class NodeTable(NamedTuple):
    """A table of nodes as it is in its file."""

    values: Any
    """an Arrow table of the columns that were taken"""
    ids: Array | None
    """[rows]: of the nodes; None where rows are in order"""
    split: list[str] | None
    """[rows]: train, val, test or nothing"""
    dialect: Dialect | None
    """of text"""


class IdentifiedRows(NamedTuple):
    """Rows with the ids of their nodes."""

    ids: Array
    """[rows], none twice"""
    rows: Array
    """numbers [rows, columns]"""
    split: list[str] | None = None
    """[rows]: train, val, test or nothing"""


def kind_of_table(path: Path) -> str:
    """The ending of a file's name, before .gz or .zst where it is text."""
    ending = path.suffix.lower()
    return Path(unpacked_name(path)).suffix if ending in PACKED else ending


@contextmanager
def reading(path: Path, kinds: tuple[str, ...] | None = None) -> Iterator[None]:
    """Gives every failure to read `path` one sentence that begins with its name.

    Args:
        path: of a file, whose beginning must not show that it is something else.
        kinds: the endings that its name may have; None for any.

    Raises:
        DatasetError: what the block raised, or the file cannot be read.
    """
    if kinds is not None and kind_of_table(path) not in kinds:
        raise DatasetError(f"{path} is none of {', '.join(kinds)}; convert it to one of them")
    try:
        with regular_file(path).open("rb") as stream:
            if reason := substitute(stream.read(HEAD_BYTES)):
                raise DatasetError(reason)
        yield
    except DatasetError as problem:
        raise DatasetError(f"{path} cannot be used: {problem}") from problem
    except Exception as problem:  # zipfile, zlib, tokenize and Arrow each have their own for a damaged file
        if isinstance(problem, OSError) and problem.strerror:
            raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
        words = " ".join(str(problem).split())
        raise DatasetError(f"{path} is damaged, or is not what its name says ({words})") from problem


def read_array(path: Path, options: TableOptions | None = None) -> Array:
    """The array in a .npy, .npz, text or .parquet file; tables and sparse matrices are [rows, columns]."""
    match kind_of_table(path):
        case ".npy":
            return map_npy(path)
        case ".npz":
            return _from_npz(path)
        case _:
            options = options or TableOptions()
            table = read_table(path, options)
            return _in_order(table, _columns(table.values), options)


def read_identified(path: Path, column: str, options: TableOptions | None = None) -> IdentifiedRows:
    """A table whose column `column` has the ids.

    Raises:
        DatasetError: there is no such column, an id is there twice, or another column is not of numbers.
    """
    with reading(path, TABLES):
        table = read_table(path, replace(options or TableOptions(), id_column=column))
        assert table.ids is not None
        rows = _columns(table.values) if table.values.num_columns else np.zeros((len(table.ids), 0))
    return IdentifiedRows(table.ids, rows, table.split)


def read_table(path: Path, options: TableOptions) -> NodeTable:
    """A table, with its ids, split and values in separate columns.

    Raises:
        DatasetError: as the end of a sentence: it is no table, or has no such columns.
    """
    if kind_of_table(path) in TEXT:
        text = read_text_table(
            path, header=options.header, delimiter=options.delimiter, as_text=options.named(), rows=options.rows
        )
        whole, dialect = text.table, text.dialect
        names = list(dialect.names or ())
        index = [whole.column_names[0]] if names and whole.num_columns > 1 and NAMELESS.fullmatch(names[0]) else []
    else:
        whole, dialect = _parquet_table(path), None
        names = list(whole.column_names)
        index = [name for name in pandas_index(whole.schema) if whole.num_columns > 1]
    known = names or None

    def named(column: str, what: str) -> str:
        try:
            return str(whole.column_names[column_place(column, known, whole.num_columns)])
        except KeyError as problem:
            there = ", ".join(known or whole.column_names)
            raise DatasetError(f"it has no column {column!r} {what}; there are {there}") from problem

    ids: Array | None = None
    numbering: str | None
    used: set[str] = set()
    words = [f"{whole.num_rows:,} rows"]
    if dialect is not None:
        words.append(f"text cut at {dialect.cut()}")
        header = dialect.header_line
        words.append("the first line is a row" if header is None else f"line {header} names the columns")
    if options.id_column is not None:
        column = named(options.id_column, "of ids")
        ids = _ids(whole.column(column), column, words=options.words, is_text=dialect is not None)
        used = {column, *(name for name in index if name.startswith(INDEX_PREFIX) or NAMELESS.fullmatch(name))}
        words.append(f"ids from column {column!r}")
    elif index:
        used = set(index)
        ids = _index_ids(whole, index, words)
    elif (numbering := _row_numbers(path, whole, known)) is not None and numbering not in options.columns:
        used = {numbering}
        words.append(f"column {numbering!r} numbers the rows and is left out")
    split = None
    if options.split_column is not None and (known is not None or options.split_column.isdecimal()):
        column = named(options.split_column, "of the split")
        split = _split_parts(whole.column(column), column)
        used.add(column)
        words.append(f"the split from column {column!r}")
    if options.columns:
        columns = [named(column, "to take") for column in options.columns]
    else:
        used |= {named(column, "to leave out") for column in options.left_out}
        columns = [name for name in whole.column_names if name not in used]
    spoken_for = used | set(columns)
    left = [name for name in whole.column_names if name not in spoken_for]
    words += [f"columns {_listed(columns)} taken"] if columns else []
    words += [f"columns {_listed(left)} left out"] if left else []
    options.read_as.append(f"{path.name}: {', '.join(words)}")
    return NodeTable(whole.select(columns), ids, split, dialect)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN_NAMES])
    return shown + (f" ... ({len(names):,})" if len(names) > SHOWN_NAMES else "")


def _index_ids(whole: Any, index: Sequence[str], words: list[str]) -> Array | None:
    """The ids that an index gives to the rows; None if it numbers them."""
    if len(index) > 1:
        raise DatasetError(
            f"its index has the columns {', '.join(index)}; say which has the ids of the nodes with --id-column"
        )
    column = whole.column(index[0])
    ids = _ids(column, index[0] or "without a name", words=False, is_text=True)
    if (
        ids.dtype.kind == "i"
        and len(ids)
        and int(ids[0]) in (0, 1)
        and np.array_equal(ids, np.arange(len(ids)) + ids[0])
    ):
        named = index[0] and not index[0].startswith(INDEX_PREFIX)
        words.append(f"{f'column {index[0]!r}' if named else 'the index'} numbers the rows and is left out")
        return None
    return ids


def _row_numbers(path: Path, whole: Any, names: Sequence[str] | None) -> str | None:
    """A first column that is named as one of ids and numbers the rows from 0."""
    import pyarrow as pa

    if names is None or whole.num_columns < 2 or names[0].strip().lower() not in ID_NAMES:
        return None
    column = whole.column(0)
    if not pa.types.is_integer(column.type) or column.null_count:
        return None
    name = str(whole.column_names[0])
    if np.array_equal(column.to_numpy(), np.arange(whole.num_rows)):
        return name
    progress.warn(
        f"{path}: the column {name!r} is taken for values; --id-column {name} says that it has the ids of the nodes"
    )
    return None


def _in_order(table: NodeTable, rows: Array, options: TableOptions) -> Array:
    """Rows in the order of the nodes."""
    if table.ids is None:
        return rows
    order = np.argsort(table.ids, kind="stable")
    if table.ids.dtype.kind != "i" or not np.array_equal(table.ids[order], np.arange(len(rows))):
        raise DatasetError(
            f"its index has the ids {', '.join(str(one) for one in table.ids[:3])} ..., not 0 .. {len(rows) - 1:,}; "
            "--id-column, with its name or number, matches rows by it"
        )
    options.read_as[-1] += ", rows put in the order of their index"
    return rows[order]


def _split_parts(column: Any, name: str) -> list[str]:
    """Which part each row is in: train, val, test or nothing."""
    parts = []
    for row, value in enumerate(column.to_pylist()):
        word = "" if value is None else str(value).strip().lower()
        if word not in SPLIT_NAMES and word not in NO_SPLIT:
            raise DatasetError(
                f"row {row} of its column {name!r} has {str(value)[:40]!r}; a split has train, val, test or nothing"
            )
        parts.append(SPLIT_NAMES.get(word, ""))
    if not any(parts):
        raise DatasetError(f"its column {name!r} has no node for train, val or test")
    return parts


def _ids(column: Any, name: str, *, words: bool, is_text: bool) -> Array:
    """A column as ids, none twice.

    Args:
        column: Arrow's.
        name: for messages.
        words: whether ids are words, whatever they look like.
        is_text: whether the column is from text, so that ids in digits are numbers unless `words`.
    """
    import pyarrow as pa

    if column.null_count:
        raise DatasetError(f"column {name!r} has {column.null_count:,} rows without an id")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text and not words and pa.types.is_string(column.type):
        column = _numbers_or_words(column, name)
    if pa.types.is_integer(column.type):
        ids: Array = column.to_numpy()
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= 2**63 - 1):
            odd = int(np.argmin(ids)) if int(ids.min()) < 0 else int(np.argmax(ids))
            raise DatasetError(f"row {odd} has the id {ids[odd]}, which is negative or beyond 64 bits")
        ids = ids.astype(np.int64)
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        stripped = [word.strip() for word in column.to_pylist()]
        if "" in stripped:
            raise DatasetError(f"row {stripped.index('')} has no id")
        ids = word_array(stripped)
    else:
        raise DatasetError(f"column {name!r} is of {column.type}, but node ids are integers or words")
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if len(twice):
        raise DatasetError(
            f"row {order[twice[0] + 1]} has the id {ids[order[twice[0]]]} of row {order[twice[0]]} again"
        )
    return ids


def _numbers_or_words(column: Any, name: str) -> Any:
    """A column of text as whole numbers, if all of it is digits; numbers that are not whole are no ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stripped = pc.utf8_trim_whitespace(column)
    if pc.all(pc.match_substring_regex(stripped, r"^-?[0-9]+$")).as_py():
        try:
            return stripped.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits
            return column
    try:
        numbers = stripped.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return column
    odd = int(np.argmax(numbers != np.floor(numbers)))
    raise DatasetError(
        f"row {odd} of column {name!r} has the number {column[odd].as_py()!r}, but node ids are integers, or words "
        "(--ids words)"
    )


def word_array(words: Sequence[str]) -> NDArray[Any]:
    """Words as an array of NumPy's StringDType, which takes for each as much as it is long.

    Raises:
        DatasetError: one has a NUL byte in it, or is too long to be an id.
    """
    for word in words:
        if len(word) > LONGEST_WORD or "\0" in word:
            raise DatasetError(f"the node id {word[:40]!r} ... has more than {LONGEST_WORD} letters, or a NUL byte")
    return np.array(words, WORDS)


def _from_npz(path: Path) -> Array:
    with Archive(path) as packed:
        _require_honest(packed)
    with np.load(path, allow_pickle=False) as archive:
        names = archive.files
        if "format" not in names:
            if len(names) != 1:
                found_names = f"the arrays {', '.join(names)}" if names else "no array"
                raise DatasetError(f"it holds {found_names}, where one is wanted")
            return np.asarray(archive[names[0]])
    import scipy.sparse

    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # toarray trusts the indices
    what = f"its matrix of {' x '.join(f'{size:,}' for size in matrix.shape)}"
    memory.require_memory(math.prod(matrix.shape) * matrix.dtype.itemsize, what)
    return np.asarray(matrix.toarray())


def _require_honest(archive: Archive) -> None:
    """Compare the shapes that NumPy is about to allocate with the bytes that are there, and with memory."""
    sizes = {name: archive.size(name) for name in archive.names}
    memory.require_memory(sum(sizes.values()), "what it unpacks to")
    for name, size in sizes.items():
        with archive.open(name) as stream:
            npy_header(stream, size, f"its array {name.removesuffix('.npy')!r}")


def _parquet_table(path: Path) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def _columns(table: Any) -> Array:
    """An Arrow table's columns beside each other, [N, F]; a column of lists is as many as each list has values."""
    import pyarrow as pa

    arrays = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            arrays.append(_lists(name, column))
            continue
        if not _is_number_type(kind):
            words = ((row, str(value)) for row, value in enumerate(column.to_pylist()))
            odd = next((f": row {row} has {word[:40]!r}" for row, word in words if not is_number(word.encode())), "")
            raise DatasetError(f"column {name!r} is not of numbers{odd}")
        if column.null_count:
            raise DatasetError(f"column {name!r} has {column.null_count:,} rows without a value")
        arrays.append(column.to_numpy())
    if not arrays:
        raise DatasetError("it has no columns")
    return np.column_stack(arrays)


def _is_number_type(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _lists(name: str, column: Any) -> Array:
    """A column of lists of numbers, all of one length, [N, F]."""
    import pyarrow.compute as pc

    if not _is_number_type(column.type.value_type):
        raise DatasetError(f"column {name!r} is of {column.type}, not of numbers or lists of them")
    if column.null_count:
        raise DatasetError(f"column {name!r} has {column.null_count:,} rows without a value")
    lengths = pc.list_value_length(column).to_numpy()
    if len(lengths) and int(lengths.min()) != int(lengths.max()):
        odd = int(np.argmax(lengths != lengths[0]))
        raise DatasetError(
            f"column {name!r} has lists of {lengths[0]} numbers, but row {odd} has one of {lengths[odd]}; a row a node "
            "needs as many as the others"
        )
    values = pc.list_flatten(column)
    if values.null_count:
        raise DatasetError(f"column {name!r} has lists with {values.null_count:,} values missing")
    flat: Array = values.to_numpy()
    return flat.reshape(len(lengths), -1)


def read_lines(path: Path, what: str, options: TableOptions | None = None) -> Array:
    """Whole numbers or truth values from text: [rows] of one a line, [rows, columns] of a table.

    Args:
        path: text.
        what: each number is, for messages.
        options: how to read it.

    Raises:
        DatasetError: with its number, a line that is not `what`.
    """
    options = options or TableOptions()
    table = read_table(path, options)
    columns = table.values.columns
    if len(columns) != 1:
        return _in_order(table, _columns(table.values), options)
    import pyarrow as pa

    kind = columns[0].type
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _in_order(table, columns[0].to_numpy(), options)
    if pa.types.is_floating(kind):
        values: Array = columns[0].to_numpy()
        odd = ~(np.isnan(values) | (np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)))
        if not odd.any():
            return _in_order(table, values, options)
        row = int(np.argmax(odd))
    else:
        values_of_text = columns[0].to_pylist()
        is_whole = (
            str(value).strip().removeprefix("-").isdecimal() and len(str(value)) < 19 for value in values_of_text
        )
        row = next((row for row, fine in enumerate(is_whole) if not fine), 0)
    assert table.dialect is not None
    number, line = line_of(path, table.dialect, row)
    raise DatasetError(f"line {number} is {line.decode('utf-8', 'replace').strip()[:40]!r}, not {what}")
