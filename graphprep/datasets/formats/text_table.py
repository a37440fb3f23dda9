"""A table of nodes in text as an Arrow table, read in blocks of whole records by the rules of `text_dialect`.

The columns' types are inferred from all values: whole numbers, numbers, truth values, else text. Columns of ids are
text until `table_files` knows what ids are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from graphprep.datasets.formats.text_dialect import Dialect, is_value, look, records
from graphprep.datasets.formats.text_records import arrow_table, record_blocks, records_alone, rows_in, tidied
from graphprep.datasets.importing.edges.edge_columns import column_place
from graphprep.datasets.importing.edges.text_faults import shown
from graphprep.errors import DatasetError
from graphprep.system import progress

HEXADECIMAL = re.compile(rb"(?:^|[\s,;|\"])[+-]?0[xX]")


class TextTable(NamedTuple):
    """A table and how it is written."""

    table: Any
    """Arrow's; columns without names are called by their numbers, from 1"""
    dialect: Dialect


def read_text_table(
    path: Path,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    as_text: Collection[str] = (),
    rows: int | None = None,
) -> TextTable:
    """All of a table.

    Args:
        path: text, packed or not.
        header: whether the first line names the columns; None to tell it.
        delimiter: as in `Dialect`; None to tell it.
        as_text: columns, by name or number, whose values stay text: ids, and the parts of a split.
        rows: how many there should be, if that is known; it settles whether a first line of 0, 1, 2 is a row.

    Raises:
        DatasetError: as the end of a sentence: there are no rows, a row has other than as many fields, or is no text.
    """
    first_look, _ = look(path, words=bool(as_text), edges=False, header=header, delimiter=delimiter)
    if first_look is None:
        raise DatasetError("it has no rows")
    dialect = first_look.dialect
    table = _table(path, dialect, as_text)
    if dialect.doubtful_names and header is None and rows != table.num_rows:
        if rows is not None and table.num_rows == rows + 1:
            progress.say(f"{path}: its first line names the columns, as there are {rows:,} nodes")
            return read_text_table(path, header=True, delimiter=delimiter, as_text=as_text)
        line = first_look.records[0][2]
        progress.warn(
            f"{path}: its first line, {shown(line)}, is read as a row and not as the names of columns; give "
            "--node-header if it names them, --no-node-header if it does not"
        )
    return TextTable(table, dialect)


def line_of(path: Path, dialect: Dialect, row: int) -> tuple[int, bytes]:
    """The number and the text of the line that a row, from 0, is in."""
    done = 0
    for first_line, block in record_blocks(path, dialect.delimiter, quoted=dialect.quoted, after=dialect.last_skipped):
        body, line = rows_in(block, first_line, dialect)
        for number, _, record in records(body, line, dialect):
            if done == row:
                return number, record
            done += 1
    return 0, b""


def _table(path: Path, dialect: Dialect, as_text: Collection[str]) -> Any:
    import pyarrow as pa

    names = column_names(dialect)
    types = {}
    for column in as_text:
        try:
            types[names[column_place(column, dialect.names or names, dialect.columns)]] = pa.string()
        except KeyError:
            continue  # the caller says that it is not there
    parts = list(text_tables(path, dialect, types, numbers=not as_text))
    if not parts:
        return pa.table({name: pa.array([], pa.string()) for name in names})
    return _joined(parts)


def text_tables(
    path: Path,
    dialect: Dialect,
    types: Mapping[str, Any],
    *,
    columns: Sequence[str] | None = None,
    numbers: bool = False,
) -> Iterator[Any]:
    """The rows of a table, block by block, as Arrow tables.

    Args:
        path: text, packed or not.
        dialect: how it is written.
        types: Arrow's, of some columns; those of others are inferred from the values of each block.
        columns: the ones that are wanted; None for all.
        numbers: whether all of them are numbers, so that one in hexadecimal digits is an error.

    Raises:
        DatasetError: as the end of a sentence: a row has other than as many fields, or is no text.
    """
    import pyarrow as pa

    names = column_names(dialect)
    for first_line, block in record_blocks(path, dialect.delimiter, quoted=dialect.quoted, after=dialect.last_skipped):
        text = records_alone(block, first_line, dialect)
        if not text:
            continue
        if b"\0" in text or (numbers and HEXADECIMAL.search(text)):
            _find_fault(dialect, block, first_line, numbers=numbers)
        separator = dialect.delimiter
        if separator == " " or dialect.bracketed:
            text, separator = tidied(text, separator, quoted=dialect.quoted, bracketed=dialect.bracketed), "\t"
        try:
            yield arrow_table(text, separator, names, types, quoted=dialect.quoted, columns=columns)
        except pa.ArrowInvalid as problem:
            _find_fault(dialect, block, first_line, numbers=False)
            raise DatasetError(f"the lines from {first_line} on are no table ({problem})") from problem


def _joined(parts: Sequence[Any]) -> Any:
    """Tables with the same columns as one; a type that holds the values of all."""
    import pyarrow as pa

    fields = []
    for column, field in enumerate(parts[0].schema):
        types = {part.schema.field(column).type for part in parts}
        if len(types) == 1:
            fields.append(field)
        elif all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types):
            fields.append(field.with_type(pa.float64()))
        else:
            fields.append(field.with_type(pa.string()))
    schema = pa.schema(fields)
    return pa.concat_tables([part.cast(schema) for part in parts])


def column_names(dialect: Dialect) -> list[str]:
    """A name for each column, none twice."""
    if dialect.names is None:
        return [str(number) for number in range(1, dialect.columns + 1)]
    names: list[str] = []
    taken: set[str] = set()
    for name in [*dialect.names, *[""] * (dialect.columns - len(dialect.names))]:
        again = 1
        fresh = name
        while fresh in taken:
            fresh, again = f"{name}.{again}", again + 1
        names.append(fresh)
        taken.add(fresh)
    return names[: max(dialect.columns, 1)]


def _find_fault(dialect: Dialect, block: bytes, first_line: int, *, numbers: bool) -> None:
    """Raise an error for the first line that is no row; return if there is none."""
    body, line = rows_in(block, first_line, dialect)
    for number, fields, record in records(body, line, dialect):
        if b"\0" in record:
            _fail(number, "has a NUL byte: the file is binary, or was damaged by a crash", record)
        if len(fields) != dialect.columns:
            _fail(number, f"has {len(fields)} columns where the lines before have {dialect.columns}", record)
        try:
            record.decode()
        except UnicodeDecodeError:
            _fail(number, "is no UTF-8 text", record)
        for field in fields if numbers else ():
            if HEXADECIMAL.match(field) and not is_value(field):
                _fail(number, f"has {shown(field)}, which is no number in plain digits", record)


def _fail(number: int, reason: str, record: bytes) -> NoReturn:
    raise DatasetError(f"line {number} {reason} (the line is {shown(record)})")
