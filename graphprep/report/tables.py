"""Summaries as tables for people; the figures are those of the JSON, none is computed here but per cents."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from graphprep.system.printable import printable
from graphprep.system.progress import format_bytes

USUAL_WIDTH = 80
"""Of a terminal that does not say how wide it is."""
NUMBER = re.compile(r"-?$|-?\d[\d,.]*(?![\w,.-])")
"""What a cell of a column of numbers begins with; `-` and nothing stand for none."""
UNBROKEN = 24
"""Columns up to which a cell is never broken; a number with its unit is narrower."""
UNIT, FIRM_SPACE = re.compile(r"(\d) (%|[kMGT]?B|[mu]?s)(?!\w)"), "\u00a0"
"""No line is broken between a number and its unit."""
GAP = 2
"""Columns between two columns of a table."""


def print_topology(form: dict[str, Any], file: IO[str]) -> None:
    """Print a topology's long form as a table of its links."""
    line(file, f"{form['name']}: {len(form['ranks'])} ranks, {len(form.get('switches', []))} switches")
    rows = [
        [" - ".join(link["ends"]), link["type"], f"{link['gbytes_per_s']:g}", f"{link['latency_us']:g}"]
        for link in form["links"]
    ]
    table(file, "links", ["ends", "type", "GB/s each way", "latency us"], rows)


def print_topologies(topologies: Sequence[dict[str, Any]], file: IO[str]) -> None:
    """Print the presets: one row a topology."""
    rows = [[row["name"], str(row["ranks"]), str(row["machines"]), row["gpu"] or "-"] for row in topologies]
    table(file, "topologies", ["name", "ranks", "machines", "GPU"], rows)


def print_scores(report: dict[str, Any], file: IO[str]) -> None:
    """Print what predictions scored: one row a split of the nodes."""
    line(file, f"{report['dataset']}: {report['metric']} by {report['evaluator']}, split {report['split']}")
    rows = [
        [group, "-" if report[group] is None else f"{report[group]:.4f}"]
        for group in ("train", "val", "test")
        if group in report
    ]
    table(file, "scores", ["nodes", report["metric"]], rows)


def print_steps(report: dict[str, Any], file: IO[str]) -> None:
    """Print the stages of a run: what came of each, what it takes or took, and why, or where its result is."""
    rows = [
        [
            step["stage"],
            step["state"],
            _expected(step["expected"]) if step["seconds"] is None else f"{step['seconds']:.1f} s",
            step["output"] if step["state"] in ("done", "up to date") else step["why"],
        ]
        for step in report["stages"]
    ]
    table(file, "stages", ["stage", "state", "takes", "because, or its result"], rows)
    if report["expected"] is not None:
        line(file, f"in all about {_expected(report['expected'])}, beside stages of which it is not known yet")


def _expected(expected: dict[str, Any] | None) -> str:
    if expected is None:
        return "-"
    return (
        f"{format_bytes(expected['memory_bytes'])} of memory, {format_bytes(expected['disk_bytes'])} of disk, "
        f"{expected['seconds']:,.0f} s"
    )


def print_datasets(rows: Sequence[dict[str, Any]], file: IO[str]) -> None:
    """Print the registry: one row a dataset."""
    table(
        file,
        "datasets",
        ["name", "nodes", "edges", "features", "classes", "here", "title"],
        [
            [
                row["name"],
                *(
                    f"{row[name]:,}" if row[name] is not None else "-"
                    for name in ("nodes", "edges", "features", "classes")
                ),
                "yes" if row["fetched"] else "",
                row["title"],
            ]
            for row in rows
        ],
        may_go=["classes", "features", "title"],
    )


