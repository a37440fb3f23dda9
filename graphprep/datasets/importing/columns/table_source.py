"""Where a table with named columns lies, and its columns batch by batch: files, a folder of them, or a database.

A table is text (.csv, .tsv, .txt, also packed), Parquet, Arrow (.arrow, .feather, .ipc), a folder of such files, which
are one table in the order of their names, or a table or query of a SQLite or DuckDB file. Text stays text here, however
its values look; what a value is, is decided by the role of its column (`values`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from graphprep.datasets.formats.text_dialect import COMMENT_MARKS, Dialect, look
from graphprep.datasets.formats.text_file import first_bytes, unpacked_name
from graphprep.datasets.formats.text_table import column_names, line_of, text_tables
from graphprep.datasets.importing.edges.edge_columns import column_place
from graphprep.datasets.importing.table_files import TEXT, kind_of_table, reading
from graphprep.errors import DatasetError
from graphprep.system import progress
from graphprep.system.nearest import nearest

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
KINDS = (*TEXT, *PARQUET, *ARROW)
BATCH_ROWS, EDGE_ROWS = 1 << 16, 1 << 20
"""of a batch; wide lists and hashed texts are read in small ones"""
HEAD_BYTES = 1 << 16


class Batch(NamedTuple):
    """Some rows of a table."""

    reader: TableReader
    """of the file that they are in"""
    start: int
    """the first row in that file, from 0"""
    columns: Mapping[str, Any]
    """Arrow's arrays, by name"""
    num_rows: int

    def place(self, position: int, column: str | None = None) -> str:
        """Where one of these rows is, for messages."""
        where = self.reader.place(self.start + position)
        return where if column is None else f"{where}, column {column!r}"


