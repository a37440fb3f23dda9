"""What `pipelines.planning.events` predicts, on a terminal."""

from __future__ import annotations

from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.formats import count, duration
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer
from graphprep.system.progress import format_bytes

STAGES = (Column("stage", "stage"), Column("an epoch", "seconds", duration))
MESSAGES = (
    Column("message", "message"),
    Column("exchanges", "exchanges", count),
    Column("bytes", "bytes", format_bytes),
)
TYPES = (Column("type", "type"), Column("bytes", "bytes", format_bytes))
GROUPS = (
    Column("rank", lambda row: [row["rank"], " ", row["name"]]),
    Column("snapshots", "snapshots", count),
    Column("events", "events", count),
    Column("active nodes", "nodes", count),
    Column("load", "load", "{:.3f}".format),
    Column("rows at its border", "border_rows", count),
)
BORDERS = (
    Column("model", "model"),
    Column("bytes", "bytes", format_bytes),
    Column("on links", "seconds", duration),
)


@printer
def print_event_plan(plan: dict[str, Any]) -> Report:
    """Print the division of the ranks with its reasons and what an epoch takes, or the load of groups of snapshots."""
    yield from _stream(plan) if plan["kind"] == "events" else _snapshots(plan)
    yield from (f"advice: {text}" for text in plan["advice"])
    yield from (f"not known: {text}" for text in plan["unknown"])


def _stream(plan: dict[str, Any]) -> Report:
    yield plan["rates"]["text"]
    yield f"{plan['dataset']} on {plan['topology']}, {plan['num_parts']} ranks: tgn on {plan['events']:,} events"
    yield plan["reason"]
    yield (
        f"{plan['iterations']:,} iterations of batches of {plan['batch_size']:,} events; a round through the stream "
        f"trains {plan['epochs_a_round']} epoch(s) in {duration(plan['round_seconds'])}"
    )
    yield (
        f"estimate of an epoch: {duration(plan['epoch_seconds'])}, of which {duration(plan['compute_seconds'])} "
        f"computing and {duration(plan['communication_seconds'])} on links"
    )
    each = plan["epochs_a_round"]
    rows = [{"stage": name, "seconds": seconds / each} for name, seconds in plan["stages"].items()]
    yield Table("stages of an epoch", STAGES, Cited(rows))
    purposes = [
        Column(purpose, lambda row, purpose=purpose: row["memory_by_purpose"][purpose], format_bytes)  # type: ignore[misc]
        for purpose in plan["ranks"][0]["memory_by_purpose"]
    ]
    own = Column("memory", "memory_bytes", format_bytes)
    yield Table("memory of the ranks", [GROUPS[0], own, *purposes], Cited(plan)["ranks"])
    if plan["num_parts"] > 1:
        yield Table("what is sent in a round, beside gradients", MESSAGES, Cited(plan)["messages"])
        yield Table("over types of links", TYPES, Cited(plan)["link_types"])
        yield f"gradients of the weights: {format_bytes(plan['weight_bytes'])} in a round"
    if plan["crossing_share"] is not None and plan["num_parts"] > 1:
        yield f"{plan['crossing_events']:,} events ({plan['crossing_share']:.1%}) have ends on two ranks"


def _snapshots(plan: dict[str, Any]) -> Report:
    yield (
        f"{plan['dataset']} on {plan['topology']}: {plan['num_snapshots']:,} snapshots in {plan['num_parts']} groups, "
        f"the largest costs {plan['imbalance']:.3f} of the mean"
    )
    yield Table("groups of snapshots", GROUPS, Cited(plan)["ranks"])
    yield f"states of nodes that cross borders in an epoch with --hidden {plan['hidden']}, and their gradients back:"
    yield Table("borders", BORDERS, Cited(plan)["borders"])
