"""What `cache_summary` and `node_summary` gave, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from graphprep.core.fallback import Fallback
from graphprep.report.tables import duration, line, table, width_of
from graphprep.system.progress import format_bytes

MAX_MATRIX_PARTS, MAX_PIPED_PARTS = 16, 128
MAX_LINK_ROWS = 16
"""On a terminal; a pipe gets all."""


def print_cache(summary: dict[str, Any], file: IO[str]) -> None:
    """Print parts, links, what crosses, and how far from what is known."""
    quality, options = summary["quality"], summary["options"]
    line(
        file,
        f"{summary['dataset']}: partition cache for {summary['topology']['name']}, {summary['num_parts']} parts by "
        f"{options['method_chosen']}, {summary['files']:,} files, {format_bytes(summary['bytes'])}, "
        f"{summary['folder']}",
    )
    fallback = Fallback.from_json(summary.get("fallback"))
    if fallback is not None:
        line(file, f"made by a fallback: {fallback.sentence}")
    line(file, _exchange_text(quality, options["row_bytes"]) + f"; {_cut_text(summary)}")
    _print_ranks(quality["ranks"], file)
    _print_links(quality, summary["bottleneck"], file)
    if summary["num_parts"] > (MAX_PIPED_PARTS if width_of(file) is None else MAX_MATRIX_PARTS):
        line(file, f"rows and edges between the {summary['num_parts']} ranks by pair: --json and --html have them")
    elif summary["num_parts"] > 1:
        _print_matrix("rows sent (from rank, to rank)", summary["traffic_rows"], file)
        _print_matrix("edges that cross (from rank, to rank)", summary["cross_edges"], file)
    _print_bounds(summary["bounds"], file)
    if summary["metis"]:
        _print_metis(summary["metis"], quality, file)
    for limit in quality["limits"]:
        if not limit["met"]:
            text = f"limit not kept: {limit['what']} is {limit['value']:.3f}, at most {limit['limit']:.3f} was asked"
            line(file, text)
    if summary["what_if"]:
        _print_what_if(summary["what_if"], file)


def print_node(found: dict[str, Any], file: IO[str]) -> None:
    """Print where a node lies, and its in-neighbours by part."""
    line(
        file,
        f"{found['node_type']} {found['node']}: part {found['part']} ({found['rank']}), local row "
        f"{found['local_row']:,}, {found['in_edges']:,} in-edges"
        + (f", label {found['y']}" if "y" in found else "")
        + (f", in {', '.join(found['splits'])}" if found["splits"] else ""),
    )
    if "original_id" in found:
        line(file, f"original id: {found['original_id']}")
    receivers = ", ".join(map(str, found["row_goes_to"])) or "no other part"
    line(file, f"its row goes to: {receivers}")
    rows = [
        [str(row["part"]), f"{row['edges']:,}", " ".join(map(str, row["first"])) + _more(row)]
        for row in found["neighbours"]
    ]
    table(file, "in-neighbours by part", ["part", "edges", "from nodes"], rows)


def _more(row: dict[str, Any]) -> str:
    left = int(row["edges"]) - len(row["first"])
    return f" and {left:,} more" if left > 0 else ""


def _exchange_text(quality: dict[str, Any], row_bytes: int) -> str:
    return (
        f"one exchange of {row_bytes}-byte rows: bottleneck {duration(quality['bottleneck_seconds'])}, "
        f"all links together {duration(quality['sum_seconds'])}"
    )


def _cut_text(summary: dict[str, Any]) -> str:
    quality = summary["quality"]
    return (
        f"{quality['cut_edges']:,} of {summary['num_edges']:,} edges cross ({100 * summary['cut_share']:.1f} %), "
        f"{quality['halo_rows']:,} halo rows"
    )


def _print_ranks(ranks: Sequence[dict[str, Any]], file: IO[str]) -> None:
    table(
        file,
        "parts",
        ["rank", "name", "nodes", "in-edges", "training", "halo rows", "work", "of its share", "memory"],
        [
            [
                str(row["rank"]),
                row["name"],
                f"{row['nodes']:,}",
                f"{row['edges']:,}",
                f"{row['training_nodes']:,}",
                f"{row['halo_rows']:,}",
                f"{row['work']:,.0f}",
                f"{row['work_share']:.3f}",
                format_bytes(row["memory_bytes"]),
            ]
            for row in ranks
        ],
    )


def _print_links(quality: dict[str, Any], bottleneck: dict[str, Any] | None, file: IO[str]) -> None:
    table(
        file,
        "link types",
        ["type", "slowest direction", "imbalance", "rows", "edges"],
        [
            [
                row["type"],
                duration(row["seconds_max"]),
                f"{row['imbalance']:.3f}",
                f"{row['rows']:,}",
                f"{row['edges']:,}",
            ]
            for row in quality["link_types"]
        ],
    )
    links = sorted(quality["links"], key=lambda row: -row["seconds"])
    shown = links if width_of(file) is None else links[:MAX_LINK_ROWS]
    title = "links, * is the bottleneck" if bottleneck else "links"
    if len(shown) < len(links):
        title += f"; the {len(shown)} slowest of {len(links)} directions (a pipe and --json get all)"
    table(
        file,
        title,
        ["link", "seconds", "type", "GB/s", "rows", "edges", "messages"],
        [
            [
                row["name"],
                duration(row["seconds"]) + (" *" if bottleneck and row["name"] == bottleneck["name"] else ""),
                row["type"],
                f"{row['gbytes_per_s']:g}",
                f"{row['rows']:,}",
                f"{row['edges']:,}",
                f"{row['messages']:,}",
            ]
            for row in shown
        ],
    )


def _print_matrix(title: str, matrix: Sequence[Sequence[int]], file: IO[str]) -> None:
    columns = ["", *(str(part) for part in range(len(matrix)))]
    table(file, title, columns, [[str(part), *(f"{count:,}" for count in row)] for part, row in enumerate(matrix)])


def _print_bounds(bounds: Sequence[dict[str, Any]], file: IO[str]) -> None:
    def text(value: float) -> str:
        return f"{value:,}" if isinstance(value, int) else duration(value)

    rows = [
        [row["of"].replace("_", " "), text(row["found"]), text(row["at_least"]), row["holds_for"]] for row in bounds
    ]
    table(file, "lower bounds", ["of", "found", "cannot be below", "for"], rows)


def _print_metis(metis: dict[str, Any], quality: dict[str, Any], file: IO[str]) -> None:
    broken = [limit["what"] for limit in quality["limits"] if not limit["met"]]
    rows = [
        [
            name,
            duration(row["bottleneck_seconds"]),
            duration(row["sum_seconds"]),
            f"{row['cut_edges']:,}",
            f"{row['halo_rows']:,}",
            ", ".join(limits) or "-",
        ]
        for name, row, limits in (
            ("this cache", quality, broken),
            ("METIS k-way, its own order", metis, metis["broken_limits"]),
        )
    ]
    names = ["parts of", "bottleneck", "all links", "cut edges", "halo rows", "limits not kept"]
    table(file, f"beside METIS (it took {metis['seconds']:.1f} s)", names, rows)


def _print_what_if(again: dict[str, Any], file: IO[str]) -> None:
    line(
        file,
        f"what if: the same parts on {again['topology']['name']}, "
        f"{_exchange_text(again, again['row_bytes'])} ({again['ratio']:.2f} times the bottleneck above)",
    )
    _print_ranks(again["ranks"], file)
    _print_links(again, again["bottleneck"], file)
