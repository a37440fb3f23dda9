"""Edges from text: one edge a line, in blocks of whole lines, parsed by Arrow, with the line number of what is wrong.

A block of some megabytes is read, unpacked if need be, cut at its last line end and given to Arrow's CSV parser, which
knows one delimiter and nothing of comments. A block that has comments, or whose white space Arrow refuses, is tidied by
operations over the whole block; all others go through as they are. Nothing loops over lines in Python until Arrow
refuses a tidy block: then that block alone is read again line by line for the line that is at fault.

Blocks are parsed some ahead by a few threads, in order. One core parses some 200 MB of text a second; gzip unpacks at
about the same rate, on the thread that reads.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from graphprep.errors import DatasetError
from graphprep.graph import EdgeChunk
from graphprep.sources.text_file import line_blocks

MOST_THREADS = 4
INT64_MAX = 2**63 - 1
COMMENT_MARKS = (b"#", b"%")
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HEX_MARKS = (b"x", b"X")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the first line of data shows."""

    delimiter: Literal[" ", ",", ";"]
    """a space stands for any run of spaces and tabs"""
    columns: int
    header_line: int | None
    """the number of a line with the columns' names"""


class EdgeText:
    """One file of edges."""

    def __init__(
        self, path: Path, *, weights: bool = False, header: bool | None = None, num_nodes: int | None = None
    ) -> None:
        """Look at the first lines.

        Args:
            path: text, or gzip of text.
            weights: whether the third column is the edge's weight; else it is ignored.
            header: whether the first line names the columns; None finds out for .csv and .tsv, where it does if no
                field of it is a number.
            num_nodes: ids from here on are an error; None for no limit.

        Raises:
            DatasetError: this is no edge list.
        """
        self.path, self.weights, self.num_nodes = path, weights, num_nodes
        self._version = self._stat()
        self.layout = self._look(header)

    def chunks(self) -> Iterator[EdgeChunk]:
        """All edges in the file's order, one chunk a block. Can be used again.

        Raises:
            DatasetError: with the line number, a line that is not an edge; a damaged file; a file that has changed
                since it was first looked at.
        """
        if self._stat() != self._version:
            raise DatasetError(f"{self.path} has changed while it was being read; run the same again")
        workers = min(MOST_THREADS, os.cpu_count() or 1)
        ahead: deque[Future[EdgeChunk | None]] = deque()
        with ThreadPoolExecutor(workers, "edge-text") as pool:
            for first_line, block in line_blocks(self.path):
                ahead.append(pool.submit(self._chunk, block, first_line))
                if len(ahead) > workers and (chunk := ahead.popleft().result()) is not None:
                    yield chunk
            for future in ahead:
                if (chunk := future.result()) is not None:
                    yield chunk

    def _stat(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError as problem:
            raise DatasetError(f"{self.path} cannot be read ({problem.strerror})") from problem
        return found.st_size, found.st_mtime_ns

    def _look(self, header: bool | None) -> Layout:
        header_line = None
        for first_line, block in line_blocks(self.path):
            for number, line in enumerate(block.splitlines(), first_line):
                if not line.strip() or line.lstrip().startswith(COMMENT_MARKS):
                    continue
                delimiter = _delimiter(line)
                fields = _fields(line, delimiter)
                if header_line is None and self._is_header(fields, header):
                    header_line = number
                    continue
                if len(fields) not in (2, 3):
                    self._fail(number, f"{len(fields)} columns, but an edge list has 2, or 3 with a weight", line)
                if self.weights and len(fields) < 3:
                    self._fail(number, "there is no third column to take weights from", line)
                return Layout(delimiter=delimiter, columns=len(fields), header_line=header_line)
        if self.num_nodes is None:
            raise DatasetError(f"{self.path} has no edges in it")
        return Layout(delimiter=" ", columns=3 if self.weights else 2, header_line=header_line)

    def _is_header(self, fields: list[bytes], header: bool | None) -> bool:
        if header is not None:
            return header
        table = self.path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))
        return table and not any(NUMBER.fullmatch(field) for field in fields)

    def _chunk(self, block: bytes, first_line: int) -> EdgeChunk | None:
        """The edges of one block; None if it has none."""
        text = block
        if self.layout.header_line is not None and first_line <= self.layout.header_line:
            text = _without_line(text, self.layout.header_line - first_line)
        if b"\r" in text:
            text = text.replace(b"\r", b"\n")  # \r\n leaves an empty line, which Arrow skips
        if b"#" in text or b"%" in text:
            text = _without_comments(text)
        if not text or text.isspace():
            return None
        if any(mark in text for mark in HEX_MARKS):
            self._find_fault(block, first_line)  # Arrow would read 0x10 as sixteen
        chunk = self._parsed(text)
        limit = INT64_MAX if self.num_nodes is None else self.num_nodes
        if (
            chunk is None
            or min(int(chunk.src.min()), int(chunk.dst.min())) < 0
            or max(int(chunk.src.max()), int(chunk.dst.max())) >= limit
            or (chunk.weight is not None and not np.isfinite(chunk.weight).all())
        ):
            self._find_fault(block, first_line)
        if chunk is None:
            raise DatasetError(f"{self.path}: a line from {first_line} on is no edge; give one edge a line, as two ids")
        return chunk

    def _parsed(self, text: bytes) -> EdgeChunk | None:
        """What Arrow makes of `text`; None if it refuses it."""
        if self.layout.delimiter != " ":
            return self._arrow(text, self.layout.delimiter)
        if b" " in text:
            text = text.replace(b"\t", b" ")
        separator = b" " if b" " in text else b"\t"
        # A separator at a line's end would pass for an empty third column. Arrow refuses all other untidy lines at the
        # first of them, so to try costs less than to look.
        if self.layout.columns == 2 or separator + b"\n" not in text:
            chunk = self._arrow(text, separator.decode())
            if chunk is not None:
                return chunk
        return self._arrow(_single_spaced(text, separator), separator.decode())

    def _arrow(self, text: bytes, separator: str) -> EdgeChunk | None:
        import pyarrow as pa
        from pyarrow import csv

        types = {"src": pa.int64(), "dst": pa.int64(), "third": pa.float32() if self.weights else pa.string()}
        names = list(types)[: self.layout.columns]
        try:
            table = csv.read_csv(
                pa.BufferReader(text),
                read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
                parse_options=csv.ParseOptions(delimiter=separator, quote_char=False if separator in " \t" else '"'),
                convert_options=csv.ConvertOptions(
                    column_types=types, null_values=[], include_columns=names if self.weights else names[:2]
                ),
            )
        except pa.ArrowInvalid:
            return None
        if not table.num_rows:
            return None
        columns = [table.column(name).to_numpy() for name in table.column_names]
        return EdgeChunk(*columns)

    def _find_fault(self, block: bytes, first_line: int) -> None:
        """Raise an error for the first line of `block` that is not an edge."""
        for number, line in enumerate(block.splitlines(), first_line):
            if not line.strip() or line.lstrip().startswith(COMMENT_MARKS) or number == self.layout.header_line:
                continue
            if b"\0" in line:
                self._fail(number, "there is a NUL byte: the file is binary, or was damaged by a crash", line)
            fields = _fields(line, self.layout.delimiter)
            if len(fields) != self.layout.columns:
                self._fail(number, f"{len(fields)} columns where the lines before have {self.layout.columns}", line)
            for field in fields[:2]:
                if reason := self._fault_of_id(field):
                    self._fail(number, reason, line)
            if self.weights and (not NUMBER.fullmatch(fields[2]) or not np.isfinite(_float32(fields[2]))):
                self._fail(number, f"{_shown(fields[2])} is no finite weight", line)

    def _fault_of_id(self, field: bytes) -> str | None:
        if field.isdigit():
            value = int(field) if len(field) < 40 else INT64_MAX + 1
            if value > INT64_MAX - 1:
                return f"the node id {_shown(field)} is beyond 64 bits"
            if self.num_nodes is not None and value >= self.num_nodes:
                return f"the node id {value} does not fit {self.num_nodes:,} nodes, whose ids are 0 .. N-1"
            return None
        if field.startswith(b"-") and field[1:].isdigit():
            return None if not int(field[1:40]) else f"the node id {_shown(field)} is negative"
        if NUMBER.fullmatch(field):
            return f"the node id {_shown(field)} is no whole number in plain digits"
        return f"{_shown(field)} is no node id" if field else "a field is empty"

    def _fail(self, number: int, reason: str, line: bytes) -> NoReturn:
        hint = "; if this line names the columns, say that there is a header" if number == 1 else ""
        hint = hint if re.search(rb"[A-Za-z]", line) else ""
        raise DatasetError(f"{self.path}, line {number}: {reason} (the line is {_shown(line)}){hint}")