class TableReader(Protocol):
    """One file of a table."""

    called: str
    """for messages"""
    is_text: bool
    """whether values were written without types"""

    def names(self) -> Sequence[str]:
        """Of all columns."""
        ...

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        """These columns, in the order of the rows, at most so many at a time where that can be chosen.

        Raises:
            DatasetError: the file is damaged or no table.
        """
        ...

    def place(self, row: int) -> str:
        """Where a row is, counted from 0: the file, and its line in text."""
        return f"{self.called}, row {row:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """Where a table lies."""

    path: Path
    """of a file, a folder of files, or a database"""
    is_database: bool = False
    table: str | None = None
    """of a database"""
    query: str | None = None
    """of a database, in place of a table"""
    header: bool | None = None
    """of text: False if the first line is a row; columns are then named by their numbers, from 1"""
    delimiter: str | None = None
    """of text; None: as `text_dialect` finds"""
    _readers: list[TableReader] = field(default_factory=list, repr=False, compare=False)

    @property
    def called(self) -> str:
        """What messages call it."""
        if not self.is_database:
            return str(self.path)
        return f"{self.path}, {'the query' if self.table is None else f'table {self.table!r}'}"

    def files(self) -> list[Path]:
        """All files that it is read from.

        Raises:
            DatasetError: a folder has none, or cannot be read.
        """
        if self.is_database:
            log = self.path.with_name(f"{self.path.name}-wal")  # rows that SQLite has not yet put into the file itself
            return [self.path, *([log] if log.is_file() and log.stat().st_size else [])]
        if not self.path.is_dir():
            return [self.path]
        try:
            inside = sorted(path for path in self.path.iterdir() if not path.name.startswith((".", "_")))
        except OSError as problem:
            raise DatasetError(f"{self.path} cannot be read ({problem.strerror})") from problem
        files = [path for path in inside if kind_of_table(path) in KINDS and path.is_file()]
        if not files:
            raise DatasetError(f"the folder {self.path} has no table: no file that ends in {', '.join(KINDS)}")
        return files

    def to_json(self) -> dict[str, object]:
        """All but its place."""
        return {name: getattr(self, name) for name in ("table", "query", "header", "delimiter")}

    def readers(self) -> list[TableReader]:
        """One a file, opened.

        Raises:
            DatasetError: a file is no table, or there is no such table in a database.
        """
        if not self._readers:
            self._readers.extend(self._opened())
        return self._readers

    def _opened(self) -> Iterator[TableReader]:
        if self.is_database:
            from graphprep.datasets.importing.columns.databases import open_database

            yield open_database(self.path, self.table, self.query, self.called)
            return
        files = self.files()
        if self.path.is_dir() and (
            others := sorted({path.name for path in self.path.iterdir()} - {f.name for f in files})
        ):
            progress.say(f"{self.path}: {len(files):,} files are read; left out: {', '.join(others)}")
        for path in files:
            kind = kind_of_table(path)
            if kind in TEXT:
                yield TextReader(path, self.header, self.delimiter)
            elif kind in PARQUET:
                yield ParquetReader(path)
            elif kind in ARROW:
                yield ArrowReader(path)
            else:
                raise DatasetError(
                    f"{path} is no table that is known by its ending; a table ends in {', '.join(KINDS)} (text also in "
                    ".gz or .zst), is a folder of such files, or lies in a `database`"
                )

    def names(self) -> Sequence[str]:
        """The columns of the first file."""
        return self.readers()[0].names()

    def column(self, requested: str, role: str) -> str:
        """The name of a column that a person names, or numbers from 1.

        Raises:
            DatasetError: there is none, or another file of the folder lacks it.
        """
        names = self.names()
        try:
            name = names[column_place(requested, names, len(names))]
        except KeyError as problem:
            hint = nearest(requested, names) or f"; its columns are {', '.join(names)}"
            raise DatasetError(f"{self.called} has no column {requested!r} for the {role}{hint}") from problem
        for reader in self.readers():
            if name not in reader.names():
                raise DatasetError(f"{reader.called} has no column {name!r}, which other files of {self.path} have")
        return name

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """These columns of all files.

        Raises:
            DatasetError: a file is damaged or no table.
        """
        columns = list(dict.fromkeys(columns))
        for reader in self.readers():
            yield from reader.batches(columns, rows)


class TextReader(TableReader):
    """Rows of text, whose first line names the columns."""

    is_text = True

    def __init__(self, path: Path, header: bool | None, delimiter: str | None) -> None:
        self.path, self.called = path, str(path)
        if delimiter is None and unpacked_name(path).endswith(".csv"):
            with reading(path):
                lines = first_bytes(path, HEAD_BYTES).splitlines()
            line = next((line for line in lines if line.strip() and not line.startswith(COMMENT_MARKS)), b"")
            delimiter = None if any(mark in line for mark in (b",", b";", b"\t")) else "|" if b"|" in line else ","
        found, _ = look(path, words=True, edges=False, header=header is not False, delimiter=delimiter)
        if found is None:
            raise DatasetError(f"{path} cannot be used: it has neither names of columns nor rows")
        self.dialect: Dialect = found.dialect

    def names(self) -> Sequence[str]:
        return column_names(self.dialect)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:  # noqa: ARG002 - blocks are of bytes
        import pyarrow as pa

        start = 0
        with reading(self.path):
            for table in text_tables(
                self.path, self.dialect, dict.fromkeys(self.names(), pa.string()), columns=columns
            ):
                table = table.combine_chunks()
                arrays = {name: table.column(name).combine_chunks() for name in columns}
                yield Batch(self, start, arrays, table.num_rows)
                start += table.num_rows

    def place(self, row: int) -> str:
        return f"{self.called}, line {line_of(self.path, self.dialect, row)[0]}"


class _TypedReader(TableReader):
    """What files with types have in common."""

    is_text = False

    def __init__(self, path: Path) -> None:
        self.path, self.called = path, str(path)
        with reading(path):
            self._names = list(self._schema().names)
            if len(set(self._names)) < len(self._names):
                raise DatasetError(f"two of its columns have one name: {', '.join(self._names)}")

    def names(self) -> Sequence[str]:
        return self._names

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        start = 0
        with reading(self.path):
            for batch in self._record_batches(columns, rows):
                for at in range(0, batch.num_rows, rows):
                    some = batch.slice(at, rows)
                    arrays = dict(zip(some.schema.names, some.columns, strict=True))
                    yield Batch(self, start, arrays, some.num_rows)
                    start += some.num_rows

    @abstractmethod
    def _schema(self) -> Any:
        """Arrow's, of all columns."""

    @abstractmethod
    def _record_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Of these columns, in any sizes."""


class ParquetReader(_TypedReader):
    """Rows of a Parquet file."""

    def _schema(self) -> Any:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
            return file.schema_arrow

    def _record_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
            yield from file.iter_batches(batch_size=rows, columns=list(columns))


class ArrowReader(_TypedReader):
    """Rows of an Arrow file (Feather) or stream, mapped into memory."""

    def _schema(self) -> Any:
        return self._open().schema

    def _record_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:  # noqa: ARG002
        opened = self._open()
        whole = (
            (opened.get_batch(number) for number in range(opened.num_record_batches))
            if hasattr(opened, "num_record_batches")
            else iter(opened)
        )
        return (batch.select(list(columns)) for batch in whole)

    def _open(self) -> Any:
        import pyarrow as pa

        mapped = pa.memory_map(str(self.path))
        try:
            return pa.ipc.open_file(mapped)
        except pa.ArrowInvalid:
            mapped.seek(0)
            return pa.ipc.open_stream(mapped)
