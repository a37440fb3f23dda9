"""How a text table is written: delimiter, quotes, comments, the line of names, and a column of row numbers.

This is the one place that decides it, for edges and for the tables of nodes. It reads the first lines, and what
was said by the caller overrules what they show:

1. Lines at the beginning that are empty, or begin with # or %, are comments.
2. The delimiter is found in the text outside quotes and brackets: a tab wins, then `;` or `,` (the one that cuts
   all lines into equally many fields), then blanks, of which any run is one delimiter.
3. The first line that is no comment names the columns if none of its fields is a value (a number, true or false) and
   the table is one of values; in a table of words, if it names both ends of an edge, or has a word over a column of
   numbers. It also does if it is 0, 1, 2 ..., as pandas names columns, over numbers with a decimal point.
4. The first column numbers the rows, as pandas and R write it, if it has no name (or the line of names is shorter than
   the rows by one field) and counts up by one.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from graphprep.datasets.formats.text_file import line_blocks, unpacked_name
from graphprep.datasets.importing.edges.edge_columns import names_ends, names_value
from graphprep.errors import DatasetError

COMMENT_MARKS = (b"#", b"%")
SAMPLE_BYTES = 1 << 16
SAMPLE_LINES = 3
"""at least so many, however long they are"""
SAMPLE_RECORDS = 200
KEPT_COMMENTS = 20
LINE_ENDS = re.compile(rb"\r\n?|\n")
BRACKETED = rb"\([^()\n]*\)|\[[^\[\]\n]*\]|\{[^{}\n]*\}"
QUOTED = rb'"(?:[^"]|"")*"'
AT_FIELD_START = rb"(?:(?<=[\t,; \n])|^)"
BLANK_FIELDS = re.compile(rb"%s|(?:%s)(?=\s|$)|[^ \t]+" % (QUOTED, BRACKETED))
NAMELESS = re.compile(r"|unnamed: 0(_level_\d+)?|rownames|row\.names|__index_level_0__", re.IGNORECASE)
DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "blanks", "|": "bars"}
GIVEN_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "blanks": " ", "space": " ", "bar": "|"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a table is written."""

    delimiter: str
    """one character; a space stands for any run of spaces and tabs"""
    columns: int
    """of the rows"""
    names: tuple[str, ...] | None = None
    """one a column, "" for a column without a name; None: the table has no line of names"""
    header_line: int | None = None
    """the number of the line of names, of its last line if names have line feeds in them"""
    skipped: int = 0
    """lines before the first row: comments, empty ones, and the line of names"""
    comments: int = 0
    """lines before the rows that were taken for comments"""
    comments_anywhere: bool = True
    """whether lines between the rows may be comments too; not in tables of words, which may begin with # or %"""
    quoted: bool = False
    """whether a field may be in double quotes"""
    bracketed: bool = False
    """whether a field in brackets is one, whatever is in it"""
    has_index: bool = False
    """whether the first column numbers the rows"""
    doubtful_names: bool = False
    """whether the first row could also be the names that pandas gives to columns"""

    @property
    def last_skipped(self) -> int:
        """The number of the last line before the rows; 0 if the first line is a row."""
        return max(self.skipped, self.header_line or 0)

    def cut(self) -> str:
        """What the columns are cut at, in words."""
        return DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the beginning of a text shows."""

    dialect: Dialect
    records: tuple[tuple[int, list[bytes], bytes], ...]
    """the first rows: number of the line, fields, and the line"""
    complete: bool
    """whether `records` are all rows"""


def given_delimiter(text: str) -> str:
    """The delimiter that a person names: a word of GIVEN_DELIMITERS, or the character.

    Raises:
        ValueError: it is neither; the end of a sentence.
    """
    delimiter = GIVEN_DELIMITERS.get(text.lower(), text)
    if len(delimiter) != 1 or delimiter in '"\n\r' or not delimiter.isascii():
        raise ValueError(f"{text!r} is no delimiter; give tab, comma, semicolon, blanks, bar or one ASCII character")
    return delimiter


def look(
    path: Path, *, words: bool, edges: bool, header: bool | None = None, delimiter: str | None = None
) -> tuple[Look | None, tuple[bytes, ...]]:
    """What the first lines of a table show.

    Args:
        path: text, packed or not.
        words: whether fields that matter are words, not numbers.
        edges: whether these are edges, whose names are known and which may be cut at blanks in many ways.
        header: whether the first line names the columns; None to tell it.
        delimiter: as in `Dialect`; None to tell it.

    Returns:
        The look, None where there are no rows; and the first comments.

    Raises:
        DatasetError: the delimiter cannot be found; the file cannot be read.
    """
    beginning, comments = _beginning(path)
    if beginning is None:
        return None, comments
    first_line, body, complete = beginning.first_line, beginning.body, beginning.complete
    has_quotes = b'"' in body and re.search(AT_FIELD_START + rb'"', body) is not None
    bare = re.sub(AT_FIELD_START + QUOTED, b'""', body) if has_quotes else body
    lines = [
        line for line in bare.splitlines() if line.strip() and (words or not line.lstrip().startswith(COMMENT_MARKS))
    ][:SAMPLE_RECORDS]
    free = [re.sub(AT_FIELD_START + rb"(?:%s)" % BRACKETED, b"()", line) for line in lines]
    chosen = delimiter or _delimiter(path, free, first_line, words=words, edges=edges)
    inside = [b"," in line or b";" in line or b" " in line for line in _bracketed(lines)]
    dialect = Dialect(
        delimiter=chosen,
        columns=1,
        comments=beginning.num_comments,
        comments_anywhere=not words,
        quoted=has_quotes or chosen in ",;",
        bracketed=any(inside) and (chosen == " " or words),
    )
    sample = list(records(body, first_line, dialect, most=SAMPLE_RECORDS + 1))
    every = complete and len(sample) <= SAMPLE_RECORDS
    if not complete and 1 < len(sample) <= SAMPLE_RECORDS:
        sample = sample[:-1]  # the last one may be cut
    sample = sample[:SAMPLE_RECORDS]
    rows = [fields for _, fields, _ in sample]
    shorter = _is_shorter(rows)
    with_names, doubtful = (
        _has_names(path, rows, shorter, words=words, edges=edges) if header is None else (header, False)
    )
    names: tuple[str, ...] | None = None
    header_line = None
    if with_names:
        number, fields, text = sample[0]
        header_line = number + text.count(b"\n")
        decoded = [field.decode("utf-8", "replace") for field in fields]
        names = tuple(["", *decoded] if shorter else decoded)
        sample, rows = sample[1:], rows[1:]
    columns = len(rows[0]) if rows else len(names or ())
    has_index = (
        names is not None
        and bool(rows)
        and columns > 1
        and NAMELESS.fullmatch(names[0]) is not None
        and counts_up([row[0] for row in rows if row])
    )
    dialect = replace(
        dialect,
        columns=columns,
        names=names,
        header_line=header_line,
        skipped=(sample[0][0] - 1) if sample else first_line - 1,
        has_index=has_index,
        doubtful_names=doubtful,
    )
    return Look(dialect=dialect, records=tuple(sample), complete=every), comments


class _Beginning(NamedTuple):
    """The first lines of a text from its first record on."""

    first_line: int
    body: bytes
    """whole lines"""
    complete: bool
    """whether this is all of the text"""
    num_comments: int
    """before it"""


def _beginning(path: Path) -> tuple[_Beginning | None, tuple[bytes, ...]]:
    """None where there are no records; and the first comments."""
    comments: list[bytes] = []
    num_comments = first_line = 0
    body = b""
    for number, block in line_blocks(path):
        if body:
            body += block
        else:
            place = 0
            for line_number, line in enumerate(block.splitlines(keepends=True), number):
                text = line.strip()
                if text and not text.startswith(COMMENT_MARKS):
                    first_line, body = line_number, block[place:]
                    break
                if text:
                    num_comments += 1
                    if len(comments) < KEPT_COMMENTS:
                        comments.append(text)
                place += len(line)
        if len(body) >= SAMPLE_BYTES and body.count(b"\n") + body.count(b"\r") > 2 * SAMPLE_LINES:
            body = body[: _sample_size(body)]  # there may be more, and what is left out of the sample is not known
            cut = max(body.rfind(b"\n"), body.rfind(b"\r"))
            return _Beginning(first_line, body[: cut + 1] or body, False, num_comments), tuple(comments)
    return _Beginning(first_line, body, True, num_comments) if body else None, tuple(comments)


def _sample_size(body: bytes) -> int:
    """How much of a text is sampled: whole lines up to SAMPLE_BYTES, but at least SAMPLE_LINES of them."""
    ends = islice(LINE_ENDS.finditer(body), SAMPLE_LINES)
    return max(SAMPLE_BYTES + 1, *(end.end() for end in ends))


def records(
    text: bytes, first_line: int, dialect: Dialect, *, most: int | None = None
) -> Iterator[tuple[int, list[bytes], bytes]]:
    """The records of a text, which begins with one: number of the first line, fields, and the text of the record."""
    pending: list[bytes] = []
    start, place = first_line, 0
    for number, line in enumerate(_lines(text, dialect), first_line):
        if not pending:
            start = number
            bare = line.strip()
            if not bare or (dialect.comments_anywhere and bare.startswith(COMMENT_MARKS)):
                continue
        pending.append(line)
        if dialect.quoted and (len(pending) > 1 or b'"' in line) and sum(part.count(b'"') for part in pending) % 2:
            continue
        record = b"\n".join(pending)
        pending = []
        yield start, fields_of(record, dialect), record
        place += 1
        if most is not None and place >= most:
            return
    if pending:
        yield start, fields_of(b"\n".join(pending), dialect), b"\n".join(pending)


def fields_of(record: bytes, dialect: Dialect) -> list[bytes]:
    """The fields of a record, without quotes and white space around them."""
    delimiter = dialect.delimiter
    if delimiter == " ":
        if not (dialect.quoted or dialect.bracketed):
            return record.split()
        return [_unquoted(field) if dialect.quoted else field for field in BLANK_FIELDS.findall(record.strip())]
    if dialect.bracketed:
        parts = re.findall(
            rb"(?:%s|%s|[^%s])+|(?<=[%s])(?=[%s]|$)" % (QUOTED, BRACKETED, *[re.escape(delimiter.encode())] * 3), record
        )
        return [_unquoted(field.strip()) for field in parts]
    if not dialect.quoted or b'"' not in record:
        return [field.strip() for field in record.split(delimiter.encode())]
    text = record.decode("latin1").strip(" \r\n" if delimiter == "\t" else None)
    try:
        row = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:  # a field beyond its limit
        return [field.strip() for field in record.split(delimiter.encode())]
    return [field.strip().encode("latin1") for field in row]


def is_value(field: bytes) -> bool:
    """Whether `field` is a number or a truth value."""
    return field.lower() in (b"true", b"false") or is_number(field)


def is_number(field: bytes) -> bool:
    """Whether `field` is a number as Python reads it, without marks between its digits."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def counts_up(fields: Sequence[bytes]) -> bool:
    """Whether these are whole numbers from 0 or 1 on, each greater by one than the one before."""
    if not fields or not all(field.isdigit() and len(field) <= 18 for field in fields):
        return False
    first = int(fields[0])
    return first in (0, 1) and all(int(field) == first + row for row, field in enumerate(fields))