def _delimiter(line: bytes) -> Literal[" ", ",", ";"]:
    return "," if b"," in line else ";" if b";" in line else " "


def _fields(line: bytes, delimiter: str) -> list[bytes]:
    if delimiter == " ":
        return line.split()
    return [field.strip().removeprefix(b'"').removesuffix(b'"').strip() for field in line.split(delimiter.encode())]


def _without_line(text: bytes, index: int) -> bytes:
    lines = text.splitlines(keepends=True)
    if index < len(lines):
        lines[index] = b"\n"
    return b"".join(lines)


def _without_comments(text: bytes) -> bytes:
    """`text` with each line whose first mark is # or % emptied."""
    kept, position = [], 0
    for mark in re.finditer(rb"[#%][^\n]*", text):
        line_start = text.rfind(b"\n", 0, mark.start()) + 1
        if not text[line_start : mark.start()].strip():
            kept.append(text[position:line_start])
            position = mark.end()
    return b"".join([*kept, text[position:]])


def _single_spaced(text: bytes, separator: bytes) -> bytes:
    """`text` with one separator for each run of them, and none at the ends of lines."""
    characters = np.frombuffer(text, np.uint8)
    blank = characters == separator[0]
    keep = ~blank
    keep[1:] |= ~blank[:-1] & (characters[:-1] != ord("\n"))
    tidy: bytes = characters[keep].tobytes().replace(separator + b"\n", b"\n")
    return tidy.removesuffix(separator)


def _float32(field: bytes) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(float(field))


def _shown(text: bytes) -> str:
    words = text.decode("utf-8", "replace")
    return repr(words if len(words) <= 60 else words[:57] + "...")
