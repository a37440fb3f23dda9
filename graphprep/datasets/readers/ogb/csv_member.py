"""Tables of numbers in the gzipped CSV members of an archive, parsed in blocks as they are unpacked.

The tables have no header, the same columns in every line, and say nowhere whether they hold whole numbers; that is
found out as pandas does, for the whole table: one that holds whole numbers alone is int64, any other float32.

A block of some megabytes is unpacked, cut at its last line end and given to Arrow, a few ahead by a few threads. One
core unpacks and parses some 100 MB of text a second; memory stays at a few blocks, whatever the member's size.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive, in_plain_words
from graphprep.system.files.scratch import RowSink
from graphprep.system.files.verify import HEAD_BYTES, substitute
from graphprep.system.threads import map_in_order

Array = NDArray[Any]
BLOCK_BYTES = 4 << 20
LONGEST_LINE = 16 << 20
MOST_THREADS = 4
MOST_WORDS = 1 << 20
"""bytes of a table of words"""
GZIP_MAGIC = b"\x1f\x8b"
NO_VALUE = ("", "nan", "NaN", "NAN")


@contextmanager
def unpacked(archive: Archive, name: str) -> Iterator[BinaryIO]:
    """The text in a gzipped member, as a stream; once it is read to its end, both checksums have been compared.

    Raises:
        DatasetError: there is no such member, it is not gzip, or it is cut short or damaged.
    """
    with archive.open(name) as stream:
        head = stream.read(HEAD_BYTES)
    if not head.startswith(GZIP_MAGIC):
        raise DatasetError(f"its member {name} is not gzip: {substitute(head) or 'its first bytes are others'}")
    with archive.open(name) as packed, in_plain_words(f"its member {name} is damaged"):
        with gzip.GzipFile(fileobj=packed) as text:
            yield cast(BinaryIO, text)
            at_end = not text.read(1)
        while at_end and packed.read(HEAD_BYTES):
            pass


class CsvMember:
    """One member."""

    def __init__(self, archive: Archive, name: str) -> None:
        """
        Raises:
            DatasetError: there is no such member, or it is not gzip of a table of numbers.
        """
        self.archive, self.name = archive, name
        with unpacked(archive, name) as stream:
            first = stream.readline(LONGEST_LINE).strip()
        self.columns = first.count(b",") + 1 if first else 0
        self.whole_numbers = all(field.strip().removeprefix(b"-").isdigit() for field in first.split(b","))

    def pieces(self, dtype: type[np.generic], *, gaps: bool = False) -> Iterator[Array]:
        """The table from its first row on as [n, columns] of `dtype`, one piece a block.

        Args:
            dtype: int64, float32 or float64.
            gaps: whether a value may be missing, which then is NaN.

        Raises:
            DatasetError: a line that is not `columns` such numbers, by its number; a damaged member.
        """
        workers = min(MOST_THREADS, os.cpu_count() or 1)
        with unpacked(self.archive, self.name) as stream:
            blocks = _blocks(stream, self.name)
            yield from map_in_order(lambda piece: self._parsed(*piece, dtype, gaps), blocks, workers=workers)

    def array(self, rows: int, folder: Path, *, what: str, repeat: int = 1) -> Array:
        """The whole table, [rows * repeat, columns], int64 or float32.

        Args:
            rows: how many there must be.
            folder: where a large array lies.
            what: the rows stand for, for messages: "nodes", "edges".
            repeat: give each row so many times, one after the other.

        Raises:
            DatasetError: other than `rows` rows, a value that is not finite.
        """
        if self.whole_numbers:
            try:
                return self._array(np.int64, rows, folder, what, repeat)
            except _NotWhole:
                pass
        return self._array(np.float32, rows, folder, what, repeat)

    def column(self, *, gaps: bool = False) -> Array:
        """A table of one column in memory, int64 [rows], or float64 with `gaps`."""
        self.require_columns(1)
        pieces = [piece[:, 0] for piece in self.pieces(np.float64 if gaps else np.int64, gaps=gaps)]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float64 if gaps else np.int64)

    def require_columns(self, columns: int) -> None:
        """
        Raises:
            DatasetError: there are other than so many (an empty table has any number).
        """
        if self.columns not in (0, columns):
            raise DatasetError(f"its member {self.name} has {self.columns} columns instead of {columns}")

    def _array(self, dtype: type[np.generic], rows: int, folder: Path, what: str, repeat: int) -> Array:
        sink = RowSink((rows * repeat, self.columns), np.dtype(dtype), folder)
        seen = 0
        for piece in self.pieces(dtype):
            if dtype is np.float32 and not (finite := np.isfinite(piece).all(axis=1)).all():
                line = seen + int(np.argmin(finite)) + 1
                raise DatasetError(f"its member {self.name}, row {line}, holds a value that is not finite")
            seen += len(piece)
            if seen > rows:
                break
            sink.add(np.repeat(piece, repeat, axis=0) if repeat > 1 else piece)
        require_rows(self.name, seen, rows, what)
        return sink.array()

    def _parsed(self, line: int, block: bytes, dtype: type[np.generic], gaps: bool) -> Array:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        names = [str(number) for number in range(self.columns)]
        kind = pa.from_numpy_dtype(np.dtype(dtype))
        try:
            if b"x" in block or b"X" in block or b"\r" in block.replace(b"\r\n", b"\n"):
                raise pa.ArrowInvalid("hexadecimal")  # Arrow would read 0x10 as sixteen
            table = arrow_csv.read_csv(
                pa.BufferReader(block),
                read_options=arrow_csv.ReadOptions(
                    column_names=names, use_threads=False, block_size=len(block) + 1, encoding="latin-1"
                ),
                parse_options=arrow_csv.ParseOptions(quote_char=False),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, kind), null_values=list(NO_VALUE) if gaps else []
                ),
            )
        except pa.ArrowInvalid as problem:
            self._find_fault(block, line, dtype, gaps)
            raise DatasetError(
                f"its member {self.name}, from line {line} on, is no table of numbers ({problem})"
            ) from problem
        rows = np.empty((table.num_rows, self.columns), dtype)
        for number, column in enumerate(table.columns):
            rows[:, number] = column.to_numpy()
        return rows

    def _find_fault(self, block: bytes, first: int, dtype: type[np.generic], gaps: bool) -> None:
        """Raise an error for the first line of `block` that is not a row of numbers."""
        for line, text in enumerate(block.splitlines(), first):
            fields = text.split(b",") if text.strip() else []
            if fields and len(fields) != self.columns:
                self._fail(line, f"{len(fields)} columns where the first line has {self.columns}", text)
            for field in fields:
                word = field.decode("latin-1")
                if dtype is np.int64 and not word.strip().removeprefix("-").isdigit():
                    if self.whole_numbers and _is_number(word):
                        raise _NotWhole(f"its member {self.name}, line {line}: {word!r} is no whole number")
                    self._fail(line, f"{word[:40]!r} is no whole number", text)
                if not (_is_number(word) or (gaps and word in NO_VALUE)):
                    self._fail(line, f"{word[:40]!r} is no number", text)

    def _fail(self, line: int, reason: str, text: bytes) -> NoReturn:
        shown = text[:60].decode("utf-8", "replace")
        raise DatasetError(f"its member {self.name}, line {line}: {reason} (the line is {shown!r})")


class _NotWhole(DatasetError):
    """A number with a fraction in a table whose first line has none."""


def require_rows(name: str, rows: int, expected: int, what: str) -> None:
    """
    Raises:
        DatasetError: a member has other than so many rows.
    """
    if rows != expected:
        count = f"more than {expected:,}" if rows > expected else f"{rows:,}"
        raise DatasetError(f"its member {name} has {count} rows for {expected:,} {what}")


def words(archive: Archive, name: str) -> list[list[str]]:
    """A small table of words, row by row.

    Raises:
        DatasetError: there is no such member, it is damaged, or not small.
    """
    with unpacked(archive, name) as stream:
        text = stream.read(MOST_WORDS + 1)
    if len(text) > MOST_WORDS:
        raise DatasetError(f"its member {name} has more than {MOST_WORDS:,} bytes")
    try:
        return [row for row in csv.reader(io.StringIO(text.decode("utf-8"), newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DatasetError(f"its member {name} is no table of words ({problem})") from problem


def record(archive: Archive, name: str, convert: Callable[[str], Any]) -> dict[str, Any]:
    """A table of two lines, names and their values.

    Raises:
        DatasetError: it has another form, or `convert` refuses a value.
    """
    rows = words(archive, name)
    if len(rows) != 2 or len(rows[0]) != len(rows[1]) or len(set(rows[0])) != len(rows[0]):
        raise DatasetError(f"its member {name} is not one line of names and one of values")
    try:
        return {key.strip(): convert(value.strip()) for key, value in zip(*rows, strict=True)}
    except (KeyError, ValueError) as problem:
        raise DatasetError(f"its member {name} has a value that it should not have ({problem})") from problem


def _blocks(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Runs of whole lines, each with the number of its first line."""
    line, rest = 1, b""
    while piece := stream.read(BLOCK_BYTES):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            rest += piece
            if len(rest) > LONGEST_LINE:
                raise DatasetError(f"its member {name}, line {line}: no line ends within {LONGEST_LINE:,} bytes")
            continue
        block, rest = rest + piece[:cut], piece[cut:]
        yield line, block
        line += block.count(b"\n")
    if rest:
        yield line, rest


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word
