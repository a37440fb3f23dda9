"""Tables of the values of a JSON document: a terminal, a page and a notebook show the same columns.

A column has a name, a unit, a format and an alignment, and says where a row of the document has its value. A cell keeps
the raw value with its path, so that the text of `terminal`, the HTML of `pages` and `--json` cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from markupsafe import Markup

from graphprep.report.cited import Cited
from graphprep.report.formats import Format

Medium = Literal["terminal", "page"]
Cell = Sequence[Cited]
"""One value, or several behind each other of which some are text without a place in the document."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    value: str | Callable[[Cited], object]
    """The keys of the value in a row, joined by dots, or a function of the row that returns values or text."""
    format: Format | None = None
    """Of numbers, which are aligned to the right; None for text, which is aligned to the left."""
    _: KW_ONLY
    unit: str = ""
    fill: Literal["bar", "heat", ""] = ""
    """On a page: a bar by the largest value of the column, or a colour by the largest of all such columns."""
    is_marked: bool = False
    """The cell of a marked row is highlighted: red on a page, `*` on a terminal."""
    is_optional: bool = False
    """Left out first where a terminal is too narrow."""
    only: Medium | None = None

    @property
    def heading(self) -> str:
        return f"{self.name} {self.unit}".strip()

    @property
    def align(self) -> Literal["left", "right"]:
        return "left" if self.format is None else "right"

    def cell(self, row: Cited) -> Cell:
        """The values of a row in this column."""
        value = row.get(self.value) if isinstance(self.value, str) else self.value(row)
        pieces = value if isinstance(value, (list, tuple)) else [value]
        return [piece if isinstance(piece, Cited) else Cited(piece) for piece in pieces]

    def to_text(self, cell: Cell) -> str:
        return "".join(value.to_text(self.format or str) for value in cell)

    def to_html(self, cell: Cell) -> Markup:
        return Markup("").join(value.to_html(self.format or str) for value in cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under a title; the first column names the rows."""

    title: str
    columns: Sequence[Column]
    rows: Collection[Cited]
    _: KW_ONLY
    mark: str = ""
    """What a marked row is, such as `bottleneck`."""
    marked: Callable[[Cited], bool] | None = None
    """Which rows are marked; none without."""
    is_problem: bool = False
    """Whether the mark says that a limit is exceeded: a page has it in red."""
    sorts: bool = True
    """Whether a click on a page's heading sorts the rows."""
    rows_on_terminal: int | None = None
    """Rows beyond which a terminal shows the first ones only."""

    def columns_on(self, medium: Medium) -> list[Column]:
        """The columns that a terminal or a page shows."""
        return [column for column in self.columns if column.only in (None, medium)]

    def is_marked(self, row: Cited) -> bool:
        return self.marked is not None and self.marked(row)

    def largest(self) -> dict[str, float]:
        """The value of each filled column that fills a cell whole, by the column's name."""
        values = {
            column.name: max((column.cell(row)[0].value or 0 for row in self.rows), default=0)
            for column in self.columns
            if column.fill
        }
        heat = max((values[column.name] for column in self.columns if column.fill == "heat"), default=0)
        return values | {column.name: heat for column in self.columns if column.fill == "heat"}

    def scale(self) -> Cited | None:
        """The greatest value of the columns whose cells are coloured by theirs; None without such a column."""
        cells = [column.cell(row)[0] for column in self.columns if column.fill == "heat" for row in self.rows]
        return max((cell for cell in cells if cell.value is not None), key=lambda cell: cell.value, default=None)

    def scale_text(self, most: Cited) -> Markup:
        """That value, in the format of the columns that are coloured."""
        return most.to_html(next(column.format or str for column in self.columns if column.fill == "heat"))
