"""Sentences and tables on a terminal, within its width; in a pipe each sentence and each row is one line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import IO, Literal, TypeVar

from graphprep.report.cited import Cited
from graphprep.report.table import Column, Table
from graphprep.system.printable import printable

Subject = TypeVar("Subject")
DEFAULT_WIDTH = 80
"""Of a terminal that does not say how wide it is."""
MAX_COLUMNS, MAX_PIPED_COLUMNS = 17, 129
"""Columns beyond which a table is not printed, on a terminal and in a pipe."""
UNBROKEN = 24
"""Width up to which a cell is never broken; a number with its unit is narrower."""
UNIT, NO_BREAK_SPACE = re.compile(r"(\d) (%|[kMGT]?B|[mun]?s)(?!\w)"), "\u00a0"
"""No line is broken between a number and its unit."""
GAP = 2
"""Spaces between two columns."""


def printer(report: Callable[[Subject], Iterable[str | Table]]) -> Callable[[Subject, IO[str]], None]:
    """Turn a function that yields sentences and tables into one that prints them to a file."""

    @wraps(report)
    def print_report(subject: Subject, file: IO[str]) -> None:
        for item in report(subject):
            if isinstance(item, str):
                line(file, item)
            else:
                print_table(file, item)

    return print_report


def width_of(file: IO[str]) -> int | None:
    """Columns of the terminal that `file` is, by COLUMNS or by what the terminal says; None if it is no terminal."""
    if not file.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(file.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def line(file: IO[str], text: str) -> None:
    """Print a sentence, on a terminal broken between words where it is too long."""
    print(broken(printable(text), width_of(file)), file=file)


def broken(text: str, width: int | None, *, indent: str = "") -> str:
    """`text` in lines of at most `width` columns, all but the first indented by two more; words stay whole."""
    if width is None or len(indent) + len(text) <= width:
        return indent + text
    import textwrap

    return textwrap.fill(
        UNIT.sub(rf"\1{NO_BREAK_SPACE}\2", text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(NO_BREAK_SPACE, " ")


def print_table(file: IO[str], table: Table) -> None:
    """Print a table; no cell is ever cut.

    In a pipe each row is one line, as wide as it needs. On a terminal no line is wider than that: long cells are broken
    between words; if that is not enough, optional columns are left out, the last first, and a line says which; if that
    is not enough either, the columns are shown in several tables below each other, each with the first column; and
    where the first column and one other are too wide together, each row becomes lines of `column: cell`. A word that is
    wider than the terminal stays whole, and the terminal breaks it.
    """
    width, columns, rows = width_of(file), table.columns_on("terminal"), list(table.rows)
    if len(columns) > (MAX_PIPED_COLUMNS if width is None else MAX_COLUMNS):
        line(file, f"{table.title}: too many columns to print; --json and --html have them")
        return
    title = table.title
    if any(map(table.is_marked, rows)):
        title += f", * is the {table.mark}"
    if width is not None and table.rows_on_terminal is not None and len(rows) > table.rows_on_terminal:
        title += f"; the first {table.rows_on_terminal} of {len(rows)} (a pipe and --json have all)"
        rows = rows[: table.rows_on_terminal]
    line(file, title)
    texts = [_TextColumn.of(column, table, rows) for column in columns]
    if width is None:
        _draw(file, texts, [column.max_width for column in texts])
        return
    left_out = _left_out(texts, width)
    groups = _groups([column for column in texts if column not in left_out], width)
    if groups is None:
        _list(file, texts, width)
        return
    for group in groups:
        _draw(file, group, _widths(group, width))
    if left_out:
        names = ", ".join(column.heading for column in left_out)
        line(file, f"left out for want of width: {names}; a wider terminal, a pipe and --json show all")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TextColumn:
    """A column as text, and the width that it needs."""

    heading: str
    cells: Sequence[str]
    align: Literal["left", "right"]
    is_optional: bool
    min_width: int
    """with long cells broken between words"""
    max_width: int

    @classmethod
    def of(cls, column: Column, table: Table, rows: Sequence[Cited]) -> _TextColumn:
        from rich.cells import cell_len

        cells = [
            printable(column.to_text(column.cell(row))) + (" *" if column.is_marked and table.is_marked(row) else "")
            for row in rows
        ]
        lines = [printable(column.heading), *cells]
        is_first, max_width = column is table.columns[0], max(map(cell_len, lines))
        longest_word = max((cell_len(word) for text in lines for word in text.split()), default=0)
        return cls(
            heading=lines[0],
            cells=cells,
            align="left" if is_first else column.align,
            is_optional=column.is_optional,
            min_width=max_width if is_first else max(longest_word, min(max_width, UNBROKEN)),
            max_width=max_width,
        )


def _left_out(columns: Sequence[_TextColumn], width: int) -> Sequence[_TextColumn]:
    """The fewest optional columns, from the last, without which one table is narrow enough; none if there are none."""
    optional = [column for column in columns if column.is_optional]
    for count in range(len(optional) + 1):
        left_out = optional[len(optional) - count :]
        if _total([column.min_width for column in columns if column not in left_out]) <= width:
            return left_out
    return ()


def _groups(columns: Sequence[_TextColumn], width: int) -> list[list[_TextColumn]] | None:
    """The columns of each table below each other, the first column in all; None if two columns do not fit."""
    first, *others = columns
    groups = [[first]]
    for column in others:
        if _total([first.min_width, column.min_width]) > width:
            return None
        if _total([each.min_width for each in (*groups[-1], column)]) > width:
            groups.append([first])
        groups[-1].append(column)
    return groups if first.min_width <= width else None


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(columns: Sequence[_TextColumn], width: int) -> list[int]:
    """The least width of each column, and the rest of the terminal to those that are broken, from the left."""
    widths = [column.min_width for column in columns]
    rest = width - _total(widths)
    for place, column in enumerate(columns):
        extra = min(rest, column.max_width - column.min_width)
        widths[place] += extra
        rest -= extra
    return widths


def _draw(file: IO[str], columns: Sequence[_TextColumn], widths: Sequence[int]) -> None:
    """Print one table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        grid.add_column(Text(column.heading), justify=column.align, width=width, overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*map(Text, cells))
    console = Console(file=file, width=_total(widths), highlight=False)
    with console.capture() as capture:
        console.print(grid)
    print("\n".join(text.rstrip() for text in capture.get().splitlines()) + "\n", file=file)


def _list(file: IO[str], columns: Sequence[_TextColumn], width: int) -> None:
    """Print each row as its name and a line a cell."""
    first, *others = columns
    for place, name in enumerate(first.cells):
        print(name, file=file)
        for column in others:
            text = f"{column.heading}: {column.cells[place]}" if column.heading else column.cells[place]
            print(broken(text, width, indent="  "), file=file)
    print(file=file)
