"""Which line of a block of text is not an edge, and why: a slow search, made once the fast parser has refused it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from graphprep.datasets.formats.text_dialect import Dialect, records
from graphprep.datasets.formats.text_records import rows_in
from graphprep.datasets.importing.edges.edge_columns import Roles
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.errors import DatasetError

INT64_MAX = 2**63 - 1
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the first lines show."""

    dialect: Dialect
    roles: Roles
    first_id: int = 0
    """of the first node"""

    @property
    def columns(self) -> int:
        return self.dialect.columns


class FaultFinder:
    """Names the first line that is wrong."""

    def __init__(self, path: Path, layout: Layout, options: EdgeOptions) -> None:
        self.path, self.layout, self.options = path, layout, options

    def check_columns(self, number: int, line: bytes, *, named: bool) -> None:
        """Raise an error if a file cannot have as many columns as `line`, the first one of data.

        A table whose columns have names may have any number of them.
        """
        columns, extra = self.layout.columns, self.options.weights + self.options.times
        named = named or self.options.columns.any()
        if columns < 2 or (columns > max(3, 2 + extra) and not named):
            what = "2, 3 with a weight or a time, or 4 with both" if extra else "2, or 3 with a weight or a time"
            self.fail(number, f"{columns} columns, but an edge list has {what}", line)

    def find(self, block: bytes, first_line: int) -> None:
        """Raise an error for the first line of `block` that is not an edge; return if there is none.

        Args:
            block: whole lines.
            first_line: the number of the first of them.
        """
        for number, fields, line in records(*rows_in(block, first_line, self.layout.dialect), self.layout.dialect):
            if b"\0" in line:
                self.fail(number, "there is a NUL byte: the file is binary, or was damaged by a crash", line)
            if len(fields) != self.layout.columns:
                self.fail(number, f"{len(fields)} columns where the lines before have {self.layout.columns}", line)
            self._check_fields(number, fields, line)

    def _check_fields(self, number: int, fields: list[bytes], line: bytes) -> None:
        place = self.layout.roles
        for end, limit in ((place.src, self.options.num_sources), (place.dst, self.options.num_destinations)):
            words = self.options.ids == "words"
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
