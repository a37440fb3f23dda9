"""The drawings of the pages: a plot of a part of the summary, as SVG with words for those who cannot see it.

`word` is a name that no other drawing of the page has.
"""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from graphprep.report import plots
from graphprep.report.cited import Cited
from graphprep.report.svg import drawn
from graphprep.topology import Topology

MAX_RANKS = 64
"""Ranks up to which links and pairs of ranks are drawn; with more the tables say it better."""
MAX_CLASSES = 100
UNITS = {"bottleneck_seconds": 1e6}
LOADS = plots.LOADS


def is_wide(topology: Cited) -> bool:
    """Whether a drawing of a topology's long form takes the whole width of the page."""
    return len(topology["ranks"]) > plots.MANY_RANKS


def links(quality: Cited, topology: Cited, word: str) -> Markup:
    """The links of a topology by load; nothing for one rank or too many."""
    if not 1 < len(topology["ranks"]) <= MAX_RANKS:
        return Markup()
    alt = "The ranks and switches of the topology with their links, coloured by how long each is busy."
    size = (plots.WIDE, 3.6) if is_wide(topology) else (3.9, 3.2)
    whole = Topology.from_long_form(topology.value)
    return drawn(word, alt, partial(plots.plot_links, quality.value, whole), size=size)


def work(ranks: Cited, word: str) -> Markup:
    alt = "Bars of each rank's load, which is its work over its share."
    return drawn(f"{word}-work", alt, partial(plots.plot_parts, ranks.value), size=(plots.NARROW, 2.4))


def memory(ranks: Cited, word: str) -> Markup:
    alt = "Bars of the memory that each rank needs."
    return drawn(f"{word}-memory", alt, partial(plots.plot_memory, ranks.value), size=(plots.NARROW, 2.4))


def traffic(matrix: Cited, word: str, what: str) -> Markup:
    alt = f"A heat map of the {what} between every pair of ranks."
    return drawn(word, alt, partial(plots.plot_traffic, matrix.value), size=(3.6, 3.2))


def classes(node: Cited, word: str) -> Markup:
    alt = f"Bars of the nodes of each class of {node.last_key}."
    masks = node.get("first_split_per_class").value or {}
    return drawn(word, alt, partial(plots.plot_classes, node["nodes_per_class"].value, masks), size=(plots.NARROW, 2.6))


def degrees(degree: Cited, word: str) -> Markup:
    alt = f"Bars of the nodes in each range of the {degree.last_key.replace('_', '-')}, {degree.path[-2]}."
    return drawn(word, alt, partial(plots.plot_degrees, degree["histogram"].value), size=(plots.NARROW, 2.4))


def compared(summary: Cited, key: str, label: str) -> Markup:
    """One bar a cache."""
    values = {row["cache"].value: UNITS.get(key, 1.0) * row[key].value for row in summary["caches"]}
    alt = f"Bars of each cache: {label}."
    return drawn(key, alt, partial(plots.plot_compared, values, label), size=(plots.NARROW, 2.6))
