"""Which line of a block of text is not an edge, and why: the slow way, taken once, when the fast one has refused."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from graphprep.errors import DatasetError
from graphprep.sources.edge_columns import Roles
from graphprep.sources.edge_file import Wanted

INT64_MAX = 2**63 - 1
COMMENT_MARKS = (b"#", b"%")
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
Delimiter = Literal[" ", ",", ";"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the first line of data shows."""

    delimiter: Delimiter
    """a space stands for any run of spaces and tabs"""
    columns: int
    header_line: int | None
    """the number of a line with the columns' names; it and the lines before it are not edges"""
    roles: Roles
    first_id: int = 0
    """of the first node"""


class FaultFinder:
    """Names the first line that is wrong."""

    def __init__(self, path: Path, layout: Layout, wanted: Wanted) -> None:
        self.path, self.layout, self.wanted = path, layout, wanted

    def check_columns(self, number: int, line: bytes, *, named: bool) -> None:
        """Raise an error if a file cannot have as many columns as `line`, the first one of data.

        A table whose columns have names may have any number of them.
        """
        columns, extra = self.layout.columns, self.wanted.weights + self.wanted.times
        if columns < 2 or (columns > max(3, 2 + extra) and not named):
            what = "2, 3 with a weight or a time, or 4 with both" if extra else "2, or 3 with a weight or a time"
            self.fail(number, f"{columns} columns, but an edge list has {what}", line)

    def find(self, block: bytes, first_line: int) -> None:
        """Raise an error for the first line of `block` that is not an edge; return if there is none.

        Args:
            block: whole lines.
            first_line: the number of the first of them.
        """
        header = self.layout.header_line or 0
        for number, line in enumerate(block.splitlines(), first_line):
            if not line.strip() or line.lstrip().startswith(COMMENT_MARKS) or number <= header:
                continue
            if b"\0" in line:
                self.fail(number, "there is a NUL byte: the file is binary, or was damaged by a crash", line)
            fields = fields_of(line, self.layout.delimiter)
            if len(fields) != self.layout.columns:
                self.fail(number, f"{len(fields)} columns where the lines before have {self.layout.columns}", line)
            self._check_fields(number, fields, line)

    def _check_fields(self, number: int, fields: list[bytes], line: bytes) -> None:
        place = self.layout.roles
        for end, limit in ((place.src, self.wanted.num_sources), (place.dst, self.wanted.num_destinations)):
            words = self.wanted.ids == "words"
            reason = _fault_of_word(fields[end]) if words else self._fault_of_id(fields[end], limit)
            if reason:
                self.fail(number, reason, line)
        for position, what in ((place.weight, "weight"), (place.time, "time")):
            if position is None:
                continue
            field = fields[position]
            if not NUMBER.fullmatch(field) or not np.isfinite(_float(field, what)):
                hint = ", such as seconds since 1970" if what == "time" else ""
                self.fail(number, f"{shown(field)} is no finite {what}; give a number{hint}", line)

    def _fault_of_id(self, field: bytes, limit: int | None) -> str | None:
        first = self.layout.first_id
        if field.isdigit():
            value = int(field) if len(field) < 40 else INT64_MAX + 1
            if value > INT64_MAX - 1:
                return f"the node id {shown(field)} is beyond 64 bits"
            if value < first:
                return f"the node id {value} is below {first}, where the ids of this format begin"
            if limit is not None and value >= limit + first:
                whose = "0 .. N-1" if first == 0 else f"{first} .. N"
                return f"the node id {value} does not fit {limit:,} nodes, whose ids are {whose}"
            return None
        if field.startswith(b"-") and field[1:].isdigit():
            zero = not int(field[1:40]) and first == 0
            return None if zero else f"the node id {shown(field)} is negative"
        if NUMBER.fullmatch(field):
            return f"the node id {shown(field)} is no whole number in plain digits"
        return f"{shown(field)} is no node id" if field else "a field is empty"

    def fail(self, number: int, reason: str, line: bytes) -> NoReturn:
        """Raise the error for line `number`."""
        hint = "; if this line names the columns, say that there is a header (--header)" if number == 1 else ""
        words = re.search(rb"[A-Za-z]", line)
        if words and not hint and "is no node id" in reason:
            hint = "; if ids are words, say so with --ids words"
        raise DatasetError(f"{self.path}, line {number}: {reason} (the line is {shown(line)}){hint if words else ''}")


def delimiter_of(line: bytes) -> Delimiter:
    """What stands between the fields of `line`."""
    return "," if b"," in line else ";" if b";" in line else " "


def fields_of(line: bytes, delimiter: str) -> list[bytes]:
    """The fields of `line`, without quotes and white space around them."""
    if delimiter == " ":
        return line.split()
    if b'"' not in line:
        return [field.strip() for field in line.split(delimiter.encode())]
    row = next(csv.reader([line.decode("latin1").strip()], delimiter=delimiter, skipinitialspace=True))
    return [field.strip().encode("latin1") for field in row]


def shown(text: bytes) -> str:
    """A piece of a file in quotes, shortened."""
    words = text.decode("utf-8", "replace")
    return repr(words if len(words) <= 60 else words[:57] + "...")


def _fault_of_word(field: bytes) -> str | None:
    try:
        field.decode()
    except UnicodeDecodeError:
        return f"{shown(field)} is no UTF-8 text"
    return None if field else "a field is empty"


def _float(field: bytes, what: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(float(field)) if what == "weight" else float(field))
