"""One self-contained HTML page about a partition cache: no script, no request, light and dark, readable on paper.

The numbers are those of `inspect --json`; bars and the heat map are table cells whose background shows the figure that
stands in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from graphprep.progress import format_bytes

STYLE = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --load: 9, 105, 218; --dim: #59636e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; --load: 88, 166, 255; --dim: #9198a1; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; } th:first-child, td:first-child, .word { text-align: left; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; padding: 0; list-style: none; }
.figures b { display: block; font-size: 1.35rem; } .figures span, .note { color: var(--dim); }
@media print { body { margin: 0; max-width: none; } }
"""

Cell = str | tuple[str, float]
"""HTML text, or with a share from 0 to 1 that its background shows."""


def cache_page(summary: dict[str, Any]) -> str:
    """The page for what `cache_summary` gave, as text."""
    quality, options = summary["quality"], summary["options"]
    edges = sum(summary["edge_types"].values())
    name, label = summary["dataset"], summary["topology"]["name"]
    figures = [
        (f"{summary['num_parts']}", "parts"),
        (f"{sum(summary['node_types'].values()):,}", "nodes"),
        (f"{edges:,}", "directed edges"),
        (f"{quality['cut_edges']:,}", f"edges cross ({100 * quality['cut_edges'] / max(1, edges):.1f} %)"),
        (f"{quality['halo_rows']:,}", "halo rows"),
        (_milliseconds(quality["bottleneck_seconds"]), "slowest link, one exchange"),
        (_milliseconds(quality["sum_seconds"]), "all links together"),
        (format_bytes(summary["bytes"]), "on disk"),
    ]
    body = [
        f"<h1>{escape(name)} for {escape(label)}</h1>",
        f'<p class="note">Method {escape(options["method_chosen"])}, seed {options["seed"]}, rows of '
        f"{options['row_bytes']} bytes, link seconds count {escape(options['balance'])}. "
        f"Key {escape(summary['key'][:16])}, written by graphprep {escape(summary['tool_version'])}.</p>",
        '<ul class="figures">' + "".join(f"<li><b>{b}</b><span>{t}</span></li>" for b, t in figures) + "</ul>",
        *_limits(quality["limits"]),
        _ranks(quality["ranks"]),
        _link_types(quality["link_types"]),
        _links(quality["links"]),
        _matrix("Rows sent in one exchange, from rank (row) to rank (column)", summary["traffic_rows"]),
        _matrix("Edges that cross, from rank (row) to rank (column)", summary["cross_edges"]),
        _tried(options["tried"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)} for {escape(label)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _limits(limits: Iterable[dict[str, Any]]) -> list[str]:
    rows = [
        [escape(row["what"]), f"{row['value']:.3f}", f"{row['limit']:.3f}", "kept" if row["met"] else "not kept"]
        for row in limits
    ]
    return [_table("Balance: largest share over target share", ["of", "found", "at most", ""], rows)]


def _ranks(ranks: Sequence[dict[str, Any]]) -> str:
    work = [row["work"] for row in ranks]
    rows: list[list[Cell]] = [
        [
            f"{row['rank']} {escape(row['name'])}",
            f"{row['nodes']:,}",
            f"{row['edges']:,}",
            f"{row['training_nodes']:,}",
            f"{row['halo_rows']:,}",
            (f"{row['work']:,.0f}", _share(row["work"], work)),
        ]
        for row in ranks
    ]
    return _table("Parts", ["rank", "nodes", "in-edges", "training nodes", "halo rows", "work"], rows)


def _link_types(link_types: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            escape(row["type"]),
            _milliseconds(row["seconds_max"]),
            f"{row['imbalance']:.3f}",
            f"{row['rows']:,}",
            f"{row['edges']:,}",
        ]
        for row in link_types
    ]
    return _table("Link types", ["type", "slowest direction", "imbalance (max / mean)", "rows", "edges"], rows)


def _links(links: Sequence[dict[str, Any]]) -> str:
    seconds = [row["seconds"] for row in links]
    rows: list[list[Cell]] = [
        [
            escape(row["name"]),
            escape(row["type"]),
            f"{row['gbytes_per_s']:g}",
            f"{row['rows']:,}",
            f"{row['edges']:,}",
            f"{row['messages']:,}",
            (_milliseconds(row["seconds"]), _share(row["seconds"], seconds)),
        ]
        for row in sorted(links, key=lambda row: -row["seconds"])
    ]
    return _table(
        "Links, the slowest direction first", ["link", "type", "GB/s", "rows", "edges", "messages", "time"], rows
    )


def _matrix(title: str, matrix: Sequence[Sequence[int]]) -> str:
    counts = [count for row in matrix for count in row]
    rows: list[list[Cell]] = [
        [
            str(rank),
            *((f"{count:,}" if column != rank else "", _share(count, counts)) for column, count in enumerate(row)),
        ]
        for rank, row in enumerate(matrix)
    ]
    return _table(title, ["", *(str(rank) for rank in range(len(matrix)))], rows)


def _tried(tried: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            escape(row["method"]),
            f"{row['seconds']:.2f} s",
            _milliseconds(row["bottleneck_seconds"]) if "bottleneck_seconds" in row else escape(row["failure"]),
            f"{row['cut_edges']:,}" if "cut_edges" in row else "",
        ]
        for row in tried
    ]
    return _table("Methods tried", ["method", "took", "slowest link", "cut edges"], rows) if rows else ""


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>\n" for row in rows)
    return (
        f'<h2>{escape(title)}</h2>\n<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{cell}</td>"
    text, share = cell
    return f'<td style="background: rgba(var(--load), {0.55 * share:.3f})">{text}</td>'


def _share(value: float, values: Sequence[float]) -> float:
    largest = max(values, default=0)
    return value / largest if largest > 0 else 0.0


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