def _lines(text: bytes, dialect: Dialect) -> list[bytes]:
    if dialect.quoted and b'"' in text:  # a carriage return may be inside quotes
        return [line.removesuffix(b"\r") for line in text.split(b"\n")]
    return text.splitlines()


def _unquoted(field: bytes) -> bytes:
    if len(field) >= 2 and field.startswith(b'"') and field.endswith(b'"'):
        return field[1:-1].replace(b'""', b'"').strip()
    return field


def _bracketed(lines: Sequence[bytes]) -> list[bytes]:
    return [part for line in lines for part in re.findall(AT_FIELD_START + rb"(?:%s)(?=[\t,; ]|$)" % BRACKETED, line)]


def _delimiter(path: Path, lines: Sequence[bytes], first_line: int, *, words: bool, edges: bool) -> str:
    """What cuts the lines, of which quoted and bracketed fields have been emptied."""
    first, row = lines[0], lines[min(1, len(lines) - 1)]
    if b"\t" in first:
        if words or not edges:
            return "\t"
        at_tabs = [field.strip() for field in row.split(b"\t")]
        marks = b"," in first or b";" in first
        are_ids = len(at_tabs) > 1 and all(field.isdigit() for field in at_tabs[:2])
        if are_ids and (marks or len(row.split()) != len(at_tabs)):
            return "\t"
        if not marks:
            return " "
    both = [mark for mark in (";", ",") if mark.encode() in first]
    if len(both) < 2:
        return both[0] if both else " "
    even = [mark for mark in both if len({line.count(mark.encode()) for line in lines}) == 1]
    if len(even) == 1:
        return even[0]
    if not words:
        for mark in both:
            fields = [field.strip().strip(b'"') for field in row.split(mark.encode())]
            if all(is_value(field) for field in fields):
                return mark
            if edges and all(field.isdigit() for field in fields[:2]):
                return mark
    elif len(even) == 2 and len(lines) > 1:
        raise DatasetError(
            f"{path}, line {first_line}: the lines can be cut at commas or at semicolons; say which with --delimiter"
        )
    return ","


