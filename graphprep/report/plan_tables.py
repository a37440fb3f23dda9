"""What `pipelines.plan` predicted, as tables on a terminal."""

from __future__ import annotations

from typing import IO, Any

from graphprep.report.tables import duration, line, table
from graphprep.system.progress import format_bytes


def print_plan(found: dict[str, Any], file: IO[str]) -> None:
    """Print whose rates these are, the epoch, the ranks, ways to send less, advice, and what the plan does not know."""
    line(file, found["rates"]["text"])
    training = found["training"]
    widths = " -> ".join(str(pair[0]) for pair in found["widths"]) + f" -> {found['widths'][-1][1]}"
    line(
        file,
        f"{found['dataset']} on {found['topology']}, {found['num_parts']} ranks: {training['model']} of widths "
        f"{widths}",
    )
    line(
        file,
        f"an epoch would take about {duration(found['epoch_seconds'])}: {duration(found['compute_seconds'])} of "
        f"computing on the slowest rank, {duration(found['communication_seconds'])} on links",
    )
    rows = [
        [
            f"{row['rank']} {row['name']}",
            f"{row['rows']:,}",
            f"{row['edges']:,}",
            f"{row['halo']:,}",
            duration(row["compute_seconds"]),
            format_bytes(row["memory_bytes"]),
            *(duration(seconds) for seconds in row["seconds_by_kind"].values()),
        ]
        for row in found["ranks"]
    ]
    kinds = list(found["ranks"][0]["seconds_by_kind"])
    table(file, "ranks", ["rank", "nodes", "in-edges", "halo", "computing", "memory", *kinds], rows)
    line(file, found["memory"])
    ways = [
        [
            way["wire"],
            way["staleness"],
            format_bytes(way["row_bytes"]),
            format_bytes(way["weight_bytes"]),
            duration(way["communication_seconds"]),
            duration(way["epoch_seconds"]),
        ]
        for way in found["ways"]
    ]
    if found["num_parts"] > 1:
        table(file, "what is sent in an epoch", ["wire", "staleness", "rows", "weights", "on links", "an epoch"], ways)
    for text in found["advice"]:
        line(file, f"advice: {text}")
    for text in found["unknown"]:
        line(file, f"not known: {text}")
