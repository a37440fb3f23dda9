"""The tables of a partition cache, of one node of it and of several caches, and what a terminal shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphprep.core.fallback import Fallback
from graphprep.report.cited import Cited
from graphprep.report.formats import Format, count, count_or_duration, duration, percent, ratio, times
from graphprep.report.summary.verdict import FIGURES, METIS_NAMES, metis_name
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer
from graphprep.system.progress import format_bytes

LINKS_ON_TERMINAL = 16
RANKS = (
    Column("rank", "rank"),
    Column("name", "name"),
    Column("nodes", "nodes", count),
    Column("in-edges", "edges", count),
    Column("training nodes", "training_nodes", count),
    Column("halo rows", "halo_rows", count),
    Column("work", "work", count),
    Column("load", "work_share", ratio, fill="bar"),
    Column("memory", "memory_bytes", format_bytes),
)
LINK_TYPES = (
    Column("type", "type"),
    Column("slowest direction", "seconds_max", duration),
    Column("imbalance", "imbalance", ratio),
    Column("rows", "rows", count),
    Column("edges", "edges", count),
)
LINKS = (
    Column("link", "name"),
    Column("seconds", "seconds", duration, fill="bar", is_marked=True),
    Column("type", "type"),
    Column("GB/s", "gbytes_per_s", "{:g}".format),
    Column("rows", "rows", count),
    Column("edges", "edges", count),
    Column("bytes", "bytes", format_bytes, only="page"),
    Column("messages", "messages", count),
)
RELAYS = (
    Column("rows passed on", "rows_passed_on", count),
    Column("bottleneck without relays", "direct_bottleneck_seconds", duration),
    Column("all links without relays", "direct_sum_seconds", duration),
    Column("slowest link without relays", "slowest_link"),
    Column("rows over it now", "slowest_link_rows", count),
    Column("and without relays", "slowest_link_direct_rows", count),
)
BATCH_LINK_TYPES = (
    Column("type", "type"),
    Column("slowest direction", "seconds_max", duration),
    Column("rows a step", "rows", count),
    Column("bytes a step", "bytes", format_bytes),
)
BATCH_RANKS = (
    Column("rank", "rank"),
    Column("training nodes a step", "seeds", count),
    Column("rows fetched a step", "rows_fetched", count),
)
BOUNDS = (
    Column("of", lambda row: row["of"].value.replace("_", " ")),
    Column("here", "found", count_or_duration),
    Column("lower bound", "at_least", count_or_duration),
    Column("holds for", "holds_for"),
)
LIMITS = (
    Column("load of", "what"),
    Column("here", "value", ratio, is_marked=True),
    Column("at most", "limit", ratio),
    Column("kept", "met"),
)
TRIED = (
    Column("method", "method"),
    Column("took", lambda row: row["seconds"] if row["seconds"] else "-", duration),
    Column("bottleneck", "bottleneck_seconds", duration),
    Column("cut edges", "cut_edges", count),
    Column("limits not kept", "broken_limits"),
    Column("failure", "failure"),
)
QUALITY = (
    Column("bottleneck", "bottleneck_seconds", duration, is_marked=True),
    Column("all links", "sum_seconds", duration),
    Column("cut edges", "cut_edges", count),
    Column("halo rows", "halo_rows", count),
)
STEP = (
    Column("rank", lambda row: [row["rank"], " ", row["name"]]),
    Column("nodes", "node_seconds", duration),
    Column("packing", "packing_seconds", duration),
    Column("local product", "local_seconds", duration),
    Column("unpacking", "unpacking_seconds", duration),
    Column("halo product", "halo_seconds", duration),
)
BESIDE_METIS = (
    Column("parts of", lambda row: "METIS k-way, its own order" if row.last_key == "metis" else "this cache"),
    *QUALITY,
    Column("limits not kept", lambda row: row["broken_limits"] if row.last_key == "metis" else [broken_limits(row)]),
)
NEIGHBOURS = (
    Column("part", "part"),
    Column("edges", "edges", count),
    Column("from nodes", lambda row: _first_nodes(row.value)),
)
CACHE = Column("cache", "cache")
COMPARED = (
    CACHE,
    *QUALITY,
    Column("over the lowest bottleneck", "ratio", ratio, only="page"),
    Column("slowest link", "bottleneck_link", only="page"),
    Column("slowest link type", "bottleneck_type"),
    Column("largest load", "work_share_max", ratio),
    Column("largest memory", "memory_bytes_max", format_bytes),
)
COMPARED_OPTIONS = (
    CACHE,
    Column("topology", "topology"),
    Column("method", lambda row: [row["method"], " (a fallback)" if row["fallback"] else ""]),
    Column("limits not kept", "broken_limits"),
)


def _ratio_column(name: str, key: str, format_: Format) -> Column:
    return Column(name, lambda row: row[key].formatted(times) if row.last_key == "ratio" else row[key], format_)


DECISIVE = (
    Column("", lambda row: {"this": "this partition", "metis": "METIS", "ratio": "ratio"}[row.last_key]),
    _ratio_column("bottleneck", "bottleneck_seconds", duration),
    _ratio_column("halo rows", "halo_rows", count),
    _ratio_column("cut edges", "cut_edges", count),
    _ratio_column("most memory of a rank", "memory_bytes_max", format_bytes),
    _ratio_column("predicted step", "step_seconds", duration),
)


def broken_limits(quality: Cited) -> list[str]:
    """The quantities whose limit is not kept."""
    return [limit["what"].value for limit in quality["limits"] if not limit["met"]]


def links_table(quality: Cited, bottleneck: Cited) -> Table:
    """The directions of all links, the slowest first."""
    return Table(
        "directions of links, slowest first",
        LINKS,
        sorted(quality["links"], key=lambda link: -link["seconds"].value),
        mark="bottleneck",
        marked=lambda link: bool(bottleneck) and link["name"].value == bottleneck["name"].value,
        rows_on_terminal=LINKS_ON_TERMINAL,
    )


def limits_table(quality: Cited) -> Table:
    """Largest load against its limit, for each quantity that is balanced."""
    return Table(
        "balance",
        LIMITS,
        quality["limits"],
        mark="limit not kept",
        marked=lambda limit: not limit["met"],
        is_problem=True,
    )


def matrix_table(what: str, matrix: Cited) -> Table:
    """A figure of each pair of ranks."""
    columns = [Column(str(rank), str(rank), count, fill="heat") for rank in range(len(matrix.value))]
    title = f"{what}, from rank (down) to rank (across)"
    return Table(title, [Column("", lambda row: row.last_key), *columns], matrix, sorts=False)


def verdict_table(beside_metis: Cited) -> Table:
    """The figures that decide, METIS' below them where they are known."""
    rows = [beside_metis[name] for name in ("this", "metis", "ratio") if beside_metis[name]]
    metis = beside_metis["metis"]
    return Table(f"beside {metis_name(metis.value)}" if metis else "this partition", DECISIVE, rows, sorts=False)


