"""What `pipelines.planning.plan` predicts, on a terminal."""

from __future__ import annotations

from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.formats import count, duration
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer
from graphprep.system.progress import format_bytes

RANKS = (
    Column("rank", lambda row: [row["rank"], " ", row["name"]]),
    Column("nodes", "rows", count),
    Column("in-edges", "edges", count),
    Column("halo", "halo", count),
    Column("computing", "compute_seconds", duration),
    Column("memory", "memory_bytes", format_bytes),
)
MESSAGES = (
    Column("wire", "wire"),
    Column("staleness", "staleness"),
    Column("rows", "row_bytes", format_bytes),
    Column("weights", "weight_bytes", format_bytes),
    Column("on links", "communication_seconds", duration),
    Column("an epoch", "epoch_seconds", duration),
)
STAGES = (Column("stage", "stage"), Column("a step", "seconds", duration))
FETCHED = (Column("type", "type"), Column("rows", "rows", count), Column("bytes", "bytes", format_bytes))
BY_COLUMNS = (
    Column("--features-by", "features_by"),
    Column("bytes a step", "bytes", format_bytes),
    Column("on links ahead of it", "ahead_seconds", duration),
    Column("on links in it", "waited_seconds", duration),
    Column("a step", "step_seconds", duration),
    Column("memory of columns", "memory_bytes", format_bytes),
)
TO_ACCURACY = (
    Column("trained on", "trained_on"),
    Column("an epoch", "epoch_seconds", duration),
    Column("epochs", "epochs", count),
    Column("the run", "seconds", duration),
)
WAYS = (
    Column("ranks", lambda row: [row["ranks"], " ", row["topology"]]),
    Column("an epoch", "epoch_seconds", duration),
    Column("on links", "communication_seconds", duration),
    Column("memory", "memory_bytes", format_bytes),
    Column("epochs", "epochs", count),
    Column("the run", "run_seconds", duration),
    Column("times as fast as by default", "times_faster", "{:.2f}".format),
)


@printer
def print_best(found: dict[str, Any]) -> Report:
    """Print whose rates these are, the best ways with their reasons and commands, and what was not considered."""
    yield found["rates"]["text"]
    pilots = found["pilots"]
    if pilots is not None:
        yield (
            f"pilots of {pilots['epochs']} epochs: the exact exchange arrived after {found['epochs']}, and "
            f"{len(pilots['failed'])} approximation(s) did not"
        )
    yield f"{found['considered']} ways to train {found['dataset']} were considered; the best:"
    has_price = found["best"][0]["cost"] is not None
    price = [Column("cost", "cost", "{:.2f}".format)] if has_price else []
    yield Table("ways", [*WAYS, *price], Cited(found)["best"])
    for number, way in enumerate(found["best"], 1):
        memory = {True: "it fits into memory", False: "", None: "it is not known how much memory ranks have"}[
            way["fits"]
        ]
        yield f"{number}. {'; '.join([*way['reasons'], memory])}"
        yield from (f"   {command}" for command in (way["partition"], way["command"]) if command is not None)
    yield from (f"not known: {text}" for text in found["unknown"])


@printer
def print_plan(plan: dict[str, Any]) -> Report:
    """Print whose rates these are, the epoch, the ranks, ways to send less, advice, and what the plan does not know."""
    yield plan["rates"]["text"]
    widths = " -> ".join(map(str, [plan["widths"][0][0], *(width for _, width in plan["widths"])]))
    yield (
        f"{plan['dataset']} on {plan['topology']}, {plan['num_parts']} ranks: {plan['training']['model']} of widths "
        f"{widths}"
    )
    yield (
        f"estimate of an epoch: {duration(plan['epoch_seconds'])}, of which {duration(plan['compute_seconds'])} "
        f"computing on the slowest rank and {duration(plan['communication_seconds'])} on links"
    )
    if plan["communication_seconds_without_relays"] is not None:
        yield (
            f"relays are used; without them communication would take "
            f"{duration(plan['communication_seconds_without_relays'])}"
        )
    kinds = [
        Column(kind, lambda row, kind=kind: row["seconds_by_kind"][kind], duration)  # type: ignore[misc]
        for kind in plan["ranks"][0]["seconds_by_kind"]
    ]
    yield Table("ranks", [*RANKS, *kinds], Cited(plan)["ranks"])
    yield plan["memory"]
    for layer in plan["layer_exchanges"]:
        both = f"boundary {duration(layer['boundary_seconds'])}, tensor {duration(layer['tensor_seconds'])}"
        chosen = f"layer {layer['layer']}, {layer['width']} wide: {layer['exchange']}"
        yield f"{chosen} (an epoch by the trainer's model: {both})"
    if plan["num_parts"] > 1:
        yield Table("what is sent in an epoch", MESSAGES, Cited(plan)["ways"])
    if plan["batches"]:
        yield from batch_tables(Cited(plan)["batches"])
        yield from accuracy_table(Cited(plan)["time_to_accuracy"])
    yield from (f"advice: {text}" for text in plan["advice"])
    yield from (f"not known: {text}" for text in plan["unknown"])


def batch_tables(batches: Cited) -> Report:
    """What mini-batches take, by stage, and what they send by type of link."""
    figures = batches.value
    yield (
        f"mini-batches of {figures['batch_size']:,} training nodes: estimate of an epoch of {figures['steps']:,} "
        f"steps: {duration(figures['epoch_seconds'])}; a step takes {duration(figures['step_seconds'])}, and its "
        f"bottleneck is to {figures['bottleneck']}"
    )
    yield Table("stages of a step on the slowest rank", STAGES, batches["stages"])
    if figures["rows_fetched"]:
        yield Table("what a step fetches over types of links", FETCHED, batches["link_types"])
    if figures["features_by"]:
        yield Table("features by rows and by columns", BY_COLUMNS, batches["features_by"])


def accuracy_table(compared: Cited) -> Report:
    """The whole graph and batches by the time to one accuracy, with reasons and commands."""
    figures = compared.value
    yield figures["epochs_from"]
    yield Table("time to one accuracy", TO_ACCURACY, compared["ways"])
    for number, way in enumerate(figures["ways"], 1):
        late = "; its pilot did not get there" if way["epochs"] is None else ""
        yield f"{number}. {way['trained_on']}: {way['reason']}{late}"
        yield f"   {way['command']}"
