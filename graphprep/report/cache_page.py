"""The page about a partition cache: is the partition good, where is the bottleneck, what could be better.

Its figures are those of `inspect --json`, each marked with its place there (`cited`).
"""

from __future__ import annotations

from collections.abc import Iterator

from graphprep.core.fallback import Fallback
from graphprep.report import plots
from graphprep.report.cited import Cited, Html, count, share, three
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
from graphprep.report.tables import duration
from graphprep.system.progress import format_bytes
from graphprep.topology import Topology

MOST_DRAWN_RANKS = 64
"""Beyond, a drawing of all links or pairs shows nothing any more, and the tables say it."""


def cache_page(summary: dict[str, object]) -> str:
    """The page for what `cache_summary` gave, as text."""
    cited = Cited(summary)
    title = f"{cited['dataset'].value} for {cited['topology']['name'].value}"
    body = [
        header(joined(name(cited["dataset"].value), " for ", name(cited["topology"]["name"].value)), *_notes(cited)),
        _lead(cited),
        cards(_figures(cited)),
        _limits_kept(cited["quality"]["limits"]),
        section("Links", *_link_parts(cited, "links"), note=LINKS_NOTE),
        section("Parts", *_rank_parts(cited["quality"]["ranks"], "parts"), note=PARTS_NOTE),
        section("What crosses", *_traffic_parts(cited), note=TRAFFIC_NOTE),
        section("How good it could be", *_yardsticks(cited), note=YARDSTICKS_NOTE),
        *_what_if(cited["what_if"]),
        section("How it was made", *_made(cited)),
        _footer(cited),
    ]
    return page(title, body)


LINKS_NOTE = (
    "Every rank waits for the slowest link, so the bottleneck is what an exchange of one layer takes. Both directions "
    "of each link are drawn; the wider and redder, the longer it is busy."
)
PARTS_NOTE = (
    "Work is the time for a part's edges and nodes on its rank; of its share means against what the rank's speed makes "
    "its due, so that one is even. The longest bar is what the other ranks wait for."
)
TRAFFIC_NOTE = (
    "A node's row goes once to every other rank that has an edge from it. Rows decide the seconds; edges that cross "
    "are what other systems would send."
)
YARDSTICKS_NOTE = (
    "No assignment to non-empty parts can be below the bounds for any parts. Those for this traffic say what would be "
    "left if the same rows were spread evenly over the links of a type."
)


def _notes(cited: Cited) -> Iterator[Text]:
    options = cited["options"]
    yield joined(
        "Partition cache by ",
        name(options["method_chosen"].value),
        ", rows of ",
        options["row_bytes"].shown(format_bytes),
        ", link seconds count ",
        name(options["balance"].value),
        ".",
    )
    fallback = Fallback.from_json(cited.value.get("fallback"))
    if fallback is not None:
        yield joined("Made by a fallback: ", name(fallback.sentence), ".")


def _lead(cited: Cited) -> Html:
    bottleneck = cited["bottleneck"]
    if not bottleneck:
        return tag("p", "Nothing is exchanged: there is one part, or no edge crosses.", class_="lead")
    return tag(
        "p",
        "The bottleneck is ",
        tag("b", name(bottleneck["name"].value), class_="hot"),
        ", a link of type ",
        name(bottleneck["type"].value),
        ": it is busy for ",
        tag("b", bottleneck["seconds"].shown(duration)),
        " in one exchange, with ",
        bottleneck["rows"].shown(count),
        " rows.",
        class_="lead",
    )


def _figures(cited: Cited) -> list[tuple[Text, Text]]:
    quality = cited["quality"]
    return [
        (quality["bottleneck_seconds"].shown(duration), "slowest link, one exchange"),
        (quality["sum_seconds"].shown(duration), "all links together"),
        (cited["cut_share"].shown(share), joined("of edges cross (", quality["cut_edges"].shown(count), ")")),
        (quality["halo_rows"].shown(count), "rows received by all"),
        (cited["num_parts"].shown(count), "parts"),
        (cited["num_nodes"].shown(count), "nodes"),
        (cited["num_edges"].shown(count), "directed edges"),
        (cited["bytes"].shown(format_bytes), "on disk"),
    ]


def _limits_kept(limits: Cited) -> Html:
    broken = [limit for limit in limits if not limit["met"].value]
    if not broken:
        return tag("p", "All balance limits that were asked for are kept.", class_="warnings good")
    told = (
        joined(
            "The limit on ",
            name(limit["what"].value),
            " is not kept: ",
            limit["value"].shown(three),
            " of its share where ",
            limit["limit"].shown(three),
            " was asked.",
        )
        for limit in broken
    )
    return tag("div", bullets(told), class_="warnings")


