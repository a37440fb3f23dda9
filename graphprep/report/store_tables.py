"""The tables of a graph store, and what a terminal shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.formats import count, percent, ratio, short
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer

BAR = 40
"""Characters of the longest bar, and classes up to which a terminal shows them."""
MASKS = ("train", "val", "test")
IMPORT_STEPS = ("given", "reversed_added", "self_loops_found", "duplicates_found", "duplicates_removed", "edges")

TYPE = Column("type", lambda row: row.last_key)
NODES = (
    TYPE,
    Column("nodes", "count", count),
    Column("features", lambda row: [row["x"]["shape"][-1], " x ", row["x"]["dtype"]] if "x" in row else None, count),
    Column("zeros", "features.zero_share", percent),
    Column("classes", "classes", count),
    Column("labelled", "labelled", count),
    *(Column(mask, lambda row, mask=mask: _of_splits(row.get(f"splits.{mask}")), count) for mask in MASKS),  # type: ignore[misc]
    Column("isolated", "isolated_nodes", count),
)
EDGES = (
    TYPE,
    Column("edges", "count", count),
    Column("weighted", "weighted"),
    Column("self-loops", "self_loops", count),
    Column("duplicates", "duplicates", count),
    Column("one-way", lambda row: _one_way(row["one_way"]), percent),
    Column("homophily", "homophily.edge", ratio),
    Column("of nodes", "homophily.node", ratio),
    Column("adjusted", "homophily.adjusted", ratio),
)
DEGREES = (
    Column("type", lambda degree: f"{degree.path[-2]}, {degree.last_key.removesuffix('_degree')}"),
    *(Column(figure, figure, short) for figure in ("mean", "median", "p90", "p99", "max")),
    Column("share of top 1 %", "top_share", percent),
)
MOST_CONNECTED = (
    Column("node", "node"),
    Column("in-edges", "in_degree", count),
    Column("out-edges", "out_degree", count),
)
IMPORTED = (TYPE, *(Column(step.replace("_", " "), step, count) for step in IMPORT_STEPS))
FILES = (
    Column("name", lambda file: str(file.value.get("name", "-"))),
    Column("SHA-256 begins with", lambda file: str(file.value.get("sha256", "-"))[:16]),
)


def degrees(summary: Cited) -> Iterator[Cited]:
    """In-degrees of each edge type, and out-degrees where they may differ."""
    both = summary["directed"] or len(summary["edges"].value) > 1
    for edge in summary["edges"]:
        yield from (edge[name] for name in ("in_degree", "out_degree")[: 2 if both else 1] if name in edge)


def classes_table(node: Cited) -> Table:
    """Nodes of each class, of all masks and of each mask of the first split."""
    splits, largest = node.get("first_split_per_class"), max(node["nodes_per_class"].value) or 1
    names = node.get("class_names")
    columns = [
        Column("class", lambda size: size.last_key),
        *([Column("name", lambda size: names[int(size.last_key)])] if names.value else []),
        Column("nodes", lambda size: size, count, fill="bar"),
        *(
            Column(mask, lambda size, mask=mask: splits[mask][int(size.last_key)], count)  # type: ignore[misc]
            for mask in splits.value or ()
        ),
        Column("bar", lambda size: _bar(size.value / largest), is_optional=True, only="terminal"),
    ]
    return Table(f"classes of {node.last_key}", columns, node["nodes_per_class"])


def histogram_table(degree: Cited) -> Table:
    """Nodes by ranges of their degree."""
    largest = max((row["nodes"].value for row in degree["histogram"]), default=0) or 1
    columns = [
        Column("degree", lambda row: " - ".join(f"{end:,}" for end in sorted({row["low"].value, row["high"].value}))),
        Column("nodes", "nodes", count),
        Column("bar", lambda row: _bar(row["nodes"].value / largest), is_optional=True),
    ]
    kind, direction = degree.path[-2], degree.last_key.removesuffix("_degree")
    return Table(f"nodes by {direction}-degree, {kind}", columns, degree["histogram"])


@printer
def print_store(summary: dict[str, Any]) -> Report:
    """Print nodes, edges, degrees, splits, the source of the data, and the warnings last, where they are seen."""
    cited = Cited(summary)
    direction = "directed" if summary["directed"] else "undirected"
    yield f"{summary['dataset']}: graph store, {direction}, {summary['location']}"
    yield Table("types of nodes", NODES, cited["nodes"])
    for node in cited["nodes"]:
        features = node.value.get("features")
        if features and not features["is_whole"]:
            yield f"features of {node.last_key}: {features['rows_looked_at']:,} evenly spread rows were read"
        if 0 < len(node.get("nodes_per_class").value or ()) <= BAR:
            yield classes_table(node)
    yield Table("types of edges (directed, counted at their destination)", EDGES, cited["edges"])
    yield Table("degrees", DEGREES, list(degrees(cited)))
    yield from (histogram_table(edge["in_degree"]) for edge in cited["edges"] if "in_degree" in edge)
    components = summary["components"]
    yield f"components: {components['count']:,}, the largest of {components['largest_nodes']:,} nodes"
    yield from _source(summary)
    for warning in summary["warnings"]:
        yield "warning: " + (f"{warning['where']}: " if warning["where"] else "") + warning["text"]


def _source(summary: dict[str, Any]) -> Report:
    source, notes = summary["source"], dict(summary["notes"])
    yield (
        f"source: {source['reader']}, {len(source.get('files', []))} files; key {summary['key'][:16]}, "
        f"written by graphprep {summary['tool_version']}"
    )
    yield from (f"{name}: {source[name]}" for name in ("licence", "citation") if source.get(name))
    yield from (f"read as: {words}" for words in notes.pop("read_as", ()))
    for name in ("features", "edge_features"):  # with all classes and means; the lines above say what is read
        notes.pop(name, None)
    yield from (f"note: {name}: {value}" for name, value in notes.items())


def _of_splits(counts: Cited) -> list[object]:
    """The nodes of a mask's first split, and how many splits there are."""
    if not counts:
        return [None]
    splits = len(counts.value)
    return [counts[0], f" (of {splits} splits)" if splits > 1 else ""]


def _one_way(one_way: Cited) -> list[object]:
    return [one_way["share"], "" if one_way["is_exact"] else " (sampled)"] if one_way else [None]


def _bar(share: float) -> str:
    return "#" * round(BAR * share)
