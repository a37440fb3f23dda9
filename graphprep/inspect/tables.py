"""Summaries as tables for people; the figures are those of the JSON, none is computed here but totals and ratios."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any

from graphprep.progress import format_bytes

PLAIN_WIDTH = 120
MAX_MATRIX_PARTS = 16
MAX_LINK_ROWS = 16


def print_store(summary: dict[str, Any], file: IO[str]) -> None:
    """Print what `store_summary` gave."""
    direction = "directed" if summary["directed"] else "undirected"
    _line(file, f"{summary['dataset']}: graph store, {direction}, {summary['location']}")
    rows = []
    for node_type, node in summary["nodes"].items():
        splits = node.get("splits", {})
        rows.append(
            [
                node_type,
                f"{node['count']:,}",
                _shape(node.get("x")),
                str(node.get("classes", "-")),
                f"{node['labelled']:,}" if "labelled" in node else "-",
                *(_split_text(splits.get(name)) for name in ("train", "val", "test")),
            ]
        )
    _table(file, "nodes", ["type", "count", "features", "classes", "labelled", "train", "val", "test"], rows)
    rows = []
    for key, edge in summary["edges"].items():
        degree = edge.get("in_degree", {})
        rows.append(
            [
                key,
                f"{edge['count']:,}",
                "yes" if edge["weighted"] else "no",
                f"{degree.get('mean', 0):.2f}",
                f"{degree.get('median', 0):.0f}",
                f"{degree.get('p99', 0):.0f}",
                f"{degree.get('max', 0):,}",
                f"{edge['self_loops']:,}",
                f"{edge['duplicates_found'] - edge['duplicates_removed']:,}",
                f"{edge['isolated_nodes']:,}" if "isolated_nodes" in edge else "-",
            ]
        )
    names = [
        "type",
        "edges",
        "weighted",
        "mean in-degree",
        "median",
        "p99",
        "max",
        "self-loops",
        "duplicates",
        "isolated",
    ]
    _table(file, "edges (directed, counted at their destination)", names, rows)
    source = summary["source"]
    _line(file, f"source: {source['reader']}, {len(source.get('files', []))} files; key {summary['key'][:16]}")
    for name, value in summary["notes"].items():
        _line(file, f"note: {name}: {value}")


def print_cache(summary: dict[str, Any], file: IO[str]) -> None:
    """Print what `cache_summary` gave."""
    quality, options = summary["quality"], summary["options"]
    parts, edges = summary["num_parts"], sum(summary["edge_types"].values())
    cut = quality["cut_edges"]
    _line(
        file,
        f"{summary['dataset']}: partition cache for {summary['topology']['name']}, {parts} parts by "
        f"{options['method_chosen']}, {summary['files']:,} files, {format_bytes(summary['bytes'])}, "
        f"{summary['folder']}",
    )
    _line(
        file,
        f"one exchange of {options['row_bytes']}-byte rows: bottleneck {_seconds(quality['bottleneck_seconds'])}, "
        f"all links together {_seconds(quality['sum_seconds'])}; {cut:,} of {edges:,} edges cross "
        f"({100 * cut / max(1, edges):.1f} %), {quality['halo_rows']:,} halo rows",
    )
    _table(
        file,
        "parts",
        ["rank", "name", "nodes", "in-edges", "training", "halo rows", "work"],
        [
            [
                str(row["rank"]),
                row["name"],
                f"{row['nodes']:,}",
                f"{row['edges']:,}",
                f"{row['training_nodes']:,}",
                f"{row['halo_rows']:,}",
                f"{row['work']:,.0f}",
            ]
            for row in quality["ranks"]
        ],
    )
    _table(
        file,
        "link types",
        ["type", "slowest direction", "imbalance", "rows", "edges"],
        [
            [
                row["type"],
                _seconds(row["seconds_max"]),
                f"{row['imbalance']:.3f}",
                f"{row['rows']:,}",
                f"{row['edges']:,}",
            ]
            for row in quality["link_types"]
        ],
    )
    links = sorted(quality["links"], key=lambda row: -row["seconds"])
    shown = links[:MAX_LINK_ROWS]
    title = "links" if len(shown) == len(links) else f"links, the {len(shown)} slowest of {len(links)} directions"
    _table(
        file,
        title,
        ["link", "type", "GB/s", "rows", "edges", "messages", "seconds"],
        [
            [
                row["name"],
                row["type"],
                f"{row['gbytes_per_s']:g}",
                f"{row['rows']:,}",
                f"{row['edges']:,}",
                f"{row['messages']:,}",
                _seconds(row["seconds"]),
            ]
            for row in shown
        ],
    )
    if 1 < parts <= MAX_MATRIX_PARTS:
        _table(
            file,
            "rows sent (from rank, to rank)",
            ["", *(str(part) for part in range(parts))],
            [[str(part), *(f"{count:,}" for count in row)] for part, row in enumerate(summary["traffic_rows"])],
        )
    for limit in quality["limits"]:
        if not limit["met"]:
            _line(
                file, f"limit not kept: {limit['what']} is {limit['value']:.3f}, at most {limit['limit']:.3f} was asked"
            )


def print_topology(form: dict[str, Any], file: IO[str]) -> None:
    """Print a topology's long form as a table of its links."""
    _line(file, f"{form['name']}: {len(form['ranks'])} ranks, {len(form.get('switches', []))} switches")
    rows = [
        [" - ".join(link["ends"]), link["type"], f"{link['gbytes_per_s']:g}", f"{link['latency_us']:g}"]
        for link in form["links"]
    ]
    _table(file, "links", ["ends", "type", "GB/s each way", "latency us"], rows)


def print_datasets(rows: Sequence[dict[str, Any]], file: IO[str]) -> None:
    """Print the registry: one row a dataset."""
    _table(
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


def _shape(array: dict[str, Any] | None) -> str:
    return "-" if array is None else f"{array['shape'][-1]:,} x {array['dtype']}"


def _split_text(counts: list[int] | None) -> str:
    if not counts:
        return "-"
    return f"{counts[0]:,}" + (f" (of {len(counts)} splits)" if len(counts) > 1 else "")


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _line(file: IO[str], text: str) -> None:
    print(text, file=file)


def _table(file: IO[str], title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: drawn on a terminal, plain aligned columns elsewhere; all columns but words are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    on_terminal = file.isatty()
    columns_set = os.environ.get("COLUMNS", "")
    width = None if on_terminal else max(PLAIN_WIDTH, int(columns_set) if columns_set.isdecimal() else 0)
    console = Console(file=file, width=width, highlight=False)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for position, name in enumerate(columns):
        words = all(not cell[:1].isdigit() for row in rows for cell in row[position : position + 1])
        table.add_column(escape(name), justify="left" if words or position == 0 else "right", no_wrap=not words)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    _line(file, title)
    console.print(table)
