"""The tables of a training run, and what a terminal shows of it."""

from __future__ import annotations

from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.formats import count, duration, short, times
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer
from graphprep.system.progress import format_bytes

SECONDS = (
    Column("computing", "compute_seconds", duration),
    Column("exchange", "exchange_seconds", duration),
    Column("waiting", "waiting_seconds", duration),
)


def groups_table(summary: Cited) -> Table:
    """The epochs, in ranges where they are many."""
    columns = [
        Column("epochs", _epochs),
        Column("loss", "loss", "{:.4f}".format),
        Column(f"val {summary['metric'].value.replace('_', ' ')}", "val", "{:.4f}".format),
        Column("an epoch", "epoch_seconds", duration, fill="bar"),
        *SECONDS,
        Column("sent", "bytes_sent", format_bytes, fill="bar"),
        Column("most memory of a rank", "memory_bytes_max", format_bytes, is_optional=True),
    ]
    return Table("epochs, with means of their ranges", columns, summary["groups"])


def ranks_table(summary: Cited) -> Table:
    """Each rank's seconds by kind, and its memory."""
    types = sorted({kind for row in summary["by_rank"].value for kind in row["exchange_seconds_by_link_type"]})
    columns = [
        Column("rank", "rank"),
        Column("computing", "compute_seconds", duration, fill="bar"),
        Column("exchange", "exchange_seconds", duration, fill="bar"),
        *(_of_type(kind) for kind in types),
        Column("waiting", "waiting_seconds", duration, fill="bar"),
        Column("most memory", "memory_bytes", format_bytes),
        Column("its estimate", "memory_estimate_bytes", format_bytes),
    ]
    return Table("seconds of all epochs, by rank", columns, summary["by_rank"])


def _of_type(kind: str) -> Column:
    return Column(f"over {kind}", lambda row: row["exchange_seconds_by_link_type"].get(kind), duration)


def links_table(summary: Cited) -> Table:
    """Bytes of rows by layer, direction and type of link."""
    types = sorted({kind for row in summary["by_link"].value for kind in row["link_types"]})
    columns = [
        Column("layer", lambda row: [row["layer"], " ", row["direction"]]),
        *(Column(f"over {kind}", f"link_types.{kind}", format_bytes, fill="heat") for kind in types),
        Column("sent", "bytes_sent", format_bytes),
        Column("skipped", "bytes_skipped", format_bytes),
    ]
    return Table("bytes of rows, by layer and link", columns, summary["by_link"])


def purposes_table(summary: Cited) -> Table:
    """All that was sent, by purpose."""
    columns = [
        Column("purpose", "purpose"),
        Column("kind", "kind"),
        Column("calls", "calls", count),
        Column("sent", "bytes_sent", format_bytes, fill="bar"),
    ]
    return Table("bytes by purpose", columns, summary["result"]["sent_for"])


def predicted_table(summary: Cited) -> Table:
    """What was predicted, and what was measured."""

    def shown(name: str) -> Column:
        return Column(name, lambda row: row[name].formatted(_format_of(row)), duration)

    ratio = Column("measured / predicted", "ratio", times)
    columns = [Column("figure", "what"), shown("predicted"), shown("measured"), ratio]
    return Table("predicted and measured", columns, summary["predicted"])


def _format_of(row: Cited) -> Any:
    return duration if row["what"].value.startswith("seconds") else format_bytes


def settings_table(title: str, settings: Cited) -> Table:
    """Options or the environment, by name."""
    columns = [Column("name", lambda row: row.last_key.replace("_", " ")), Column("value", lambda row: row, short)]
    return Table(title, columns, list(settings))


def _epochs(group: Cited) -> list[object]:
    first, last = group["first_epoch"], group["last_epoch"]
    return [last] if first.value == last.value else [first, " to ", last]


@printer
def print_run(summary: dict[str, Any]) -> Report:
    """Print verdict, advice, epochs, ranks, bytes, and what was predicted."""
    cited = Cited(summary)
    yield from summary["verdict"]
    yield from (f"advice: {sentence}" for sentence in summary["advice"])
    if summary["groups"]:
        yield groups_table(cited)
    yield ranks_table(cited)
    if summary["by_link"]:
        yield links_table(cited)
    if summary["predicted"]:
        yield predicted_table(cited)
    if summary["without_predictions"]:
        yield f"no predictions: {summary['without_predictions']}"