def verdict_report(beside_metis: dict[str, Any]) -> Report:
    """The comparison with METIS, the verdict and advice, which all that is said of a cache begins with."""
    yield verdict_table(Cited({"beside_metis": beside_metis})["beside_metis"])
    yield from beside_metis["verdict"]
    yield from (f"advice: {sentence}" for sentence in beside_metis["advice"])


def compared_verdict_table(caches: Cited) -> Table:
    """The same figures of several caches, and of METIS where they keep them, equal ones once."""

    def name(row: Cited) -> object:
        if row.last_key != "metis":
            return row["cache"]
        return [f"{METIS_NAMES[row['method'].value]}, beside ", caches[int(row.path[-2])]["cache"]]

    metis = {tuple(row["metis"][figure].value for figure in FIGURES): row["metis"] for row in caches if row["metis"]}
    return Table("what decides", (Column("", name), *DECISIVE[1:]), [*caches, *metis.values()], sorts=False)


def metis_table(summary: Cited) -> Table:
    """The cache beside METIS's parts."""
    return Table("beside METIS", BESIDE_METIS, [summary["quality"], summary["metis"]])


def compared_table(caches: Cited, columns: Sequence[Column] = COMPARED) -> Table:
    """The cost of one exchange and the balance of each cache."""
    return Table("partitions", columns, caches, mark="lowest bottleneck", marked=lambda row: row["is_best"].value)


def relays_table(quality: Cited) -> Table:
    """What relays pass on in one exchange, and what it would take without them."""
    return Table("relays", RELAYS, [quality["relay"]])


def batch_links_table(batches: Cited) -> Table:
    """What mini-batches fetch over each type of link."""
    return Table("what mini-batches fetch over types of links", BATCH_LINK_TYPES, batches["link_types"])


def batch_ranks_table(batches: Cited) -> Table:
    """What each rank fetches for mini-batches."""
    return Table("what mini-batches fetch by rank", BATCH_RANKS, batches["ranks"])


def batch_tables(batches: Cited) -> Report:
    """What mini-batches fetch, by type of link and by rank."""
    yield batch_sentence(batches.value)
    yield batch_links_table(batches)
    yield batch_ranks_table(batches)


