"""The page about a graph store: is the data what a person thinks it is. Its figures are those of `inspect --json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from graphprep.report import plots
from graphprep.report.cited import Cited, Html, count, plain, share, three
from graphprep.report.html import (
    Cell,
    Text,
    bullets,
    cards,
    figure,
    figures,
    header,
    joined,
    name,
    page,
    section,
    table,
    tag,
)
from graphprep.report.svg import drawn
from graphprep.system.progress import format_bytes

MOST_CLASSES_DRAWN = 100
DEGREES_NOTE = (
    "Ranges of degrees by powers of two; the nodes are on a logarithmic scale. Few nodes with most of the edges make "
    "parts of equal nodes unequal in work."
)
HOMOPHILY_NOTE = (
    "The share of edges that join nodes of one label, as a share of edges and as a mean over nodes. Adjusted takes off "
    "what chance would give: near nought, plain GCN has little to go by."
)


def store_page(summary: dict[str, Any]) -> str:
    """The page for what `store_summary` gave, as text."""
    cited = Cited(summary)
    body = [
        header(name(cited["dataset"].value), "A directed graph." if cited["directed"] else "An undirected graph."),
        cards(_figures(cited)),
        _warnings(cited["warnings"]),
        section("Nodes", *_nodes(cited["nodes"])),
        section("Edges", *_edges(cited["edges"]), note=HOMOPHILY_NOTE),
        section("Degrees", *_degrees(cited), note=DEGREES_NOTE),
        section("Where it came from", *_source(cited)),
        _footer(cited),
    ]
    return page(cited["dataset"].value, body)


def _figures(cited: Cited) -> list[tuple[Text, Text]]:
    components = cited["components"]
    return [
        (cited["num_nodes"].shown(count), "nodes"),
        (cited["num_edges"].shown(count), "directed edges"),
        (
            components["count"].shown(count),
            joined("components, the largest of ", components["largest_nodes"].shown(count), " nodes"),
        ),
        (cited["bytes"].shown(format_bytes), "before compression"),
    ]


def _warnings(warnings: Cited) -> Html:
    if not warnings:
        return tag("p", "Nothing about this graph calls for attention.", class_="warnings good")
    told = (
        joined(
            joined(name(warning["where"].value), ": ") if warning["where"] else "",
            tag("span", warning["text"].value, class_="name"),
        )
        for warning in warnings
    )
    return tag("div", bullets(told), class_="warnings")


def _nodes(nodes: Cited) -> Iterator[Html]:
    rows: list[list[Text | Cell]] = []
    for node_type, node in nodes.items():
        splits = node.get("splits")
        rows.append(
            [
                name(node_type),
                node["count"].shown(count),
                joined(node["x"]["shape"][-1].shown(count), " ", name(node["x"]["dtype"].value))
                if "x" in node
                else "-",
                node["features"]["zero_share"].shown(share) if "features" in node else "-",
                node["classes"].shown(count) if "classes" in node else "-",
                node["labelled"].shown(count) if "labelled" in node else "-",
                *(
                    splits[mask][0].shown(count) if splits and splits[mask] else "-"
                    for mask in ("train", "val", "test")
                ),
                node["isolated_nodes"].shown(count),
            ]
        )
    columns = ["type", "nodes", "features", "zeros", "classes", "labelled", "train", "val", "test", "isolated"]
    yield table("Types of nodes", columns, rows)
    drawings = [
        figure(
            drawn(
                f"classes-{number}",
                f"Bars of the nodes of each class of {node_type}.",
                partial(plots.plot_classes, node["nodes_per_class"].value, _splits_of(node)),
                size=(plots.NARROW, 2.6),
            ),
            joined("Nodes of ", name(node_type), " by class, with the masks of the first split."),
        )
        for number, (node_type, node) in enumerate(nodes.items())
        if "nodes_per_class" in node and 0 < len(node["nodes_per_class"].value) <= MOST_CLASSES_DRAWN
    ]
    if drawings:
        yield figures(*drawings)
    for node_type, node in nodes.items():
        if node.get("nodes_per_class"):
            yield tag("details", tag("summary", "The same as a table"), _classes(node_type, node))


def _features(node: Cited) -> Html:
    return joined(node["x"]["shape"][-1].shown(count), " ", name(node["x"]["dtype"].value))


def _splits_of(node: Cited) -> dict[str, list[int]]:
    return node["first_split_per_class"].value if "first_split_per_class" in node else {}


def _classes(node_type: str, node: Cited) -> Html:
    sizes = node["nodes_per_class"]
    most = max(sizes.value)
    masks = list(_splits_of(node))
    rows: list[list[Text | Cell]] = [
        [
            name(str(label)),
            Cell(text=size.shown(count), share=size.value / most if most else 0.0),
            *(node["first_split_per_class"][mask][label].shown(count) for mask in masks),
        ]
        for label, size in enumerate(sizes)
    ]
    return table(f"Classes of {node_type}", ["class", "nodes", *masks], rows)


def _edges(edges: Cited) -> Iterator[Html]:
    rows: list[list[Text | Cell]] = []
    for key, edge in edges.items():
        one_way, homophily = edge["one_way"], edge["homophily"]
        rows.append(
            [
                name(key),
                edge["count"].shown(count),
                "yes" if edge["weighted"] else "no",
                edge["self_loops"].shown(count),
                edge["duplicates"].shown(count),
                joined(one_way["share"].shown(share), "" if one_way["is_exact"].value else " (sampled)")
                if one_way
                else "-",
                *(homophily[way].shown(three) if homophily else "-" for way in ("edge", "node", "adjusted")),
            ]
        )
    columns = ["type", "edges", "weighted", "self-loops", "repeated", "one-way", "homophily", "of nodes", "adjusted"]
    yield table("Types of edges", columns, rows)


def _degrees(cited: Cited) -> Iterator[Html]:
    """In-degrees, and out-degrees too where they may differ."""
    edges, ways = cited["edges"], [("in_degree", "in"), ("out_degree", "out")]
    drawings, rows = [], list[list[Text | Cell]]()
    for number, (key, edge) in enumerate(edges.items()):
        for degree, way in ways if cited["directed"] or len(edges.value) > 1 else ways[:1]:
            if degree not in edge:
                continue
            figure_of = edge[degree]
            drawing = drawn(
                f"{way}-{number}",
                f"Bars of how many nodes have how many {way}-edges of type {key}.",
                partial(plots.plot_degrees, figure_of["histogram"].value),
                size=(plots.NARROW, 2.4),
            )
            drawings.append(figure(drawing, joined(f"Nodes by {way}-degree, ", name(key), ".")))
            rows.append(
                [
                    joined(name(key), f", {way}"),
                    *(figure_of[word].shown(plain) for word in ("mean", "median", "p90", "p99", "max")),
                    figure_of["top_share"].shown(share),
                ]
            )
    yield figures(*drawings)
    columns = ["type", "mean", "median", "ninety of a hundred", "ninety-nine", "most", "at the top hundredth"]
    yield table("Degrees", columns, rows)
    for key, edge in edges.items():
        if edge.get("most_connected"):
            top: list[list[Text | Cell]] = [
                [row["node"].shown(str), row["in_degree"].shown(count), row["out_degree"].shown(count)]
                for row in edge["most_connected"]
            ]
            yield table(f"The most connected nodes of {key}", ["node", "in-edges", "out-edges"], top)


def _source(cited: Cited) -> Iterator[Html]:
    source, counts = cited["source"], list(cited["edges"].items())
    told: list[Text] = [joined("Read by ", name(source["reader"].value), ".")]
    told += [
        joined(f"{word.capitalize()}: ", name(source[word].value))
        for word in ("licence", "citation", "homepage")
        if source.get(word)
    ]
    told += [joined(f"{word}: ", name(json.dumps(value.value))) for word, value in cited["notes"].items()]
    yield bullets(told)
    files = [file for file in source["files"] if isinstance(file.value, dict)] if "files" in source else []
    if files:
        rows: list[list[Text | Cell]] = [
            [name(str(file.value.get("name", "-"))), name(str(file.value.get("sha256", "-"))[:16])] for file in files
        ]
        yield table("Files", ["name", "SHA-256 begins with"], rows)
    steps = ("given", "reversed_added", "self_loops_found", "duplicates_found", "duplicates_removed", "edges")
    done: list[list[Text | Cell]] = [[name(key), *(edge[step].shown(count) for step in steps)] for key, edge in counts]
    columns = ["type", *(step.replace("_", " ") for step in steps)]
    yield table("What was found at import and done", columns, done)


def _footer(cited: Cited) -> Html:
    lines = [
        joined("Key ", name(cited["key"].value), ", format ", cited["graphprep_format"].shown(count), "."),
        joined("Written by graphprep ", name(cited["tool_version"].value), " to ", name(cited["location"].value), "."),
    ]
    return tag("footer", *(tag("p", text) for text in lines))
