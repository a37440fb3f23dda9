"""Summaries as tables for people; the figures are those of the JSON, none is computed here but per cents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any

from graphprep.printable import printable
from graphprep.progress import format_bytes

PLAIN_WIDTH = 120


def print_topology(form: dict[str, Any], file: IO[str]) -> None:
    """Print a topology's long form as a table of its links."""
    line(file, f"{form['name']}: {len(form['ranks'])} ranks, {len(form.get('switches', []))} switches")
    rows = [
        [" - ".join(link["ends"]), link["type"], f"{link['gbytes_per_s']:g}", f"{link['latency_us']:g}"]
        for link in form["links"]
    ]
    table(file, "links", ["ends", "type", "GB/s each way", "latency us"], rows)


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


def line(file: IO[str], text: str) -> None:
    """One line of text."""
    print(printable(text), file=file)


def table(file: IO[str], title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: drawn on a terminal, plain aligned columns elsewhere; all columns but words are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    on_terminal = file.isatty()
    columns_set = os.environ.get("COLUMNS", "")
    width = None if on_terminal else max(PLAIN_WIDTH, int(columns_set) if columns_set.isdecimal() else 0)
    console = Console(file=file, width=width, highlight=False)
    shown = Table(box=box.SIMPLE, pad_edge=False)
    for position, name in enumerate(columns):
        words = not any(cell.lstrip("-")[:1].isdigit() for row in rows for cell in row[position : position + 1])
        shown.add_column(
            escape(printable(name)), justify="left" if words or position == 0 else "right", no_wrap=not words
        )
    for row in rows:
        shown.add_row(*(escape(printable(cell)) for cell in row))
    line(file, title)
    console.print(shown)
