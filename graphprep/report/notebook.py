"""What a notebook shows for a store, a cache or a topology: a small table, and of a topology its drawing.

Only what is known without reading arrays is shown; `graphprep inspect` reads everything. Styles are inline and keep to
the notebook's own colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphprep.report.cited import Cited
from graphprep.report.formats import count, duration
from graphprep.report.table import Column, Table

if TYPE_CHECKING:
    from markupsafe import Markup

    from graphprep.cache.read import PartitionCache
    from graphprep.store.store import GraphStore
    from graphprep.topology import Topology

MAX_RANKS = 32
"""Ranks up to which a topology is drawn."""
MAX_ROWS = 12
STORE = (Column("type", "type"), Column("count", "count", count), Column("arrays", "arrays"))


def store_html(store: GraphStore) -> str:
    """A store: its types with counts and arrays."""
    direction = "directed" if store.directed else "undirected"
    rows = [
        {"type": name, "count": number, "arrays": list(store.node_arrays(name))}
        for name, number in store.num_nodes.items()
    ]
    rows += [
        {"type": kind.key, "count": number, "arrays": list(store.edge_arrays(kind))}
        for kind, number in store.num_edges.items()
    ]
    return _html(Table(f"Graph store {store.name}, {direction}", STORE, Cited(rows)))


def cache_html(cache: PartitionCache) -> str:
    """A cache: the time of one exchange, by type of link."""
    from graphprep.report.cache_tables import LINK_TYPES

    quality, topology = cache.quality, cache.attributes["topology"]["name"]
    title = (
        f"Partition cache {cache.attributes['dataset']} for {topology}: {cache.num_parts} parts, bottleneck "
        f"{duration(quality['bottleneck_seconds'])} an exchange, {quality['cut_edges']:,} cut edges"
    )
    return _html(Table(title, LINK_TYPES, Cited(quality)["link_types"]))


def topology_html(topology: Topology) -> str:
    """A topology: its links, and its drawing if it is small."""
    from graphprep.report import plots
    from graphprep.report.svg import drawn
    from graphprep.report.tables import LINKS

    title = f"Topology {topology.name}: {topology.num_ranks} ranks, {len(topology.links)} links"
    drawing, size = None, plots.links_size(topology.num_ranks)
    if 1 < topology.num_ranks <= MAX_RANKS:
        idle = {"links": [{"seconds": 0.0}] * 2 * len(topology.links)}
        drawing = drawn(f"topology-{abs(hash(topology))}", title, plots.plot_links, idle, topology, size=size)
    links = list(Cited(topology.to_long_form())["links"])
    width = "56rem" if size == plots.WIDE_LINKS else "26rem"
    return _html(Table(title, LINKS, links[:MAX_ROWS]), more=len(links[MAX_ROWS:]), drawing=drawing, width=width)


def _html(table: Table, *, more: int = 0, drawing: Markup | None = None, width: str = "") -> str:
    from graphprep.report.pages import environment

    return environment().get_template("notebook.html.j2").render(table=table, more=more, drawing=drawing, width=width)
