"""Blocks of whole records of a text table, and what Arrow makes of one.

A record is a line, unless a field in quotes has a line feed in it. Arrow's CSV reader knows one delimiter and quotes,
but no runs of blanks, brackets or comments: `tidied` turns a block into what it takes, in one pass over its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from graphprep.datasets.formats.text_dialect import Dialect
from graphprep.datasets.formats.text_file import LONGEST_LINE, line_blocks
from graphprep.errors import DatasetError

LINE_END, RETURN, QUOTE, TAB, SPACE = 10, 13, 34, 9, 32
MOST_LINES_IN_QUOTES = 10_000


def record_blocks(
    path: Path, delimiter: str, *, quoted: bool, after: int, expected: bytes | None = None
) -> Iterator[tuple[int, bytes]]:
    """Runs of whole records, each with the number of its first line.

    Args:
        path: text, packed or not.
        delimiter: of the fields; a space for blanks.
        quoted: whether a field may be in quotes, and a record so have several lines.
        after: the lines up to this one are no records; quotes mean nothing there.
        expected: as for `line_blocks`.

    Raises:
        DatasetError: as `line_blocks`; a quote that has no end.
    """
    if not quoted:
        yield from line_blocks(path, expected=expected)
        return
    rest, rest_line = b"", 0
    for first_line, block in line_blocks(path, expected=expected):
        line = first_line
        if line <= after:
            head = block.splitlines(keepends=True)[: after + 1 - line]
            size = sum(map(len, head))
            yield line, block[:size]
            block, line = block[size:], line + len(head)
            if not block:
                continue
        if rest:
            block, line = rest + block, rest_line
            rest = b""
        if b'"' not in block:
            yield line, block
            continue
        end = int(_records_end(np.frombuffer(block, np.uint8), ord(delimiter)))
        if end:
            yield line, block[:end]
        if end < len(block):
            rest, rest_line = block[end:], line + block.count(b"\n", 0, end)
            if len(rest) > LONGEST_LINE or rest.count(b"\n") > MOST_LINES_IN_QUOTES:
                raise DatasetError(f"{path}, line {rest_line}: a quote in this line has no end")
    if rest:
        if (
            rest.count(b"\n")
            and b'"' in rest
            and _records_end(np.frombuffer(rest + b"\n", np.uint8), ord(delimiter)) <= len(rest)
        ):
            raise DatasetError(f"{path}, line {rest_line}: a quote in this line has no end")
        yield rest_line, rest


def tidied(text: bytes, delimiter: str, *, quoted: bool, bracketed: bool) -> bytes:
    """Text with one tab between the fields of a line, and none at its ends if the delimiter is a space.

    Args:
        text: whole records, whose lines end in line feeds.
        delimiter: a space stands for any run of spaces and tabs.
        quoted: whether a field may be in quotes, which stay.
        bracketed: whether delimiters in a field that begins with a bracket belong to it.
    """
    raw = np.frombuffer(text, np.uint8)
    out = np.empty(len(raw), np.uint8)
    size = int(_tidy(raw, ord(delimiter), quoted, bracketed, out))
    tidy: bytes = out[:size].tobytes()
    return tidy


def arrow_table(
    text: bytes,
    separator: str,
    names: Sequence[str],
    types: Mapping[str, Any],
    *,
    quoted: bool,
    columns: Sequence[str] | None = None,
) -> Any:
    """What Arrow makes of records.

    Args:
        text: of the records.
        separator: one character.
        names: of all columns.
        types: Arrow's, of some; those of others are inferred from the values.
        quoted: whether fields may be in quotes.
        columns: the ones that are wanted; None for all.

    Raises:
        pyarrow.ArrowInvalid: a line has other than so many fields, or a field is not of its type.
    """
    import pyarrow as pa
    from pyarrow import csv

    return csv.read_csv(
        pa.BufferReader(text),
        read_options=csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(text) + 1),
        parse_options=csv.ParseOptions(
            delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted and b'"' in text
        ),
        convert_options=csv.ConvertOptions(
            column_types=dict(types),
            null_values=[],
            strings_can_be_null=False,
            include_columns=None if columns is None else list(columns),
        ),
    )


def records_alone(block: bytes, first_line: int, dialect: Dialect) -> bytes:
    """A block's records as Arrow takes them: without the lines before them and comments; empty if there are none."""
    text = block
    if first_line <= dialect.last_skipped:
        text = without_lines(text, dialect.last_skipped - first_line)
    text = single_line_ends(text, quoted=dialect.quoted)
    if dialect.comments_anywhere and (b"#" in text or b"%" in text):
        text = without_comments(text)
    return b"" if text.isspace() else text