def _link_parts(cited: Cited, word: str) -> list[Html]:
    """Drawing and tables of links; `cited` has quality's figures, or is the summary that holds them."""
    quality = cited.get("quality", cited)
    topology = Topology.from_long_form(cited["topology"].value)
    parts = []
    if 1 < topology.num_ranks <= MOST_DRAWN_RANKS:
        is_wide = topology.num_ranks > plots.MANY_RANKS
        alt = "The ranks and switches of the topology with their links, coloured by how long each is busy."
        drawing = drawn(
            word,
            alt,
            lambda axes: plots.plot_links(quality.value, topology, axes),
            size=(plots.WIDE, 3.6) if is_wide else (3.9, 3.2),
        )
        key = joined(
            tag("span", "■", style=f"color: {plots.LOADS[0]}"),
            " idle  ",
            tag("span", "■", style=f"color: {plots.LOADS[1]}"),
            " half as long  ",
            tag("span", "■", style=f"color: {plots.LOADS[2]}"),
            " the slowest. Circles are ranks, squares are switches.",
        )
        drawing = figure(drawing, key, is_wide=is_wide)
        parts.append(figures(drawing, tag("div", _link_types(quality["link_types"]), _limits(quality["limits"]))))
    else:
        parts.append(_link_types(quality["link_types"]))
    return [*parts, _links(quality["links"], cited["bottleneck"])]


def link_type_cells(row: Cited) -> list[Text | Cell]:
    """Name, slowest direction, that over the mean, rows and edges of one type of links."""
    return [
        name(row["type"].value),
        row["seconds_max"].shown(duration),
        row["imbalance"].shown(three),
        row["rows"].shown(count),
        row["edges"].shown(count),
    ]


def _link_types(link_types: Cited) -> Html:
    rows = [link_type_cells(row) for row in link_types]
    return table("Types of links", ["type", "slowest", "over mean", "rows", "edges"], rows)


def _links(links: Cited, bottleneck: Cited) -> Html:
    slowest = max((row["seconds"].value for row in links), default=0.0)
    marked = bottleneck["name"].value if bottleneck else None
    rows: list[list[Text | Cell]] = []
    for row in sorted(links, key=lambda row: -row["seconds"].value):
        is_marked = row["name"].value == marked
        label = joined(name(row["name"].value), tag("span", "bottleneck", class_="badge") if is_marked else "")
        rows.append(
            [
                label,
                Cell(
                    text=row["seconds"].shown(duration),
                    share=row["seconds"].value / slowest if slowest else 0.0,
                    is_marked=is_marked,
                ),
                name(row["type"].value),
                row["gbytes_per_s"].shown(lambda value: f"{value:g}"),
                row["rows"].shown(count),
                row["edges"].shown(count),
                row["bytes"].shown(format_bytes),
                row["messages"].shown(count),
            ]
        )
    columns = ["direction", "busy for", "type", "GB/s", "rows", "edges", "bytes", "messages"]
    return table("Directions of links, the slowest first", columns, rows)


def _rank_parts(ranks: Cited, word: str) -> list[Html]:
    work = drawn(
        f"{word}-work",
        "Bars of each rank's work over its share.",
        lambda axes: plots.plot_parts(ranks.value, axes),
        size=(plots.NARROW, 2.4),
    )
    memory = drawn(
        f"{word}-memory",
        "Bars of the memory that each rank needs.",
        lambda axes: plots.plot_memory(ranks.value, axes),
        size=(plots.NARROW, 2.4),
    )
    longest = max((row["work_share"].value for row in ranks), default=0.0)
    rows: list[list[Text | Cell]] = [
        [
            joined(row["rank"].shown(count), " ", name(row["name"].value)),
            row["nodes"].shown(count),
            row["edges"].shown(count),
            row["training_nodes"].shown(count),
            row["halo_rows"].shown(count),
            row["work"].shown(count),
            Cell(text=row["work_share"].shown(three), share=row["work_share"].value / longest if longest > 0 else 0.0),
            row["memory_bytes"].shown(format_bytes),
        ]
        for row in ranks
    ]
    columns = ["rank", "nodes", "in-edges", "training nodes", "halo rows", "work", "of its share", "memory"]
    return [
        figures(
            figure(work, "Work over share. The dashed line is an even share."),
            figure(memory, "Memory for edges, rows and halo, by the cost model."),
        ),
        table("Parts", columns, rows),
    ]


