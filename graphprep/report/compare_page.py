"""Partitions beside each other, as a page and as a table; the figures are those of `compare --json`."""

from __future__ import annotations

from functools import partial
from typing import IO, Any

from graphprep.report import plots
from graphprep.report.cache_page import link_type_cells
from graphprep.report.cited import Cited, Html, count, three
from graphprep.report.html import Cell, Text, cards, figure, figures, header, joined, name, page, section, table, tag
from graphprep.report.svg import drawn
from graphprep.report.tables import duration, line
from graphprep.report.tables import table as plain_table
from graphprep.system.progress import format_bytes

NOTE = (
    "An exchange takes as long as its slowest link, and a layer as long as the rank with the most work. The lowest "
    "bottleneck is marked; look at the work beside it."
)


def print_compared(compared: dict[str, Any], file: IO[str]) -> None:
    """Print one row a cache, the best marked."""
    caches = compared["caches"]
    line(file, f"{compared['dataset']}: {len(caches)} partitions; * has the lowest bottleneck")
    rows = [
        [
            row["cache"],
            duration(row["bottleneck_seconds"]) + (" *" if row["is_best"] else ""),
            row["bottleneck_type"] or "-",
            duration(row["sum_seconds"]),
            f"{row['cut_edges']:,}",
            f"{row['halo_rows']:,}",
            f"{row['work_share_max']:.3f}",
            format_bytes(row["memory_bytes_max"]),
        ]
        for row in caches
    ]
    columns = ["cache", "bottleneck", "on", "all links", "cut edges", "halo rows", "most work", "most memory"]
    plain_table(file, "what they cost", columns, rows)
    made = [[row["cache"], row["topology"], _method(row), ", ".join(row["broken_limits"]) or "-"] for row in caches]
    plain_table(file, "how they were made", ["cache", "for", "method", "limits broken"], made)
    if compared["row_bytes"] is None:
        line(file, "rows are of different sizes, so seconds do not compare; give --row-bytes")
    if len(compared["topologies"]) > 1:
        line(file, "seconds are each on its own topology; --topology judges all on one")


def _method(row: dict[str, Any]) -> str:
    return str(row["method"]) + (" (a fallback)" if row["fallback"] else "")


def compare_page(compared: dict[str, Any]) -> str:
    """The page for what `pipelines.compare` gave, as text."""
    cited = Cited(compared)
    title = f"{cited['dataset'].value}: partitions compared"
    drawings = [
        _bars("bottleneck", "Bottleneck of one exchange, in microseconds.", compared, "bottleneck_seconds", 1e6, "us"),
        _bars("work", "Work of the rank with most, over its share.", compared, "work_share_max", 1.0, "work / share"),
    ]
    body = [
        header(joined(name(cited["dataset"].value), ": partitions compared"), *_notes(cited)),
        cards([(cited["num_nodes"].shown(count), "nodes"), (cited["num_edges"].shown(count), "directed edges")]),
        section("Beside each other", figures(*drawings), _table(cited["caches"]), note=NOTE),
        section("By type of link", _types(cited["caches"])),
    ]
    return page(title, body)


def _notes(cited: Cited) -> list[Text]:
    notes: list[Text] = []
    if cited["row_bytes"].value is None:
        notes.append("Rows are of different sizes, so seconds do not compare; --row-bytes makes them alike.")
    else:
        notes.append(joined("Rows of ", cited["row_bytes"].shown(format_bytes), "."))
    if len(cited["topologies"].value) > 1:
        notes.append("Seconds are each on its own topology; --topology judges all on one.")
    return notes


def _bars(word: str, alt: str, compared: dict[str, Any], key: str, unit: float, label: str) -> Html:
    rows = compared["caches"]
    values = {row["cache"]: unit * row[key] for row in rows}
    return figure(drawn(word, alt, partial(plots.plot_compared, values, label), size=(plots.NARROW, 2.6)), alt)


def _table(caches: Cited) -> Html:
    rows: list[list[Text | Cell]] = [
        [
            joined(name(row["cache"].value), tag("span", "best", class_="badge") if row["is_best"].value else ""),
            Cell(text=row["bottleneck_seconds"].shown(duration), is_marked=row["is_best"].value),
            row["ratio"].shown(three) if row["ratio"].value is not None else "-",
            name(row["bottleneck_link"].value or "-"),
            row["sum_seconds"].shown(duration),
            row["cut_edges"].shown(count),
            row["halo_rows"].shown(count),
            row["work_share_max"].shown(three),
            row["memory_bytes_max"].shown(format_bytes),
            name(row["topology"].value),
            name(_method(row.value)),
            ", ".join(row["broken_limits"].value) or "none",
        ]
        for row in caches
    ]
    columns = ["cache", "bottleneck", "to the best", "on", "all links", "cut edges", "halo rows", "most work"]
    return table("Partitions", [*columns, "most memory", "for", "method", "limits broken"], rows)


def _types(caches: Cited) -> Html:
    rows: list[list[Text | Cell]] = [
        [name(row["cache"].value), *link_type_cells(kind)] for row in caches for kind in row["link_types"]
    ]
    return table("Types of links", ["cache", "type", "slowest", "over mean", "rows", "edges"], rows)