def batch_sentence(figures: dict[str, Any]) -> str:
    """What mini-batches fetch in all."""
    fanouts = ",".join(map(str, figures["fanouts"]))
    return (
        f"mini-batches of {figures['batch_size']:,} training nodes with fanouts {fanouts}: {figures['steps']:,} steps "
        f"an epoch, in each of which all ranks together fetch about {figures['rows']:,.0f} rows of "
        f"{figures['row_bytes']:,} bytes, {duration(figures['bottleneck_seconds'])} on the slowest link"
    )


def quality_tables(quality: Cited, bottleneck: Cited) -> Report:
    """Ranks, relays if there are any, types of links and links."""
    yield Table("parts", RANKS, quality["ranks"])
    if quality["relay"]:
        yield relays_table(quality)
    if quality["batches"]:
        yield from batch_tables(quality["batches"])
    yield Table("types of links", LINK_TYPES, quality["link_types"])
    yield links_table(quality, bottleneck)
    yield Table("what a step takes on each rank", STEP, quality["ranks"])


@printer
def print_cache(summary: dict[str, Any]) -> Report:
    """Print parts, links, traffic, lower bounds, and the comparison with METIS or another topology if there is one."""
    cited, quality, options = Cited(summary), summary["quality"], summary["options"]
    yield from verdict_report(summary["beside_metis"])
    yield (
        f"{summary['dataset']}: partition cache for {summary['topology']['name']}, {summary['num_parts']} parts by "
        f"{options['method_chosen']}, {summary['files']:,} files, {format_bytes(summary['bytes'])}, {summary['folder']}"
    )
    fallback = Fallback.from_json(summary.get("fallback"))
    if fallback is not None:
        yield f"made by a fallback: {fallback.sentence}"
    yield (
        f"{_exchange(quality, options['row_bytes'])}; {quality['cut_edges']:,} of {summary['num_edges']:,} edges are "
        f"cut ({percent(summary['cut_share'])}), {quality['halo_rows']:,} halo rows"
    )
    yield from quality_tables(cited["quality"], cited["bottleneck"])
    if summary["num_parts"] > 1:
        yield matrix_table("rows sent", cited["traffic_rows"])
        yield matrix_table("cut edges", cited["cross_edges"])
    yield Table("lower bounds", BOUNDS, cited["bounds"])
    if summary["metis"]:
        yield metis_table(cited)
        yield f"METIS took {summary['metis']['seconds']:.1f} s"
    for limit in quality["limits"]:
        if not limit["met"]:
            yield f"limit not kept: {limit['what']} is {ratio(limit['value'])}, the limit is {ratio(limit['limit'])}"
    other = summary["what_if"]
    if other:
        yield (
            f"what if: the same parts on {other['topology']['name']}, {_exchange(other, other['row_bytes'])} "
            f"({times(other['ratio'])} times the bottleneck above)"
        )
        yield from quality_tables(cited["what_if"], cited["what_if"]["bottleneck"])


def _exchange(quality: dict[str, Any], row_bytes: int) -> str:
    return (
        f"one exchange of {row_bytes}-byte rows: bottleneck {duration(quality['bottleneck_seconds'])}, "
        f"all links together {duration(quality['sum_seconds'])}"
    )


@printer
def print_node(node: dict[str, Any]) -> Report:
    """Print the place of a node, and its in-neighbours by part."""
    yield (
        f"{node['node_type']} {node['node']}: part {node['part']} ({node['rank']}), local row "
        f"{node['local_row']:,}, {node['in_edges']:,} in-edges"
        + (f", label {node['y']}" if "y" in node else "")
        + (f", in {', '.join(node['splits'])}" if node["splits"] else "")
    )
    if "original_id" in node:
        yield f"original id: {node['original_id']}"
    yield f"its row goes to: {', '.join(map(str, node['row_goes_to'])) or 'no other part'}"
    yield Table("in-neighbours by part", NEIGHBOURS, Cited(node)["neighbours"])


def _first_nodes(row: dict[str, Any]) -> str:
    more = int(row["edges"]) - len(row["first"])
    return " ".join(map(str, row["first"])) + (f" and {more:,} more" if more > 0 else "")


@printer
def print_compared(compared: dict[str, Any]) -> Report:
    """Print one row a cache, the lowest bottleneck marked."""
    caches = Cited(compared)["caches"]
    yield f"{compared['dataset']}: {len(caches)} partitions"
    yield compared_verdict_table(caches)
    yield from compared["verdict"]
    yield compared_table(caches)
    yield Table("methods and limits", COMPARED_OPTIONS, caches)
    if compared["row_bytes"] is None:
        yield "rows have different sizes, so seconds do not compare; give --row-bytes"
    if len(compared["topologies"]) > 1:
        yield "the seconds of each cache are for its own topology; --topology takes one for all"
