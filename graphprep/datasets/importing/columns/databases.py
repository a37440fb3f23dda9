"""Tables and queries of a SQLite or DuckDB file, opened read-only and read in batches.

SQLite comes with Python; DuckDB needs the package `duckdb`. The first bytes of the file decide which it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graphprep.datasets.importing.columns.table_source import Batch, TableReader
from graphprep.errors import DatasetError, UsageError
from graphprep.system.files.regular_file import regular_file
from graphprep.system.nearest import nearest

SQLITE_MAGIC, DUCKDB_MAGIC, DUCKDB_AT = b"SQLite format 3\0", b"DUCK", 8
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
MOST_ROWS = 1 << 16
"""SQLite gives an object for each value"""
DUCKDB_TABLES = "SELECT table_name FROM information_schema.tables"


def open_database(path: Path, table: str | None, query: str | None, called: str) -> TableReader:
    """A table or query of a database.

    Raises:
        DatasetError: it is no database, or has no such table; the query fails.
        UsageError: it is DuckDB's, and the package is not installed.
    """
    try:
        with regular_file(path).open("rb") as stream:
            head = stream.read(DUCKDB_AT + len(DUCKDB_MAGIC))
            head += stream.read(len(SQLITE_MAGIC) - len(head))
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
    if head == SQLITE_MAGIC:
        return SqliteReader(path, table, query, called)
    if head[DUCKDB_AT:].startswith(DUCKDB_MAGIC):
        return DuckDbReader(path, table, query, called)
    raise DatasetError(f"{path} is neither a SQLite nor a DuckDB file, so it is no `database`")


def _statement(table: str | None, query: str | None, tables: Sequence[str], path: Path) -> str:
    """What selects all rows.

    Raises:
        DatasetError: there is no such table.
    """
    if table is None:
        return str(query).strip().rstrip(";")
    if table not in tables:
        hint = nearest(table, tables) or f"; there are {', '.join(tables) or 'none'}"
        raise DatasetError(f"{path} has no table {table!r}{hint}")
    return 'SELECT * FROM "{}"'.format(table.replace('"', '""'))


def _chosen(statement: str, columns: Sequence[str]) -> str:
    names = ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)
    return f"SELECT {names or 'NULL'} FROM ({statement})"


class SqliteReader(TableReader):
    """Rows of a SQLite file."""

    is_text = False

    def __init__(self, path: Path, table: str | None, query: str | None, called: str) -> None:
        self.path, self.called = path, called
        with self._connection() as connection:
            tables = [row[0] for row in connection.execute(SQLITE_TABLES)]
            self._statement = _statement(table, query, tables, path)
            description = connection.execute(f"SELECT * FROM ({self._statement}) LIMIT 0").description
            self._names = [column[0] for column in description]

    def names(self) -> Sequence[str]:
        return self._names

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        start = 0
        with self._connection() as connection:
            cursor = connection.execute(_chosen(self._statement, columns))
            while fetched := cursor.fetchmany(min(rows, MOST_ROWS)):
                values = zip(*fetched, strict=True)
                arrays = {name: _array(column) for name, column in zip(columns, values, strict=False)}
                yield Batch(self, start, arrays, len(fetched))
                start += len(fetched)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self.path.absolute()))}?mode=ro", uri=True)) as connection:
                yield connection
        except sqlite3.Error as problem:
            raise DatasetError(f"{self.called} cannot be read ({problem})") from problem


def _array(values: Sequence[Any]) -> Any:
    """SQLite's values, which have a type each, as an Arrow array; numbers among words are words."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if str in kinds and kinds <= {str, int, float}:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # bytes among others, or numbers beyond 64 bits
        return pa.array([None if value is None else str(value) for value in values], pa.string())


class DuckDbReader(TableReader):
    """Rows of a DuckDB file."""

    is_text = False

    def __init__(self, path: Path, table: str | None, query: str | None, called: str) -> None:
        self.path, self.called = path, called
        with self._connection() as connection:
            tables = [row[0] for row in connection.execute(DUCKDB_TABLES).fetchall()]
            self._statement = _statement(table, query, tables, path)
            self._names = list(connection.sql(f"SELECT * FROM ({self._statement}) LIMIT 0").columns)

    def names(self) -> Sequence[str]:
        return self._names

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        start = 0
        with self._connection() as connection:
            result = connection.sql(_chosen(self._statement, columns))
            # Two names of one method: some releases warn of the second, others have no first.
            reader = result.to_arrow_reader if hasattr(result, "to_arrow_reader") else result.fetch_record_batch
            for batch in reader(rows):
                yield Batch(self, start, dict(zip(columns, batch.columns, strict=False)), batch.num_rows)
                start += batch.num_rows

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            import duckdb
        except ImportError as problem:
            raise UsageError(
                f"{self.path} is a DuckDB file, which needs the package duckdb; install it, or export its tables to "
                "Parquet"
            ) from problem
        try:
            with closing(duckdb.connect(str(self.path), read_only=True)) as connection:
                yield connection
        except duckdb.Error as problem:
            words = " ".join(str(problem).split())
            raise DatasetError(f"{self.called} cannot be read ({words})") from problem