def _is_shorter(rows: Sequence[Sequence[bytes]]) -> bool:
    """Whether the first line has names for all columns but the first, as R's write.table has it."""
    if len(rows) < 2:
        return False
    lengths = {len(row) for row in rows[1:]}
    return lengths == {len(rows[0]) + 1} and not any(is_value(field) for field in rows[0])


def _has_names(
    path: Path, rows: Sequence[Sequence[bytes]], shorter: bool, *, words: bool, edges: bool
) -> tuple[bool, bool]:
    """Whether the first line names the columns, and whether that is in doubt."""
    first, rest = rows[0], rows[1:]
    named_so = unpacked_name(path).endswith((".csv", ".tsv"))
    texts = [field.decode("utf-8", "replace") for field in first]
    if shorter and (not edges or counts_up([row[0] for row in rest])):
        return True, False
    if words and edges:
        return _names_of_words(texts, rows, named_so=named_so), False
    if not named_so:
        return False, False
    if any(first) and not any(is_value(field) for field in first):
        return True, False
    if not rest or list(first) != [b"%d" % number for number in range(len(first))]:
        return False, False
    fractions = [
        [b"." in row[at] or b"e" in row[at].lower() for row in rest if len(row) > at] for at in range(len(first))
    ]
    if any(column and all(column) for column in fractions):
        return True, False
    return False, True


def _names_of_words(names: Sequence[str], rows: Sequence[Sequence[bytes]], *, named_so: bool) -> bool:
    """Whether the first line of a table of words names its columns."""
    rest = rows[1:]
    if named_so and names_ends(names):
        return True
    if len(names) < 3 or not named_so:
        return False
    seen = Counter(field for row in rest for field in row)
    for at, name in enumerate(names):
        below = [row[at] for row in rest if len(row) > at]
        numbers = bool(below) and all(is_value(field) for field in below)
        if name and not is_value(name.encode()) and numbers and (at > 1 or names_value(name)):
            return not any(seen[field] for field in rows[0][:2] if field)
        if not name and not at and counts_up(below):
            return True
    return False
