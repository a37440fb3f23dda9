"""What a notebook shows for a store, a cache or a topology: a small table, and of a topology its drawing.

Only what is known without reading arrays is shown; `graphprep inspect` looks at everything. Styles are inline and keep
to the notebook's own colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphprep.report.cited import Html
from graphprep.report.html import Text, joined, tag
from graphprep.report.tables import duration

if TYPE_CHECKING:
    from graphprep.cache.read import PartitionCache
    from graphprep.store.store import GraphStore
    from graphprep.topology import Topology

MOST_DRAWN_RANKS = 32
MOST_ROWS = 12


def store_html(store: GraphStore) -> str:
    """A store: its types with counts and arrays."""
    direction = "directed" if store.directed else "undirected"
    rows = [[name, f"{count:,}", ", ".join(store.node_arrays(name)) or "-"] for name, count in store.num_nodes.items()]
    rows += [
        [kind.key, f"{count:,}", ", ".join(store.edge_arrays(kind)) or "-"] for kind, count in store.num_edges.items()
    ]
    return _shown(f"Graph store {store.name}, {direction}", ["type", "count", "arrays"], rows)


def cache_html(cache: PartitionCache) -> str:
    """A cache: what one exchange takes, by type of link."""
    quality, topology = cache.quality, cache.attributes["topology"]["name"]
    title = (
        f"Partition cache {cache.attributes['dataset']} for {topology}: {cache.num_parts} parts, bottleneck "
        f"{duration(quality['bottleneck_seconds'])} an exchange, {quality['cut_edges']:,} edges cross"
    )
    rows = [
        [row["type"], duration(row["seconds_max"]), f"{row['imbalance']:.3f}", f"{row['rows']:,}", f"{row['edges']:,}"]
        for row in quality["link_types"]
    ]
    return _shown(title, ["link type", "slowest", "over mean", "rows", "edges"], rows)


def topology_html(topology: Topology) -> str:
    """A topology: its drawing if it is small, and its links."""
    rows = [
        [" - ".join(link.ends), link.type, f"{link.gbytes_per_s:g}", f"{link.latency_us:g}"] for link in topology.links
    ]
    left = [[f"... and {len(rows) - MOST_ROWS} more", "", "", ""]] if len(rows) > MOST_ROWS else []
    title = f"Topology {topology.name}: {topology.num_ranks} ranks, {len(topology.links)} links"
    table = _shown(title, ["link", "type", "GB/s each way", "latency, us"], [*rows[:MOST_ROWS], *left])
    if not 1 < topology.num_ranks <= MOST_DRAWN_RANKS:
        return table
    from graphprep.report import plots
    from graphprep.report.svg import drawn

    idle = {"links": [{"seconds": 0.0} for _ in range(2 * len(topology.links))]}
    wide = topology.num_ranks > plots.MANY_RANKS
    drawing = drawn(
        f"topology-{abs(hash(topology))}",
        title,
        lambda axes: plots.plot_links(idle, topology, axes),
        size=(plots.WIDE, 3.6) if wide else (3.9, 3.2),
    )
    return table + tag("div", drawing, style=f"max-width: {'56' if wide else '26'}rem")


def _shown(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> Html:
    left, right = "text-align: left", "text-align: right"
    head = tag("tr", *(tag("th", text, style=left if not place else right) for place, text in enumerate(columns)))
    body = [
        tag("tr", *(tag("td", text, style=left if not place else right) for place, text in enumerate(row)))
        for row in rows
    ]
    return tag("div", tag("p", tag("b", title)), tag("table", tag("thead", head), tag("tbody", joined(*body))))
