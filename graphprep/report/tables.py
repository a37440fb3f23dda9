"""What the smaller commands print: topologies, datasets, scores, stages of a run, contents of GRAPHPREP_HOME."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.formats import count
from graphprep.report.table import Column, Table
from graphprep.report.terminal import printer
from graphprep.system.progress import format_bytes

Report = Iterator[str | Table]

LINKS = (
    Column("ends", lambda link: " - ".join(link["ends"].value)),
    Column("type", "type"),
    Column("bandwidth", "gbytes_per_s", "{:g}".format, unit="GB/s"),
    Column("latency", "latency_us", "{:g}".format, unit="us"),
)
"""Of a topology's long form; the bandwidth is that of each direction."""


@printer
def print_topology(form: dict[str, Any]) -> Report:
    """Print a topology's long form as a table of its links."""
    yield f"{form['name']}: {len(form['ranks'])} ranks, {len(form.get('switches', []))} switches"
    yield Table("links, with the bandwidth of each direction", LINKS, Cited(form)["links"])


@printer
def print_topologies(topologies: Sequence[dict[str, Any]]) -> Report:
    """Print the presets: one row a topology."""
    columns = [
        Column("name", "name"),
        Column("ranks", "ranks", count),
        Column("machines", "machines", count),
        Column("GPU", "gpu"),
    ]
    yield Table("topologies", columns, Cited(topologies))


@printer
def print_scores(report: dict[str, Any]) -> Report:
    """Print the scores of predictions: one row a mask."""
    yield f"{report['dataset']}: {report['metric']} by {report['evaluator']}, split {report['split']}"
    masks = [Cited(report)[mask] for mask in ("train", "val", "test") if mask in report]
    columns = [
        Column("nodes", lambda mask: mask.last_key),
        Column(report["metric"], lambda mask: mask, "{:.4f}".format),
    ]
    yield Table("scores", columns, masks)


@printer
def print_steps(report: dict[str, Any]) -> Report:
    """Print the stages of a run: state, estimated or measured cost, and the reason or the result."""
    columns = [
        Column("stage", "stage"),
        Column("state", "state"),
        Column("takes", lambda stage: _cost(stage.value)),
        Column("reason, or result", lambda stage: stage["output" if stage["state"].value in DONE else "why"]),
    ]
    yield Table("stages", columns, Cited(report)["stages"])
    if report["expected"] is not None:
        yield f"estimate for all stages: {_estimate(report['expected'])}, without stages that have none yet"


DONE = ("done", "up to date")
"""States of a stage whose result is there."""


def _cost(stage: dict[str, Any]) -> str:
    if stage["seconds"] is not None:
        return f"{stage['seconds']:.1f} s"
    return "-" if stage["expected"] is None else _estimate(stage["expected"])


def _estimate(expected: dict[str, Any]) -> str:
    return (
        f"{format_bytes(expected['memory_bytes'])} of memory, {format_bytes(expected['disk_bytes'])} of disk, "
        f"{expected['seconds']:,.0f} s"
    )


@printer
def print_datasets(rows: Sequence[dict[str, Any]]) -> Report:
    """Print the registry: one row a dataset."""
    columns = [
        Column("name", "name"),
        Column("nodes", "nodes", count),
        Column("edges", "edges", count),
        Column("features", "features", count, is_optional=True),
        Column("classes", "classes", count, is_optional=True),
        Column("here", lambda row: "yes" if row["fetched"] else ""),
        Column("title", "title", is_optional=True),
    ]
    yield Table("datasets", columns, Cited(rows))


@printer
def print_home(cleaned: dict[str, Any]) -> Report:
    """Print the contents of GRAPHPREP_HOME: one row an item, and what was done with it."""
    columns = [
        Column("what", "name"),
        Column("kind", "kind"),
        Column("size", "bytes", format_bytes),
        Column("status", "fate"),
    ]
    yield Table(cleaned["home"], columns, Cited(cleaned)["items"])