def print_home(items: Sequence[dict[str, Any]], place: str, file: IO[str]) -> None:
    """Print what lies in GRAPHPREP_HOME: one row an item, and what became of it."""
    rows = [[item["name"], item["kind"], format_bytes(item["bytes"]), item["fate"]] for item in items]
    table(file, place, ["what", "kind", "size", "fate"], rows)


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def width_of(file: IO[str]) -> int | None:
    """Columns of the terminal that `file` is, by COLUMNS or by what the terminal says; None if it is no terminal."""
    if not file.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(file.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


def line(file: IO[str], text: str) -> None:
    """A sentence: on a terminal broken between words where it is too long, else one line."""
    print(broken(printable(text), width_of(file)), file=file)


def broken(text: str, width: int | None, *, indent: str = "") -> str:
    """`text` in lines of at most `width` columns, all but the first indented by two more; words stay whole."""
    if width is None or len(indent) + len(text) <= width:
        return indent + text
    import textwrap

    return textwrap.fill(
        UNIT.sub(rf"\1{FIRM_SPACE}\2", text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(FIRM_SPACE, " ")


def table(
    file: IO[str],
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    may_go: Sequence[str] = (),
) -> None:
    """A table whose first column names the rows; no cell is ever cut.

    Elsewhere than on a terminal each row is one line, as wide as it needs. On a terminal no line is wider than that:
    long cells are broken between words; if that is not enough, columns of `may_go` are left out, the last first, and a
    line says which; if that is not enough either, all columns are shown in several tables below each other, each with
    the names; and where a name and one column are too wide together, each row becomes lines of `column: cell`. A word
    that is wider than the terminal by itself stays whole, and the terminal breaks it.

    Args:
        file: where to.
        title: a line above.
        columns: their names.
        rows: one cell a column.
        may_go: names of columns that matter least.
    """
    line(file, title)
    columns, rows = [printable(name) for name in columns], [[printable(cell) for cell in row] for row in rows]
    width = width_of(file)
    shown = list(range(len(columns)))
    spaces = [_Space.of([columns[place], *(row[place] for row in rows)], is_name=place == 0) for place in shown]
    if width is None:
        _draw(file, columns, rows, shown, [space.whole for space in spaces])
        return
    groups, gone = _groups(shown, spaces, width), _left_out(columns, spaces, width, may_go)
    if gone:
        groups = [[place for place in shown if columns[place] not in gone]]
    if groups is None:
        _list(file, columns, rows, width)
        return
    for group in groups:
        _draw(file, columns, rows, group, _widths([spaces[place] for place in group], width))
    if gone:
        line(file, f"left out for want of width: {', '.join(gone)}; a wider terminal, a pipe and --json show all")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Space:
    """Columns of the terminal that a column of the table takes."""

    least: int
    """broken between words where it is long"""
    whole: int

    @classmethod
    def of(cls, cells: Sequence[str], *, is_name: bool) -> _Space:
        from rich.cells import cell_len

        whole = max(map(cell_len, cells))
        if is_name:
            return cls(least=whole, whole=whole)
        words = max((cell_len(word) for cell in cells for word in cell.split()), default=0)
        return cls(least=max(words, min(whole, UNBROKEN)), whole=whole)


def _groups(shown: Sequence[int], spaces: Sequence[_Space], width: int) -> list[list[int]] | None:
    """The columns of each table below each other, the first column in all; None if a name and a column do not fit."""
    first, *others = shown
    groups: list[list[int]] = [[first]]
    for place in others:
        if _total([spaces[first].least, spaces[place].least]) > width:
            return None
        if _total([spaces[each].least for each in (*groups[-1], place)]) > width:
            groups.append([first])
        groups[-1].append(place)
    return groups if spaces[first].least <= width else None


def _left_out(columns: Sequence[str], spaces: Sequence[_Space], width: int, may_go: Sequence[str]) -> Sequence[str]:
    """The fewest of `may_go`, from its end, without which one table is narrow enough; none if that takes more."""
    for count in range(len(may_go) + 1):
        gone = may_go[len(may_go) - count :]
        kept = [space.least for name, space in zip(columns, spaces, strict=True) if name not in gone]
        if _total(kept) <= width:
            return gone
    return ()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(spaces: Sequence[_Space], width: int) -> list[int]:
    """The least, and what is left of the terminal to those that are broken, from the left."""
    widths = [space.least for space in spaces]
    left = width - _total(widths)
    for place, space in enumerate(spaces):
        more = min(left, space.whole - space.least)
        widths[place] += more
        left -= more
    return widths


def _draw(
    file: IO[str], columns: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[int], widths: Sequence[int]
) -> None:
    """One table; columns of numbers are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for place, width in zip(shown, widths, strict=True):
        numbers = place > 0 and all(NUMBER.match(row[place]) for row in rows)
        drawn.add_column(Text(columns[place]), justify="right" if numbers else "left", width=width, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(row[place]) for place in shown))
    console = Console(file=file, width=_total(widths), highlight=False)
    with console.capture() as capture:
        console.print(drawn)
    print("\n".join(text.rstrip() for text in capture.get().splitlines()) + "\n", file=file)


def _list(file: IO[str], columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Each row as its name and a line a cell."""
    for name, *cells in rows:
        print(name, file=file)
        for column, cell in zip(columns[1:], cells, strict=True):
            print(broken(f"{column}: {cell}" if column else cell, width, indent="  "), file=file)
    print(file=file)