def rows_in(block: bytes, first_line: int, dialect: Dialect) -> tuple[bytes, int]:
    """The part of a block that is rows, and the number of its first line."""
    if first_line > dialect.last_skipped:
        return block, first_line
    lines = block.splitlines(keepends=True)
    skipped = dialect.last_skipped + 1 - first_line
    return b"".join(lines[skipped:]), first_line + skipped


def without_lines(text: bytes, last: int) -> bytes:
    """`text` with its lines up to and with `last`, from 0, emptied."""
    lines = text.splitlines(keepends=True)
    return b"".join([b"\n"] * min(last + 1, len(lines)) + lines[last + 1 :])


def without_comments(text: bytes) -> bytes:
    """`text` with each line whose first mark is # or % emptied."""
    kept, position = [], 0
    for mark in re.finditer(rb"[#%][^\n]*", text):
        line_start = text.rfind(b"\n", 0, mark.start()) + 1
        if not text[line_start : mark.start()].strip():
            kept.append(text[position:line_start])
            position = mark.end()
    return b"".join([*kept, text[position:]])


def single_line_ends(text: bytes, *, quoted: bool) -> bytes:
    """`text` with line feeds for carriage returns; Arrow skips the empty lines that \\r\\n leaves."""
    if b"\r" not in text:
        return text
    if quoted and b'"' in text:
        return text.replace(b"\r\n", b"\n")
    return text.replace(b"\r", b"\n")


@njit(cache=True, nogil=True)
def _records_end(raw, delimiter):  # type: ignore[no-untyped-def]
    """Where the last record ends that is whole, one byte after its line feed; 0 if none is."""
    end = 0
    fresh, inside = True, False
    for at in range(len(raw)):
        byte = raw[at]
        if inside:
            if byte == QUOTE:  # a doubled quote goes out and in again
                inside = False
                fresh = at + 1 < len(raw) and raw[at + 1] == QUOTE
            continue
        if byte == QUOTE and fresh:
            inside = True
        elif byte == LINE_END:
            end = at + 1
            fresh = True
        else:
            fresh = byte in (delimiter, RETURN) or (delimiter == SPACE and byte == TAB)
    return end


@njit(cache=True, nogil=True)
def _tidy(raw, delimiter, quoted, bracketed, out):  # type: ignore[no-untyped-def]
    """Fill `out`, which is as long as `raw`; how much of it."""
    size, at, end = 0, 0, len(raw)
    blanks = delimiter == SPACE
    fresh = True  # at the beginning of a field
    line_begin = True  # nothing of the line has been written
    waiting = False  # a run of blanks that is a delimiter if a field follows
    while at < end:
        byte = raw[at]
        if byte == LINE_END:
            out[size] = byte
            size += 1
            at += 1
            fresh, line_begin, waiting = True, True, False
            continue
        if blanks and byte in (SPACE, TAB, RETURN):
            waiting = not line_begin
            fresh = True
            at += 1
            continue
        if not blanks and byte == delimiter:
            out[size] = TAB
            size += 1
            at += 1
            fresh, line_begin = True, False
            continue
        if waiting:
            out[size] = TAB
            size += 1
            waiting = False
        line_begin = False
        if fresh and quoted and byte == QUOTE:
            out[size] = byte
            size += 1
            at += 1
            while at < end:
                byte = raw[at]
                out[size] = byte
                size += 1
                at += 1
                if byte == QUOTE:
                    if at < end and raw[at] == QUOTE:
                        out[size] = QUOTE
                        size += 1
                        at += 1
                    else:
                        break
            fresh = False
            continue
        if fresh and bracketed and (byte == 40 or byte == 91 or byte == 123):
            close = 41 if byte == 40 else byte + 2
            stop = at + 1
            while stop < end and raw[stop] != close and raw[stop] != LINE_END:
                stop += 1
            if stop < end and raw[stop] == close:
                while at <= stop:
                    out[size] = SPACE if raw[at] == TAB else raw[at]
                    size += 1
                    at += 1
                fresh = False
                continue
        out[size] = SPACE if byte == TAB else byte
        size += 1
        at += 1
        fresh = not blanks and fresh and byte == SPACE
    return size