def _traffic_parts(cited: Cited) -> list[Html]:
    if cited["num_parts"].value < 2:
        return []
    if cited["num_parts"].value > MOST_DRAWN_RANKS:
        return [tag("p", "There are too many pairs of ranks to draw; inspect --json has them.")]
    alt = "A heat map of the rows sent between every pair of ranks."
    heat = drawn("traffic", alt, lambda axes: plots.plot_traffic(cited["traffic_rows"].value, axes), size=(3.6, 3.2))
    edges = drawn(
        "cross",
        "A heat map of the edges that cross between every pair of ranks.",
        lambda axes: plots.plot_traffic(cited["cross_edges"].value, axes),
        size=(3.6, 3.2),
    )
    return [
        figures(
            figure(heat, "Rows sent in one exchange, from rank (down) to rank (across)."),
            figure(edges, "Edges that cross, from rank (down) to rank (across)."),
        ),
        tag(
            "details",
            tag("summary", "The same as tables"),
            _matrix("Rows sent, from rank (down) to rank (across)", cited["traffic_rows"]),
            _matrix("Edges that cross, from rank (down) to rank (across)", cited["cross_edges"]),
        ),
    ]


def _matrix(title: str, matrix: Cited) -> Html:
    most = max((amount for row in matrix.value for amount in row), default=0)
    rows: list[list[Text | Cell]] = [
        [
            tag("span", str(p), class_="name"),
            *(
                "" if p == q else Cell(text=cell.shown(count), heat=cell.value / most if most else 0.0)
                for q, cell in enumerate(row)
            ),
        ]
        for p, row in enumerate(matrix)
    ]
    return table(title, ["", *(name(str(q)) for q in range(len(matrix.value)))], rows, sorts=False)


def _yardsticks(cited: Cited) -> Iterator[Html]:
    rows: list[list[Text | Cell]] = []
    for row in cited["bounds"]:
        text = count if isinstance(row["found"].value, int) else duration
        rows.append(
            [
                name(row["of"].value.replace("_", " ")),
                row["found"].shown(text),
                row["at_least"].shown(text),
                Cell(text=row["holds_for"].value),
            ]
        )
    yield table("Lower bounds", ["of", "found", "cannot be below", "for"], rows)
    metis = cited["metis"]
    if not metis:
        yield tag("p", "inspect --compare-metis sets METIS beside this; it costs one partitioning.", class_="note")
        return
    quality = cited["quality"]
    broken = [limit["what"].value for limit in quality["limits"] if not limit["met"].value]
    compared: list[list[Text | Cell]] = [
        [
            label,
            row["bottleneck_seconds"].shown(duration),
            row["sum_seconds"].shown(duration),
            row["cut_edges"].shown(count),
            row["halo_rows"].shown(count),
            ", ".join(limits) or "none",
        ]
        for label, row, limits in (
            ("this cache", quality, broken),
            ("METIS k-way, its own order", metis, metis["broken_limits"].value),
        )
    ]
    columns = ["parts of", "bottleneck", "all links", "cut edges", "halo rows", "limits broken"]
    yield table("Beside METIS", columns, compared)
    if metis["ratio"].value is not None:
        ratio = metis["ratio"].shown(lambda value: f"{value:.2f}")
        yield tag("p", "The bottleneck here is ", ratio, " times that of METIS.", class_="note")


def _what_if(again: Cited) -> Iterator[Html]:
    if not again:
        return
    lead = tag(
        "p",
        "The same parts on ",
        name(again["topology"]["name"].value),
        " with rows of ",
        again["row_bytes"].shown(format_bytes),
        ": the bottleneck would be ",
        tag("b", again["bottleneck_seconds"].shown(duration)),
        ", ",
        again["ratio"].shown(lambda value: f"{value:.2f}"),
        " times what it is here.",
        class_="lead",
    )
    yield section("What if", lead, *_link_parts(again, "whatif-links"), *_rank_parts(again["ranks"], "whatif-parts"))


def _limits(limits: Cited) -> Html:
    rows: list[list[Text | Cell]] = [
        [
            name(row["what"].value),
            row["value"].shown(three),
            row["limit"].shown(three),
            Cell(text="kept" if row["met"].value else "not kept", is_marked=not row["met"].value),
        ]
        for row in limits
    ]
    return table("Balance: largest share over target share", ["of", "found", "at most", ""], rows) if rows else Html()


def _made(cited: Cited) -> Iterator[Html]:
    tried: list[list[Text | Cell]] = []
    for row in cited["options"]["tried"]:
        judged = "bottleneck_seconds" in row
        tried.append(
            [
                name(row["method"].value),
                row["seconds"].shown(duration) if row["seconds"].value else "-",
                row["bottleneck_seconds"].shown(duration) if judged else name(row["failure"].value),
                row["cut_edges"].shown(count) if judged else "",
                ", ".join(row["broken_limits"].value) or "none" if judged else "",
            ]
        )
    if tried:
        yield table("Methods tried", ["method", "took", "bottleneck", "cut edges", "limits broken"], tried)


def _footer(cited: Cited) -> Html:
    lines = [
        joined("Key ", name(cited["key"].value), ", format ", cited["graphprep_format"].shown(count), "."),
        joined("Written by graphprep ", name(cited["tool_version"].value), " to ", name(cited["folder"].value), "."),
    ]
    return tag("footer", *(tag("p", text) for text in lines))
