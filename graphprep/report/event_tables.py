"""The tables of event stores and event caches, and what a terminal shows of them."""

from __future__ import annotations

from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.formats import count, percent, short, times
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer
from graphprep.system.progress import format_bytes

BAR = 40
"""Characters of the longest bar."""

RANKS = (
    Column("rank", "rank", count),
    Column("nodes", "nodes", count),
    Column("ends of events", "event_ends", count),
    Column("load", "load", times),
    Column("at worst", "worst_load", times),
)
GROUPS = (
    Column("first rank", "rank", count),
    Column("snapshots", "snapshots", count),
    Column("events", "events", count),
    Column("cost", "cost", short),
    Column("load", "load", times),
)
MEMORY = (
    Column("rank", "rank", count),
    Column("tgcn", "tgcn", format_bytes),
    Column("gclstm", "gclstm", format_bytes),
    Column("evolvegcn", "evolvegcn", format_bytes),
)
SPLIT = (
    Column("part", lambda row: row.last_key),
    Column("events", "events", count),
    Column("from", "first_time", "{:,.15g}".format),
    Column("to", "last_time", "{:,.15g}".format),
)
BUSIEST = (Column("node", "node", count), Column("ends of events", "events", count))


def activity_table(summary: Cited) -> Table:
    """Events by time."""
    most = max(row["events"].value for row in summary["activity"])
    columns = (
        Column("from day", "from_day", "{:,.4g}".format),
        Column("events", "events", count),
        Column("", lambda row: "#" * round(BAR * row["events"].value / max(1, most)), only="terminal"),
    )
    return Table("activity over time", columns, summary["activity"], rows_on_terminal=20)


@printer
def print_event_store(summary: dict[str, Any]) -> Report:
    """Print counts, activity over time, the source of the data and warnings."""
    cited = Cited(summary)
    kind = "bipartite" if summary["bipartite"] else "not bipartite"
    yield f"{summary['dataset']}: event store, {kind}, {summary['location']}"
    yield _counts(summary)
    nodes = summary["nodes"]
    yield (
        f"nodes: {nodes['sources']:,} sources, {nodes['destinations']:,} destinations, {nodes['without_events']:,} "
        f"without events; events of a node: median {nodes['p50']:g}, 99 % {nodes['p99']:g}, most {nodes['max']:,}"
    )
    yield (
        f"features: {summary['num_event_features']:,} of an event, {summary['num_node_features']:,} of a node; "
        f"states: {summary['num_states']:,}"
    )
    yield activity_table(cited)
    yield from (f"read as: {line}" for line in summary["notes"].get("read_as", ()))
    yield from _end(summary)


@printer
def print_event_cache(summary: dict[str, Any]) -> Report:
    """Print the split, the load of ranks, groups of snapshots and warnings."""
    cited, ranks = Cited(summary), summary["quality"]["ranks"]
    yield f"{summary['dataset']}: event cache for {summary['num_parts']} ranks, {summary['location']}"
    yield _counts(summary)
    yield Table("split by time", SPLIT, cited["split"])
    yield Table("ranks of nodes", RANKS, cited["ranks"])
    yield (
        f"{percent(ranks['crossing_share'])} of the events cross ranks; the largest load of a rank is "
        f"{times(ranks['imbalance'])} of the mean in all, {times(ranks['imbalance_over_time'])} over stretches of time"
    )
    snapshots = summary["snapshots"]
    if snapshots is not None:
        yield (
            f"snapshots: {snapshots['count']:,} of {snapshots['window_seconds']:,.10g} s, {snapshots['empty']:,} "
            f"without events, the largest of {snapshots['largest_events']:,}"
        )
        yield Table("groups of snapshots", GROUPS, cited["snapshots"]["groups"])
        if members := snapshots["members"]:
            yield (
                f"{snapshots['ranks_per_group']} ranks share each group: nodes by {members['method']}, "
                f"{members['halo_rows']:,} halo rows in all snapshots, the most rows of a rank "
                f"{times(members['imbalance'])} of the mean"
            )
        memory = snapshots["memory"]
        title = f"memory of a rank in training, estimate for --hidden {memory['hidden']} --layers {memory['layers']}"
        yield Table(title, MEMORY, cited["snapshots"]["memory"]["by_rank"])
    yield activity_table(cited)
    yield from _end(summary)


def _counts(summary: dict[str, Any]) -> str:
    time = summary["time"]
    return (
        f"{summary['num_nodes']:,} nodes, {summary['num_events']:,} events in {time['days']:,.4g} days, times from "
        f"{time['first']:,.15g} to {time['last']:,.15g} in {time['unit']}"
    )


def _end(summary: dict[str, Any]) -> Report:
    yield f"key {summary['key'][:16]}, written by graphprep {summary['tool_version']}"
    yield from (f"warning: {warning}" for warning in summary["warnings"])
